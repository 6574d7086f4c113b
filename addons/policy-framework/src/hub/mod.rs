//! The hub's half: what binds Policies to clusters, their replicas there, and what becomes of them.

pub mod accounts;
pub mod admission;
pub mod automation;
pub mod bound;
pub mod encryption;
mod events;
pub mod lookups;
pub mod metrics;
mod program;
pub mod replica;
pub mod replicas;
pub mod root_status;
pub mod sets;
mod sharing;
pub mod templates;
pub mod world;

use ocm_addon_sdk::reconcile::{Caches, Controller};

use templates::HubTemplates;

pub use accounts::HubConnection;
pub use program::{PROGRAMS, PropagatorWebhooks, WebhookServer, run};

/// What an administrator chooses.
#[derive(Clone, Debug)]
pub struct PropagatorSettings {
    /// Whether PlacementRules are read.
    pub placement_rules: bool,
    /// Whether each Policy's state is a metric.
    pub metrics_of_states: bool,
    /// How many replicas are worked on at a time.
    pub replicas_at_once: usize,
    /// How many Policies' states are worked on at a time.
    pub statuses_at_once: usize,
    /// How old the key of a cluster becomes, in days; at least 1.
    pub days_of_keys: u32,
    /// How many keys are changed at a time.
    pub keys_at_once: usize,
    /// Functions that hub templates may not use.
    pub denied_functions: Vec<String>,
    /// Where the ServiceAccounts of hub templates connect to; without it they cannot be used.
    pub connection: Option<HubConnection>,
}

impl Default for PropagatorSettings {
    fn default() -> Self {
        Self {
            placement_rules: true,
            metrics_of_states: true,
            replicas_at_once: 10,
            statuses_at_once: 5,
            days_of_keys: 30,
            keys_at_once: 10,
            denied_functions: Vec::new(),
            connection: None,
        }
    }
}

/// What a hub process runs in itself.
pub fn controllers(caches: &Caches, settings: &PropagatorSettings) -> Vec<Controller> {
    let world = world::PolicyWorld::new(caches, settings.placement_rules);
    let templates = HubTemplates::new(caches, &world, &settings.denied_functions, settings.connection.clone());
    metrics::tell(&world, &templates, settings.metrics_of_states);
    vec![
        Controller::new(replicas::Replicas::new(world.clone(), templates)).workers(settings.replicas_at_once),
        Controller::new(root_status::RootStatus::new(world.clone())).workers(settings.statuses_at_once),
        Controller::new(sets::Sets::new(world.clone())),
        Controller::new(automation::Automations::new(world.clone(), caches)),
        Controller::new(encryption::EncryptionKeys::new(world, caches, settings.days_of_keys))
            .workers(settings.keys_at_once),
    ]
}
