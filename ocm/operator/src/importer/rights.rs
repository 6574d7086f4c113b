//! What the importer has to be allowed on the hub besides looking at what it watches.

use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::rbac::Right;

/// All of it.
pub const RIGHTS: &[Right] = &[
    Right::new(
        ManagedCluster::GROUP,
        "managedclusters/status",
        "patch",
        "Whether clusters are imported.",
    ),
    Right::new("events.k8s.io", "events", "create", "What happened, in words."),
    Right::new("", "secrets", "get", "Kubeconfigs, and what images are pulled with."),
    Right::new("", "secrets", "delete", "A kubeconfig that is to be used once.").only(super::source::SECRET),
    Right::new("", "configmaps", "get", "Where the hub is.").only("cluster-info kube-root-ca.crt"),
    Right::new("", "serviceaccounts/token", "create", "What clusters join with.").only("agent-registration-bootstrap"),
];
