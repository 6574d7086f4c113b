//! The hub's half: Placements get the PlacementDecisions they should have.

pub mod decision_events;
pub mod desired;
pub mod events;
mod index;
pub mod load;
pub mod lost;
pub mod memory;
pub mod rbac;
pub mod schedule;
pub mod triggers;
pub mod write;

use ocm_reconcile::{Caches, Controller};

use events::{PendingEvents, PlacementEvents};
use schedule::Scheduling;

/// The hub's controllers for placements. They begin when the caches have arrived: a placement that is decided before
/// all clusters are known would lose some.
pub fn controllers(caches: &Caches) -> Vec<Controller> {
    let pending = PendingEvents::default();
    vec![
        Controller::new(Scheduling::new(caches, pending.clone())),
        Controller::with_queue(PlacementEvents::new(pending.clone()), pending.queue()),
    ]
}
