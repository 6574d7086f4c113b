//! `drover clusterset bind|unbind|set`
//! Upstream: clusteradm `clusterset`, whose lines we print.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::{cli::Global, connect::Target, kinds, output};

/// Put clusters into sets, and let namespaces use them
#[derive(Debug, Subcommand)]
pub enum ClusterSet {
    /// Let the placements of a namespace choose from a set
    Bind(Binding),
    /// Take that back
    Unbind(Binding),
    /// Put clusters into a set; each is in one set at most
    Set(Set),
}

#[derive(Debug, Args)]
pub struct Binding {
    /// The name of the set
    name: String,
    /// The namespace
    #[arg(short, long, required = true)]
    namespace: String,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Set {
    /// The name of the set
    name: String,
    /// The clusters to put into it
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        required = true,
        value_name = "CLUSTERS"
    )]
    clusters: Vec<String>,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    dry_run: bool,
}

impl ClusterSet {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = Target::connect(global).await?;
        match self {
            Self::Bind(it) => it.bind(&hub).await,
            Self::Unbind(it) => it.unbind(&hub).await,
            Self::Set(it) => it.set(&hub).await,
        }
    }
}

/// The set has to be there: a binding to nothing would look as if it were done.
async fn must_exist(hub: &Target, name: &str) -> Result<()> {
    let found = hub.all(&kinds::managed_cluster_set()).get_opt(name).await;
    match found.map_err(|error| hub.explain(&format!("could not get clusterset {name}"), &error))? {
        Some(_) => Ok(()),
        None => bail!("there is no clusterset {name} on this hub; `drover create clusterset {name}` creates it"),
    }
}

impl Binding {
    async fn bind(&self, hub: &Target) -> Result<()> {
        let Self { name, namespace, .. } = self;
        must_exist(hub, name).await?;
        let binding = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "clusterSet": name },
        }))?;
        let parameters = PostParams {
            dry_run: self.dry_run,
            ..PostParams::default()
        };
        let api = hub.namespaced(&kinds::managed_cluster_set_binding(), namespace);
        match api.create(&parameters, &binding).await {
            Ok(_) => output::say(format_args!("Clusterset {name} is bound to Namespace {namespace}")),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => output::say(format_args!(
                "Clusterset {name} is already bound to Namespace {namespace}"
            )),
            Err(error) => Err(hub.explain(&format!("could not bind clusterset {name}"), &error)),
        }
    }

    async fn unbind(&self, hub: &Target) -> Result<()> {
        let Self { name, namespace, .. } = self;
        let parameters = DeleteParams {
            dry_run: self.dry_run,
            ..DeleteParams::default()
        };
        let api = hub.namespaced(&kinds::managed_cluster_set_binding(), namespace);
        match api.delete(name, &parameters).await {
            Ok(_) => output::say(format_args!("Clusterset {name} is unbind from namespace {namespace}")),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                bail!("clusterset {name} is not bound to namespace {namespace}")
            }
            Err(error) => Err(hub.explain(&format!("could not unbind clusterset {name}"), &error)),
        }
    }
}

impl Set {
    async fn set(&self, hub: &Target) -> Result<()> {
        let name = &self.name;
        must_exist(hub, name).await?;
        let api = hub.all(&kinds::managed_cluster());
        // All of them are looked at before any of them is changed.
        let mut before = Vec::new();
        for cluster in &self.clusters {
            let found = api.get_opt(cluster).await;
            let found = found.map_err(|error| hub.explain(&format!("could not get cluster {cluster}"), &error))?;
            let Some(found) = found else {
                bail!("there is no cluster {cluster} on this hub; `drover get clusters` lists those there are");
            };
            let labels = found.metadata.labels.unwrap_or_default();
            before.push((
                cluster,
                labels.get(kinds::CLUSTER_SET_LABEL).cloned().unwrap_or_default(),
            ));
        }
        let parameters = PatchParams {
            dry_run: self.dry_run,
            ..PatchParams::default()
        };
        for (cluster, old) in before {
            if old == *name {
                output::say(format_args!("Cluster {cluster} is already in Clusterset {name}"))?;
                continue;
            }
            let patch = Patch::Merge(json!({ "metadata": { "labels": { (kinds::CLUSTER_SET_LABEL): name } } }));
            let made = api.patch(cluster, &parameters, &patch).await;
            made.map_err(|error| {
                hub.explain(
                    &format!("could not put cluster {cluster} into clusterset {name}"),
                    &error,
                )
            })?;
            if old.is_empty() {
                output::say(format_args!("Cluster {cluster} is set to Clusterset {name}"))?;
            } else {
                output::say(format_args!(
                    "Cluster {cluster} is set, from ClusterSet {old} to Clusterset {name}"
                ))?;
            }
        }
        Ok(())
    }
}
