//! Approves kubelets' certificate requests, signs approved ones, and clears old ones away.
//!
//! root: CertificateSigningRequest; writes: condition `Approved` of a kubelet's request, `status.certificate` or
//! condition `Failed` for the `kubernetes.io/` signers, deletes old ones; never: requests of other signers, but for
//! clearing away. Upstream: kubernetes pkg/controller/certificates/{approver,signer,cleaner}. Upstream's cleaner looks
//! once an hour; here every request is looked at when its time comes.

use super::{
    controller::{ServerAccess, ServerController, seconds, time, tolerate, until},
    queue::{Key, Queue},
};
use crate::{csr, identity::AccessDecision, local::Local};
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
const SIGNERS: [&str; 3] = [
    "kubernetes.io/kube-apiserver-client",
    KUBELET_CLIENT,
    "kubernetes.io/kubelet-serving",
];
/// A request that was decided is kept for an hour, one that nobody decided for a day.
const DECIDED_TTL: SignedDuration = SignedDuration::from_hours(1);
const PENDING_TTL: SignedDuration = SignedDuration::from_hours(24);

/// See the header of this file.
pub(super) struct CertificateRequests {
    pub local: Local,
    pub ground: Arc<dyn ServerAccess>,
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
    fn approval(&self, request: &Value) -> Option<&'static str> {
        let asked = csr::automatic_approval(request)?;
        let allowed = matches!(
            self.ground.authorize(&csr::requester(request), &asked),
            AccessDecision::Allow(_)
        );
        allowed.then_some(match asked.subresource.as_str() {
            "selfnodeclient" => "Auto approving self kubelet client certificate after SubjectAccessReview.",
            _ => "Auto approving kubelet client certificate after SubjectAccessReview.",
        })
    }

    async fn patch(&self, name: &str, csr: &Value, subresource: &str, status: Value) -> Result<(), Status> {
        let revision = csr["metadata"]["resourceVersion"].clone();
        let patch = json!({"metadata": {"resourceVersion": revision}, "status": status});
        tolerate(self.local.merge_patch(ID, "", name, subresource, patch).await)
    }
}

#[async_trait::async_trait]
impl ServerController for CertificateRequests {
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
        let (request, now) = (object.value(), Timestamp::now());
        let again = Some(until(now, expires_at(&request)));
        match step(&request, now) {
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
                let Some(message) = self.approval(&request) else {
                    return Ok(again);
                };
                let conditions = with_condition(&request, "Approved", "AutoApproved", message, now);
                self.patch(&key.name, &request, "approval", json!({"conditions": conditions}))
                    .await?;
            }
            Step::Sign => {
                let status = match self.ground.sign(&request, now) {
                    Ok(pem) => json!({"certificate": BASE64_STANDARD.encode(pem)}),
                    Err(it) => json!({"conditions": with_condition(&request, "Failed", &it.reason, &it.message, now)}),
                };
                self.patch(&key.name, &request, "status", status).await?;
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

    fn request(signer: &str, conditions: Value) -> Value {
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
        let mut it = request(SIGNERS[0], approved());
        assert_eq!(step(&it, now), Step::Sign);
        it["status"]["certificate"] = "cGVt".into();
        assert_eq!(step(&it, now), Step::Wait(at("2026-01-01T01:10:00Z")));
        assert_eq!(
            step(&request("example.com/signer", approved()), now),
            Step::Wait(at("2026-01-01T01:10:00Z"))
        );
    }

    #[test]
    fn only_a_kubelets_request_is_approved_without_a_person() {
        let now = at("2026-01-01T00:10:00Z");
        assert_eq!(step(&request(KUBELET_CLIENT, json!([])), now), Step::Approve);
        assert_eq!(
            step(&request(SIGNERS[0], json!([])), now),
            Step::Wait(at("2026-01-02T00:00:00Z"))
        );
    }

    #[test]
    fn requests_expire_after_a_day_or_an_hour_once_decided() {
        let it = request(SIGNERS[0], json!([]));
        assert_eq!(step(&it, at("2026-01-02T00:00:00Z")), Step::Remove);
        let denied = json!([{"type": "Denied", "lastUpdateTime": "2026-01-01T00:10:00Z"}]);
        assert_eq!(
            step(&request(SIGNERS[0], denied.clone()), at("2026-01-01T01:10:00Z")),
            Step::Remove
        );
        assert_eq!(
            step(&request(SIGNERS[0], denied), at("2026-01-01T01:09:59Z")),
            Step::Wait(at("2026-01-01T01:10:00Z"))
        );
    }
}
