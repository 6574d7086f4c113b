//! What is said of a policy: an Event about the Policy that owns it, its status, and an Event about itself.
//! Upstream: cert-policy-controller `updatePolicyStatus`, `sendComplianceEvent`.

use std::fmt::Write;

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{Event, ObjectReference},
    kube::{Resource, ResourceExt},
    ocm_api::policy::{
        ComplianceEvent,
        certificate_policy::{CertificatePolicy, CertificatePolicyStatus},
        configuration_policy::ComplianceHistory,
    },
    reconcile::{EventKind, EventStep, Plan, Site, Step},
};
use serde_json::json;

use crate::evaluate::{COMPLIANT, CertificateReport, ReportNews, news};

/// Who says so, in Events about the Policy that owns a policy.
const COMPONENT: &str = "certificate-policy-controller";
/// Who says so, in Events about the policy.
const RECORDER: &str = "certificatepolicy-controller";
/// So many messages are remembered.
const HISTORY_MAX: usize = 10;
/// The API server takes notes up to 1 KiB.
const NOTE_MAX: usize = 1024;

/// Says what is new.
pub fn tell(plan: &mut Plan, policy: &CertificatePolicy, report: &CertificateReport, instance: &str, at: Timestamp) {
    let news = news(policy.status.as_ref(), report);
    if news == ReportNews::None {
        return;
    }
    let mut told = policy.clone();
    let status = told.status.get_or_insert_default();
    status.compliant = report.state.to_owned();
    status.compliancy_details.clone_from(&report.details);
    if news == ReportNews::Details {
        plan.status(Site::Cluster, policy, &told);
        return;
    }
    remember(status, &report.message, at);
    // The Event comes first: whoever reads the status may rely on it. If the status fails, both are tried again.
    if let Some(event) = compliance_event(policy, report, instance, at) {
        plan.create(Site::Cluster, &event);
        plan.stage();
    }
    plan.status(Site::Cluster, policy, &told);
    plan.stage();
    plan.push(remark(policy, report, at));
}

fn remember(status: &mut CertificatePolicyStatus, message: &str, at: Timestamp) {
    let entry = ComplianceHistory {
        last_timestamp: at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        message: message.to_owned(),
    };
    status.history.insert(0, entry);
    status.history.truncate(HISTORY_MAX);
}

/// What a Policy that owns it is told. Its name has the time, to the nanosecond.
fn compliance_event(
    policy: &CertificatePolicy,
    report: &CertificateReport,
    instance: &str,
    at: Timestamp,
) -> Option<Event> {
    let owner = policy.owner_references().first()?;
    let (namespace, name) = (policy.namespace(), policy.name_any());
    let told = ComplianceEvent {
        name: &name,
        policy: ObjectReference {
            api_version: Some(owner.api_version.clone()),
            kind: Some(owner.kind.clone()),
            namespace: namespace.clone(),
            name: Some(owner.name.clone()),
            uid: Some(owner.uid.clone()),
            ..ObjectReference::default()
        },
        related: Some(ObjectReference {
            resource_version: None,
            ..policy.object_ref(&())
        }),
        reason: format!("policy: {}/{name}", namespace.unwrap_or_default()),
        compliant: report.state == COMPLIANT,
        message: report.message.clone(),
        at,
        component: COMPONENT,
        instance,
    };
    Some(told.event())
}

/// What people are told: the state, and each certificate that does not comply with its Secret.
fn remark(policy: &CertificatePolicy, report: &CertificateReport, at: Timestamp) -> Step {
    let mut note = report.state.to_owned();
    for (namespace, it) in report
        .details
        .iter()
        .filter(|(_, it)| it.non_compliant_certificates > 0)
    {
        let _ = write!(
            note,
            "; Non-compliant certificates in {namespace}[{}]:",
            it.non_compliant_certificates
        );
        for (name, it) in &it.non_compliant_certificates_list {
            let _ = write!(note, " [{name}, {}]", it.secret);
        }
    }
    if note.len() > NOTE_MAX {
        note.truncate(note.floor_char_boundary(NOTE_MAX - 3));
        note.push_str("...");
    }
    Step::Event(EventStep {
        site: Site::Cluster,
        namespace: policy.namespace().unwrap_or_default(),
        regarding: json!(policy.object_ref(&())),
        related: None,
        kind: if report.state == COMPLIANT {
            EventKind::Normal
        } else {
            EventKind::Warning
        },
        reason: "PolicyUpdate".to_owned(),
        action: "Policy status update".to_owned(),
        note,
        reporting_controller: RECORDER.to_owned(),
        at,
    })
}
