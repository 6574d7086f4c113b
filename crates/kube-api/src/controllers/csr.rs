//! Approves kubelets' certificate requests, signs approved ones, and clears old ones away.
//!
//! root: CertificateSigningRequest; writes: condition `Approved` of a kubelet's request, `status.certificate` or condition
//! `Failed` for the `kubernetes.io/` signers, deletes old ones; never: requests of other signers, but for clearing away.
//! Upstream: kubernetes pkg/controller/certificates/{approver,signer,cleaner}. Upstream's cleaner looks once an hour; here
//! every request is looked at when its time comes.

use super::{
    Controller, Ground,
    queue::{Key, Queue},
    seconds, time, tolerate, until,
};
use crate::{
    identity::{Attributes, Decision, User},
    local::Local,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp};
use kube_store::{
    status::Status,
    store::{Change, Event},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const ID: &str = "certificatesigningrequests.certificates.k8s.io";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signers that Kubernetes itself serves.
const SIGNERS: [&str; 4] = [
    "kubernetes.io/kube-apiserver-client",
    KUBELET_CLIENT,
    "kubernetes.io/kubelet-serving",
    "kubernetes.io/legacy-unknown",
];
/// A request that was decided is kept for an hour, one that nobody decided for a day.
const DECIDED_TTL: SignedDuration = SignedDuration::from_hours(1);
const PENDING_TTL: SignedDuration = SignedDuration::from_hours(24);

/// See the header of this file.
pub(super) struct CertificateRequests {
    pub local: Local,
    pub ground: Arc<dyn Ground>,
}

/// What a request needs.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing before this time, when it is cleared away.
    Wait(Timestamp),
    Remove,
    /// Ask whether the requester may be approved.
    Approve,
    Sign,
}

fn condition<'a>(csr: &'a Value, kind: &str) -> Option<&'a Value> {
    csr["status"]["conditions"]
        .as_array()?
        .iter()
        .find(|it| it["type"] == kind)
}

fn certificate(csr: &Value) -> Option<&str> {
    csr["status"]["certificate"].as_str().filter(|it| !it.is_empty())
}

/// When the request is cleared away.
fn expires_at(csr: &Value) -> Timestamp {
    let decided = ["Approved", "Denied", "Failed"]
        .into_iter()
        .filter_map(|it| condition(csr, it));
    let updated = decided.filter_map(|it| time(&it["lastUpdateTime"]).or_else(|| time(&it["lastTransitionTime"])));
    let created = time(&csr["metadata"]["creationTimestamp"]).unwrap_or(Timestamp::UNIX_EPOCH);
    let deadline = match updated.min() {
        Some(at) => at.checked_add(DECIDED_TTL),
        None => created.checked_add(PENDING_TTL),
    };
    deadline.unwrap_or(Timestamp::MAX)
}

fn step(csr: &Value, now: Timestamp) -> Step {
    let expires = expires_at(csr);
    if expires <= now {
        return Step::Remove;
    }
    let signer = csr["spec"]["signerName"].as_str().unwrap_or_default();
    let has = |it| condition(csr, it).is_some();
    if !SIGNERS.contains(&signer) || certificate(csr).is_some() || has("Denied") || has("Failed") {
        return Step::Wait(expires);
    }
    match has("Approved") {
        true => Step::Sign,
        false if signer == KUBELET_CLIENT => Step::Approve,
        false => Step::Wait(expires),
    }
}

/// What the certificate request asks for, as far as approval looks at it.
#[derive(Debug, PartialEq, Eq)]
struct Subject {
    common_name: String,
    organizations: Vec<String>,
    has_alternative_names: bool,
}

/// Reads the subject of `spec.request`, the base64 of a PEM block.
fn subject(csr: &Value) -> Option<Subject> {
    use x509_parser::prelude::{FromDer, ParsedExtension, Pem, X509CertificationRequest};
    let pem = BASE64_STANDARD.decode(csr["spec"]["request"].as_str()?).ok()?;
    let block = Pem::iter_from_buffer(&pem).next()?.ok()?;
    let (_, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
    let name = &request.certification_request_info.subject;
    let text = |it: &x509_parser::x509::AttributeTypeAndValue<'_>| it.as_str().map(str::to_owned).ok();
    let mut extensions = request.requested_extensions().into_iter().flatten();
    Some(Subject {
        common_name: name.iter_common_name().next().and_then(text)?,
        organizations: name.iter_organization().filter_map(text).collect(),
        has_alternative_names: extensions.any(|it| matches!(it, ParsedExtension::SubjectAlternativeName(_))),
    })
}

/// Whether the request is one that a kubelet makes for itself as a client.
fn is_kubelet_client(csr: &Value, subject: &Subject) -> bool {
    let usages: Vec<_> = csr["spec"]["usages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let allowed = ["client auth", "digital signature", "key encipherment"];
    subject.organizations == ["system:nodes"]
        && subject.common_name.starts_with("system:node:")
        && !subject.has_alternative_names
        && usages.contains(&"client auth")
        && usages.contains(&"digital signature")
        && usages.iter().all(|it| allowed.contains(it))
}

/// The subresources that the requester needs for an approval, with what the approval then says.
fn permissions(csr: &Value, subject: &Subject) -> Vec<(&'static str, &'static str)> {
    let own = csr["spec"]["username"] == subject.common_name.as_str();
    let own = own.then_some((
        "selfnodeclient",
        "Auto approving self kubelet client certificate after SubjectAccessReview.",
    ));
    let any = (
        "nodeclient",
        "Auto approving kubelet client certificate after SubjectAccessReview.",
    );
    own.into_iter().chain([any]).collect()
}

fn requester(csr: &Value) -> User {
    let spec = &csr["spec"];
    let read = |it: &Value| serde_json::from_value(it.clone()).unwrap_or_default();
    User {
        username: spec["username"].as_str().unwrap_or_default().into(),
        uid: spec["uid"].as_str().unwrap_or_default().into(),
        groups: read(&spec["groups"]),
        extra: serde_json::from_value(spec["extra"].clone()).unwrap_or_default(),
    }
}

/// The conditions with one more.
fn with_condition(csr: &Value, kind: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut conditions = csr["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.push(json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": seconds(now), "lastTransitionTime": seconds(now),
    }));
    Value::Array(conditions)
}

impl CertificateRequests {
    /// What an approval of this request says, if it may be approved.
    fn approval(&self, csr: &Value) -> Option<&'static str> {
        let subject = subject(csr)?;
        if !is_kubelet_client(csr, &subject) {
            return None;
        }
        let user = requester(csr);
        let may = |subresource: &str| {
            let attributes = Attributes {
                verb: "create".into(),
                is_resource: true,
                group: "certificates.k8s.io".into(),
                version: "v1".into(),
                resource: "certificatesigningrequests".into(),
                subresource: subresource.into(),
                ..Attributes::default()
            };
            matches!(self.ground.authorize(&user, &attributes), Decision::Allow(_))
        };
        permissions(csr, &subject)
            .into_iter()
            .find(|(subresource, _)| may(subresource))
            .map(|(_, message)| message)
    }

    async fn patch(&self, name: &str, csr: &Value, subresource: &str, status: Value) -> Result<(), Status> {
        let revision = csr["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": {"resourceVersion": revision}, "status": status});
        tolerate(self.local.merge_patch(ID, "", name, subresource, patch).await)
    }
}

#[async_trait::async_trait]
impl Controller for CertificateRequests {
    fn name(&self) -> &'static str {
        "certificate-signing-request"
    }

    fn parallel(&self) -> usize {
        4
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        if event.object.resource.as_ref() == ID && event.change != Change::Deleted {
            queue.add(Key::of(&event.object));
        }
    }

    fn survey(&self, queue: &Queue) {
        self.local
            .store()
            .list(ID, "")
            .0
            .iter()
            .for_each(|it| queue.add(Key::of(it)));
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let Some(object) = self.local.store().get(ID, "", &key.name).filter(|it| !it.terminating) else {
            return Ok(None);
        };
        let (csr, now) = (object.value(), Timestamp::now());
        let again = Some(until(now, expires_at(&csr)));
        match step(&csr, now) {
            Step::Wait(_) => return Ok(again),
            Step::Remove => {
                tolerate(
                    self.local
                        .delete(ID, "", &key.name, Some(&object.uid), Some("Background"))
                        .await,
                )?;
                return Ok(None);
            }
            Step::Approve => {
                let Some(message) = self.approval(&csr) else {
                    return Ok(again);
                };
                let conditions = with_condition(&csr, "Approved", "AutoApproved", message, now);
                self.patch(&key.name, &csr, "approval", json!({"conditions": conditions}))
                    .await?;
            }
            Step::Sign => {
                let status = match self.ground.sign(&csr, now) {
                    Ok(pem) => json!({"certificate": BASE64_STANDARD.encode(pem)}),
                    Err(it) => json!({"conditions": with_condition(&csr, "Failed", &it.reason, &it.message, now)}),
                };
                self.patch(&key.name, &csr, "status", status).await?;
            }
        }
        Ok(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn csr(signer: &str, conditions: Value) -> Value {
        json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"signerName": signer, "username": "system:node:n", "usages": ["digital signature", "client auth"]},
            "status": {"conditions": conditions},
        })
    }

    fn approved() -> Value {
        json!([{"type": "Approved", "status": "True", "lastUpdateTime": "2026-01-01T00:10:00Z"}])
    }

    #[test]
    fn an_approved_request_of_a_kubernetes_signer_is_signed_once() {
        let now = at("2026-01-01T00:10:01Z");
        let mut it = csr(SIGNERS[0], approved());
        assert_eq!(step(&it, now), Step::Sign);
        it["status"]["certificate"] = "cGVt".into();
        assert_eq!(step(&it, now), Step::Wait(at("2026-01-01T01:10:00Z")));
        assert_eq!(
            step(&csr("example.com/signer", approved()), now),
            Step::Wait(at("2026-01-01T01:10:00Z"))
        );
    }

    #[test]
    fn only_a_kubelets_request_is_approved_without_a_person() {
        let now = at("2026-01-01T00:10:00Z");
        assert_eq!(step(&csr(KUBELET_CLIENT, json!([])), now), Step::Approve);
        assert_eq!(
            step(&csr(SIGNERS[0], json!([])), now),
            Step::Wait(at("2026-01-02T00:00:00Z"))
        );
    }

    #[test]
    fn a_pending_request_lives_a_day_and_a_decided_one_an_hour() {
        let it = csr(SIGNERS[0], json!([]));
        assert_eq!(step(&it, at("2026-01-02T00:00:00Z")), Step::Remove);
        let denied = json!([{"type": "Denied", "lastUpdateTime": "2026-01-01T00:10:00Z"}]);
        assert_eq!(
            step(&csr(SIGNERS[0], denied.clone()), at("2026-01-01T01:10:00Z")),
            Step::Remove
        );
        assert_eq!(
            step(&csr(SIGNERS[0], denied), at("2026-01-01T01:09:59Z")),
            Step::Wait(at("2026-01-01T01:10:00Z"))
        );
    }

    #[test]
    fn a_kubelet_names_itself_and_nothing_else() {
        let subject = |common_name: &str, organizations: &[&str], has_alternative_names| Subject {
            common_name: common_name.into(),
            organizations: organizations.iter().map(|it| (*it).to_owned()).collect(),
            has_alternative_names,
        };
        let it = csr(KUBELET_CLIENT, json!([]));
        let node = subject("system:node:n", &["system:nodes"], false);
        assert!(is_kubelet_client(&it, &node));
        assert!(!is_kubelet_client(
            &it,
            &subject("system:node:n", &["system:nodes", "system:masters"], false)
        ));
        assert!(!is_kubelet_client(&it, &subject("admin", &["system:nodes"], false)));
        assert!(!is_kubelet_client(
            &it,
            &subject("system:node:n", &["system:nodes"], true)
        ));
        let names: Vec<_> = permissions(&it, &node).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["selfnodeclient", "nodeclient"]);
        let other = subject("system:node:m", &["system:nodes"], false);
        assert_eq!(permissions(&it, &other).len(), 1);
    }
}
