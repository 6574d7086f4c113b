//! `drover delete work NAME --clusters a,b`
//! Upstream: clusteradm `delete work`, whose lines we print.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use kube::{
    api::{DeleteParams, Preconditions},
    runtime::wait::{await_condition, conditions::is_deleted},
};

use crate::{cli::Global, cluster_name, connect::Target, kinds, output};

/// Delete a work, and with it what it made on the clusters
#[derive(Debug, Args)]
pub struct Work {
    /// The name of the work
    name: String,
    /// The clusters to delete it from
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        required = true,
        value_name = "CLUSTERS"
    )]
    clusters: Vec<String>,
    /// Return at once instead of waiting until the cluster has let go of what the work made
    #[arg(long)]
    no_wait: bool,
    /// How long to wait, in seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = crate::cli::wait_seconds())]
    timeout: u64,
    /// Let the hub check everything and delete nothing
    #[arg(long)]
    dry_run: bool,
}

impl Work {
    pub async fn run(self, global: &Global) -> Result<()> {
        for cluster in &self.clusters {
            cluster_name::check(cluster)?;
        }
        let hub = Target::connect(global).await?;
        for cluster in &self.clusters {
            self.delete(&hub, cluster).await?;
        }
        Ok(())
    }

    async fn delete(&self, hub: &Target, cluster: &str) -> Result<()> {
        let name = &self.name;
        let doing = format!("could not delete work {name} in cluster {cluster}");
        let api = hub.namespaced(&kinds::manifest_work(), cluster);
        let work = api.get_opt(name).await.map_err(|error| hub.explain(&doing, &error))?;
        let Some(uid) = work.and_then(|it| it.metadata.uid) else {
            return output::say(format_args!(
                "work {name} not found or is already deleted in cluster {cluster}"
            ));
        };
        let parameters = DeleteParams {
            dry_run: self.dry_run,
            // The work that was seen, not one of the same name that somebody has just made.
            preconditions: Some(Preconditions {
                uid: Some(uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        api.delete(name, &parameters)
            .await
            .map_err(|error| hub.explain(&doing, &error))?;
        if self.dry_run {
            return output::say(format_args!("work {name} in cluster {cluster} is deleted (dry run)"));
        }
        if self.no_wait {
            return output::say(format_args!("work {name} in cluster {cluster} is being deleted"));
        }
        let gone = await_condition(api, name, is_deleted(&uid));
        match tokio::time::timeout(Duration::from_secs(self.timeout), gone).await {
            Ok(Ok(_)) => output::say(format_args!("work {name} in cluster {cluster} is deleted")),
            Ok(Err(error)) => {
                bail!("lost sight of work {name} in cluster {cluster} while it was being deleted: {error}")
            }
            Err(_) => bail!(
                "work {name} in cluster {cluster} is still being deleted after {} s; \
                 `drover why manifestwork/{cluster}/{name}` says what it waits for",
                self.timeout
            ),
        }
    }
}
