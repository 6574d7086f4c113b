//! ManifestWorkReplicaSets: one work on every cluster of some placements.
//!
//! ```text
//! Placement, PlacementDecision, ManifestWorkReplicaSet          ManifestWork (of all clusters)
//!          |                    |                                 ^          |
//!          +------ works -------+---- makes, changes, removes ----+          v
//!                    |          +---- ControllerRevision: the template    works_by_set: counted by set
//!                    v                                                       |
//!              rollout_status ------------------> status <------------------+
//!                                                   |
//!                                                   v
//!                                  ManifestWorkReplicaSet, its status
//! ```
//!
//! [`works`] and [`status`] are the reconcilers. [`desired_state`], [`cluster_rollout_status`], [`revision`] and
//! [`names`] are the rules, as plain functions.
//!
//! We differ from upstream where its world is not safe (see also `desired_state` and `cluster_rollout_status`):
//!
//! 1. A placement that is missing or cannot be read stops no other; the works that were made for it stay as they are.
//! 2. Works are looked up in an index, compared by fingerprint, and named after their set, so that a cache that lags
//!    cannot make a second one. Works that upstream made are kept, with their names; spare ones of the same set are
//!    removed.
//! 3. A cluster that is chosen by another placement now keeps its work, which only gets another label.
//! 4. While a placement has fewer decisions than it counts, nothing is removed.
//! 5. The set's labels reach its works also when nothing else changes, and what others put on a work stays there.

pub mod cluster_rollout_status;
mod concerned;
pub mod desired_state;
pub mod explain;
pub mod fingerprint;
pub mod names;
mod pace;
pub mod revision;
pub mod rollout_status;
pub mod rounds;
pub mod sharing;
pub mod status;
pub mod status_of_set;
pub mod works;
pub mod works_by_set;
mod writes;
mod written;

#[cfg(test)]
mod model;
