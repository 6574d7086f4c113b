//! What the reconcilers of an agent have to be allowed besides looking at what they watch, as far as several of them
//! need the same. On the hub a cluster's roles say so ([`crate::hub::rbac`]), on its own cluster the role
//! of its deployment.

use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::rbac::Right;

/// On the hub: our cluster, and how it is reached.
pub(super) const OWN_CLUSTER: Right = Right::new(
    ManagedCluster::GROUP,
    "managedclusters",
    "get update",
    "On the hub: our cluster, and how it is reached.",
);
/// On the hub: how our cluster is.
pub(super) const OWN_STATUS: Right = Right::new(
    ManagedCluster::GROUP,
    "managedclusters/status",
    "patch",
    "On the hub: how our cluster is.",
);
/// On the hub: what happened.
pub(super) const EVENTS: Right = Right::new(
    "events.k8s.io",
    "events",
    "create",
    "On the hub: what happened, in words.",
);
/// What an enrolment writes on both sides, and reads.
pub(super) const ENROLMENT: &[Right] = &[
    Right::new(
        "certificates.k8s.io",
        "certificatesigningrequests",
        "create",
        "On the hub: what is asked for.",
    ),
    Right::new(
        ManagedCluster::GROUP,
        "managedclusters",
        "get",
        "On the hub: since when there is our cluster.",
    ),
    Right::new("", "secrets", "create patch", "On the agent's cluster: its credential."),
];
/// What is told of the cluster, and the namespaces that the hub wants on it.
pub(super) const STATUS: &[Right] = &[
    OWN_STATUS,
    EVENTS,
    Right::new(
        "",
        "namespaces",
        "create get list patch",
        "On the cluster: those that the hub wants.",
    ),
];
