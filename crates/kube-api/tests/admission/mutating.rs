use super::{
    hook::Hook,
    world::{MAPS, MERGE, MUTATING, VALIDATING, World, configuration, map, webhook},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::Method;
use serde_json::{Value, json};

fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

async fn patched_by(answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> (World, Hook) {
    let world = World::new().await;
    let hook = Hook::new(answer).await;
    let hooks = [webhook("test", hook.config("/mutate"), json!({}))];
    world.ok(MUTATING, &configuration("Mutating", "m", &hooks)).await;
    (world, hook)
}

#[tokio::test]
async fn n156_a_patch_is_applied_and_its_result_is_validated() {
    let (world, _hook) = patched_by(|_, request| match request["name"].as_str().unwrap_or_default() {
        "bad" => patch(json!([{"op": "add", "path": "/data/no key!", "value": "x"}])),
        "wrong" => patch(json!([{"op": "add", "path": "/data/n", "value": 1}])),
        "nope" => patch(json!([{"op": "replace", "path": "/nope/x", "value": "x"}])),
        "odd" => patch(json!([{"op": "add", "path": "/unknown", "value": "x"}])),
        "renamed" => patch(json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
        _ => patch(json!([{"op": "add", "path": "/data/added", "value": "x"}])),
    })
    .await;
    let answer = world.map("good").await;
    assert_eq!(answer.code, 201);
    assert_eq!(answer.body["data"], json!({"a": "b", "added": "x"}));
    let bad = world.map("bad").await;
    assert_eq!(
        (bad.code, &bad.body["details"]["causes"][0]["field"]),
        (422, &json!("data[no key!]"))
    );
    let nope = world.map("nope").await;
    assert_eq!(nope.code, 500);
    let said = "Internal error occurred: replace operation does not apply: doc is missing path: /nope/x: missing value";
    assert_eq!(nope.body["message"], said);
    assert_eq!(world.map("wrong").await.code, 500);
    let odd = world.map("odd").await;
    assert_eq!((odd.code, &odd.body["unknown"]), (201, &Value::Null));
    let renamed = world.map("renamed").await;
    assert_eq!(
        (renamed.code, &renamed.body["metadata"]["name"]),
        (201, &json!("other"))
    );
    // What a webhook adds belongs to nobody.
    let fields = answer.body["metadata"]["managedFields"].to_string();
    assert!(!fields.contains("added"), "{fields}");
}

#[tokio::test]
async fn n156_an_update_is_patched_too_and_keeps_what_the_server_owns() {
    let (world, _hook) = patched_by(|_, request| {
        if request["operation"] == "CREATE" {
            return json!({"allowed": true});
        }
        patch(json!([
            {"op": "add", "path": "/data/updated", "value": "x"},
            {"op": "replace", "path": "/metadata/uid", "value": "mine"},
        ]))
    })
    .await;
    let made = world.map("a").await.body;
    let path = format!("{MAPS}/a");
    let answer = world
        .ask(Method::PATCH, &path, MERGE, &json!({"data": {"c": "d"}}))
        .await;
    // As a real API server: another uid than that of the object is refused.
    assert!(
        answer.code == 200 || answer.code == 422 || answer.code == 409,
        "{answer:?}"
    );
    let now = world.ask(Method::GET, &path, "", &Value::Null).await.body;
    assert_eq!(now["metadata"]["uid"], made["metadata"]["uid"]);
}

/// Two webhooks in two configurations: the first copies `data.b`, the second sets it.
async fn in_turn(policy: &str) -> (Vec<String>, Value) {
    let world = World::new().await;
    let hook = Hook::new(|path, request| {
        let data = &request["object"]["data"];
        match path {
            "/first" if data["b"].is_string() && data["copy"].is_null() => {
                patch(json!([{"op": "add", "path": "/data/copy", "value": data["b"]}]))
            }
            "/second" if data["b"].is_null() => patch(json!([{"op": "add", "path": "/data/b", "value": "x"}])),
            _ => json!({"allowed": true}),
        }
    })
    .await;
    let first = webhook("first", hook.config("/first"), json!({"reinvocationPolicy": policy}));
    let second = webhook("second", hook.config("/second"), json!({}));
    // Order is by name, not by age.
    world.ok(MUTATING, &configuration("Mutating", "z", &[second])).await;
    world.ok(MUTATING, &configuration("Mutating", "a", &[first])).await;
    let data = world.map("m").await.body["data"].clone();
    let called = hook
        .seen()
        .into_iter()
        .map(|(path, _)| path.replace("?timeout=10s", ""));
    (called.collect(), data)
}

#[tokio::test]
async fn n161_a_webhook_that_asks_for_it_is_called_again_after_a_later_change() {
    let (called, data) = in_turn("IfNeeded").await;
    assert_eq!(called, ["/first", "/second", "/first"]);
    assert_eq!(data, json!({"a": "b", "b": "x", "copy": "x"}));
    let (called, data) = in_turn("Never").await;
    assert_eq!(called, ["/first", "/second"]);
    assert_eq!(data, json!({"a": "b", "b": "x"}));
}

#[tokio::test]
async fn validating_webhooks_see_what_mutating_ones_made() {
    let (world, _hook) = patched_by(|_, _| patch(json!([{"op": "add", "path": "/data/added", "value": "x"}]))).await;
    let validating = Hook::new(|_, _| json!({"allowed": true})).await;
    let hooks = [webhook("v", validating.config("/"), json!({}))];
    world.ok(VALIDATING, &configuration("Validating", "v", &hooks)).await;
    world.map("m").await;
    let object = validating.last()["object"].clone();
    assert_eq!(object["data"]["added"], "x");
    assert!(object["metadata"]["uid"].is_string());
}

#[tokio::test]
async fn a_scale_is_shown_as_a_scale() {
    let world = World::new().await;
    let hook = Hook::new(|_, request| match request["subResource"].as_str() {
        Some("scale") => patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])),
        _ => json!({"allowed": true}),
    })
    .await;
    let rules = json!({"rules": super::world::rules(&["deployments/*"])});
    let hooks = [webhook("s", hook.config("/"), rules)];
    world.ok(MUTATING, &configuration("Mutating", "m", &hooks)).await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    world.ok(path, &deployment).await;
    let scale = world
        .ask(
            Method::PATCH,
            &format!("{path}/d/scale"),
            MERGE,
            &json!({"spec": {"replicas": 3}}),
        )
        .await;
    assert_eq!(
        (scale.code, &scale.body["spec"]["replicas"]),
        (200, &json!(7)),
        "{scale:?}"
    );
    let request = hook.last();
    assert_eq!(
        request["kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(request["object"]["spec"]["replicas"], 3);
    assert_eq!(request["oldObject"]["kind"], "Scale");
    assert_eq!(map("x")["kind"], "ConfigMap");
}
