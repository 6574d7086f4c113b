//! What a user has to know of an add-on on a cluster, as an Event of the hub.

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::addon::v1alpha1::ManagedClusterAddOn;
use ocm_reconcile::{EventKind, EventStep, Site, Step};
use serde_json::json;

/// An Event of type Warning at the add-on, in the namespace of its cluster. `action` is what was being done, as
/// `events.k8s.io/v1` means it.
pub(crate) fn warning(addon: &ManagedClusterAddOn, reason: &str, action: &str, note: String, at: Timestamp) -> Step {
    let namespace = addon.namespace().unwrap_or_default();
    Step::Event(EventStep {
        site: Site::Hub,
        regarding: json!({
            "apiVersion": ManagedClusterAddOn::API_VERSION,
            "kind": ManagedClusterAddOn::KIND,
            "namespace": namespace,
            "name": addon.name_any(),
            "uid": addon.metadata.uid,
        }),
        namespace,
        related: None,
        kind: EventKind::Warning,
        reason: reason.to_owned(),
        action: action.to_owned(),
        note,
        reporting_controller: "addon-manager".to_owned(),
        at,
    })
}
