//! What an agent may do on its cluster for itself: the ClusterRole of its deployment, which the chart in `deploy/` has from
//! here. What works may contain is given beside it.

use ocm_reconcile::rights::Right;

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
        "",
        "serviceaccounts",
        "impersonate",
        "and grant what it says: it is tried in the executor's name, as upstream does.",
    ),
];
