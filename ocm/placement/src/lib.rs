//! Choosing clusters, and letting a change reach the chosen ones.
//!
//! [`select`] chooses and [`rollout`] lets a change through, both as plain functions; the rest sees to it that the hub's
//! Placements have the PlacementDecisions they should have.

pub mod debug;
pub mod gather;
pub mod hub;
pub mod rollout;
pub mod select;
