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
use ocm_reconcile::{Clients, Queue, Reconciler, Running, awaited::Need, spawn_when};
use tokio_util::sync::CancellationToken;

pub use caches::{Caches, OfClusters, Shared};
pub use facts::is_managed;
pub use templates::Templates;

/// How many keys one controller works on at a time. Upstream has 2; ours share nothing between keys.
const WORKERS: usize = 4;

/// Starts the hub's controllers for add-ons but those of [`of_clusters`], each when the caches that it reads have arrived. They
/// stop with `cancel`.
pub fn controllers(client: Client, caches: &Caches, cancel: CancellationToken) -> Vec<Running> {
    let start = Start { client, cancel };
    let addons = || Need::of(&caches.addons);
    let offers = || Need::of(&caches.cluster_management_addons);
    let clusters = || Need::of(&caches.clusters);
    let chosen = || [Need::of(&caches.placements), Need::of(&caches.decisions)];
    let all = caches.clone();
    let on = |subscribe: fn(&Caches, &Queue)| {
        let all = all.clone();
        move |queue: &Queue| subscribe(&all, queue)
    };
    let with_chosen = |mut needs: Vec<Need>| {
        needs.extend(chosen());
        needs
    };
    vec![
        start.go(
            vec![addons(), offers()],
            owner::Owner::new(caches),
            on(owner::subscribe),
        ),
        start.go(
            with_chosen(vec![addons(), offers(), clusters()]),
            install::Install::new(caches),
            on(install::subscribe),
        ),
        start.go(
            vec![addons(), offers(), clusters()],
            annotation::Annotation::new(caches),
            on(annotation::subscribe),
        ),
        start.go(
            vec![offers()],
            progression::Progression::new(caches),
            on(progression::subscribe),
        ),
        start.go(
            with_chosen(vec![addons(), offers()]),
            configuration::Configuration::new(caches),
            on(configuration::subscribe),
        ),
        start.go(
            vec![addons(), offers(), Need::of(&caches.works)],
            progressing::Progressing::new(caches),
            on(progressing::subscribe),
        ),
        start.go(
            vec![
                addons(),
                // Without it every cluster would be taken for one that is gone.
                clusters(),
                Need::of(&caches.service_accounts),
                Need::of(&caches.roles),
                Need::of(&caches.role_bindings),
            ],
            token_infrastructure::TokenInfrastructure::new(caches),
            on(token_infrastructure::subscribe),
        ),
    ]
}

/// Starts what runs the add-ons that are made of a template; without it nobody does. It stops with `cancel`.
pub fn template_starts(
    client: Client,
    caches: &Caches,
    templates: Arc<dyn Templates>,
    cancel: CancellationToken,
) -> Running {
    let (all, strangers) = (caches.clone(), templates.strangers());
    let needs = vec![Need::of(&caches.addons), Need::of(&caches.cluster_management_addons)];
    let reconciler = templates::TemplateStarts::new(caches, templates);
    Start { client, cancel }.go(needs, reconciler, move |queue| {
        templates::subscribe(&all, &strangers, queue);
    })
}

/// Starts what registration says of add-ons and has add-ons say of clusters, when the caches have arrived: upstream runs these in its
/// registration controller, with that one's rights, and not in its add-on manager. They stop with `cancel`.
pub fn of_clusters(client: Client, caches: &OfClusters, cancel: CancellationToken) -> Vec<Running> {
    let start = Start { client, cancel };
    let needs = || vec![Need::of(&caches.clusters), Need::of(&caches.addons)];
    let (available, features) = (caches.clone(), caches.clone());
    vec![
        start.go(needs(), availability::Availability::new(caches), move |queue| {
            availability::subscribe(&available, queue);
        }),
        start.go(needs(), feature::Feature::new(caches), move |queue| {
            feature::subscribe(&features, queue);
        }),
    ]
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
        spawn_when(
            needs,
            reconciler,
            subscribe,
            clients,
            Queue::awaiting(),
            WORKERS,
            self.cancel.clone(),
        )
    }
}
