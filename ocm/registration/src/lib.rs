//! Joining, accepting, heartbeats, claims, cluster sets: the conversation between a hub and the clusters it manages.
//!
//! [`hub`] is the half that runs beside the API of the hub, [`agent`] the half that runs for each managed cluster;
//! [`admission`] are the rules that everyone meets who writes to the hub, as plain functions.

pub mod admission;
pub mod agent;
pub mod hub;

mod api_reader;
mod status;
