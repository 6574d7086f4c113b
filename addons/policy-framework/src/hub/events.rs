//! What the propagator tells in Events.

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::Policy,
    reconcile::{EventKind, EventStep, Site, Step},
};
use serde_json::json;

/// Reason and action of Events about propagation.
const PROPAGATION: &str = "PolicyPropagation";

/// An Event about a Policy on the hub.
pub fn about(policy: &Policy, kind: EventKind, note: String, at: Timestamp) -> Step {
    let namespace = policy.namespace().unwrap_or_default();
    Step::Event(EventStep {
        site: Site::Hub,
        namespace: namespace.clone(),
        regarding: json!({
            "apiVersion": Policy::API_VERSION,
            "kind": Policy::KIND,
            "namespace": namespace,
            "name": policy.name_any(),
            "uid": policy.uid(),
        }),
        related: None,
        kind,
        reason: PROPAGATION.to_owned(),
        action: PROPAGATION.to_owned(),
        note,
        reporting_controller: "policy-propagator".to_owned(),
        at,
    })
}
