//! Who is who: users, groups, signers and the names of the RBAC objects that let a cluster in.

/// Prefix of users and groups that OCM makes.
pub const SUBJECT_PREFIX: &str = "system:open-cluster-management:";
/// The group of all agents.
pub const MANAGED_CLUSTERS_GROUP: &str = "system:open-cluster-management:managed-clusters";
/// The signer of agents' client certificates.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The signer of agents' certificates on the gRPC transport.
pub const GRPC_SIGNER: &str = "open-cluster-management.io/grpc";
/// The virtual API group of the rights to accept a cluster and to renew a certificate.
pub const REGISTER_GROUP: &str = "register.open-cluster-management.io";
/// The agent's registration ClusterRole on the hub.
pub const REGISTRATION_CLUSTER_ROLE: &str = "open-cluster-management:managedcluster:registration";
/// The agent's work ClusterRole on the hub.
pub const WORK_CLUSTER_ROLE: &str = "open-cluster-management:managedcluster:work";

/// The group of a cluster's agents: `system:open-cluster-management:<cluster>`.
pub fn cluster_group(cluster: &str) -> String {
    format!("{SUBJECT_PREFIX}{cluster}")
}

/// The same group without `system:`, which identity providers may issue.
pub fn cluster_external_group(cluster: &str) -> String {
    format!("open-cluster-management:{cluster}")
}

/// The user of one agent of a cluster: `system:open-cluster-management:<cluster>:<agent>`.
pub fn agent_user(cluster: &str, agent: &str) -> String {
    format!("{SUBJECT_PREFIX}{cluster}:{agent}")
}

/// The group of an add-on's agents on one cluster: `system:open-cluster-management:cluster:<cluster>:addon:<add-on>`.
pub fn addon_cluster_group(cluster: &str, addon: &str) -> String {
    format!("{SUBJECT_PREFIX}cluster:{cluster}:addon:{addon}")
}

/// The group of an add-on's agents on all clusters: `system:open-cluster-management:addon:<add-on>`.
pub fn addon_group(addon: &str) -> String {
    format!("{SUBJECT_PREFIX}addon:{addon}")
}

/// The user of an add-on's agent: `system:open-cluster-management:cluster:<cluster>:addon:<add-on>:agent:<agent>`.
pub fn addon_user(cluster: &str, addon: &str, agent: &str) -> String {
    format!("{SUBJECT_PREFIX}cluster:{cluster}:addon:{addon}:agent:{agent}")
}

/// The user of an add-on's agent that proves itself with a token: the ServiceAccount `<add-on>-agent` in the cluster's namespace.
pub fn addon_service_account(cluster: &str, addon: &str) -> String {
    format!("system:serviceaccount:{cluster}:{addon}-agent")
}

/// The ClusterRole and ClusterRoleBinding of one cluster.
pub fn cluster_role(cluster: &str) -> String {
    format!("open-cluster-management:managedcluster:{cluster}")
}

/// The RoleBinding to [`REGISTRATION_CLUSTER_ROLE`] in the cluster's namespace.
pub fn registration_role_binding(cluster: &str) -> String {
    format!("open-cluster-management:managedcluster:{cluster}:registration")
}

/// The RoleBinding to [`WORK_CLUSTER_ROLE`] in the cluster's namespace.
pub fn work_role_binding(cluster: &str) -> String {
    format!("open-cluster-management:managedcluster:{cluster}:work")
}
