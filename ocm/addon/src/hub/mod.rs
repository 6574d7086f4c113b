//! The hub's half: installing add-ons, giving them their configurations, and saying how far that got.

pub mod annotation;
mod arrival;
pub mod availability;
pub mod config_references;
pub mod configuration;
mod events;
pub mod facts;
pub mod feature;
pub(crate) mod indexes;
pub mod inherited;
pub mod install;
mod new_add_on;
pub mod owner;
pub mod placements;
pub mod progressing;
pub mod progression;
mod rights;
pub mod templates;
pub mod token_infrastructure;

use std::sync::Arc;

use ocm_reconcile::{Caches, Controller};

pub use crate::template::Templates;
pub use facts::is_managed;

/// How many keys one controller works on at a time. Upstream has 2; ours share nothing between keys.
const WORKERS: usize = 4;

// Why a status field has several authors.
const HASHES: &str = "the add-on's manager writes the hashes, nobody else does";
const PROGRESSIONS: &str = "one names the configurations, the rollout has conditions and what was applied, the add-on's manager the \
                            hashes";
const REFERENCES: &str =
    "one says what is desired, one what was applied, and the add-on's manager the hashes of own configurations";

/// The hub's controllers for add-ons but those of [`of_clusters`] and [`of_templates`].
pub fn controllers(caches: &Caches) -> Vec<Controller> {
    vec![
        Controller::new(owner::Owner::new(caches)),
        Controller::new(install::Install::new(caches)),
        Controller::new(annotation::Annotation::new(caches)),
        Controller::new(progression::Progression::new(caches)),
        Controller::new(configuration::Configuration::new(caches)),
        Controller::new(progressing::Progressing::new(caches)),
        Controller::new(token_infrastructure::TokenInfrastructure::new(caches)),
    ]
}

/// What starts and stops the managers of add-ons that are made of a template; without it nobody does.
pub fn of_templates(caches: &Caches, templates: Arc<dyn Templates>) -> Controller {
    Controller::new(templates::TemplateStarts::new(caches, templates))
}

/// What registration says of add-ons and has add-ons say of clusters: upstream runs these in its registration
/// controller, with that one's rights, and not in its add-on manager.
pub fn of_clusters(caches: &Caches) -> Vec<Controller> {
    vec![
        Controller::new(availability::Availability::new(caches)),
        Controller::new(feature::Feature::new(caches)),
    ]
}
