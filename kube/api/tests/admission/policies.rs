//! ValidatingAdmissionPolicy and its bindings.

use super::world::World;
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

#[tokio::test]
async fn a_long_chain_of_policy_variables_is_evaluated() {
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
async fn the_mutating_admission_policy_kind_is_not_served() {
    let world = World::new().await;
    let path = format!("{GROUP}/mutatingadmissionpolicies");
    let answer = world.post(&path, &json!({})).await;
    assert_eq!((answer.code, &answer.body["reason"]), (404, &json!("NotFound")));
}

/// A real API server does not watch a kind of its own again that policies have used and left,
/// so this is asked of ours alone.
#[tokio::test]
async fn built_in_policy_parameters_come_from_the_requests_namespace() {
    let rules =
        json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p1"},
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [{"name": "not-the-params", "expression": "object.metadata.name != 'params'"}],
            "validations": [{"expression": "params == null || object.data.a == params.data.a"}],
        },
    });
    let binding = |name: &str, more: Value| {
        let mut spec = json!({"policyName": "p1", "validationActions": ["Deny"]});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": spec,
        })
    };
    let bindings = format!("{GROUP}/validatingadmissionpolicybindings");
    let world = World::new().await;
    world.ok(&format!("{GROUP}/validatingadmissionpolicies"), &policy).await;
    // A binding that names no parameters: there are none.
    world.ok(&bindings, &binding("without", json!({}))).await;
    assert_eq!(world.map("v").await.code, 201);
    let reference = json!({"paramRef": {"name": "params", "parameterNotFoundAction": "Allow"}});
    world.ok(&bindings, &binding("with", reference)).await;
    assert_eq!(world.map("w").await.code, 201);
    assert_eq!(world.map("params").await.code, 201);
    assert_eq!(world.map("x").await.code, 201);
    let mut other = super::world::map("y");
    other["data"]["a"] = "z".into();
    let answer = world.post(super::world::MAPS, &other).await;
    assert_eq!(answer.code, 422, "{answer:?}");
}
