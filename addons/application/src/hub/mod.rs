//! The hub's half: Subscriptions are brought to clusters, and what becomes of them is told.
//!
//! ```text
//! hub                                                                cluster
//!   Channel, source --sources--+
//!   Placement, PlacementRule --+--> propagation --> ManifestWork --> Subscription (copied)
//!   Subscription --------------+         |
//!                                        +--------> Subscription status, AnsibleJobs
//!   SubscriptionReport (application) <-- reports <-- SubscriptionReport (cluster) <-- what became of it
//!   PlacementRule --placement_rules--> its decisions
//!   Channel --channels--> Role, RoleBinding, labels of its Secret and ConfigMap
//!   events of Git servers --webhook--> annotation of Subscriptions
//! ```

pub mod administrators;
pub mod admission;
pub mod authors;
pub mod channels;
pub mod clusters;
mod failures;
pub mod hooks;
pub mod identity;
pub mod metrics;
pub mod payload;
pub mod placement_rules;
pub mod propagation;
pub mod reports;
pub mod results;
pub mod sources;
mod verdict;
pub mod webhook;
pub mod world;

use std::{sync::Arc, time::Duration};

use ocm_addon_sdk::reconcile::{Caches, Controller};

use crate::source::SourceReader;

/// What an administrator chooses.
#[derive(Clone)]
pub struct HubSettings {
    /// Who reads sources.
    pub reader: Arc<dyn SourceReader>,
    /// How often reports are looked at even if nothing happens.
    pub sync_interval: Duration,
    /// Whether the hub lets nobody but itself say who has written a Subscription. Otherwise that counts only where
    /// a webhook that does, ours or upstream's, is there.
    pub trusted_identities: bool,
    /// The namespace of the hub's own components, if it has one.
    pub own_namespace: Option<String>,
    /// The events of Git servers, which a [`WebhookListener`](webhook::WebhookListener) is given, too.
    pub events: webhook::PendingEvents,
}

/// What a hub process runs in itself.
pub fn controllers(caches: &Caches, settings: &HubSettings) -> Vec<Controller> {
    let world = world::SubscriptionWorld::new(caches);
    let sources = sources::SubscriptionSources::new(settings.reader.clone(), caches.client().cloned());
    metrics::tell();
    let propagation =
        propagation::SubscriptionPropagation::new(world.clone(), sources.clone(), caches, settings.trusted_identities);
    vec![
        Controller::new(propagation),
        Controller::new(reports::SubscriptionReports::new(
            world.clone(),
            sources,
            settings.sync_interval,
        )),
        Controller::new(webhook::WebhookEventCount::new(&world, settings.events.clone())),
        Controller::new(channels::ChannelAccess::new(caches, settings.own_namespace.clone())),
        Controller::new(placement_rules::PlacementRuleDecisions::new(caches)),
    ]
}
