//! The kinds the CLI reads and writes, as dynamic resources: what a user sees with `-o yaml` is then the whole object,
//! with the fields that a newer hub has and this binary does not know.

use kube::core::{ApiResource, GroupVersionKind};

/// The group of everything about add-ons.
const ADD_ONS: &str = "addon.open-cluster-management.io";

fn kind(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// cluster.open-cluster-management.io/v1 ManagedCluster
pub fn managed_cluster() -> ApiResource {
    kind(
        "cluster.open-cluster-management.io",
        "v1",
        "ManagedCluster",
        "managedclusters",
    )
}

/// cluster.open-cluster-management.io/v1beta2 ManagedClusterSet
pub fn managed_cluster_set() -> ApiResource {
    kind(
        "cluster.open-cluster-management.io",
        "v1beta2",
        "ManagedClusterSet",
        "managedclustersets",
    )
}

/// policy.open-cluster-management.io/v1 Policy
pub fn policy() -> ApiResource {
    kind("policy.open-cluster-management.io", "v1", "Policy", "policies")
}

/// apps.open-cluster-management.io/v1 Channel
pub fn channel() -> ApiResource {
    kind("apps.open-cluster-management.io", "v1", "Channel", "channels")
}

/// apps.open-cluster-management.io/v1 Subscription
pub fn subscription() -> ApiResource {
    kind("apps.open-cluster-management.io", "v1", "Subscription", "subscriptions")
}

/// apps.open-cluster-management.io/v1alpha1 SubscriptionReport
pub fn subscription_report() -> ApiResource {
    kind(
        "apps.open-cluster-management.io",
        "v1alpha1",
        "SubscriptionReport",
        "subscriptionreports",
    )
}

/// cluster.open-cluster-management.io/v1beta2 ManagedClusterSetBinding
pub fn managed_cluster_set_binding() -> ApiResource {
    kind(
        "cluster.open-cluster-management.io",
        "v1beta2",
        "ManagedClusterSetBinding",
        "managedclustersetbindings",
    )
}

/// cluster.open-cluster-management.io/v1beta1 Placement
pub fn placement() -> ApiResource {
    kind(
        "cluster.open-cluster-management.io",
        "v1beta1",
        "Placement",
        "placements",
    )
}

/// work.open-cluster-management.io/v1 ManifestWork
pub fn manifest_work() -> ApiResource {
    kind("work.open-cluster-management.io", "v1", "ManifestWork", "manifestworks")
}

/// work.open-cluster-management.io/v1alpha1 ManifestWorkReplicaSet
pub fn manifest_work_replica_set() -> ApiResource {
    kind(
        "work.open-cluster-management.io",
        "v1alpha1",
        "ManifestWorkReplicaSet",
        "manifestworkreplicasets",
    )
}

/// addon.open-cluster-management.io/v1alpha1 ClusterManagementAddOn, in the version that is stored
pub fn cluster_management_add_on() -> ApiResource {
    kind(ADD_ONS, "v1alpha1", "ClusterManagementAddOn", "clustermanagementaddons")
}

/// addon.open-cluster-management.io/v1alpha1 ManagedClusterAddOn, in the version that is stored
pub fn managed_cluster_add_on() -> ApiResource {
    kind(ADD_ONS, "v1alpha1", "ManagedClusterAddOn", "managedclusteraddons")
}

/// addon.open-cluster-management.io/v1alpha1 AddOnTemplate
pub fn add_on_template() -> ApiResource {
    kind(ADD_ONS, "v1alpha1", "AddOnTemplate", "addontemplates")
}

/// coordination.k8s.io/v1 Lease
pub fn lease() -> ApiResource {
    kind("coordination.k8s.io", "v1", "Lease", "leases")
}

/// v1 Namespace
pub fn namespace() -> ApiResource {
    kind("", "v1", "Namespace", "namespaces")
}

/// The label of everything on the hub that belongs to one cluster.
pub const CLUSTER_NAME_LABEL: &str = "open-cluster-management.io/cluster-name";
/// The label of what belongs to an add-on of a cluster.
pub const ADDON_NAME_LABEL: &str = "open-cluster-management.io/addon-name";
/// The label that puts a cluster into its set.
pub const CLUSTER_SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";
