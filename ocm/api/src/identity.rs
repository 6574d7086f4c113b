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

/// The user of an add-on's agent that proves itself with a token: the ServiceAccount `<add-on>-agent`
/// in the cluster's namespace.
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

/// Whether this is one of the identities that a hub gives out for its clusters: an agent, an agent of an add-on, or, of
/// `cluster` itself, one that an identity provider or a token speaks for. Nobody else has users and groups of these
/// names; the hub itself has a name that begins alike.
pub fn is_of_cluster(cluster: &str, user: &str, groups: &[String]) -> bool {
    let is_user = user.strip_prefix(SUBJECT_PREFIX).is_some_and(|it| it.contains(':'));
    let is_group = |it: &String| {
        let own = it
            .strip_prefix(SUBJECT_PREFIX)
            .is_some_and(|it| it == cluster || it.contains(':'));
        own || *it == MANAGED_CLUSTERS_GROUP || *it == cluster_external_group(cluster)
    };
    let account = user.strip_prefix("system:serviceaccount:");
    let account = account.and_then(|it| it.strip_prefix(cluster)?.strip_prefix(':'));
    is_user || groups.iter().any(is_group) || account.is_some_and(|it| it.ends_with("-agent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_of_a_cluster_are_recognised_by_their_names() {
        let is = |user: &str, groups: &[&str]| {
            let groups: Vec<String> = groups.iter().map(|it| (*it).to_owned()).collect();
            is_of_cluster("cluster1", user, &groups)
        };
        assert!(is(&agent_user("cluster1", "a"), &[]));
        assert!(is("jane", &[&cluster_group("cluster1")]));
        assert!(is("jane", &[MANAGED_CLUSTERS_GROUP]));
        assert!(is("jane", &[&addon_cluster_group("cluster1", "greeter")]));
        assert!(is("jane", &["open-cluster-management:cluster1"]));
        assert!(is(
            &addon_service_account("cluster1", "greeter"),
            &["system:serviceaccounts"]
        ));
        assert!(!is("jane", &["system:masters", "open-cluster-management:admins"]));
        assert!(is("jane", &[&addon_group("greeter")]));
        assert!(!is("system:open-cluster-management:hub", &["system:masters"]));
        assert!(!is(&addon_service_account("cluster10", "greeter"), &[]));
        assert!(!is("system:serviceaccount:open-cluster-management-hub:drover-hub", &[]));
    }
}
