//! Group `cluster.open-cluster-management.io`: clusters, the sets they form, what they say about themselves,
//! and how they are chosen.

mod add_on_placement_score;
mod cluster_claim;
mod managed_cluster;
mod managed_cluster_set;
mod managed_cluster_set_binding;
mod membership;
mod placement;
mod placement_decision;
mod rollout;

pub use add_on_placement_score::*;
pub use cluster_claim::*;
pub use managed_cluster::*;
pub use managed_cluster_set::*;
pub use managed_cluster_set_binding::*;
pub use membership::*;
pub use placement::*;
pub use placement_decision::*;
pub use rollout::*;

/// The API group.
pub const GROUP: &str = "cluster.open-cluster-management.io";
