//! What a cluster is given when it comes: one write instead of one by each controller, which would meet on the same version of
//! the object and try again.

use kube::ResourceExt;
use ocm_api::{cluster::ManagedCluster, finalizers};

use super::{HubOptions, lifecycle, lifecycle::Stand, taints};

/// Whether [`lifecycle`] is about to write to a cluster for the first time: until then others leave it alone.
pub fn is_to_come(cluster: &ManagedCluster, options: &HubOptions) -> bool {
    match lifecycle::stand(Some(cluster), options.auto_accept) {
        Stand::ToAutoAccept => true,
        Stand::Accepted => !has(cluster, finalizers::CLUSTER_API_RESOURCE_CLEANUP),
        Stand::Leaving | Stand::Waiting | Stand::Denied => false,
    }
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
    for finalizer in wanted.into_iter().flatten().filter(|it| !has(cluster, it)) {
        new.finalizers_mut().push(finalizer.to_owned());
    }
    new
}

fn has(cluster: &ManagedCluster, finalizer: &str) -> bool {
    cluster.finalizers().iter().any(|it| it == finalizer)
}
