//! One hub process: everything that OCM does on the hub, over one client.
//! Upstream runs registration, work, placement and add-on controllers as processes of their own,
//! each with its own caches.

pub mod bootstrap;
pub mod controllers;
pub mod feature_gates;
pub mod identities;
pub mod rbac;

use std::sync::Arc;

use futures::future::join_all;
use kube::Client;
use ocm_addon_sdk::AddOn;
use ocm_reconcile::{
    Caches, Running,
    install::{self, InstallError},
};
use registration::hub::HubOptions;
use tokio_util::sync::CancellationToken;

/// What an administrator can choose.
#[derive(Clone, Default)]
pub struct Options {
    /// Of registration.
    pub registration: HubOptions,
    /// Of works.
    pub works: work::hub::Options,
    /// Of the importer of clusters; `None` where there is none (gate ClusterImporter, off by default).
    pub importer: Option<operator::importer::Options>,
    /// The add-ons that run inside the hub, rather than in a program of their own.
    pub addons: Vec<Arc<dyn AddOn>>,
    /// Whether add-ons are left alone (gate AddonManagement off).
    pub without_add_ons: bool,
    /// Whether an operator has put in place what the hub needs on its API server.
    pub installed_by_operator: bool,
    /// Where the authorities of add-ons with a signer of their own are, unless they say;
    /// `None` for upstream's namespace.
    pub authorities: Option<String>,
}

pub use controllers::Component;

/// A hub that runs.
pub struct Hub {
    /// What it knows, one watch per kind; whoever else runs in the process shares them.
    pub caches: Caches,
    running: Vec<Running>,
}

/// Puts in place what the hub needs on its API server, and starts the controllers. They end with `cancel`.
pub async fn start(client: Client, options: Options, cancel: CancellationToken) -> Result<Hub, InstallError> {
    if !options.installed_by_operator {
        prepare(&client).await?;
    }
    let caches = controllers::caches(client.clone(), cancel);
    let parts = Component::ALL.into_iter();
    let parts = parts.filter(|it| !(options.without_add_ons && *it == Component::AddOns));
    let running: Vec<Running> = parts
        .flat_map(|it| controllers::start(&client, &caches, it, &options))
        .collect();
    // Its kinds are all there, and a hub that is started works.
    join_all(running.iter().map(|it| it.queue.begun())).await;
    Ok(Hub { caches, running })
}

/// Puts in place what the hub needs on its API server.
pub async fn prepare(client: &Client) -> Result<(), InstallError> {
    install::install_crds(client, ocm_api::crds::hub()).await?;
    install::install(client, &bootstrap::objects()).await
}

/// Runs one part of a hub alone, until `cancel`. What it needs on the API server (kinds, rights) somebody puts there;
/// what waits for a kind says so in [`ocm_reconcile::awaited`].
pub async fn run_component(client: Client, component: Component, options: &Options, cancel: CancellationToken) {
    let caches = controllers::caches(client.clone(), cancel);
    let running = controllers::start(&client, &caches, component, options);
    join_all(running.into_iter().map(|it| it.finished)).await;
}

impl Hub {
    /// Ends when all controllers have ended, which they do after they were cancelled.
    pub async fn finished(self) {
        join_all(self.running.into_iter().map(|it| it.finished)).await;
    }
}
