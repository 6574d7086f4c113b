//! What the hub tells about an add-on that it offers, as Events.

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::addon::v1alpha1::{AddOnTemplate, ClusterManagementAddOn};
use ocm_reconcile::{EventKind, EventStep, Site, Step};
use serde_json::{Value, json};

/// That the add-on was removed from clusters because placements of it are gone.
pub fn placement_not_found(offer: &ClusterManagementAddOn, placements: &str, removed: usize, now: Timestamp) -> Step {
    let note = format!("There is no placement {placements}; the add-on is removed from {removed} clusters.");
    warning(offer, None, ("PlacementNotFound", "Uninstall"), note, now)
}

/// That a template is used for the add-on and names another one.
pub fn name_mismatch(offer: &ClusterManagementAddOn, template: &str, named: &str, now: Timestamp) -> Step {
    let related = json!({
        "apiVersion": AddOnTemplate::API_VERSION,
        "kind": AddOnTemplate::KIND,
        "name": template,
    });
    let note = format!(
        "The AddOnTemplate {template} has addonName {named:?} and is used for add-on {}; write the add-on's name into it, or another \
         template into the add-on's configuration.",
        offer.name_any()
    );
    warning(offer, Some(related), ("AddOnNameMismatch", "Render"), note, now)
}

fn warning(
    offer: &ClusterManagementAddOn,
    related: Option<Value>,
    (reason, action): (&str, &str),
    note: String,
    now: Timestamp,
) -> Step {
    Step::Event(EventStep {
        site: Site::Hub,
        // Where Kubernetes files events about what has no namespace.
        namespace: "default".to_owned(),
        regarding: json!({
            "apiVersion": ClusterManagementAddOn::API_VERSION,
            "kind": ClusterManagementAddOn::KIND,
            "name": offer.metadata.name,
            "uid": offer.metadata.uid,
        }),
        related,
        kind: EventKind::Warning,
        reason: reason.to_owned(),
        action: action.to_owned(),
        note,
        reporting_controller: "addon-manager".to_owned(),
        at: now,
    })
}
