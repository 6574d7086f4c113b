//! The add-on governance-policy-framework: Policies on the hub, brought to the clusters that they are bound to, and
//! what becomes of them there.
//!
//! ```text
//! hub, namespace of people           hub, namespace of each cluster        cluster, namespace of the cluster
//!   Policy, PlacementBinding --hub--> Policy (replica) -------cluster----> Policy --> objects of its templates
//!   Policy status <------------hub--- status of the replica <--cluster--- status <--- Events of their controllers
//! ```
//!
//! [`hub`] is the propagator (upstream: governance-policy-propagator), [`cluster`] the agent (upstream:
//! governance-policy-framework-addon). The controllers of the kinds that Policies carry are add-ons of their own.

pub mod addon;
pub mod cluster;
pub mod hub;

use std::{ffi::OsString, process::ExitCode};

use ocm_addon_sdk::program::Place;

/// The name of the add-on.
pub const NAME: &str = cluster::ADD_ON;

/// The names of the programs in the images of both halves.
pub const PROGRAMS: &[&str] = &["governance-policy-framework-addon", "governance-policy-propagator"];

/// Runs one of the programs with its arguments, without its name. `webhooks` answers those of the propagator.
pub fn run(program: &str, arguments: Vec<OsString>, place: &Place, webhooks: &dyn hub::WebhookServer) -> ExitCode {
    if hub::PROGRAMS.contains(&program) {
        hub::run(program, arguments, place, webhooks)
    } else {
        cluster::run(program, arguments, place)
    }
}
