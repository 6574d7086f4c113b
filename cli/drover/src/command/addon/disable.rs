//! `drover addon disable --names A [--clusters C]`
//! Upstream: clusteradm `addon disable`, whose flags and lines these are.

use anyhow::Result;
use clap::Args;
use client::{cluster_name, connect::ApiServer, flags::Global, kinds};
use kube::api::{DeleteParams, ListParams};

/// Take add-ons off clusters
#[derive(Debug, Args)]
pub struct Disable {
    /// The add-ons
    #[arg(
        long,
        visible_alias = "name",
        value_delimiter = ',',
        required = true,
        value_name = "NAMES"
    )]
    pub names: Vec<String>,
    /// The clusters to take them off [default: all that have them]
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        value_name = "CLUSTERS"
    )]
    pub clusters: Vec<String>,
    /// Say what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl Disable {
    pub async fn run(self, global: &Global) -> Result<()> {
        for cluster in &self.clusters {
            cluster_name::check(cluster)?;
        }
        self.disable(&ApiServer::connect(global).await?).await
    }

    /// Takes them off, and says so.
    pub async fn disable(&self, hub: &ApiServer) -> Result<()> {
        let kind = kinds::managed_cluster_add_on();
        let mut found = false;
        for name in &self.names {
            let clusters = if self.clusters.is_empty() {
                let only = ListParams::default().fields(&format!("metadata.name={name}"));
                let listed = hub.all(&kind).list(&only).await;
                let listed =
                    listed.map_err(|error| hub.explain("could not list the add-ons of the clusters", &error))?;
                listed
                    .items
                    .into_iter()
                    .filter_map(|it| it.metadata.namespace)
                    .collect()
            } else {
                self.clusters.clone()
            };
            if clusters.is_empty() {
                output::say(format_args!("{name} add-on not found in any cluster."))?;
            }
            for cluster in clusters {
                let parameters = DeleteParams {
                    dry_run: self.dry_run,
                    ..DeleteParams::default()
                };
                match hub.namespaced(&kind, &cluster).delete(name, &parameters).await {
                    Ok(_) => {
                        found = true;
                        let note = output::note(self.dry_run);
                        output::say(format_args!(
                            "Undeploying {name} add-on in managed cluster: {cluster}.{note}"
                        ))?;
                    }
                    Err(kube::Error::Api(status)) if status.is_not_found() => {
                        output::say(format_args!("{name} add-on not found in cluster: {cluster}."))?;
                    }
                    Err(error) => {
                        return Err(hub.explain(
                            &format!("could not remove add-on {name} from cluster {cluster}"),
                            &error,
                        ));
                    }
                }
            }
        }
        if !found {
            eprintln!("nothing was removed; `drover addon list` lists the add-ons and their clusters");
        }
        Ok(())
    }
}
