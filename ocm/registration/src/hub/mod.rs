//! The hub's half: accepting clusters, letting their agents in, watching over their heartbeats, cleaning up after them.

pub mod approval;
pub mod availability;
pub mod clock;
pub mod cluster_profiles;
pub mod cluster_roles;
pub mod cluster_sets;
pub mod default_sets;
mod first;
pub mod garbage;
pub mod heartbeat;
mod leftovers;
pub mod lifecycle;
pub mod managed_namespaces;
pub mod of_clusters;
mod permissions;
pub mod rbac;
pub mod set_bindings;
pub mod taints;
mod uncached;

use std::{collections::BTreeMap, sync::Arc};

use ocm_reconcile::{Caches, Controller};

pub use garbage::GarbageKind;

/// What an administrator can choose.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Labels for the namespaces and RBAC objects of clusters (`--labels`).
    pub labels: BTreeMap<String, String>,
    /// Whose certificate signing requests are approved without a human (`--auto-approved-csr-users`); none means that a
    /// human approves each first one.
    pub auto_approved_csr_users: Vec<String>,
    /// Whether clusters are accepted without a human. Upstream: the gate ManagedClusterAutoApproval, off by default.
    pub auto_accept: bool,
    /// Whether the sets `default` and `global` are kept (gate DefaultClusterSet).
    pub default_sets: bool,
    /// Whether what is in a cluster's namespace is deleted with the cluster (gate ResourceCleanup), and what that is,
    /// in this order (`--gc-resource-list`).
    pub garbage: Option<Vec<GarbageKind>>,
    /// Whether clusters are shown as ClusterProfiles where their sets are bound (gate ClusterProfile, off by default).
    pub cluster_profiles: bool,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            auto_approved_csr_users: Vec::new(),
            auto_accept: false,
            default_sets: true,
            garbage: Some(GarbageKind::defaults()),
            cluster_profiles: false,
        }
    }
}

/// How many keys one controller works on at a time. Upstream has 1; ours share nothing between keys, and most of a run
/// is waiting for the API server.
const WORKERS: usize = 16;

/// The controllers of registration on a hub, over the caches of its process.
pub fn controllers(caches: &Caches, options: HubOptions) -> Vec<Controller> {
    let options = Arc::new(options);
    let mut all = vec![
        Controller::new(lifecycle::Lifecycle::new(caches, &options)),
        Controller::new(cluster_roles::ClusterRoles::new(caches, &options)),
        Controller::new(approval::Approval::new(caches, &options)),
        Controller::new(availability::Availability::new(caches)),
        Controller::new(clock::Clock::new(caches)),
        Controller::new(taints::Taints::new(caches, &options)),
        Controller::new(cluster_sets::ClusterSets::new(caches)),
        Controller::new(set_bindings::SetBindings::new(caches)),
        Controller::new(managed_namespaces::ManagedNamespaces::new(caches)),
    ];
    if options.garbage.is_some() {
        all.push(Controller::new(garbage::Garbage::new(caches, &options)));
    }
    if options.default_sets {
        all.push(Controller::new(default_sets::DefaultSets::new(caches)));
    }
    // Watched only here: without the gate a hub need not even serve the kind.
    if options.cluster_profiles {
        all.push(Controller::new(cluster_profiles::ClusterProfiles::new(caches)));
    }
    all
}
