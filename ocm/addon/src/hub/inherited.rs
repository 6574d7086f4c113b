//! Which annotations an add-on has from its cluster: those that start with `addon.open-cluster-management.io`. Upstream
//! makes the annotations of this prefix equal to the cluster's, and so removes what a user has said about the add-on
//! itself (`values`, the hosting cluster, the namespace) whenever the cluster's annotations change. We write down which
//! ones came from the cluster and remove only those. What the cluster says still wins over what the add-on says.

use std::collections::BTreeSet;

use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, annotations, cluster::ManagedCluster};

/// The cluster's annotations that its add-ons have too.
pub fn of(cluster: &ManagedCluster) -> impl Iterator<Item = (&String, &String)> {
    let all = cluster.metadata.annotations.iter().flatten();
    all.filter(|(key, _)| key.starts_with(annotations::ADDON_PREFIX))
}

/// Gives an add-on what its cluster says now, and takes away what the cluster said before.
pub fn hand_over(cluster: &ManagedCluster, addon: &mut ManagedClusterAddOn) {
    let mut own = addon.metadata.annotations.take().unwrap_or_default();
    let before = own.remove(annotations::ADDON_FROM_CLUSTER).unwrap_or_default();
    let now: BTreeSet<&str> = of(cluster).map(|(key, _)| key.as_str()).collect();
    for key in before.split(',').filter(|it| !it.is_empty() && !now.contains(it)) {
        own.remove(key);
        if key == annotations::ADDON_INSTALL_NAMESPACE {
            // The API server fills in the default.
            addon.spec.install_namespace.clear();
        }
    }
    for (key, value) in of(cluster) {
        // Who reads v1beta1 sees this one as an annotation; it is kept in the spec.
        if key == annotations::ADDON_INSTALL_NAMESPACE {
            addon.spec.install_namespace.clone_from(value);
        } else {
            own.insert(key.clone(), value.clone());
        }
    }
    if !now.is_empty() {
        let list = now.into_iter().collect::<Vec<_>>().join(",");
        own.insert(annotations::ADDON_FROM_CLUSTER.to_owned(), list);
    }
    addon.metadata.annotations = (!own.is_empty()).then_some(own);
}
