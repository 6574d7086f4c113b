//! ValidatingAdmissionPolicy and its bindings.

use super::world::World;
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

#[tokio::test]
async fn variables_that_use_one_another_in_a_long_chain_are_found() {
    let variables: Vec<Value> = (0..5000)
        .map(|number: usize| {
            let expression = match number.checked_sub(1) {
                None => "object.data.a".to_owned(),
                Some(before) => format!("variables.v{before}"),
            };
            json!({"name": format!("v{number}"), "expression": expression})
        })
        .collect();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p1"},
        "spec": {
            "matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
            "variables": variables,
            "validations": [{"expression": "variables.v4999 == 'b'"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b1"},
        "spec": {"policyName": "p1", "validationActions": ["Deny"]},
    });
    let world = World::new().await;
    world.ok(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
    world
        .ok(&format!("{GROUP}/validatingadmissionpolicybindings"), &binding)
        .await;
    let answer = world.map("v").await;
    assert_eq!(answer.code, 201, "{answer:?}");
}

#[tokio::test]
async fn a_mutating_admission_policy_is_a_kind_that_there_is_not() {
    let world = World::new().await;
    let path = format!("{GROUP}/mutatingadmissionpolicies");
    let answer = world.post(&path, &json!({})).await;
    assert_eq!((answer.code, &answer.body["reason"]), (404, &json!("NotFound")));
}
