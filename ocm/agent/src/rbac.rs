//! What an agent may do on its cluster for itself: the ClusterRole of its deployment, which the chart in `deploy/` has
//! from here, and beside it what works may contain by default.

use ocm_reconcile::rbac::Right;

/// The name of the ClusterRole.
pub const ROLE: &str = "open-cluster-management:drover-agent";
/// The ServiceAccount that has it, in the agent's namespace.
pub const SERVICE_ACCOUNT: &str = "drover-agent";

/// All of it.
pub const RIGHTS: &[Right] = &[
    Right::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "create get list patch watch",
        "OCM's kinds on a cluster; those that somebody else made are left as they are.",
    ),
    Right::new(
        "",
        "namespaces",
        "create get list patch watch",
        "Its own, and that of add-ons.",
    ),
    Right::new(
        "",
        "secrets",
        "create delete get list patch watch",
        "Its credential, and those of add-ons in their namespaces.",
    ),
    Right::new("", "nodes", "list watch", "What the cluster has room for."),
    Right::new(
        "cluster.open-cluster-management.io",
        "clusterclaims",
        "list watch",
        "What the cluster says of itself.",
    ),
    Right::new(
        "work.open-cluster-management.io",
        "appliedmanifestworks",
        "create delete get list patch watch",
        "What it has applied,",
    ),
    Right::new(
        "work.open-cluster-management.io",
        "appliedmanifestworks/status",
        "patch",
        "and which objects.",
    ),
    Right::new(
        "coordination.k8s.io",
        "leases",
        "delete get list watch",
        "Signs of life of add-ons' agents.",
    ),
    Right::new(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
        "Whether the executor of a work may do what it says,",
    ),
    Right::new(
        "rbac.authorization.k8s.io",
        "clusterrolebindings clusterroles rolebindings roles",
        "list watch",
        "when the answer may have become another,",
    ),
    Right::new(
        "",
        "serviceaccounts",
        "impersonate",
        "and grant what it says: it is tried in the executor's name, as upstream does.",
    ),
];

/// The name of the ClusterRole of what works may contain beside the built-in role `admin` in every namespace:
/// upstream's `...-work:execution`. With the label of [`AGGREGATED`] it is one of those
/// that make up what the agent may do for works.
pub const EXECUTION_ROLE: &str = "open-cluster-management:drover-agent:execution";
/// The label that makes a ClusterRole part of what works may contain.
pub const AGGREGATED: &str = "open-cluster-management.io/aggregate-to-work";

const ALL: &str = "create delete get list patch update watch";

/// What works mostly contain, as upstream has it. Two things are more than there: definitions may be patched, because
/// we apply, and what a work has made may always be deleted.
pub const EXECUTION: &[Right] = &[
    Right::new("apiextensions.k8s.io", "customresourcedefinitions", ALL, "Kinds."),
    Right::new("", "namespaces", ALL, "Namespaces."),
    Right::new(
        "rbac.authorization.k8s.io",
        "clusterrolebindings rolebindings",
        ALL,
        "Bindings,",
    ),
    Right::new(
        "rbac.authorization.k8s.io",
        "clusterroles roles",
        "bind create delete escalate get list patch update watch",
        "and roles with any rights: those that agents of add-ons need are not known beforehand.",
    ),
    Right::new("scheduling.k8s.io", "priorityclasses", ALL, "Priorities of pods."),
    Right::new(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
        ALL,
        "Webhooks.",
    ),
    Right::new("monitoring.coreos.com", "servicemonitors", ALL, "Metrics of add-ons."),
    Right::new(
        "oauth.openshift.io",
        "oauthclients",
        ALL,
        "Clients of OpenShift's OAuth.",
    ),
];
