//! `drover create work NAME -f FILE|DIR --clusters a,b`
//! Upstream: clusteradm `create work`, whose lines we print. We differ in three things: everything is checked before
//! anything is written, `--dry-run` writes nothing, and a work that exists is an error unless `--overwrite` is given.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use kube::api::{Patch, PatchParams, PostParams};
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
        required = true,
        value_name = "CLUSTERS"
    )]
    clusters: Vec<String>,
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
        let mut clusters = self.clusters.clone();
        clusters.sort();
        clusters.dedup();
        for cluster in &clusters {
            cluster_name::check(cluster)?;
        }
        check_work_name(&self.name)?;
        let manifests = manifests::read(&self.filename, self.recursive)?;
        let hub = Target::connect(global).await?;

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

#[cfg(test)]
mod tests {
    use super::*;

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
