//! Group `work.open-cluster-management.io`: manifests on their way to clusters.

mod applied_manifest_work;
mod manifest_work;
mod manifest_work_replica_set;
pub mod manifests;

pub use applied_manifest_work::*;
pub use manifest_work::*;
pub use manifest_work_replica_set::*;
pub use manifests::Manifests;

/// The API group.
pub const GROUP: &str = "work.open-cluster-management.io";
