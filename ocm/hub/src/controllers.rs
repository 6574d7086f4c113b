//! The one list of what runs on a hub, and of which part it belongs to.
//!
//! Upstream runs each part as a program of its own, and so may we: the parts meet only through the API. What they share in one
//! process is a watch per kind, and nothing else.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use addon::template::InManager;
use kube::Client;
use ocm_addon_sdk::hub::{self as sdk, Manager};
use ocm_reconcile::{Caches, Clients, Queue, Running, controller::start_all};
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

/// Starts what belongs to a part: each controller when the watches that it reads have arrived.
pub fn start(watches: &Watches, component: Component, options: &Options) -> Vec<Running> {
    let (client, cancel) = (watches.client.clone(), watches.cancel.clone());
    match component {
        Component::Registration => {
            let of_add_ons = addon::hub::of_clusters(client.clone(), &watches.of_clusters(), cancel.clone());
            let registration = options.registration.clone();
            let mut running = registration::hub::controllers(client, watches.registration(), registration, cancel);
            running.extend(of_add_ons);
            running
        }
        Component::Work => {
            let controllers = work::hub::controllers(&watches.caches, options.works);
            start_all(controllers, &Clients::hub(client), &cancel)
        }
        Component::Placement => {
            let caches = placement::hub::Caches::start(watches.of_placements(), &client, &cancel);
            let ends = cancel.clone();
            let starting = async move { placement::hub::controllers(client, &caches, ends).await };
            vec![later(starting, cancel)]
        }
        Component::AddOns => add_ons(watches, options),
    }
}

/// What starts when it can, as one.
fn later(starting: impl Future<Output = Vec<Running>> + Send + 'static, cancel: CancellationToken) -> Running {
    let queue = Queue::awaiting();
    let latch = queue.clone();
    let finished = tokio::spawn(async move {
        let started = tokio::select! {
            () = cancel.cancelled() => Vec::new(),
            started = starting => started,
        };
        for it in &started {
            it.queue.begun().await;
        }
        latch.begin();
        for it in started {
            // It can only have panicked, which was told.
            let _ = it.finished.await;
        }
    });
    Running { queue, finished }
}

fn add_ons(watches: &Watches, options: &Options) -> Vec<Running> {
    let (client, cancel) = (watches.client.clone(), watches.cancel.clone());
    let shared = watches.of_add_ons();
    let caches = addon::hub::Caches::start(shared.clone(), &client, &cancel);
    let mut running = addon::hub::controllers(client.clone(), &caches, cancel.clone());
    // What runs add-ons asks the hub first who it is; the others do not wait for the answer.
    let (options, ends) = (options.clone(), cancel.clone());
    let starting = async move {
        let Some(manager) = manager(&client, &shared, &options, &ends).await else {
            return Vec::new();
        };
        let templates = Arc::new(InManager::new(manager.clone()));
        let templates = addon::hub::template_starts(client, &caches, templates, ends);
        manager.begun().await;
        let finished = tokio::spawn(async move { manager.finished().await });
        vec![
            templates,
            Running {
                queue: Queue::new(),
                finished,
            },
        ]
    };
    running.push(later(starting, cancel));
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
    caches: Caches,
    registration: OnceLock<registration::hub::Caches>,
}

impl Watches {
    /// None yet. Those that are started end with `cancel`.
    pub fn new(client: Client, cancel: CancellationToken) -> Self {
        let caches = Caches::new(client.clone(), cancel.clone());
        Self {
            client,
            cancel,
            caches: caches.shaped(work::hub::replica_set::sharing::shape()),
            registration: OnceLock::new(),
        }
    }

    /// Those of registration.
    pub fn registration(&self) -> &registration::hub::Caches {
        self.registration.get_or_init(|| {
            let shared = registration::hub::Shared {
                clusters: self.caches.of(),
                sets: self.caches.of(),
                set_bindings: self.caches.of(),
            };
            registration::hub::Caches::start_with(shared, &self.client, &self.cancel)
        })
    }

    fn of_placements(&self) -> placement::hub::Shared {
        placement::hub::Shared {
            clusters: self.caches.of(),
            sets: self.caches.of(),
            set_bindings: self.caches.of(),
            placements: self.caches.of(),
            decisions: self.caches.of(),
        }
    }

    fn of_clusters(&self) -> addon::hub::OfClusters {
        addon::hub::OfClusters {
            clusters: self.caches.of(),
            addons: self.caches.of(),
        }
    }

    fn of_add_ons(&self) -> addon::hub::Shared {
        addon::hub::Shared {
            clusters: self.caches.of(),
            addons: self.caches.of(),
            cluster_management_addons: self.caches.of(),
            works: self.caches.of(),
            placements: self.caches.of(),
            decisions: self.caches.of(),
        }
    }
}
