//! Events about a Policy on the cluster: those that say a state, which status-sync gathers, and those for people.
//! Upstream: `controllers/utils/events.go`.

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::ObjectReference,
    kube::ResourceExt,
    ocm_api::policy::{ComplianceEvent, ComplianceState, Policy},
    reconcile::{EventKind, EventStep, Site, Step, Target, plan::typed},
};
use serde_json::{Value, json};

/// A state of a template, to be told.
pub struct StateSaid<'a> {
    /// Of which Policy.
    pub policy: &'a Policy,
    /// The object that it is about, as far as it is known: apiVersion, kind and metadata.
    pub about: &'a Value,
    /// The name of the template.
    pub template: &'a str,
    /// Whether its kind has no namespaces.
    pub cluster_scoped: bool,
    /// The state.
    pub state: ComplianceState,
    /// Why, after the state and a semicolon.
    pub why: &'a str,
    /// When. Two events of one Policy must not have the same time: it is in the name.
    pub at: Timestamp,
    /// Which reconciler says so.
    pub component: &'static str,
    /// On which host.
    pub instance: &'a str,
}

impl StateSaid<'_> {
    /// The message.
    pub fn message(&self) -> String {
        format!("{}; {}", self.state, self.why)
    }

    /// The event that says it.
    pub fn step(&self) -> Step {
        let namespace = self.policy.namespace();
        let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
        let metadata = &self.about["metadata"];
        let event = ComplianceEvent {
            name: &self.policy.name_any(),
            policy: ObjectReference {
                api_version: Some(Policy::API_VERSION.to_owned()),
                kind: Some(Policy::KIND.to_owned()),
                namespace: namespace.clone(),
                name: self.policy.metadata.name.clone(),
                uid: self.policy.metadata.uid.clone(),
                ..ObjectReference::default()
            },
            related: text(self.about, "kind").map(|kind| ObjectReference {
                api_version: text(self.about, "apiVersion"),
                kind: Some(kind),
                name: text(metadata, "name"),
                namespace: text(metadata, "namespace"),
                uid: text(metadata, "uid"),
                ..ObjectReference::default()
            }),
            reason: match (self.cluster_scoped, &namespace) {
                (false, Some(namespace)) => format!("policy: {namespace}/{}", self.template),
                _ => format!("policy: {}", self.template),
            },
            compliant: self.state == ComplianceState::Compliant,
            message: self.message(),
            at: self.at,
            component: self.component,
            instance: self.instance,
        }
        .event();
        let target = Target::of(Site::Cluster, &event);
        let object = typed(&event, &target.api_resource);
        Step::Create { target, object }
    }
}

/// Times in objects have whole seconds.
pub fn whole_seconds(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// An event for people: what a reconciler has done with a Policy.
pub fn for_people(
    site: Site,
    policy: &Policy,
    (reason, component): (&str, &str),
    kind: EventKind,
    note: String,
    at: Timestamp,
) -> Step {
    Step::Event(EventStep {
        site,
        namespace: policy.namespace().unwrap_or_default(),
        regarding: json!({
            "apiVersion": Policy::API_VERSION,
            "kind": Policy::KIND,
            "namespace": policy.namespace(),
            "name": policy.name_any(),
            "uid": policy.uid(),
            "resourceVersion": policy.resource_version(),
        }),
        related: None,
        kind,
        reason: reason.to_owned(),
        action: reason.to_owned(),
        note,
        reporting_controller: component.to_owned(),
        at,
    })
}
