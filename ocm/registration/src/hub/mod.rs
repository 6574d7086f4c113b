//! The hub's half: accepting clusters, letting their agents in, watching over their heartbeats, cleaning up after them.

pub mod approval;
pub mod availability;
pub mod caches;
pub mod clock;
pub mod cluster_profiles;
pub mod cluster_roles;
pub mod cluster_sets;
pub mod default_sets;
pub mod doubts;
pub mod first;
pub mod garbage;
pub mod imports;
pub mod leftovers;
pub mod lifecycle;
pub mod managed_namespaces;
pub mod rbac;
pub mod set_bindings;
pub mod taints;

use std::{collections::BTreeMap, sync::Arc};

use kube::{Api, Client};
use ocm_reconcile::{
    Cache, Clients, Queue, Reconciler, Running,
    awaited::{self, Need},
    spawn_when,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub use caches::{Caches, Shared};
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
    /// Whether what is in a cluster's namespace is deleted with the cluster (gate ResourceCleanup), and what that is, in
    /// this order (`--gc-resource-list`).
    pub garbage: Option<Vec<GarbageKind>>,
    /// Whether clusters are shown as ClusterProfiles where their sets are bound (gate ClusterProfile, off by default).
    pub cluster_profiles: bool,
    /// Whether clusters that wait for an import are told that there is no importer (gate ClusterImporter, off by default).
    pub cluster_importer: bool,
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
            cluster_importer: false,
        }
    }
}

/// How many keys one controller works on at a time. Upstream has 1; ours share nothing between keys, and most of a run is
/// waiting for the API server.
const WORKERS: usize = 16;

/// Starts every hub controller of registration, each when the caches that it reads have arrived.
pub fn controllers(client: Client, caches: &Caches, options: HubOptions, cancel: CancellationToken) -> Vec<Running> {
    let options = Arc::new(options);
    let start = Start {
        client: client.clone(),
        cancel: cancel.clone(),
    };
    let (clusters, sets) = (|| Need::of(&caches.clusters), || Need::of(&caches.sets));
    let leases = || Need::of(&caches.leases);
    let all = caches.clone();
    let on = |subscribe: fn(&Caches, &Queue)| {
        let all = all.clone();
        move |queue: &Queue| subscribe(&all, queue)
    };
    let by_name: fn(&Caches, &Queue) = |caches, queue| caches.clusters.subscribe_by_name(queue);
    let mut running = vec![
        start.go(
            vec![
                clusters(),
                Need::of(&caches.namespaces),
                Need::of(&caches.cluster_roles),
                Need::of(&caches.cluster_role_bindings),
                Need::of(&caches.role_bindings),
            ],
            lifecycle::Lifecycle::new(client.clone(), caches, options.clone()),
            on(lifecycle::subscribe),
        ),
        start.go(
            vec![clusters(), Need::of(&caches.cluster_roles)],
            cluster_roles::ClusterRoles::new(client.clone(), caches, options.clone()),
            on(cluster_roles::subscribe),
        ),
        start.go(
            vec![clusters(), Need::of(&caches.requests)],
            approval::Approval::new(client.clone(), caches, options.clone()),
            on(approval::subscribe),
        ),
        start.go(
            vec![clusters(), leases(), Need::of(&caches.namespaces)],
            availability::Availability::new(client.clone(), caches),
            on(availability::subscribe),
        ),
        start.go(
            vec![clusters(), leases()],
            clock::Clock::new(caches),
            on(clock::subscribe),
        ),
        start.go(
            vec![clusters()],
            taints::Taints::new(caches, options.clone()),
            on(by_name),
        ),
        start.go(
            vec![sets(), clusters()],
            cluster_sets::ClusterSets::new(caches),
            on(cluster_sets::subscribe),
        ),
        start.go(
            vec![sets(), Need::of(&caches.set_bindings)],
            set_bindings::SetBindings::new(caches),
            on(set_bindings::subscribe),
        ),
        start.go(
            vec![clusters(), sets()],
            managed_namespaces::ManagedNamespaces::new(caches),
            on(managed_namespaces::subscribe),
        ),
    ];
    if let Some(kinds) = options.garbage.clone() {
        let garbage = garbage::Garbage::new(client.clone(), caches, kinds, options.clone());
        running.push(start.go(vec![clusters()], garbage, on(by_name)));
    }
    if options.default_sets {
        let reconciler = default_sets::DefaultSets::new(caches);
        running.push(start.go(vec![sets()], reconciler, on(default_sets::subscribe)));
    }
    if options.cluster_importer {
        running.push(start.importer(caches));
    }
    if options.cluster_profiles {
        // Watched only here: without the gate a hub need not even serve the kind.
        let profiles = Cache::start(Api::all(client.clone()), cancel);
        let (all, own) = (caches.clone(), profiles.clone());
        running.push(start.go(
            vec![clusters(), sets(), Need::of(&caches.set_bindings), Need::of(&profiles)],
            cluster_profiles::ClusterProfiles::new(client, caches, &profiles),
            move |queue| cluster_profiles::subscribe(&all, &own, queue),
        ));
    }
    running
}

struct Start {
    client: Client,
    cancel: CancellationToken,
}

impl Start {
    fn go<R: Reconciler>(
        &self,
        needs: Vec<Need>,
        reconciler: R,
        subscribe: impl FnOnce(&Queue) + Send + 'static,
    ) -> Running {
        let clients = Clients::hub(self.client.clone());
        let (queue, cancel) = (Queue::awaiting(), self.cancel.clone());
        spawn_when(needs, reconciler, subscribe, clients, queue, WORKERS, cancel)
    }

    /// What stands in for the importer.
    fn importer(&self, caches: &Caches) -> Running {
        warn!(gate = "ClusterImporter", "{}", imports::NOT_THERE);
        let owners = imports::watch(&self.client, &self.cancel);
        let (all, own) = (caches.clone(), owners.clone());
        let said = awaited::say(imports::WHO, imports::NOT_THERE);
        self.go(
            vec![Need::of(&caches.clusters)],
            imports::Imports::new(caches, &owners, said),
            move |queue| imports::subscribe(&all, &own, queue),
        )
    }
}
