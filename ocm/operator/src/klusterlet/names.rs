//! The names of an agent's objects: upstream's, so that its operator and ours find each other's.

/// On a Klusterlet: there is something to remove before it may go.
pub const FINALIZER: &str = "operator.open-cluster-management.io/klusterlet-cleanup";
/// On a Klusterlet whose managed cluster is another one: there is something to remove there, too.
pub const HOSTED_FINALIZER: &str = "operator.open-cluster-management.io/klusterlet-hosted-cleanup";
/// On a Klusterlet that is being deleted: since when its managed cluster could not be reached (RFC 3339).
pub const EVICTION_TIMESTAMP: &str = "operator.open-cluster-management.io/managed-resources-eviction-timestamp";
/// On the namespace of an agent: the name of its Klusterlet.
pub const NAMESPACE_LABEL: &str = "operator.open-cluster-management.io/klusterlet";
/// On everything that is made for a Klusterlet: its name.
pub const CREATED_BY: &str = "open-cluster-management.io/created-by-klusterlet";
/// Labels that begin so are ours to set, and are not copied from a Klusterlet.
pub const RESERVED_PREFIX: &str = "open-cluster-management.io";
/// Makes a ClusterRole part of what works may contain.
pub const AGGREGATED: &str = "open-cluster-management.io/aggregate-to-work";

/// The kubeconfig of a managed cluster that is another one.
pub const EXTERNAL: &str = "external-managed-kubeconfig";
/// The same with the rights of the registration agent.
pub const EXTERNAL_REGISTRATION: &str = "external-managed-kubeconfig-registration";
/// The same with the rights of the work agent.
pub const EXTERNAL_WORK: &str = "external-managed-kubeconfig-work";
/// The same with the rights of an agent that is one Deployment.
pub const EXTERNAL_AGENT: &str = "external-managed-kubeconfig-agent";
/// All that are made of the first.
pub const DERIVED: [&str; 3] = [EXTERNAL_REGISTRATION, EXTERNAL_WORK, EXTERNAL_AGENT];

/// What TLS is spoken with, in the operator's namespace.
pub const TLS_PROFILE: &str = "ocm-tls-profile";

/// The registration agent alone.
pub fn registration_agent(klusterlet: &str) -> String {
    format!("{klusterlet}-registration-agent")
}

/// The work agent alone.
pub fn work_agent(klusterlet: &str) -> String {
    format!("{klusterlet}-work-agent")
}

/// Both in one.
pub fn agent(klusterlet: &str) -> String {
    format!("{klusterlet}-agent")
}

/// Who the registration agent is, where it is a Deployment of its own.
pub fn registration_account(klusterlet: &str) -> String {
    format!("{klusterlet}-registration-sa")
}

/// Who the work agent is, and an agent that is one Deployment.
pub fn work_account(klusterlet: &str) -> String {
    format!("{klusterlet}-work-sa")
}

/// A role on the managed cluster.
pub fn managed_role(klusterlet: &str, of: &str) -> String {
    format!("open-cluster-management:{klusterlet}-{of}")
}

/// A role on the cluster that the agent's pods run on.
pub fn management_role(klusterlet: &str, of: &str) -> String {
    format!("open-cluster-management:management:{klusterlet}{of}")
}
