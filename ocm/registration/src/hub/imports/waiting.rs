//! Which clusters wait for an import, and what is said of them.

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{cluster::ManagedCluster, condition};
use ocm_reconcile::{EventKind, EventStep, Site, Step};
use serde_json::json;

use super::NOT_THERE;
use crate::status;

/// Where a cluster says which Cluster of Cluster API it is.
pub(super) const OWNER: &str = "cluster.x-k8s.io/cluster";
/// What is said of a cluster that was imported.
pub(super) const IMPORTED: &str = "ManagedClusterImportSucceeded";

/// The Cluster of Cluster API that a cluster would be.
pub(super) fn owner(cluster: &ManagedCluster) -> String {
    let name = cluster.name_any();
    let named = cluster.annotations().get(OWNER).filter(|it| it.contains('/'));
    named.cloned().unwrap_or_else(|| format!("{name}/{name}"))
}

/// Whether nobody has imported it, and somebody should.
pub(super) fn waits(cluster: &ManagedCluster) -> bool {
    cluster.metadata.deletion_timestamp.is_none() && !condition::is_true(status::conditions(cluster), IMPORTED)
}

/// What is said of one that waits.
pub(super) fn event(cluster: &ManagedCluster, owner: &str, now: Timestamp) -> Step {
    Step::Event(EventStep {
        site: Site::Hub,
        // Where Kubernetes files events about what has no namespace; the cluster's own is made when it is accepted.
        namespace: "default".to_owned(),
        regarding: json!({
            "apiVersion": ManagedCluster::API_VERSION,
            "kind": ManagedCluster::KIND,
            "name": cluster.metadata.name,
            "uid": cluster.metadata.uid,
        }),
        related: None,
        kind: EventKind::Warning,
        reason: "ClusterImporterNotThere".to_owned(),
        action: "Import".to_owned(),
        note: format!("The Cluster {owner} is not imported: {NOT_THERE}."),
        reporting_controller: "registration-controller".to_owned(),
        at: now,
    })
}
