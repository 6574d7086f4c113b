//! `drover hub`: the hub's controllers against the API server of a kubeconfig, embedded or not.

use anyhow::{Context, Result};
use clap::Args;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{cli::Global, connect::Target, examples, feature_gates, process};

/// Run the hub's controllers against the Kubernetes API of the kubeconfig, and stay until Ctrl-C
#[derive(Debug, Args)]
pub struct Hub {
    /// Accept clusters and approve their first certificate request without a human, if these users ask for it
    #[arg(long, value_delimiter = ',', value_name = "USERS")]
    auto_approved_csr_users: Vec<String>,
    /// Upstream's switches to turn on or off: ClusterProfile, DefaultClusterSet, ManagedClusterAutoApproval,
    /// ManifestWorkReplicaSet, ResourceCleanup
    #[arg(long, value_delimiter = ',', value_name = "NAME=BOOL", value_parser = crate::feature_gates::parse)]
    feature_gates: Vec<crate::feature_gates::Gate>,
}

impl Hub {
    pub async fn run(self, global: &Global) -> Result<()> {
        process::raise_open_files();
        let stop = CancellationToken::new();
        process::stop_on_signals(stop.clone())?;
        let target = Target::connect(global).await?;
        let version = target.client.apiserver_version().await;
        let version = version.map_err(|error| target.explain("could not start the hub", &error))?;
        info!(server = %target.server, version = %version.git_version, "API server found");
        let mut options = hub::Options {
            addons: examples::add_ons(),
            ..hub::Options::default()
        };
        options.registration.auto_accept = !self.auto_approved_csr_users.is_empty();
        options.registration.auto_approved_csr_users = self.auto_approved_csr_users;
        feature_gates::apply(&self.feature_gates, &mut options);
        let started = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            started = hub::start(target.client.clone(), options, stop.child_token()) => started,
        };
        let hub = started.with_context(|| format!("could not start the hub on {}", target.server))?;
        info!("hub ready");
        hub.finished().await;
        Ok(())
    }
}
