//! Which writes a webhook sees.

use super::{
    hook::Hook,
    world::{JSON, MAPS, MERGE, VALIDATING, World, configuration, map, rules, webhook},
};
use http::Method;
use serde_json::{Value, json};

/// A webhook that denies everything that it sees: whatever it sees, it does not happen.
async fn denying(more: Value) -> (World, Hook) {
    let world = World::new().await;
    for (name, labels) in [("prod", json!({"env": "prod"})), ("dev", json!({"env": "dev"}))] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        world.ok("/api/v1/namespaces", &namespace).await;
    }
    world.map("early").await;
    let hook = Hook::new(|_, _| json!({"allowed": false})).await;
    let hooks = [webhook("test", hook.config("/"), more)];
    world.ok(VALIDATING, &configuration("Validating", "v", &hooks)).await;
    (world, hook)
}

fn in_namespace(name: &str) -> String {
    format!("/api/v1/namespaces/{name}/configmaps")
}

#[tokio::test]
async fn n159_a_namespace_selector_looks_at_the_namespaces_labels() {
    let more = json!({
        "namespaceSelector": {"matchLabels": {"env": "prod"}}, "rules": rules(&["configmaps", "namespaces", "clusterroles"]),
    });
    let (world, _hook) = denying(more).await;
    assert_eq!(world.post(&in_namespace("prod"), &map("a")).await.code, 400);
    assert_eq!(world.post(&in_namespace("dev"), &map("a")).await.code, 201);
    // A namespace is chosen by its own labels, and what is in none always.
    let namespace = |env: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"env": env}}});
    assert_eq!(world.post("/api/v1/namespaces", &namespace("prod")).await.code, 400);
    assert_eq!(world.post("/api/v1/namespaces", &namespace("dev")).await.code, 201);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []});
    assert_eq!(
        world
            .post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role)
            .await
            .code,
        400
    );
}

#[tokio::test]
async fn n159_an_object_selector_looks_at_the_object_before_and_after() {
    let (world, _hook) =
        denying(json!({"objectSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}})).await;
    let mut labelled = map("b");
    labelled["metadata"]["labels"] = json!({"x": "y"});
    assert_eq!(world.post(MAPS, &labelled).await.code, 400);
    assert_eq!(world.map("a").await.code, 201);
    let path = format!("{MAPS}/a");
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    assert_eq!(world.ask(Method::PATCH, &path, MERGE, &label).await.code, 400);
    assert_eq!(
        world
            .ask(Method::PATCH, &path, MERGE, &json!({"data": {"c": "d"}}))
            .await
            .code,
        200
    );
}

#[tokio::test]
async fn n159_rules_choose_by_operation_scope_and_resource() {
    let rule = |operations: &[&str], resources: &[&str], scope: &str| json!({"rules": [{"operations": operations, "apiGroups": ["*"], "apiVersions": ["v1"], "resources": resources, "scope": scope}]});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []});
    for (more, on_map, on_role, on_delete) in [
        (rule(&["CREATE"], &["*"], "*"), 400, 400, 200),
        (rule(&["CREATE"], &["*"], "Cluster"), 201, 400, 200),
        (rule(&["CREATE"], &["*"], "Namespaced"), 400, 201, 200),
        (rule(&["DELETE"], &["*/*"], "*"), 201, 201, 400),
        (rule(&["*"], &["configmaps/status"], "*"), 201, 201, 200),
        (
            rule(&["UPDATE", "DELETE"], &["configmaps", "secrets"], "Namespaced"),
            201,
            201,
            400,
        ),
    ] {
        let (world, _hook) = denying(more.clone()).await;
        assert_eq!(world.map("a").await.code, on_map, "{more}");
        let answer = world
            .post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role)
            .await;
        assert_eq!(answer.code, on_role, "{more}");
        let path = format!("{MAPS}/early");
        assert_eq!(
            world.ask(Method::DELETE, &path, JSON, &Value::Null).await.code,
            on_delete,
            "{more}"
        );
    }
}

fn crd() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}

#[tokio::test]
async fn n159_an_equivalent_version_is_converted_to_the_one_that_the_rule_names() {
    for (policy, code) in [("Equivalent", 400), ("Exact", 201)] {
        let rules =
            json!([{"operations": ["*"], "apiGroups": ["ex.io"], "apiVersions": ["v1"], "resources": ["widgets"]}]);
        let (world, hook) = denying(json!({"rules": rules, "matchPolicy": policy})).await;
        world
            .ok("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd())
            .await;
        let widget = json!({"apiVersion": "ex.io/v2", "kind": "Widget", "metadata": {"name": "w"}});
        let answer = world.post("/apis/ex.io/v2/namespaces/default/widgets", &widget).await;
        assert_eq!(answer.code, code, "{answer:?}");
        if policy == "Equivalent" {
            let request = hook.last();
            assert_eq!(request["kind"]["version"], "v1");
            assert_eq!(request["resource"]["version"], "v1");
            assert_eq!(request["requestKind"]["version"], "v2");
            assert_eq!(request["requestResource"]["version"], "v2");
            assert_eq!(request["object"]["apiVersion"], "ex.io/v1");
        }
    }
}

#[tokio::test]
async fn n160_conditions_decide_and_one_that_fails_is_the_policys() {
    let condition = |text: &str, policy: &str| json!({"matchConditions": [{"name": "c", "expression": text}], "failurePolicy": policy});
    for (text, policy, code) in [
        ("object.metadata.name == 'skip'", "Fail", 400),
        ("object.metadata.name == 'other'", "Fail", 201),
        (
            "request.userInfo.username == 'admin' && request.operation == 'CREATE'",
            "Fail",
            400,
        ),
        ("oldObject != null", "Fail", 201),
        (
            "authorizer.group('').resource('secrets').namespace('default').check('list').allowed()",
            "Fail",
            400,
        ),
        (
            "authorizer.requestResource.check('create').allowed() && authorizer.path('/healthz').check('get').allowed()",
            "Fail",
            400,
        ),
        (
            "authorizer.serviceAccount('default', 'x').group('').resource('secrets').check('list').allowed()",
            "Fail",
            201,
        ),
        ("object.metadata.nope.x == 'skip'", "Fail", 403),
        ("object.metadata.nope.x == 'skip'", "Ignore", 201),
    ] {
        let (world, _hook) = denying(condition(text, policy)).await;
        let answer = world.map("skip").await;
        assert_eq!(answer.code, code, "{text}: {answer:?}");
        if code == 403 {
            let said = "configmaps \"skip\" is forbidden: expression 'object.metadata.nope.x == 'skip'' resulted in error: no such key: nope";
            assert_eq!(answer.body["message"], said);
        }
    }
}
