//! Placements: choosing clusters, and letting a change reach the chosen ones.
//!
//! Kinds: Placement, PlacementDecision; read besides: ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding,
//! AddOnPlacementScore.
//!
//! ```text
//! Placement, ManagedClusterSetBinding, ManagedClusterSet,
//! ManagedCluster, AddOnPlacementScore, PlacementDecision
//!    |                    |
//!    | triggers           | memory: the fleet, and what each placement made of it
//!    v                    v
//!  queue ---> hub::schedule: observe, plan (select::select) ---> PlacementDecision, and its status
//!                         |                                 `--> Placement status
//!                         v
//!                   hub::events ---> Event
//!
//! PlacementDecision ---> rollout::groups, rollout::admit ---> works and add-ons, cluster by cluster (their crates write them)
//! ```
//!
//! [`select`] chooses and [`rollout`] lets a change through, both as plain functions; [`hub`] sees to it that the hub's
//! Placements have the PlacementDecisions they should have. [`gather`] and [`debug`] answer those who only ask.

pub mod debug;
pub mod gather;
pub mod hub;
pub mod rollout;
pub mod select;
