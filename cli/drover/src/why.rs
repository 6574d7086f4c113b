//! Why an object is not where its owner wants it: plain functions from what was seen to sentences, in the order in which
//! the things have to happen. Works have theirs in `work::why`. No sentence means that it waits for nothing.

pub mod cluster_management_add_on;
pub mod cluster_set;
pub mod csr;
pub mod managed_cluster;
pub mod managed_cluster_add_on;
pub mod manifest_work_replica_set;
pub mod placement;
