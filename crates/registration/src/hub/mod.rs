//! The hub's half: accepting clusters, letting their agents in, watching over their heartbeats, cleaning up after them.

pub mod approval;
pub mod availability;
pub mod caches;
pub mod clock;
pub mod cluster_profiles;
pub mod cluster_roles;
pub mod cluster_sets;
pub mod default_sets;
pub mod garbage;
pub mod leftovers;
pub mod lifecycle;
pub mod managed_namespaces;
pub mod rbac;
pub mod set_bindings;
pub mod taints;

use std::{collections::BTreeMap, sync::Arc};

use kube::{Api, Client};
use ocm_reconcile::{Cache, Clients, Queue, Reconciler};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

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

/// One controller that runs.
pub struct Controller {
    /// Its name in logs and metrics.
    pub name: &'static str,
    /// Its queue.
    pub queue: Queue,
    /// Ends after the cancellation, when its last run is over.
    pub finished: JoinHandle<()>,
}

/// How many keys one controller works on at a time. Upstream has 1; ours share nothing between keys.
const WORKERS: usize = 4;

/// Starts every hub controller of registration, when the caches have arrived.
pub async fn controllers(
    client: Client,
    caches: &Caches,
    options: HubOptions,
    cancel: CancellationToken,
) -> Vec<Controller> {
    caches.synced().await;
    let options = Arc::new(options);
    let start = Start {
        client: client.clone(),
        cancel: cancel.clone(),
    };
    let mut running = Vec::new();

    let queue = Queue::new();
    lifecycle::subscribe(caches, &queue);
    running.push(start.go(
        lifecycle::Lifecycle::new(client.clone(), caches, options.clone()),
        queue,
    ));

    let queue = Queue::new();
    cluster_roles::subscribe(caches, &queue);
    running.push(start.go(
        cluster_roles::ClusterRoles::new(client.clone(), caches, options.clone()),
        queue,
    ));

    let queue = Queue::new();
    approval::subscribe(caches, &queue);
    running.push(start.go(approval::Approval::new(client.clone(), caches, options.clone()), queue));

    let queue = Queue::new();
    availability::subscribe(caches, &queue);
    running.push(start.go(availability::Availability::new(client.clone(), caches), queue));

    let queue = Queue::new();
    clock::subscribe(caches, &queue);
    running.push(start.go(clock::Clock::new(caches), queue));

    let queue = Queue::new();
    caches.clusters.subscribe_by_name(&queue);
    running.push(start.go(taints::Taints::new(caches), queue));

    if let Some(kinds) = options.garbage.clone() {
        let queue = Queue::new();
        caches.clusters.subscribe_by_name(&queue);
        running.push(start.go(garbage::Garbage::new(client.clone(), caches, kinds), queue));
    }

    if options.default_sets {
        let queue = Queue::new();
        default_sets::subscribe(caches, &queue);
        running.push(start.go(default_sets::DefaultSets::new(caches), queue));
    }

    let queue = Queue::new();
    cluster_sets::subscribe(caches, &queue);
    running.push(start.go(cluster_sets::ClusterSets::new(caches), queue));

    let queue = Queue::new();
    set_bindings::subscribe(caches, &queue);
    running.push(start.go(set_bindings::SetBindings::new(caches), queue));

    let queue = Queue::new();
    managed_namespaces::subscribe(caches, &queue);
    running.push(start.go(managed_namespaces::ManagedNamespaces::new(caches), queue));

    if options.cluster_profiles {
        // Watched only here: without the gate a hub need not even serve the kind.
        let profiles = Cache::start(Api::all(client.clone()), cancel);
        profiles.synced().await;
        let queue = Queue::new();
        cluster_profiles::subscribe(caches, &profiles, &queue);
        running.push(start.go(cluster_profiles::ClusterProfiles::new(client, caches, &profiles), queue));
    }

    running
}

struct Start {
    client: Client,
    cancel: CancellationToken,
}

impl Start {
    fn go<R: Reconciler>(&self, reconciler: R, queue: Queue) -> Controller {
        let clients = Clients::hub(self.client.clone());
        let running = ocm_reconcile::spawn(reconciler, clients, queue, WORKERS, self.cancel.clone());
        Controller {
            name: R::NAME,
            queue: running.queue,
            finished: running.finished,
        }
    }
}
