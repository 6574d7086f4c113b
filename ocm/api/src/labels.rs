//! Label keys and the few fixed label values.

/// On CSRs, namespaces, RBAC objects and leases of a cluster: its name.
pub const CLUSTER_NAME: &str = "open-cluster-management.io/cluster-name";
/// On CSRs and objects of an add-on: its name.
pub const ADDON_NAME: &str = "open-cluster-management.io/addon-name";
/// On the Secrets that the agent writes for an add-on's agent: the add-on's name. Ours; upstream keeps no such record
/// and forgets, when it is restarted, what it has to clean up.
pub const ADDON_CREDENTIAL: &str = "registration.open-cluster-management.io/addon-credential";
/// On a ManagedCluster: the exclusive set it belongs to.
pub const CLUSTER_SET: &str = "cluster.open-cluster-management.io/clusterset";
/// On ClusterClaims and ClusterProperties that stay on their cluster.
pub const SPOKE_ONLY: &str = "open-cluster-management.io/spoke-only";
/// Prefix, followed by the first 63 characters of the hub hash, on namespaces that a cluster set manages;
/// value `true` or `false`.
pub const MANAGED_NAMESPACE_PREFIX: &str = "clusterset.open-cluster-management.io/";
/// Prefix, followed by the add-on's name, on a ManagedCluster that has the add-on.
pub const FEATURE_ADDON_PREFIX: &str = "feature.open-cluster-management.io/addon-";
/// On a PlacementDecision: the placement it belongs to.
pub const PLACEMENT: &str = "cluster.open-cluster-management.io/placement";
/// On a PlacementDecision: the index of its decision group.
pub const DECISION_GROUP_INDEX: &str = "cluster.open-cluster-management.io/decision-group-index";
/// On a PlacementDecision: the name of its decision group.
pub const DECISION_GROUP_NAME: &str = "cluster.open-cluster-management.io/decision-group-name";
/// On a ManifestWork made by a ManifestWorkReplicaSet: `<namespace>.<name>` of the latter.
pub const MANIFEST_WORK_REPLICA_SET: &str = "work.open-cluster-management.io/manifestworkreplicaset";
/// On a ManifestWork made by a ManifestWorkReplicaSet: the placement that chose the cluster.
pub const MANIFEST_WORK_PLACEMENT: &str = "work.open-cluster-management.io/placementname";
/// On a ClusterProfile: who manages it.
pub const CLUSTER_MANAGER: &str = "x-k8s.io/cluster-manager";
/// On a ClusterProfile: the set its cluster belongs to.
pub const PROFILE_CLUSTER_SET: &str = "multicluster.x-k8s.io/clusterset";
/// On works of a hosted add-on: the namespace of its ManagedClusterAddOn.
pub const ADDON_NAMESPACE: &str = "open-cluster-management.io/addon-namespace";
/// `"true"` on a namespace that wants copies of the pull secret and the TLS profile.
pub const ADDON_WANTS_COPIES: &str = "addon.open-cluster-management.io/namespace";
/// On the RBAC objects of an AddOnTemplate.
pub const ADDON_TEMPLATE_NAME: &str = "open-cluster-management.io/addon-template-name";
/// On the objects that let an add-on's agent in with a token: the add-on's name.
pub const ADDON_TOKEN_NAME: &str = "addon.open-cluster-management.io/name";
/// `"true"` on the same objects.
pub const ADDON_TOKEN_INFRASTRUCTURE: &str = "addon.open-cluster-management.io/token-infrastructure";
