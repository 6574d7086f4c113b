//! The one list of what runs on a hub, and of which part it belongs to.
//!
//! Upstream runs each part as a program of its own, and so may we: the parts meet only through the API. What they share in one
//! process is a watch per kind, and nothing else.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use addon::template::InManager;
use kube::{Api, Client, Resource};
use ocm_addon_sdk::hub::{self as sdk, Manager};
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision},
    work::ManifestWork,
};
use ocm_reconcile::{Cache, Running, cache::Watching};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::Options;

/// How long to wait before the hub is asked again who it is.
const RETRY: Duration = Duration::from_secs(1);

/// A part of a hub that can be a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Clusters and their sets, and what they and their add-ons say of each other (upstream: `registration controller`).
    Registration,
    /// Works on the hub's side (upstream: `work manager`).
    Work,
    /// Placements (upstream: `placement controller`).
    Placement,
    /// Add-ons, and those made of templates (upstream: `addon manager`).
    AddOns,
}

impl Component {
    /// All of a hub.
    pub const ALL: [Self; 4] = [Self::Registration, Self::Work, Self::Placement, Self::AddOns];
}

/// Starts what belongs to a part, when its watches have arrived.
pub async fn start(watches: &Watches, component: Component, options: &Options) -> Vec<JoinHandle<()>> {
    let (client, cancel) = (watches.client.clone(), watches.cancel.clone());
    match component {
        Component::Registration => {
            // A hub without the kinds of add-ons has clusters all the same, so nobody waits for these.
            let of_add_ons = tokio::spawn(add_ons_of_clusters(
                client.clone(),
                watches.of_clusters(),
                cancel.clone(),
            ));
            let running =
                registration::hub::controllers(client, watches.registration(), options.registration.clone(), cancel);
            let running = running.await.into_iter().map(|it| it.finished);
            running.chain([of_add_ons]).collect()
        }
        Component::Work => finished(work::hub::controllers(client, watches.of_works(), options.works, cancel).await),
        Component::Placement => {
            let caches = placement::hub::Caches::start(watches.of_placements(), &client, &cancel);
            finished(placement::hub::controllers(client, &caches, cancel).await)
        }
        Component::AddOns => add_ons(watches, options).await,
    }
}

fn finished(running: Vec<Running>) -> Vec<JoinHandle<()>> {
    running.into_iter().map(|it| it.finished).collect()
}

/// Runs what upstream's registration controller does about add-ons, until `cancel`.
async fn add_ons_of_clusters(client: Client, caches: addon::hub::OfClusters, cancel: CancellationToken) {
    let started = tokio::select! {
        () = cancel.cancelled() => return,
        started = addon::hub::of_clusters(client, &caches, cancel.clone()) => started,
    };
    for running in finished(started) {
        // It can only have panicked, which was told.
        let _ = running.await;
    }
}

async fn add_ons(watches: &Watches, options: &Options) -> Vec<JoinHandle<()>> {
    let (client, cancel) = (watches.client.clone(), watches.cancel.clone());
    let shared = watches.of_add_ons();
    let manager = manager(&client, &shared, options, &cancel).await;
    let templates = manager.clone().map(|it| Arc::new(InManager(it)) as _);
    let caches = addon::hub::Caches::start(shared, &client, &cancel);
    let mut running = finished(addon::hub::controllers(client, &caches, templates, cancel).await);
    running.extend(manager.map(|it| tokio::spawn(async move { it.finished().await })));
    running
}

/// What runs the add-ons of this process: those that were handed in, and later those that are made of templates. `None` when
/// the hub stops before it has said who it is.
async fn manager(
    client: &Client,
    shared: &addon::hub::Shared,
    options: &Options,
    cancel: &CancellationToken,
) -> Option<Manager> {
    let caches = sdk::Caches::start_with(client, shared.of_sdk(), cancel);
    let of_sdk = match &options.authorities {
        Some(namespace) => sdk::Options::in_namespace(namespace),
        None => sdk::Options::default(),
    };
    let manager = loop {
        let started = Manager::start(client.clone(), caches.clone(), of_sdk.clone(), cancel.clone());
        match started.await {
            Ok(manager) => break manager,
            Err(error) => warn!(%error, "add-ons cannot run yet, will retry"),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = cancel.cancelled() => return None,
        }
    };
    for add_on in &options.addons {
        let name = add_on.name().to_owned();
        if let Err(error) = manager.add(add_on.clone()) {
            warn!(%name, %error, "the add-on does not run");
        }
    }
    Some(manager)
}

/// One watch per kind, whoever reads it. Each starts when the first part asks for it.
pub struct Watches {
    client: Client,
    cancel: CancellationToken,
    registration: OnceLock<registration::hub::Caches>,
    clusters: OnceLock<Cache<ManagedCluster>>,
    sets: OnceLock<Cache<ManagedClusterSet>>,
    set_bindings: OnceLock<Cache<ManagedClusterSetBinding>>,
    addons: OnceLock<Cache<ManagedClusterAddOn>>,
    cluster_management_addons: OnceLock<Cache<ClusterManagementAddOn>>,
    works: OnceLock<Cache<ManifestWork>>,
    placements: OnceLock<Cache<Placement>>,
    decisions: OnceLock<Cache<PlacementDecision>>,
}

impl Watches {
    /// None yet. Those that are started end with `cancel`.
    pub fn new(client: Client, cancel: CancellationToken) -> Self {
        Self {
            client,
            cancel,
            registration: OnceLock::new(),
            clusters: OnceLock::new(),
            sets: OnceLock::new(),
            set_bindings: OnceLock::new(),
            addons: OnceLock::new(),
            cluster_management_addons: OnceLock::new(),
            works: OnceLock::new(),
            placements: OnceLock::new(),
            decisions: OnceLock::new(),
        }
    }

    /// Those of registration.
    pub fn registration(&self) -> &registration::hub::Caches {
        self.registration.get_or_init(|| {
            let shared = registration::hub::Shared {
                clusters: self.get(&self.clusters),
                sets: self.get(&self.sets),
                set_bindings: self.get(&self.set_bindings),
            };
            registration::hub::Caches::start_with(shared, &self.client, &self.cancel)
        })
    }

    fn of_works(&self) -> work::hub::Shared {
        work::hub::Shared {
            works: self.works(),
            placements: self.get(&self.placements),
            decisions: self.get(&self.decisions),
        }
    }

    fn of_placements(&self) -> placement::hub::Shared {
        placement::hub::Shared {
            clusters: self.get(&self.clusters),
            sets: self.get(&self.sets),
            set_bindings: self.get(&self.set_bindings),
            placements: self.get(&self.placements),
            decisions: self.get(&self.decisions),
        }
    }

    fn of_clusters(&self) -> addon::hub::OfClusters {
        addon::hub::OfClusters {
            clusters: self.get(&self.clusters),
            addons: self.get(&self.addons),
        }
    }

    fn of_add_ons(&self) -> addon::hub::Shared {
        addon::hub::Shared {
            clusters: self.get(&self.clusters),
            addons: self.get(&self.addons),
            cluster_management_addons: self.get(&self.cluster_management_addons),
            works: self.works(),
            placements: self.get(&self.placements),
            decisions: self.get(&self.decisions),
        }
    }

    fn works(&self) -> Cache<ManifestWork> {
        let start = || {
            let shape = work::hub::replica_set::sharing::shape();
            Cache::start_shaped(
                Api::all(self.client.clone()),
                Watching::default(),
                self.cancel.clone(),
                shape,
            )
        };
        self.works.get_or_init(start).clone()
    }

    fn get<K>(&self, cell: &OnceLock<Cache<K>>) -> Cache<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        let start = || Cache::start(Api::all(self.client.clone()), self.cancel.clone());
        cell.get_or_init(start).clone()
    }
}
