//! What a cluster is given when it comes: one write instead of one by each controller, which would meet on the same
//! version of the object and try again.

use kube::ResourceExt;
use ocm_api::{cluster::ManagedCluster, finalizers};

use super::{
    HubOptions,
    lifecycle::acceptance::{Acceptance, acceptance},
    taints,
};

/// Whether [`lifecycle`](super::lifecycle) is about to write to a cluster for the first time:
/// until then others leave it alone.
pub fn is_to_come(cluster: &ManagedCluster, options: &HubOptions) -> bool {
    match acceptance(Some(cluster), options.auto_accept) {
        Acceptance::ToAutoAccept => true,
        Acceptance::Accepted => !has_come(cluster),
        Acceptance::Leaving | Acceptance::Waiting | Acceptance::Denied => false,
    }
}

/// Whether that was done.
pub fn has_come(cluster: &ManagedCluster) -> bool {
    holds(cluster, finalizers::CLUSTER_API_RESOURCE_CLEANUP)
}

/// The cluster with everything that it is given.
pub fn given(cluster: &ManagedCluster, options: &HubOptions) -> ManagedCluster {
    let mut new = taints::put_right(cluster);
    let wanted = [
        options
            .garbage
            .is_some()
            .then_some(finalizers::CLUSTER_RESOURCE_CLEANUP),
        Some(finalizers::CLUSTER_API_RESOURCE_CLEANUP),
    ];
    for finalizer in wanted.into_iter().flatten().filter(|it| !holds(cluster, it)) {
        new.finalizers_mut().push(finalizer.to_owned());
    }
    new
}

/// Whether it has this finalizer.
pub fn holds(cluster: &ManagedCluster, finalizer: &str) -> bool {
    cluster.finalizers().iter().any(|it| it == finalizer)
}
