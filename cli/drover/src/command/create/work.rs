//! `drover create work NAME -f FILE|DIR --clusters a,b | --placement NAMESPACE/NAME [--replicaset]`
//! Upstream: clusteradm `create work`, whose lines we print. We differ in four things: everything is checked before
//! anything is written, `--dry-run` writes nothing, a work that exists on a cluster that was named is an error unless
//! `--overwrite` is given, and with a placement that chooses nothing no work is deleted.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use client::{cluster_name, connect::ApiServer, flags::Global, kinds};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::DynamicObject,
};
use ocm_api::{cluster::PlacementDecision, labels};
use output::{Data, RequestedObjects};
use serde_json::{Value, json};

use crate::manifests;

/// Create a work that brings manifests to clusters
#[derive(Debug, Args)]
pub struct CreateWork {
    /// The name of the work
    pub name: String,
    /// The manifests: files, directories, or - for standard input
    #[arg(
        short,
        long = "filename",
        visible_alias = "file",
        value_delimiter = ',',
        required = true,
        value_name = "FILE"
    )]
    pub filename: Vec<PathBuf>,
    /// Read directories and the directories in them
    #[arg(short = 'R', long)]
    pub recursive: bool,
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
    pub clusters: Vec<String>,
    /// The placement that chooses the clusters: those it has chosen by now, or with --replicaset whichever it will
    /// choose
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub placement: Option<String>,
    /// Create a ManifestWorkReplicaSet, which keeps a work on every cluster that the placement chooses
    #[arg(short, long, requires = "placement")]
    pub replicaset: bool,
    /// Replace the manifests of a work that exists; with --placement also delete the works
    /// of this name on clusters that it does not choose
    #[arg(long)]
    pub overwrite: bool,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Also print the works
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Data>,
    /// What it means that a cluster that was named has such a work
    #[arg(skip)]
    pub present: Existing,
}

impl CreateWork {
    pub async fn run(self, global: &Global) -> Result<()> {
        for cluster in &self.clusters {
            cluster_name::check(cluster)?;
        }
        check_work_name(&self.name)?;
        self.placement.as_deref().map(placement_of).transpose()?;
        let manifests = manifests::read(&self.filename, self.recursive)?;
        self.bring(&ApiServer::connect(global).await?, &manifests).await
    }

    /// Creates or replaces the works, and says so.
    pub async fn bring(&self, hub: &ApiServer, manifests: &[Value]) -> Result<()> {
        let placement = self.placement.as_deref().map(placement_of).transpose()?;
        let plan = match placement {
            Some((namespace, placement)) if self.replicaset => {
                return self.replica_set(hub, namespace, placement, manifests).await;
            }
            Some((namespace, placement)) => {
                let clusters = sorted(chosen(hub, namespace, placement).await?);
                let mut plan = self.plan(hub, &clusters, Existing::Stays).await?;
                // Last, so that what moves to another cluster is there before it goes here.
                plan.extend(left(&self.of_this_name(hub).await?, &clusters, self.overwrite));
                plan
            }
            None => self.plan(hub, &sorted(self.clusters.clone()), self.present).await?,
        };
        let mut works = Vec::new();
        for (cluster, step) in plan {
            works.extend(self.take(hub, &cluster, step, manifests).await?);
        }
        if let Some(data) = self.output {
            // What a placement chooses is any number of clusters.
            let asked = match placement {
                Some(_) => RequestedObjects::Any,
                None => RequestedObjects::by(&self.clusters),
            };
            output::print(&output::encode(&output::objects(&works, asked)?, data)?)?;
        }
        Ok(())
    }

    /// What has to be done on each of the clusters that are to have the work; asks, writes nothing.
    async fn plan(&self, hub: &ApiServer, clusters: &[String], present: Existing) -> Result<Vec<(String, Step)>> {
        let mut plan = Vec::new();
        for cluster in clusters {
            plan.push((cluster.clone(), self.step(hub, cluster, present).await?));
        }
        Ok(plan)
    }

    /// Does one step and says so. Returns the work, if the cluster has one then.
    async fn take(
        &self,
        hub: &ApiServer,
        cluster: &str,
        step: Step,
        manifests: &[Value],
    ) -> Result<Option<DynamicObject>> {
        let (name, dry_run) = (&self.name, self.dry_run);
        let api = hub.namespaced(&kinds::manifest_work(), cluster);
        let doing = |verb: &str| format!("could not {verb} work {name} in cluster {cluster}");
        let note = output::note(dry_run);
        let (line, work) = match step {
            Step::Create => {
                let work = serde_json::from_value(work(name, cluster, manifests))?;
                let parameters = PostParams {
                    dry_run,
                    ..PostParams::default()
                };
                let made = api.create(&parameters, &work).await;
                let made = made.map_err(|error| hub.explain(&doing("create"), &error))?;
                (format!("create work {name} in cluster {cluster}{note}"), Some(made))
            }
            Step::Update => {
                let patch = Patch::Merge(json!({ "spec": { "workload": { "manifests": manifests } } }));
                let parameters = PatchParams {
                    dry_run,
                    ..PatchParams::default()
                };
                let made = api.patch(name, &parameters, &patch).await;
                let made = made.map_err(|error| hub.explain(&doing("update"), &error))?;
                (format!("update work {name} in cluster {cluster}{note}"), Some(made))
            }
            Step::Keep(work) => (format!("work {name} in cluster {cluster} already exists"), Some(*work)),
            Step::Delete(uid) => {
                let parameters = DeleteParams {
                    dry_run,
                    // The work that was seen, not one of the same name that somebody has just made.
                    preconditions: Some(Preconditions {
                        uid,
                        resource_version: None,
                    }),
                    ..DeleteParams::default()
                };
                match api.delete(name, &parameters).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.is_not_found() => {}
                    Err(error) => return Err(hub.explain(&doing("delete"), &error)),
                }
                (format!("delete work {name} in cluster {cluster}{note}"), None)
            }
        };
        match self.output {
            // Standard output is then the objects alone.
            Some(_) => eprintln!("{line}"),
            None => output::say(line)?,
        }
        Ok(work)
    }

    /// The works of this name, wherever they are.
    async fn of_this_name(&self, hub: &ApiServer) -> Result<Vec<DynamicObject>> {
        let only = ListParams::default().fields(&format!("metadata.name={}", self.name));
        let listed = hub.all(&kinds::manifest_work()).list(&only).await;
        let listed = listed.map_err(|error| {
            hub.explain(
                &format!("could not look for works {} in other clusters", self.name),
                &error,
            )
        })?;
        Ok(listed.items)
    }

    async fn replica_set(&self, hub: &ApiServer, namespace: &str, placement: &str, manifests: &[Value]) -> Result<()> {
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
            Some(_) if !self.overwrite && self.present == Existing::Stays => {
                return output::say(format_args!(
                    "manifestworkreplicaset {name} in namespace {namespace} already exists"
                ));
            }
            Some(_) if !self.overwrite => bail!(
                "manifestworkreplicaset {name} in namespace {namespace} already exists; add --overwrite to replace its \
                 manifests"
            ),
            Some(set) => {
                let patch = Patch::Merge(json!({ "spec": overwritten(&set, placement, manifests) }));
                let parameters = PatchParams {
                    dry_run,
                    ..PatchParams::default()
                };
                let made = api.patch(name, &parameters, &patch).await;
                ("update", made.map_err(|error| hub.explain(&doing("update"), &error))?)
            }
        };
        let note = output::note(dry_run);
        let line = format!("{verb} manifestworkreplicaset {name} in namespace {namespace}{note}");
        match self.output {
            None => output::say(line),
            Some(data) => {
                eprintln!("{line}");
                output::print(&output::encode(&output::objects(&[set], RequestedObjects::One)?, data)?)
            }
        }
    }

    /// What has to be done for one cluster; asks, writes nothing.
    async fn step(&self, hub: &ApiServer, cluster: &str, present: Existing) -> Result<Step> {
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
            Some(it) if present == Existing::Stays => Ok(Step::Keep(Box::new(it))),
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

async fn placement_exists(hub: &ApiServer, namespace: &str, name: &str) -> Result<()> {
    let found = hub.namespaced(&kinds::placement(), namespace).get_opt(name).await;
    let found = found.map_err(|error| hub.explain(&format!("could not get placement {name}"), &error))?;
    anyhow::ensure!(
        found.is_some(),
        "there is no placement {name} in namespace {namespace}; `drover get placements` lists those there are"
    );
    Ok(())
}

/// The clusters that a placement has chosen by now.
async fn chosen(hub: &ApiServer, namespace: &str, name: &str) -> Result<Vec<String>> {
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

/// What has to be done on one cluster.
#[derive(Debug, PartialEq)]
enum Step {
    Create,
    Update,
    /// It has the work, and nobody said that it may be replaced.
    Keep(Box<DynamicObject>),
    /// The placement does not choose it any more. The work is the one with this uid.
    Delete(Option<String>),
}

/// What a work that is there already is, where it may not be replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// For who named the clusters: what they asked for has not come about.
    #[default]
    IsAnError,
    /// For who named a placement: the command is given again and again, to reach the clusters that it has chosen since.
    /// For who calls us clusteradm it is none either.
    Stays,
}

fn sorted(mut clusters: Vec<String>) -> Vec<String> {
    clusters.sort();
    clusters.dedup();
    clusters
}

/// What becomes of the works of this name on clusters that the placement does not choose. Those that something else
/// looks after, a ManifestWorkReplicaSet or an add-on, are not ours to delete.
fn left(works: &[DynamicObject], chosen: &[String], overwrite: bool) -> Vec<(String, Step)> {
    let is_kept = |it: &DynamicObject| {
        let labels = it.metadata.labels.iter().flatten();
        let mut owning =
            labels.filter(|(key, _)| [labels::MANIFEST_WORK_REPLICA_SET, labels::ADDON_NAME].contains(&key.as_str()));
        owning.next().is_some() || it.metadata.owner_references.as_ref().is_some_and(|it| !it.is_empty())
    };
    let cluster = |it: &DynamicObject| it.metadata.namespace.clone().unwrap_or_default();
    let stray = works.iter().filter(|it| {
        overwrite && it.metadata.deletion_timestamp.is_none() && !is_kept(it) && !chosen.contains(&cluster(it))
    });
    let mut left: Vec<_> = stray
        .map(|it| (cluster(it), Step::Delete(it.metadata.uid.clone())))
        .collect();
    left.sort_by(|one, other| one.0.cmp(&other.0));
    left
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

/// What of such a set's specification is written anew. A placement that it has keeps its rollout strategy, and the
/// others that were added to it stay; another one takes their place.
fn overwritten(set: &DynamicObject, placement: &str, manifests: &[Value]) -> Value {
    let mut spec = json!({ "manifestWorkTemplate": { "workload": { "manifests": manifests } } });
    let before = set.data["spec"]["placementRefs"].as_array();
    if !before.into_iter().flatten().any(|it| it["name"] == placement) {
        spec["placementRefs"] = json!([{ "name": placement }]);
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_of_deselected_clusters_are_deleted_unless_managed_elsewhere() {
        let work = |cluster: &str, more: Value| -> DynamicObject {
            let mut metadata = json!({"name": "w", "namespace": cluster, "uid": cluster});
            metadata
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let works = [
            work("d", json!({})),
            work("a", json!({})),
            work("b", json!({})),
            work("e", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})),
            work(
                "f",
                json!({"labels": {"work.open-cluster-management.io/manifestworkreplicaset": "default.w"}}),
            ),
            work("g", json!({"labels": {"open-cluster-management.io/addon-name": "x"}})),
            work(
                "h",
                json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"}]}),
            ),
        ];
        let chosen = ["b".to_owned()];
        assert_eq!(left(&works, &chosen, false), []);
        let gone = |cluster: &str| (cluster.to_owned(), Step::Delete(Some(cluster.to_owned())));
        assert_eq!(left(&works, &chosen, true), [gone("a"), gone("d")]);
    }

    #[test]
    fn overwriting_a_replica_set_switches_it_to_the_named_placement() {
        let set: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "w"},
            "spec": {"placementRefs": [{"name": "a", "rolloutStrategy": {"type": "Progressive"}}, {"name": "b"}]},
        }))
        .unwrap();
        assert_eq!(overwritten(&set, "b", &[]).get("placementRefs"), None);
        assert_eq!(overwritten(&set, "c", &[])["placementRefs"], json!([{"name": "c"}]));
    }

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
