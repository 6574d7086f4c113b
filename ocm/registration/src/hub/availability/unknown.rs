//! Saying of a cluster that nobody knows how it is.

use jiff::Timestamp;
use ocm_api::{
    cluster::ManagedCluster,
    condition::{self, Status, wanted},
    conditions::managed_cluster::{self, reason},
};
use ocm_reconcile::{EventKind, EventStep, Plan, Site, Step};

use crate::status;

/// Says so once, and tells those who watch events.
pub fn say(plan: &mut Plan, cluster: &ManagedCluster, now: Timestamp) {
    if condition::status(status::conditions(cluster), managed_cluster::AVAILABLE) == Some(Status::Unknown) {
        return;
    }
    let update = wanted(
        managed_cluster::AVAILABLE,
        Status::Unknown,
        reason::LEASE_UPDATE_STOPPED,
        "Registration agent stopped updating its lease.",
    );
    plan.status(Site::Hub, cluster, &status::saying(cluster, update, now));
    plan.stage();
    let name = cluster.metadata.name.clone().unwrap_or_default();
    plan.push(Step::Event(EventStep {
        site: Site::Hub,
        namespace: name.clone(),
        regarding: status::regarding(cluster),
        related: None,
        kind: EventKind::Warning,
        reason: "AvailableUnknown".to_owned(),
        action: "AvailableUnknown".to_owned(),
        note: format!(
            "The {name} is successfully imported. However, the connection check from the managed cluster to the hub cluster \
             has failed"
        ),
        reporting_controller: "registration-controller".to_owned(),
        at: now,
    }));
}
