//! Finalizers: who has to clean up before an object may go.

/// On a ManagedCluster: the hub's permissions for it.
pub const CLUSTER_API_RESOURCE_CLEANUP: &str = "cluster.open-cluster-management.io/api-resource-cleanup";
/// On a ManagedCluster: the works and add-ons in its namespace.
pub const CLUSTER_RESOURCE_CLEANUP: &str = "cluster.open-cluster-management.io/resource-cleanup";
/// On a ManifestWork: what it applied; and on the agent's work RoleBinding, so that the agent may still finish.
pub const MANIFEST_WORK: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
/// On an AppliedManifestWork: what it applied.
pub const APPLIED_MANIFEST_WORK: &str = "cluster.open-cluster-management.io/applied-manifest-work-cleanup";
/// On a ManifestWorkReplicaSet: its works.
pub const MANIFEST_WORK_REPLICA_SET: &str = "work.open-cluster-management.io/manifest-work-cleanup";
/// On a ManagedClusterAddOn: its pre-delete hooks.
pub const ADDON_PRE_DELETE: &str = "addon.open-cluster-management.io/addon-pre-delete";
/// On a ManagedClusterAddOn: its pre-delete hooks on the hosting cluster.
pub const ADDON_HOSTING_PRE_DELETE: &str = "addon.open-cluster-management.io/hosting-addon-pre-delete";
/// On a ManagedClusterAddOn: its manifests on the hosting cluster.
pub const ADDON_HOSTING_MANIFESTS: &str = "addon.open-cluster-management.io/hosting-manifests-cleanup";
/// What older add-on managers put on a ManagedClusterAddOn. Nobody acts on them any more,
/// so whoever edits its finalizers drops them.
pub const ADDON_DEPRECATED: [&str; 3] = [
    "cluster.open-cluster-management.io/addon-pre-delete",
    "cluster.open-cluster-management.io/hosting-addon-pre-delete",
    "cluster.open-cluster-management.io/hosting-manifests-cleanup",
];
