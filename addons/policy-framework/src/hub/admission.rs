//! What is refused of Policies and PolicySets when they are written. Plain functions.
//! Upstream: governance-policy-propagator `api/v1/policy_webhook.go`, `api/v1beta1/policyset_webhook.go`.

use std::collections::BTreeSet;

use ocm_addon_sdk::ocm_api::policy::labels;
use serde_json::Value;

/// The name of the webhook for Policies, which clients read in refusals.
pub const POLICY_WEBHOOK: &str = "policy.open-cluster-management.io.webhook";
/// The name of the webhook for PolicySets.
pub const SET_WEBHOOK: &str = "policyset.open-cluster-management.io.webhook";

/// The Service by which an API server comes to the propagator's webhooks.
pub const SERVICE: &str = "propagator-webhook-service";
/// The ValidatingWebhookConfiguration that makes it come.
pub const CONFIGURATION: &str = "propagator-webhook-validating-configuration";
/// What is asked at which path: the `request` of an AdmissionReview, and the reason of a refusal.
pub const REVIEWS: &[(&str, fn(&Value) -> Result<(), String>)] = &[
    (
        "/validate-policy-open-cluster-management-io-v1-policy",
        |request| match operation(request) {
            Some(is_new) => validate_policy(&request["object"], is_new),
            None => Ok(()),
        },
    ),
    (
        "/validate-policy-open-cluster-management-io-v1beta1-policyset",
        |request| match operation(request) {
            Some(_) => validate_set(&request["object"]),
            None => Ok(()),
        },
    ),
];

/// Namespace and name of a Policy, with a dot between them, are a label's value on clusters.
const NAMES_MAX: usize = 62;

/// Judges a Policy. `is_new` tells a create from an update.
///
/// # Errors
/// Why it is refused, in upstream's words.
pub fn validate_policy(policy: &Value, is_new: bool) -> Result<(), String> {
    let text = |at: &str| policy.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let is_replica = policy["metadata"]["labels"].get(labels::ROOT_POLICY).is_some();
    let length = text("/metadata/namespace").chars().count() + text("/metadata/name").chars().count();
    if is_new && !is_replica && length > NAMES_MAX {
        return Err("the combined length of the policy namespace and name cannot exceed 62 characters".to_owned());
    }
    let templates = policy["spec"]["policy-templates"].as_array().into_iter().flatten();
    let lacks_action = |template: &Value| {
        let object = &template["objectDefinition"];
        object["kind"] == "ConfigurationPolicy" && !object["spec"]["remediationAction"].is_string()
    };
    if text("/spec/remediationAction").is_empty() && templates.into_iter().any(lacks_action) {
        return Err("RemediationAction field of the policy and policy template cannot both be unset".to_owned());
    }
    Ok(())
}

/// Judges a PolicySet.
///
/// # Errors
/// Why it is refused, in upstream's words: a line for each reason.
pub fn validate_set(set: &Value) -> Result<(), String> {
    let members: BTreeSet<&str> = texts(&set["spec"]["policies"]).collect();
    let exclusions = set["spec"]["exclusions"].as_array().into_iter().flatten();
    let (mut seen, mut twice, mut strangers) = (BTreeSet::new(), Vec::new(), Vec::new());
    for name in exclusions.filter_map(|it| it["policyName"].as_str()) {
        if !seen.insert(name) && !twice.contains(&name) {
            twice.push(name);
        }
        if !members.contains(name) && !strangers.contains(&name) {
            strangers.push(name);
        }
    }
    let mut reasons = Vec::new();
    for (reason, names) in [
        ("policy in spec.exclusions has a duplicate entry", twice),
        ("policy in spec.exclusions is not listed in spec.policies", strangers),
    ] {
        if !names.is_empty() {
            reasons.push(format!("{reason}: {}", names.join(", ")));
        }
    }
    if reasons.is_empty() {
        Ok(())
    } else {
        Err(reasons.join("\n"))
    }
}

/// Whether it is a create rather than an update; `None` for what else is done, and for what is written beside the
/// object itself.
fn operation(request: &Value) -> Option<bool> {
    let beside = request["subResource"].as_str().is_some_and(|it| !it.is_empty());
    match request["operation"].as_str().filter(|_| !beside) {
        Some("CREATE") => Some(true),
        Some("UPDATE") => Some(false),
        _ => None,
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(name: &str, action: Value, template: Value) -> Value {
        json!({
            "metadata": {"namespace": "namespace", "name": name},
            "spec": {"remediationAction": action, "policy-templates": [{"objectDefinition": template}]},
        })
    }

    #[test]
    fn names_that_are_too_long_together_are_refused() {
        let longest = policy(&"x".repeat(53), json!("inform"), json!({}));
        assert_eq!(validate_policy(&longest, true), Ok(()));
        let mut longer = policy(&"ü".repeat(54), json!("inform"), json!({}));
        let refused = "the combined length of the policy namespace and name cannot exceed 62 characters";
        assert_eq!(validate_policy(&longer, true), Err(refused.to_owned()));
        assert_eq!(validate_policy(&longer, false), Ok(()));
        longer["metadata"]["labels"] = json!({ labels::ROOT_POLICY: "a.b" });
        assert_eq!(validate_policy(&longer, true), Ok(()));
    }

    #[test]
    fn somebody_has_to_say_what_is_done() {
        let template = |spec: Value| json!({"kind": "ConfigurationPolicy", "spec": spec});
        let refused = Err("RemediationAction field of the policy and policy template cannot both be unset".to_owned());
        assert_eq!(
            validate_policy(&policy("p", Value::Null, template(json!({}))), false),
            refused
        );
        assert_eq!(
            validate_policy(&policy("p", json!("inform"), template(json!({}))), false),
            Ok(())
        );
        let own = template(json!({"remediationAction": "inform"}));
        assert_eq!(validate_policy(&policy("p", Value::Null, own), true), Ok(()));
        assert_eq!(
            validate_policy(&policy("p", Value::Null, json!({"kind": "Other"})), true),
            Ok(())
        );
    }

    #[test]
    fn exclusions_name_policies_of_the_set_once() {
        let set = |exclusions: &[&str]| {
            let exclusions: Vec<Value> = exclusions.iter().map(|it| json!({ "policyName": it })).collect();
            json!({"spec": {"policies": ["a", "b"], "exclusions": exclusions}})
        };
        assert_eq!(validate_set(&set(&["a", "b"])), Ok(()));
        let both = "policy in spec.exclusions has a duplicate entry: a, c\npolicy in spec.exclusions is not listed in spec.policies: c, d";
        assert_eq!(
            validate_set(&set(&["a", "a", "c", "c", "d", "a"])),
            Err(both.to_owned())
        );
    }
}
