//! Choosing clusters, and letting a change reach the chosen ones.
//!
//! [`rollout`] is one pure module for everybody who rolls something out over the decisions of a placement.

pub mod go_duration;
pub mod rollout;
