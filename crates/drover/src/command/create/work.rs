//! `drover create work NAME -f FILE|DIR --clusters a,b | --placement NAMESPACE/NAME [--replicaset]`
//! Upstream: clusteradm `create work`, whose lines we print. We differ in three things: everything is checked before
//! anything is written, `--dry-run` writes nothing, and a work that exists is an error unless `--overwrite` is given.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use ocm_api::{cluster::PlacementDecision, labels};
use serde_json::{Value, json};

use crate::{
    cli::Global,
    cluster_name,
    connect::Target,
    kinds, manifests,
    output::{self, Data},
};

/// Create a work that brings manifests to clusters
#[derive(Debug, Args)]
pub struct Work {
    /// The name of the work
    name: String,
    /// The manifests: files, directories, or - for standard input
    #[arg(
        short,
        long = "filename",
        visible_alias = "file",
        value_delimiter = ',',
        required = true,
        value_name = "FILE"
    )]
    filename: Vec<PathBuf>,
    /// Read directories and the directories in them
    #[arg(short = 'R', long)]
    recursive: bool,
    /// The clusters to bring them to
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        required_unless_present = "placement",
        conflicts_with = "placement",
        value_name = "CLUSTERS"
    )]
    clusters: Vec<String>,
    /// The placement that chooses the clusters: those it has chosen by now, or with --replicaset whichever it will choose
    #[arg(long, value_name = "NAMESPACE/NAME")]
    placement: Option<String>,
    /// Create a ManifestWorkReplicaSet, which keeps a work on every cluster that the placement chooses
    #[arg(short, long, requires = "placement")]
    replicaset: bool,
    /// Replace the manifests of a work that exists
    #[arg(long)]
    overwrite: bool,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Also print the works
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Data>,
}

impl Work {
    pub async fn run(self, global: &Global) -> Result<()> {
        for cluster in &self.clusters {
            cluster_name::check(cluster)?;
        }
        check_work_name(&self.name)?;
        let placement = self.placement.as_deref().map(placement_of).transpose()?;
        let manifests = manifests::read(&self.filename, self.recursive)?;
        let hub = Target::connect(global).await?;
        let mut clusters = match placement {
            Some((namespace, placement)) if self.replicaset => {
                return self.replica_set(&hub, namespace, placement, &manifests).await;
            }
            Some((namespace, placement)) => chosen(&hub, namespace, placement).await?,
            None => self.clusters.clone(),
        };
        clusters.sort();
        clusters.dedup();

        let mut plan = Vec::new();
        for cluster in &clusters {
            plan.push((cluster, self.step(&hub, cluster).await?));
        }
        let mut works = Vec::new();
        for (cluster, step) in plan {
            let api = hub.namespaced(&kinds::manifest_work(), cluster);
            let doing = |verb: &str| format!("could not {verb} work {} in cluster {cluster}", self.name);
            let (verb, work) = match step {
                Step::Create => {
                    let work = serde_json::from_value(work(&self.name, cluster, &manifests))?;
                    let parameters = PostParams {
                        dry_run: self.dry_run,
                        ..PostParams::default()
                    };
                    let made = api.create(&parameters, &work).await;
                    ("create", made.map_err(|error| hub.explain(&doing("create"), &error))?)
                }
                Step::Update => {
                    let patch = Patch::Merge(json!({ "spec": { "workload": { "manifests": manifests } } }));
                    let parameters = PatchParams {
                        dry_run: self.dry_run,
                        ..PatchParams::default()
                    };
                    let made = api.patch(&self.name, &parameters, &patch).await;
                    ("update", made.map_err(|error| hub.explain(&doing("update"), &error))?)
                }
            };
            let note = if self.dry_run { " (dry run)" } else { "" };
            let line = format!("{verb} work {} in cluster {cluster}{note}", self.name);
            match self.output {
                // Standard output is then the objects alone.
                Some(_) => eprintln!("{line}"),
                None => output::say(line)?,
            }
            works.push(work);
        }
        if let Some(data) = self.output {
            output::print(&output::encode(&output::objects(&works)?, data)?)?;
        }
        Ok(())
    }

    async fn replica_set(&self, hub: &Target, namespace: &str, placement: &str, manifests: &[Value]) -> Result<()> {
        placement_exists(hub, namespace, placement).await?;
        let api = hub.namespaced(&kinds::manifest_work_replica_set(), namespace);
        let (name, dry_run) = (&self.name, self.dry_run);
        let doing = |verb: &str| format!("could not {verb} manifestworkreplicaset {name} in namespace {namespace}");
        let found = api.get_opt(name).await;
        let (verb, set) = match found.map_err(|error| hub.explain(&doing("get"), &error))? {
            None => {
                let set = serde_json::from_value(replica_set(name, namespace, placement, manifests))?;
                let parameters = PostParams {
                    dry_run,
                    ..PostParams::default()
                };
                let made = api.create(&parameters, &set).await;
                ("create", made.map_err(|error| hub.explain(&doing("create"), &error))?)
            }
            Some(_) if !self.overwrite => bail!(
                "manifestworkreplicaset {name} in namespace {namespace} already exists; add --overwrite to replace its \
                 manifests"
            ),
            Some(_) => {
                let template = json!({ "workload": { "manifests": manifests } });
                let patch = Patch::Merge(json!({ "spec": { "manifestWorkTemplate": template } }));
                let parameters = PatchParams {
                    dry_run,
                    ..PatchParams::default()
                };
                let made = api.patch(name, &parameters, &patch).await;
                ("update", made.map_err(|error| hub.explain(&doing("update"), &error))?)
            }
        };
        let note = if dry_run { " (dry run)" } else { "" };
        let line = format!("{verb} manifestworkreplicaset {name} in namespace {namespace}{note}");
        match self.output {
            None => output::say(line),
            Some(data) => {
                eprintln!("{line}");
                output::print(&output::encode(&output::objects(&[set])?, data)?)
            }
        }
    }

    /// What has to be done for one cluster; asks, writes nothing.
    async fn step(&self, hub: &Target, cluster: &str) -> Result<Step> {
        let found = hub.all(&kinds::managed_cluster()).get_opt(cluster).await;
        let found = found.map_err(|error| hub.explain(&format!("could not get cluster {cluster}"), &error))?;
        match found {
            None => bail!("there is no cluster {cluster} on this hub; `drover get clusters` lists those there are"),
            Some(it) if it.data["spec"]["hubAcceptsClient"] != true => {
                bail!("cluster {cluster} is not accepted yet; run `drover accept --clusters {cluster}` first")
            }
            Some(_) => {}
        }
        let work = hub
            .namespaced(&kinds::manifest_work(), cluster)
            .get_opt(&self.name)
            .await;
        let doing = format!("could not get work {} in cluster {cluster}", self.name);
        match work.map_err(|error| hub.explain(&doing, &error))? {
            None => Ok(Step::Create),
            Some(it) if it.metadata.deletion_timestamp.is_some() => {
                bail!(
                    "work {} in cluster {cluster} is being deleted; wait until it is gone",
                    self.name
                )
            }
            Some(_) if self.overwrite => Ok(Step::Update),
            Some(_) => {
                bail!(
                    "work {} in cluster {cluster} already exists; add --overwrite to replace its manifests",
                    self.name
                )
            }
        }
    }
}

/// The two halves of `NAMESPACE/NAME`.
fn placement_of(text: &str) -> Result<(&str, &str)> {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok((namespace, name)),
        _ => bail!("{text:?} is no placement: write NAMESPACE/NAME, for example default/placement-aws"),
    }
}

async fn placement_exists(hub: &Target, namespace: &str, name: &str) -> Result<()> {
    let found = hub.namespaced(&kinds::placement(), namespace).get_opt(name).await;
    let found = found.map_err(|error| hub.explain(&format!("could not get placement {name}"), &error))?;
    anyhow::ensure!(
        found.is_some(),
        "there is no placement {name} in namespace {namespace}; `drover get placements` lists those there are"
    );
    Ok(())
}

/// The clusters that a placement has chosen by now.
async fn chosen(hub: &Target, namespace: &str, name: &str) -> Result<Vec<String>> {
    placement_exists(hub, namespace, name).await?;
    let decisions: Api<PlacementDecision> = Api::namespaced(hub.client.clone(), namespace);
    let its = ListParams::default().labels(&format!("{}={name}", labels::PLACEMENT));
    let decisions = decisions.list(&its).await;
    let decisions =
        decisions.map_err(|error| hub.explain(&format!("could not list the decisions of placement {name}"), &error))?;
    let of = |it: PlacementDecision| it.status.map(|it| it.decisions).unwrap_or_default();
    let clusters: Vec<String> = decisions
        .items
        .into_iter()
        .flat_map(of)
        .map(|it| it.cluster_name)
        .collect();
    anyhow::ensure!(
        !clusters.is_empty(),
        "placement {name} chooses no cluster; `drover why placement/{name} -n {namespace}` says why"
    );
    Ok(clusters)
}

enum Step {
    Create,
    Update,
}

/// A work's name is an object name: a DNS subdomain.
fn check_work_name(name: &str) -> Result<()> {
    let label = |it: &str| {
        let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !it.is_empty() && it.chars().all(inside) && !it.starts_with('-') && !it.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(label) {
        bail!(
            "{name:?} cannot name a work: use lower-case letters, digits, '-' and '.', starting and ending with a letter or digit"
        );
    }
    Ok(())
}

/// The work for one cluster.
fn work(name: &str, cluster: &str, manifests: &[Value]) -> Value {
    json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": { "name": name, "namespace": cluster },
        "spec": { "workload": { "manifests": manifests } },
    })
}

/// The set that keeps such works wherever the placement says.
fn replica_set(name: &str, namespace: &str, placement: &str, manifests: &[Value]) -> Value {
    json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1",
        "kind": "ManifestWorkReplicaSet",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "placementRefs": [{ "name": placement }],
            "manifestWorkTemplate": { "workload": { "manifests": manifests } },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_is_written_with_its_namespace() {
        assert_eq!(placement_of("default/aws").unwrap(), ("default", "aws"));
        for bad in ["aws", "/aws", "a/b/c", "default/"] {
            assert!(placement_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_work_name_is_an_object_name() {
        for good in ["my-first-work", "a.b", "1"] {
            assert!(check_work_name(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "a..b", "a/b", "-a", "a.", &"a".repeat(254)] {
            assert!(check_work_name(bad).is_err(), "{bad}");
        }
    }
}
