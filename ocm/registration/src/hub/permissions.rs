//! What the hub's reconcilers have to be allowed besides looking at what they watch,
//! as far as several of them need the same.

use ocm_api::{addon, cluster::ManagedCluster, identity, multicluster::ClusterProfile, work};
use ocm_reconcile::rbac::Right;

const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";

/// What a cluster is given: finalizers, annotations, taints, its acceptance.
pub const CLUSTERS: Right = Right::new(
    ManagedCluster::GROUP,
    "managedclusters",
    "patch",
    "What clusters are given.",
);
/// What is said of a cluster.
pub const CLUSTER_STATUS: Right = Right::new(
    ManagedCluster::GROUP,
    "managedclusters/status",
    "patch",
    "What is said of clusters.",
);
/// Telling what happened.
pub const EVENTS: Right = Right::new("events.k8s.io", "events", "create", "What happened, in words.");
/// A namespace for each cluster.
pub const NAMESPACES: Right = Right::new("", "namespaces", "create get patch", "A namespace for each cluster.");
/// The roles of clusters.
pub const ROLES: Right = Right::new(
    RBAC,
    "clusterroles",
    "create delete get patch",
    "The roles of clusters.",
);
/// Roles may grant what the hub may not do itself.
pub const ESCALATE: Right = Right::new(
    RBAC,
    "clusterroles",
    "bind escalate",
    "Clusters are given rights that the hub does not have itself.",
);
/// Who has the roles of clusters.
pub const BINDINGS: Right = Right::new(
    RBAC,
    "clusterrolebindings rolebindings",
    "create delete get patch",
    "Who has the roles of clusters.",
);
/// The works of a cluster that goes, as far as somebody else deletes them.
pub const WORKS: Right = Right::new(
    work::GROUP,
    "manifestworks",
    "list patch",
    "Works of a cluster that goes.",
);
/// The works of a cluster that goes, to delete.
pub const DELETE_WORKS: Right = Right::new(work::GROUP, "manifestworks", "delete", "Works go with their cluster.");
/// The add-ons of a cluster that goes.
pub const ADD_ONS: Right = Right::new(
    addon::GROUP,
    "managedclusteraddons",
    "delete list patch",
    "Add-ons go with their cluster.",
);
/// The heartbeats of clusters.
pub const LEASES: Right = Right::new("coordination.k8s.io", "leases", "create get", "Heartbeats of clusters.");
/// What [`lifecycle`](super::lifecycle) writes.
pub const LIFECYCLE: &[Right] = &[
    CLUSTERS,
    CLUSTER_STATUS,
    NAMESPACES,
    ROLES,
    ESCALATE,
    BINDINGS,
    WORKS,
    EVENTS,
];
/// What [`approval`](super::approval) writes, and asks.
pub const APPROVAL: &[Right] = &[
    CLUSTERS,
    Right::new(
        CERTIFICATES,
        "certificatesigningrequests/approval",
        "update",
        "Requests of agents.",
    ),
    Right::new(CERTIFICATES, "signers", "approve", "Kubernetes' signer.").only(identity::CLIENT_SIGNER),
    Right::new(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
        "Whether a cluster may ask for its certificate again.",
    ),
];
/// What [`garbage`](super::garbage) writes, and lists: the kinds that it deletes by default.
pub const GARBAGE: &[Right] = &[CLUSTERS, CLUSTER_STATUS, WORKS, DELETE_WORKS, ADD_ONS, EVENTS];
/// What [`cluster_profiles`](super::cluster_profiles) writes.
pub const PROFILES: &[Right] = &[
    Right::new(
        ClusterProfile::GROUP,
        "clusterprofiles",
        "create delete patch",
        "Clusters as others know them,",
    ),
    Right::new(
        ClusterProfile::GROUP,
        "clusterprofiles/status",
        "patch",
        "and how they are.",
    ),
    Right::new("", "namespaces", "get", "Where profiles can be made."),
];
