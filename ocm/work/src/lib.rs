//! Manifests to clusters, status back: ManifestWorks, AppliedManifestWorks and ManifestWorkReplicaSets.
//!
//! ```text
//! hub                                                            managed cluster
//!
//! Placement, PlacementDecision
//! ManifestWorkReplicaSet
//!    | hub::replica_set::works makes, changes and removes
//!    v
//! ManifestWork, its spec ----------------------------------------> agent::manifest_works
//!    |      ^  its status <------------------------------------------ |          ^
//!    |      | hub::completed removes what is complete                 v          |
//!    v                                     AppliedManifestWork: what was applied |
//! hub::replica_set::status                                            |          |
//!    | sums up                                                        v          |
//!    v                                            the objects of the manifests --+
//! ManifestWorkReplicaSet, its status
//! ```
//!
//! [`hub::admission`] says which works an API server takes, [`why`] what a work waits for, in sentences.

pub mod agent;
pub mod hub;
pub mod why;
