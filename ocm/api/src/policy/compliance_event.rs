//! How a controller tells a Policy what it has found: an Event that the policy framework reads.
//! Upstream: config-policy-controller `sendComplianceEvent`, framework-addon `controllers/utils/events.go`.

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};

/// What a Policy is told.
#[derive(Clone, Debug)]
pub struct ComplianceEvent<'a> {
    /// What the name of the Event begins with; the time, to the nanosecond, comes after a dot. Two Events of one name
    /// must not have the same time.
    pub name: &'a str,
    /// The Policy.
    pub policy: ObjectReference,
    /// What it is told about.
    pub related: Option<ObjectReference>,
    /// `policy: NAMESPACE/NAME` of what it is told about, or `policy: NAME`.
    pub reason: String,
    /// Whether all is well.
    pub compliant: bool,
    /// The state, a semicolon, and why.
    pub message: String,
    /// When.
    pub at: Timestamp,
    /// Who says so.
    pub component: &'a str,
    /// On which host.
    pub instance: &'a str,
}

impl ComplianceEvent<'_> {
    /// The name of an Event that begins so and was made then.
    pub fn name_at(name: &str, at: Timestamp) -> String {
        format!("{name}.{:x}", at.as_nanosecond())
    }

    /// The Event, in the namespace of the Policy.
    pub fn event(self) -> Event {
        // Times in objects have whole seconds.
        let seconds = Time(Timestamp::from_second(self.at.as_second()).unwrap_or(self.at));
        Event {
            metadata: ObjectMeta {
                name: Some(Self::name_at(self.name, self.at)),
                namespace: self.policy.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: self.policy,
            related: self.related,
            reason: Some(self.reason),
            message: Some(self.message),
            type_: Some(if self.compliant { "Normal" } else { "Warning" }.to_owned()),
            action: Some("ComplianceStateUpdate".to_owned()),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: Some(self.instance.to_owned()),
            }),
            first_timestamp: Some(seconds.clone()),
            last_timestamp: Some(seconds),
            count: Some(1),
            reporting_component: Some(self.component.to_owned()),
            reporting_instance: Some(self.instance.to_owned()),
            ..Event::default()
        }
    }
}
