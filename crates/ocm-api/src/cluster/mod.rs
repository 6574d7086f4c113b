//! Group `cluster.open-cluster-management.io`: clusters, the sets they form, and what they say about themselves.

mod cluster_claim;
mod managed_cluster;
mod managed_cluster_set;
mod managed_cluster_set_binding;

pub use cluster_claim::*;
pub use managed_cluster::*;
pub use managed_cluster_set::*;
pub use managed_cluster_set_binding::*;

/// The API group.
pub const GROUP: &str = "cluster.open-cluster-management.io";
