//! What the policy framework refuses when it is written, inside the embedded hub's API server. On a real Kubernetes the
//! propagator serves the same rules as webhooks.

use addon_policy_framework::hub::admission::{POLICY_WEBHOOK, SET_WEBHOOK, validate_policy, validate_set};
use kube_api::admission::{Admission, AdmissionOperation, Review};
use kube_store::status::Status;
use serde_json::Value;

const POLICIES: &str = "policies.policy.open-cluster-management.io";
const SETS: &str = "policysets.policy.open-cluster-management.io";

/// The rules for Policies and PolicySets.
pub struct PolicyAdmission;

impl Admission for PolicyAdmission {
    fn wants(&self, resource: &str) -> bool {
        [POLICIES, SETS].contains(&resource)
    }

    fn admit(&self, _: &Review<'_>, _: &mut Value) -> Result<Vec<String>, Status> {
        Ok(Vec::new())
    }

    fn validate(&self, review: &Review<'_>, object: &Value) -> Result<Vec<String>, Status> {
        if !review.subresource.is_empty() {
            return Ok(Vec::new());
        }
        let is_new = review.operation == AdmissionOperation::Create;
        let (webhook, judged) = match review.resource {
            POLICIES => (POLICY_WEBHOOK, validate_policy(object, is_new)),
            _ => (SET_WEBHOOK, validate_set(object)),
        };
        let refused = |denial: String| Err(Status::new(403, "Forbidden", admission_text(webhook, &denial)));
        judged.map(|()| Vec::new()).or_else(refused)
    }
}

/// In the words in which an API server passes on the refusal of a webhook.
fn admission_text(webhook: &str, denial: &str) -> String {
    format!("admission webhook \"{webhook}\" denied the request: {denial}")
}
