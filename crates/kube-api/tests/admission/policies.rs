//! ValidatingAdmissionPolicy and its bindings.

use super::world::{Answer, MAPS, World, map};
use serde_json::{Value, json};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn policy(more: Value) -> Value {
    let mut spec = json!({
        "matchConstraints": {"resourceRules": [{"operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p1"}, "spec": spec})
}

fn binding(more: Value) -> Value {
    let mut spec = json!({"policyName": "p1", "validationActions": ["Deny"]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b1"}, "spec": spec})
}

async fn under(spec: Value, bound: Value) -> World {
    let world = World::new().await;
    world.ok(POLICIES, &policy(spec)).await;
    world.ok(BINDINGS, &binding(bound)).await;
    world
}

fn validation(text: &str, more: Value) -> Value {
    let mut it = json!({"expression": text});
    for (key, value) in more.as_object().unwrap() {
        it[key] = value.clone();
    }
    json!({"validations": [it]})
}

async fn said(spec: Value) -> Answer {
    under(spec, json!({})).await.map("v").await
}

#[tokio::test]
async fn n165_a_policy_without_a_binding_does_nothing_and_has_its_defaults() {
    let world = World::new().await;
    let made = world.ok(POLICIES, &policy(validation("false", json!({})))).await;
    assert_eq!(made["spec"]["failurePolicy"], "Fail");
    assert_eq!(made["spec"]["matchConstraints"]["matchPolicy"], "Equivalent");
    assert_eq!(made["spec"]["matchConstraints"]["resourceRules"][0]["scope"], "*");
    assert_eq!(made["status"], json!({"observedGeneration": 1, "typeChecking": {}}));
    assert_eq!(world.map("v").await.code, 201);
    world.ok(BINDINGS, &binding(json!({}))).await;
    assert_eq!(world.map("w").await.code, 422);
    world.delete(&format!("{BINDINGS}/b1")).await;
    assert_eq!(world.map("w").await.code, 201);
}

#[tokio::test]
async fn n165_a_denial_has_the_text_code_and_cause_of_its_validation() {
    let denied = "ValidatingAdmissionPolicy 'p1' with binding 'b1' denied request: ";
    for (spec, code, reason, text) in [
        (
            validation("object.data.a == 'x'", json!({})),
            422,
            "Invalid",
            "failed expression: object.data.a == 'x'",
        ),
        (
            validation("false", json!({"message": "bad key in v"})),
            422,
            "Invalid",
            "bad key in v",
        ),
        (
            validation(
                "false",
                json!({"message": "m", "messageExpression": "'name is ' + object.metadata.name"}),
            ),
            422,
            "Invalid",
            "name is v",
        ),
        (
            validation("false", json!({"message": "m", "messageExpression": "object.nope"})),
            422,
            "Invalid",
            "m",
        ),
        (
            validation("false", json!({"reason": "Forbidden"})),
            403,
            "Forbidden",
            "failed expression: false",
        ),
        (
            validation("false", json!({"reason": "Unauthorized"})),
            401,
            "Unauthorized",
            "failed expression: false",
        ),
        (
            validation("false", json!({"reason": "RequestEntityTooLarge"})),
            413,
            "RequestEntityTooLarge",
            "failed expression: false",
        ),
        (
            validation("object.nope.x == 1", json!({})),
            422,
            "Invalid",
            "expression 'object.nope.x == 1' resulted in error: no such key: nope",
        ),
    ] {
        let answer = said(spec).await;
        assert_eq!(
            (answer.code, &answer.body["reason"]),
            (code, &json!(reason)),
            "{answer:?}"
        );
        let message = format!("{denied}{text}");
        assert_eq!(
            answer.body["message"],
            format!("configmaps \"v\" is forbidden: {message}")
        );
        assert_eq!(answer.body["details"]["causes"], json!([{"message": message}]));
    }
    let mut ignored = validation("object.nope.x == 1", json!({}));
    ignored["failurePolicy"] = "Ignore".into();
    assert_eq!(said(ignored).await.code, 201);
}

#[tokio::test]
async fn n165_expressions_see_the_request_variables_and_the_namespace() {
    for (expression, code) in [
        ("variables.two == 'bb' && variables.one == 'b'", 201),
        ("namespaceObject.metadata.name == 'default'", 201),
        (
            "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == request.namespace",
            201,
        ),
        ("request.userInfo.groups.exists(it, it == 'system:masters')", 201),
        ("oldObject == null && request.operation == 'CREATE'", 201),
        ("params == null", 201),
        ("authorizer.requestResource.check('delete').allowed()", 201),
        ("has(object.data) && object.data.all(k, k.matches('^[a-z]+$'))", 201),
        ("true || variables.broken", 201),
        ("variables.broken == 1", 422),
    ] {
        let mut spec = validation(expression, json!({}));
        spec["variables"] = json!([
            {"name": "one", "expression": "object.data.a"},
            {"name": "two", "expression": "variables.one + variables.one"},
            {"name": "broken", "expression": "object.nope"},
        ]);
        let answer = said(spec).await;
        assert_eq!(answer.code, code, "{expression}: {answer:?}");
        if code == 422 {
            let message = answer.body["message"].as_str().unwrap();
            assert!(
                message.contains("composited variable \"broken\" fails to evaluate"),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn n165_variables_that_use_one_another_in_a_long_chain_are_found() {
    let mut spec = validation("variables.v4999 == 'b'", json!({}));
    let variables = (0..5000).map(|number: usize| {
        let expression = match number.checked_sub(1) {
            None => "object.data.a".to_owned(),
            Some(before) => format!("variables.v{before}"),
        };
        json!({"name": format!("v{number}"), "expression": expression})
    });
    spec["variables"] = variables.collect();
    let answer = said(spec).await;
    assert_eq!(answer.code, 201, "{answer:?}");
}

#[tokio::test]
async fn n165_warn_and_audit_let_it_pass() {
    let spec = validation("false", json!({"message": "hm"}));
    let world = under(spec.clone(), json!({"validationActions": ["Warn"]})).await;
    let answer = world.map("v").await;
    assert_eq!(answer.code, 201);
    let said = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p1' with binding 'b1': hm\"";
    assert_eq!(answer.warnings, [said]);
    let world = under(spec, json!({"validationActions": ["Audit"]})).await;
    let answer = world.map("v").await;
    assert_eq!((answer.code, answer.warnings.len()), (201, 0));
}

#[tokio::test]
async fn n165_a_binding_narrows_its_policy_and_conditions_decide() {
    let spec = validation("request.operation != 'DELETE'", json!({}));
    let within = json!({"matchResources": {"objectSelector": {"matchLabels": {"x": "y"}}}});
    let world = under(validation("false", json!({})), within).await;
    assert_eq!(world.map("v").await.code, 201);
    let mut labelled = map("w");
    labelled["metadata"]["labels"] = json!({"x": "y"});
    assert_eq!(world.post(MAPS, &labelled).await.code, 422);
    let world = under(spec.clone(), json!({})).await;
    assert_eq!(world.map("v").await.code, 201);
    let answer = world.delete(&format!("{MAPS}/v")).await;
    assert_eq!(answer.code, 422, "{answer:?}");
    let mut conditional = spec;
    conditional["matchConditions"] = json!([{"name": "c", "expression": "request.operation != 'DELETE'"}]);
    let world = under(conditional, json!({})).await;
    world.map("v").await;
    assert_eq!(world.delete(&format!("{MAPS}/v")).await.code, 200);
}

#[tokio::test]
async fn n165_parameters_come_from_the_object_that_the_binding_names() {
    let mut spec = validation("object.data.a in params.data.allowed.split(',')", json!({}));
    spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    spec["matchConditions"] = json!([{"name": "not-the-params", "expression": "object.metadata.name != 'params'"}]);
    let named = |action: &str| json!({"paramRef": {"name": "params", "parameterNotFoundAction": action}});
    let world = under(spec.clone(), named("Deny")).await;
    let answer = world.map("v").await;
    let said = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(answer.body["message"].as_str().unwrap().ends_with(said), "{answer:?}");
    let world = under(spec.clone(), named("Allow")).await;
    assert_eq!(world.map("v").await.code, 201);
    let mut params = map("params");
    params["data"] = json!({"allowed": "b,c"});
    world.ok(MAPS, &params).await;
    assert_eq!(world.map("w").await.code, 201);
    let mut other = map("x");
    other["data"]["a"] = "z".into();
    assert_eq!(world.post(MAPS, &other).await.code, 422);
}

#[tokio::test]
async fn n165_what_makes_no_sense_is_refused() {
    let world = World::new().await;
    let list = |text: &str| validation(text, json!({}));
    for (spec, said) in [
        (
            list("1"),
            "spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
        ),
        (
            list("object."),
            "spec.validations[0].expression: Invalid value: \"object.\": compilation failed: ERROR: <input>:1:",
        ),
        (list("nobody"), "undeclared reference to 'nobody'"),
        (list(""), "spec.validations[0].expression: Required value"),
        (
            validation("true", json!({"reason": "Bad"})),
            "spec.validations[0].reason: Unsupported value: \"Bad\"",
        ),
        (
            validation("true", json!({"messageExpression": "1"})),
            "must evaluate to string but got int",
        ),
        (
            json!({}),
            "spec.validations: Required value: validations or auditAnnotations must be non-empty",
        ),
        (
            json!({"validations": [{"expression": "true"}], "matchConstraints": null}),
            "spec.matchConstraints: Required value",
        ),
        (
            json!({"validations": [{"expression": "true"}], "variables": [{"name": "1x", "expression": "1"}]}),
            "name is not a valid CEL identifier",
        ),
    ] {
        let answer = world.post(POLICIES, &policy(spec)).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(answer.code == 422 && message.contains(said), "{said}: {answer:?}");
    }
    for (more, said) in [
        (
            json!({"validationActions": ["Deny", "Warn"]}),
            "must not contain both Deny and Warn",
        ),
        (
            json!({"validationActions": []}),
            "spec.validationActions: Required value",
        ),
        (json!({"policyName": ""}), "spec.policyName: Required value"),
        (
            json!({"paramRef": {"name": "a"}}),
            "spec.paramRef.parameterNotFoundAction: Required value",
        ),
    ] {
        let answer = world.post(BINDINGS, &binding(more)).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(answer.code == 422 && message.contains(said), "{said}: {answer:?}");
    }
}

#[tokio::test]
async fn a_mutating_admission_policy_is_a_kind_that_there_is_not() {
    let world = World::new().await;
    let answer = world
        .post(
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
            &json!({}),
        )
        .await;
    assert_eq!((answer.code, &answer.body["reason"]), (404, &json!("NotFound")));
}

#[tokio::test]
async fn conditions_of_a_policy_know_its_parameters_and_the_namespace() {
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [
            {"name": "asked", "expression": "params.data.judges == object.metadata.name"},
            {"name": "here", "expression": "namespaceObject.metadata.name == 'default'"},
        ],
        "validations": [{"expression": "false"}],
    });
    let bound = json!({"paramRef": {"name": "rule", "parameterNotFoundAction": "Deny"}});
    let world = World::new().await;
    let mut rule = map("rule");
    rule["data"] = json!({"judges": "v"});
    world.ok(MAPS, &rule).await;
    world.ok(POLICIES, &policy(spec.clone())).await;
    world.ok(BINDINGS, &binding(bound)).await;
    assert_eq!(world.map("w").await.code, 201);
    assert_eq!(world.map("v").await.code, 422);
    // Its variables are looked at later, and may not be named here.
    let mut wrong = spec;
    wrong["matchConditions"][0]["expression"] = json!("variables.x");
    let mut wrong = policy(wrong);
    wrong["metadata"]["name"] = json!("p2");
    assert_eq!(world.post(POLICIES, &wrong).await.code, 422);
}
