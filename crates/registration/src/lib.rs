//! Joining, accepting, heartbeats, claims, cluster sets: the conversation between a hub and the clusters it manages.
//!
//! [`hub`] is the half that runs beside the API of the hub; [`admission`]
//! are the rules that everyone meets who writes there, as plain functions.

pub mod admission;
pub mod hub;

mod status;
