//! The hub's half: installing add-ons, giving them their configurations, and saying how far that got.

pub mod annotation;
pub mod availability;
pub mod caches;
pub mod configuration;
pub mod facts;
pub mod feature;
pub mod inherited;
pub mod install;
pub mod owner;
pub mod progressing;
pub mod progression;
pub mod templates;
pub mod token_infrastructure;

use std::sync::Arc;

use kube::Client;
use ocm_reconcile::{Clients, Queue, Reconciler, Running, spawn};
use tokio_util::sync::CancellationToken;

pub use caches::{Caches, OfClusters, Shared};
pub use facts::is_managed;
pub use templates::Templates;

/// How many keys one controller works on at a time. Upstream has 2; ours share nothing between keys.
const WORKERS: usize = 4;

/// Starts the hub's controllers for add-ons but those of [`of_clusters`], when the caches have arrived. They stop with `cancel`. `templates` runs the add-ons that
/// are made of a template; without it nobody does.
pub async fn controllers(
    client: Client,
    caches: &Caches,
    templates: Option<Arc<dyn Templates>>,
    cancel: CancellationToken,
) -> Vec<Running> {
    caches.synced().await;
    let start = Start { client, cancel };
    let mut running = vec![
        start.go(owner::Owner::new(caches), |queue| owner::subscribe(caches, queue)),
        start.go(install::Install::new(caches), |queue| install::subscribe(caches, queue)),
        start.go(annotation::Annotation::new(caches), |queue| {
            annotation::subscribe(caches, queue)
        }),
        start.go(progression::Progression::new(caches), |queue| {
            progression::subscribe(caches, queue)
        }),
        start.go(configuration::Configuration::new(caches), |queue| {
            configuration::subscribe(caches, queue);
        }),
        start.go(progressing::Progressing::new(caches), |queue| {
            progressing::subscribe(caches, queue)
        }),
        start.go(token_infrastructure::TokenInfrastructure::new(caches), |queue| {
            token_infrastructure::subscribe(caches, queue);
        }),
    ];
    if let Some(templates) = templates {
        running.push(start.go(templates::TemplateStarts::new(caches, templates), |queue| {
            templates::subscribe(caches, queue);
        }));
    }
    running
}

/// Starts what registration says of add-ons and has add-ons say of clusters, when the caches have arrived: upstream runs these in its
/// registration controller, with that one's rights, and not in its add-on manager. They stop with `cancel`.
pub async fn of_clusters(client: Client, caches: &OfClusters, cancel: CancellationToken) -> Vec<Running> {
    caches.clusters.synced().await;
    caches.addons.synced().await;
    let start = Start { client, cancel };
    vec![
        start.go(availability::Availability::new(caches), |queue| {
            availability::subscribe(caches, queue);
        }),
        start.go(feature::Feature::new(caches), |queue| feature::subscribe(caches, queue)),
    ]
}

struct Start {
    client: Client,
    cancel: CancellationToken,
}

impl Start {
    fn go<R: Reconciler>(&self, reconciler: R, subscribe: impl FnOnce(&Queue)) -> Running {
        let queue = Queue::new();
        subscribe(&queue);
        spawn(
            reconciler,
            Clients::hub(self.client.clone()),
            queue,
            WORKERS,
            self.cancel.clone(),
        )
    }
}
