//! The agent's half: whether the add-ons on this cluster live, and how their agents are let into the hub.
//!
//! [`run`] does it for as long as there is a session with the hub. All of it costs a cluster two watches (its add-ons
//! on the hub, the add-ons' Secrets here), one more for each namespace that add-ons live in,
//! and one while a certificate is asked for.

pub mod credential_action;
pub mod health;
pub mod location;
mod lookup;
mod memory;
mod reconcile;
pub mod registration;
mod secrets;
mod status;
mod temporary_watches;
pub mod token;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use credential::Loaded;
use futures::future::join_all;
use kube::{Client, ResourceExt};
use ocm_api::{
    addon::{KubeClientDriver, v1alpha1::ManagedClusterAddOn},
    cluster::ManagedCluster,
};
use ocm_reconcile::{Cache, Caches, Clients, Controller, Queue, cache::Watching, rbac::Right};
use parking_lot::Mutex;
use rand::RngExt;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, info_span};

use location::location;
use lookup::AgentLookup;
use memory::AgentMemory;
use reconcile::AddOnAgents;

/// What it needs to be allowed besides looking at the add-ons on the hub and their Secrets here.
const RIGHTS: &[Right] = &[
    Right::new(
        "addon.open-cluster-management.io",
        "managedclusteraddons/status",
        "patch",
        "On the hub: how add-ons are.",
    ),
    Right::new(
        "certificates.k8s.io",
        "certificatesigningrequests",
        "create list watch",
        "On the hub: their certificates.",
    ),
    Right::new("", "serviceaccounts/token", "create", "On the hub: their tokens."),
    Right::new(
        "",
        "secrets",
        "create delete get patch",
        "Here: what their agents prove themselves with.",
    ),
    Right::new(
        "",
        "namespaces",
        "list watch",
        "Here: whether a Secret has a place to be.",
    ),
    Right::new(
        "coordination.k8s.io",
        "leases",
        "delete get list watch",
        "Here: signs of life of add-ons' agents.",
    ),
];

/// How long at most until a watch that the hub refused is tried again.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// What the agent is told.
#[derive(Clone)]
pub struct AddOnAgentOptions {
    /// The hub, as the cluster's agent.
    pub hub: Client,
    /// The managed cluster.
    pub cluster: Client,
    /// Where hosted add-ons live, when that is another cluster.
    pub management: Option<Client>,
    /// The cluster's name, which is its namespace on the hub.
    pub cluster_name: String,
    /// How the hub is reached.
    pub hub_kubeconfig: Arc<Loaded>,
    /// The cluster as the hub has it.
    pub clusters: Cache<ManagedCluster>,
    /// How the agents of add-ons prove to the hub who they are; `None` leaves it to each add-on.
    pub driver: Option<KubeClientDriver>,
    /// How long a token lives, with the driver `token`; `None` leaves it to each add-on.
    pub token_seconds: Option<i64>,
    /// An agent that has not renewed its lease for so long is not available.
    pub lease_grace: Duration,
}

impl AddOnAgentOptions {
    /// How long a token lives when nobody says (upstream's default: a year).
    pub const TOKEN_SECONDS: i64 = 31_536_000;
    /// How long after its last word an agent counts as available: upstream's five leases of a minute.
    pub const LEASE_GRACE: Duration = Duration::from_secs(5 * 60);
    /// The shortest life of a token.
    pub const TOKEN_SECONDS_MIN: i64 = 600;
}

/// The add-ons of one cluster. Cloning shares them.
#[derive(Clone)]
struct AddOns {
    cluster: String,
    cache: Cache<ManagedClusterAddOn>,
}

impl AddOns {
    fn get(&self, name: &str) -> Option<Arc<ManagedClusterAddOn>> {
        self.cache.get(&self.cluster, name)
    }

    fn names(&self) -> Vec<String> {
        self.cache.list().iter().map(|it| it.name_any()).collect()
    }

    fn living_in(&self, namespace: &str) -> Vec<String> {
        let all = self.cache.list();
        let there = all.iter().filter(|it| location(it).namespace == namespace);
        there.map(|it| it.name_any()).collect()
    }

    fn namespaces(&self) -> BTreeSet<String> {
        self.cache.list().iter().map(|it| location(it).namespace).collect()
    }
}

/// Where one reconciler works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The managed cluster, for all add-ons: nobody hosts any elsewhere.
    Only,
    /// The managed cluster, for the add-ons that live on it.
    Managed,
    /// The cluster that hosts add-ons, for those.
    Hosting,
}

impl Side {
    fn is_home_of(self, addon: &ManagedClusterAddOn) -> bool {
        match self {
            Side::Only => true,
            Side::Managed => location(addon).hosted_by.is_none(),
            Side::Hosting => location(addon).hosted_by.is_some(),
        }
    }
}

/// Runs until `stop`, then finishes what is under way.
pub async fn run(options: AddOnAgentOptions, stop: CancellationToken) {
    let span = info_span!("addons", cluster = %options.cluster_name);
    serve(options, stop).instrument(span).await;
}

async fn serve(options: AddOnAgentOptions, stop: CancellationToken) {
    let stop = stop.child_token();
    let _guard = stop.clone().drop_guard();
    let watching = Watching {
        retry_max: RETRY_MAX,
        // The session may begin before the permissions in the cluster's namespace are made.
        forbidden_at_first: true,
        ..Watching::default()
    };
    let on_hub = Caches::new(options.hub.clone(), stop.clone());
    let addons = AddOns {
        cluster: options.cluster_name.clone(),
        cache: on_hub.in_namespace(&options.cluster_name, watching),
    };
    // A Secret whose add-on is not in the cache is taken for left behind, so nothing is decided before the list is
    // whole.
    tokio::select! {
        () = stop.cancelled() => return,
        () = addons.cache.synced() => {}
    }
    info!(addons = addons.cache.len(), "add-on agent started");
    let sides = match options.management.clone() {
        None => vec![(Side::Only, options.cluster.clone())],
        Some(management) => vec![(Side::Managed, options.cluster.clone()), (Side::Hosting, management)],
    };
    // One draw for all: add-ons that were enrolled together are renewed together, and clusters are not.
    let threshold = rand::rng().random_range(credential::enrol::THRESHOLD);
    let running = sides.into_iter().map(|(side, here)| {
        let caches = Caches::new(here.clone(), stop.clone());
        let queue = Queue::awaiting();
        let agents = AddOnAgents {
            side,
            addons: addons.clone(),
            clusters: options.clusters.clone(),
            lookup: AgentLookup::new(&caches, here.clone(), &addons, &options, &queue),
            queue: queue.clone(),
            options: options.clone(),
            threshold,
            memory: Mutex::<AgentMemory>::default(),
        };
        let clients = Clients::both(options.hub.clone(), here);
        Controller::with_queue(agents, queue)
            .start(clients, stop.clone())
            .finished
    });
    // They end by the token; a panic in one of them was reported when it happened.
    join_all(running.collect::<Vec<_>>()).await;
}
