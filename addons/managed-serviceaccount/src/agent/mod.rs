//! What the agent does on its cluster.

pub mod accounts;
pub mod token;

use ocm_addon_sdk::{
    kube::{Client, runtime::watcher},
    ocm_api::authentication::labels,
    reconcile::{Caches, Clients, Controller, cache::Watching},
};
use tokio_util::sync::CancellationToken;

pub use accounts::{Accounts, AgentSite, Now};

/// The two API servers of an agent.
#[derive(Clone)]
pub struct AgentClients {
    /// The hub, as the add-on's agent.
    pub hub: Client,
    /// The managed cluster.
    pub managed: Client,
}

impl AgentClients {
    /// What an agent writes to.
    pub fn clients(&self) -> Clients {
        Clients::both(self.hub.clone(), self.managed.clone())
    }

    /// The caches of an agent: of the hub, and of the managed cluster.
    pub fn caches(&self, stop: &CancellationToken) -> (Caches, Caches) {
        (
            Caches::new(self.hub.clone(), stop.clone()),
            Caches::new(self.managed.clone(), stop.clone()),
        )
    }
}

/// The reconciler that keeps tokens.
pub fn controller(clusters: &AgentClients, hub: &Caches, managed: &Caches, site: AgentSite, clock: Now) -> Controller {
    Controller::new(Accounts::new(hub, managed, clusters.managed.clone(), site, clock))
}

/// Only what belongs to ManagedServiceAccounts is looked at.
fn managed_only() -> Watching {
    let ours = format!("{}=true", labels::IS_MANAGED);
    Watching {
        selection: watcher::Config::default().labels(&ours),
        // The rights of the agent may come later than the agent.
        forbidden_at_first: true,
        ..Watching::default()
    }
}
