//! The hub's half: Placements get the PlacementDecisions they should have.

mod index;
pub mod load;
pub mod lost;
pub mod memory;
pub mod schedule;
pub mod tell;
pub mod triggers;
pub mod write;

use std::sync::Arc;

use kube::{Api, Client};
use ocm_api::cluster::{
    AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
};
use ocm_reconcile::{
    Cache, Clients, Queue, Reconciler, Running,
    awaited::{self, Need},
    spawn,
};
use tokio_util::sync::CancellationToken;

use memory::Memory;
use schedule::Scheduling;
use tell::{News, Telling};

/// What the placements of a hub depend on, one watch per kind.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Caches {
    pub clusters: Cache<ManagedCluster>,
    pub sets: Cache<ManagedClusterSet>,
    pub set_bindings: Cache<ManagedClusterSetBinding>,
    pub placements: Cache<Placement>,
    pub decisions: Cache<PlacementDecision>,
    pub scores: Cache<AddOnPlacementScore>,
}

/// Caches that others in the process have started already.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Shared {
    pub clusters: Cache<ManagedCluster>,
    pub sets: Cache<ManagedClusterSet>,
    pub set_bindings: Cache<ManagedClusterSetBinding>,
    pub placements: Cache<Placement>,
    pub decisions: Cache<PlacementDecision>,
}

impl Shared {
    /// Starts them, where nobody else in the process has.
    pub fn start(client: &Client, cancel: &CancellationToken) -> Self {
        Self {
            clusters: Cache::start(Api::all(client.clone()), cancel.clone()),
            sets: Cache::start(Api::all(client.clone()), cancel.clone()),
            set_bindings: Cache::start(Api::all(client.clone()), cancel.clone()),
            placements: Cache::start(Api::all(client.clone()), cancel.clone()),
            decisions: Cache::start(Api::all(client.clone()), cancel.clone()),
        }
    }
}

impl Caches {
    /// Takes what is shared, and starts the watch that nobody else needs.
    pub fn start(shared: Shared, client: &Client, cancel: &CancellationToken) -> Self {
        Self {
            clusters: shared.clusters,
            sets: shared.sets,
            set_bindings: shared.set_bindings,
            placements: shared.placements,
            decisions: shared.decisions,
            scores: Cache::start(Api::all(client.clone()), cancel.clone()),
        }
    }

    /// All of them, to wait for.
    pub fn needs(&self) -> Vec<Need> {
        vec![
            Need::of(&self.clusters),
            Need::of(&self.sets),
            Need::of(&self.set_bindings),
            Need::of(&self.placements),
            Need::of(&self.decisions),
            Need::of(&self.scores),
        ]
    }

    /// Ends when all of them have arrived.
    pub async fn synced(&self) {
        self.clusters.synced().await;
        self.sets.synced().await;
        self.set_bindings.synced().await;
        self.placements.synced().await;
        self.decisions.synced().await;
        self.scores.synced().await;
    }
}

/// How many placements are decided at a time. Upstream has 1; they share nothing but the count of each other's decisions.
const WORKERS: usize = 4;

/// Starts the hub's controllers for placements, when the caches have arrived: a placement that is decided before all clusters
/// are known would lose some. They stop with `cancel`.
pub async fn controllers(hub: Client, caches: &Caches, cancel: CancellationToken) -> Vec<Running> {
    remembering(hub, caches, cancel).await.0
}

/// [`controllers`], and what they remember.
pub async fn remembering(hub: Client, caches: &Caches, cancel: CancellationToken) -> (Vec<Running>, Arc<Memory>) {
    awaited::arrived(Scheduling::NAME, caches.needs()).await;
    let memory = Arc::new(Memory::over(caches));
    let queue = Queue::new();
    triggers::subscribe(caches, &memory, &queue);
    let news = News::default();
    let reconciler = Scheduling::new(caches, memory.clone(), news.clone());
    let clients = Clients::hub(hub);
    let running = vec![
        spawn(reconciler, clients.clone(), queue, WORKERS, cancel.clone()),
        spawn(Telling::new(news.clone()), clients, news.queue(), 1, cancel),
    ];
    (running, memory)
}
