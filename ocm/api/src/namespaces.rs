//! Namespaces and other fixed object names.

/// Where the hub's components live.
pub const HUB: &str = "open-cluster-management-hub";
/// Where the agent lives on a cluster.
pub const AGENT: &str = "open-cluster-management-agent";
/// Where add-on agents live on a cluster.
pub const AGENT_ADDON: &str = "open-cluster-management-agent-addon";
/// Where the operators live, and the bootstrap material of the hub.
pub const OPERATOR: &str = "open-cluster-management";

/// The agent's heartbeat: a Lease in the cluster's namespace on the hub.
pub const CLUSTER_LEASE: &str = "managed-cluster-lease";
/// The agent's credential on its own cluster.
pub const HUB_KUBECONFIG_SECRET: &str = "hub-kubeconfig-secret";
/// The credential a cluster joins with.
pub const BOOTSTRAP_KUBECONFIG_SECRET: &str = "bootstrap-hub-kubeconfig";
/// The credential that images of the agent and of add-ons are pulled with, where one is needed.
pub const PULL_SECRET: &str = "open-cluster-management-image-pull-credentials";
/// The set of clusters that name no set.
pub const DEFAULT_CLUSTER_SET: &str = "default";
/// The set of all clusters.
pub const GLOBAL_CLUSTER_SET: &str = "global";
/// The field manager of applied works.
pub const WORK_FIELD_MANAGER: &str = "work-agent";
/// What the hub calls itself in ClusterProfiles.
pub const CLUSTER_PROFILE_MANAGER: &str = "open-cluster-management";
