//! `drover proxy …`: clusters reached through the add-on cluster-proxy.
//! Upstream: clusteradm `proxy`, whose lines and table we print. We differ in that requests go by the user-server, that
//! kubectl's exit code is ours, and that its kubeconfig is nobody else's to read.

mod forward;
pub mod health;
pub mod kubeconfig;
pub mod kubectl;
mod user_server;

use anyhow::{Result, bail};
use clap::Subcommand;
use client::{connect::ApiServer, flags::Global, kinds};

pub use health::Health;

/// The add-on.
const NAME: &str = "cluster-proxy";

/// Reach clusters through the add-on cluster-proxy
#[derive(Debug, Subcommand)]
pub enum Proxy {
    /// Show which clusters have the add-on cluster-proxy, and whether they answer through it
    Health(Health),
    /// Run kubectl on a cluster through the add-on cluster-proxy
    Kubectl(kubectl::Kubectl),
    /// Write a kubeconfig with which kubectl reaches a cluster through the add-on cluster-proxy
    Kubeconfig(kubeconfig::WriteKubeconfig),
}

impl Proxy {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        match self {
            Self::Health(it) => it.show(&hub).await,
            Self::Kubectl(it) => it.run(&hub).await,
            Self::Kubeconfig(it) => it.write(&hub).await,
        }
    }
}

/// What upstream says where the add-on is not.
const NOT_INSTALLED: &str = "Cluster-Proxy addon is not installed.\nConsider following the guide: \
                             https://open-cluster-management.io/getting-started/integration/cluster-proxy/\n";

async fn is_offered(hub: &ApiServer) -> Result<bool> {
    let found = hub.all(&kinds::cluster_management_add_on()).get_opt(NAME).await;
    let found = found.map_err(|error| hub.explain("could not look for the add-on cluster-proxy", &error))?;
    Ok(found.is_some())
}

/// Fails where the add-on is not.
async fn check_offered(hub: &ApiServer) -> Result<()> {
    if !is_offered(hub).await? {
        output::print(NOT_INSTALLED)?;
        bail!("the hub offers no add-on {NAME}, through which clusters could be reached");
    }
    Ok(())
}
