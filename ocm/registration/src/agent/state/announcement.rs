//! A change of availability is worth an event, in upstream's words and spelling.

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    cluster::ManagedCluster,
    condition::{self, Status},
    conditions::managed_cluster,
};
use ocm_reconcile::{EventKind, EventStep, Plan, Site, Step};

use crate::status;

/// Tells of it, if there is one.
pub(super) fn announce(old: &ManagedCluster, new: &ManagedCluster, now: Timestamp, plan: &mut Plan) {
    let before = condition::status(status::conditions(old), managed_cluster::AVAILABLE);
    let after = condition::status(status::conditions(new), managed_cluster::AVAILABLE);
    let name = new.name_any();
    let (kind, reason, note) = match after {
        _ if before == after => return,
        Some(Status::True) => (
            EventKind::Normal,
            "Available",
            format!(
                "The {name} is successfully imported, and it is managed by the hub cluster. Its apieserver is available"
            ),
        ),
        Some(Status::False) => (
            EventKind::Warning,
            "Unavailable",
            format!("The {name} is successfully imported. However, its Kube API server is unavailable"),
        ),
        _ => return,
    };
    plan.stage();
    plan.push(Step::Event(EventStep {
        site: Site::Hub,
        namespace: name,
        regarding: status::regarding(new),
        related: None,
        kind,
        reason: reason.to_owned(),
        action: reason.to_owned(),
        note,
        reporting_controller: "klusterlet-agent".to_owned(),
        at: now,
    }));
}
