//! `drover delete work NAME --clusters a,b`
//! Upstream: clusteradm `delete work`, whose lines we print.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use kube::{
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    runtime::wait::{await_condition, conditions::is_deleted},
};

use client::{cluster_name, connect::ApiServer, flags::Global, kinds};
use serde_json::json;

/// Delete a work, and with it what it made on the clusters
#[derive(Debug, Args)]
pub struct DeleteWork {
    /// The name of the work
    pub name: String,
    /// The clusters to delete it from
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        required = true,
        value_name = "CLUSTERS"
    )]
    pub clusters: Vec<String>,
    /// Return at once instead of waiting until the cluster has let go of what the work made
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait, in seconds [default: 60, with --force 10]
    #[arg(long, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    pub timeout: Option<u64>,
    /// Delete it although its cluster does not let go of it in time, or at once with --no-wait;
    /// what it made stays there
    #[arg(long)]
    pub force: bool,
    /// Let the hub check everything and delete nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How long a cluster has to let go of what a work made.
const SECONDS: u64 = 60;
/// How long before a work is deleted by force, as with clusteradm.
pub const FORCED_SECONDS: u64 = 10;

impl DeleteWork {
    pub async fn run(self, global: &Global) -> Result<()> {
        for cluster in &self.clusters {
            cluster_name::check(cluster)?;
        }
        self.delete_all(&ApiServer::connect(global).await?).await
    }

    /// Deletes it from each of the clusters, and says so.
    pub async fn delete_all(&self, hub: &ApiServer) -> Result<()> {
        for cluster in &self.clusters {
            self.delete(hub, cluster).await?;
        }
        Ok(())
    }

    async fn delete(&self, hub: &ApiServer, cluster: &str) -> Result<()> {
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
        if self.no_wait && self.force {
            return self.strip(hub, cluster, &uid).await;
        }
        if self.no_wait {
            return output::say(format_args!("work {name} in cluster {cluster} is being deleted"));
        }
        let gone = await_condition(api, name, is_deleted(&uid));
        let seconds = self
            .timeout
            .unwrap_or(if self.force { FORCED_SECONDS } else { SECONDS });
        match tokio::time::timeout(Duration::from_secs(seconds), gone).await {
            Ok(Ok(_)) => output::say(format_args!("work {name} in cluster {cluster} is deleted")),
            Ok(Err(error)) => {
                bail!("lost sight of work {name} in cluster {cluster} while it was being deleted: {error}")
            }
            Err(_) if self.force => self.strip(hub, cluster, &uid).await,
            Err(_) => bail!(
                "work {name} in cluster {cluster} is still being deleted after {seconds} s; \
                 `drover why manifestwork/{cluster}/{name}` says what it waits for"
            ),
        }
    }

    /// Takes away what keeps a work that is being deleted.
    async fn strip(&self, hub: &ApiServer, cluster: &str, uid: &str) -> Result<()> {
        let name = &self.name;
        let api = hub.namespaced(&kinds::manifest_work(), cluster);
        // Of the work that was seen: the API server refuses the patch of another one.
        let patch = Patch::Merge(json!({ "metadata": { "uid": uid, "finalizers": null } }));
        match api.patch(name, &PatchParams::default(), &patch).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                return output::say(format_args!("work {name} in cluster {cluster} is deleted"));
            }
            Err(error) => {
                let doing = format!("could not delete work {name} in cluster {cluster} by force");
                return Err(hub.explain(&doing, &error));
            }
        }
        output::say(format_args!("work {name} in cluster {cluster} is deleted"))?;
        eprintln!(
            "cluster {cluster} has not let go of work {name}: what it made stays there until its agent comes back and finds \
             the work gone"
        );
        Ok(())
    }
}
