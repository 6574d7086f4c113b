//! What a webhook's answer does.

use super::{Judged, MUTATING, VALIDATING, configurations, configure, only, webhook};
use crate::{
    client::Ask,
    cx::{Cx, config_map},
    webhook::Webhook,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// Judges ConfigMaps by their name.
async fn by_name() -> Webhook {
    Webhook::judge(|_, request| match request["name"].as_str().unwrap_or_default() {
        "plain" => json!({"allowed": false, "status": {"message": "no way"}}),
        "silent" => json!({"allowed": false}),
        "forbidden" => json!({"allowed": false, "status": {"code": 403, "reason": "Forbidden", "message": "not you"}}),
        "invalid" => json!({"allowed": false, "status": {"code": 422, "reason": "Invalid", "message": "bad", "details": {"name": "x"}}}),
        "success" => json!({"allowed": false, "status": {"code": 200, "status": "Success", "message": "odd"}}),
        "warned" => json!({"allowed": true, "warnings": ["mind the gap", "and \"this\""]}),
        "warned-and-denied" => json!({"allowed": false, "warnings": ["last warning"]}),
        _ => json!({"allowed": true}),
    })
    .await
}

pub async fn denials(c: Cx) {
    super::configurations::defaults(&c).await;
    super::configurations::refusals(&c).await;
    let it = Judged::by(&c, "judged", by_name().await, json!({})).await;
    it.map("fine").await.is(201);
    for (name, code, reason, said) in [
        ("plain", 400, json!(null), ": no way"),
        ("silent", 400, json!(null), " without explanation"),
        ("forbidden", 403, json!("Forbidden"), ": not you"),
        ("invalid", 422, json!("Invalid"), ": bad"),
        ("success", 400, json!(null), ": odd"),
    ] {
        let reply = it
            .map(name)
            .await
            .is(code)
            .says(&format!(
                "admission webhook \"test.example.com\" denied the request{said}"
            ))
            .has("/status", "Failure")
            .has("/code", code);
        assert_eq!(reply["reason"], reason, "{}", reply.came());
        // What was denied is not there.
        c.get(&format!("{}/{name}", it.maps)).await.is(404);
    }
    it.map("invalid").await.has("/details", json!({"name": "x"}));
    // A configuration that is gone asks nobody.
    c.delete(&format!("{}/{}", configurations(VALIDATING), c.name("judged")))
        .await
        .is(200);
    let ask = Ask::post(it.maps.as_str(), &config_map("plain", json!({})));
    c.until_asked(&c.admin, &ask, |it| it.code == 201).await;
}

pub async fn warnings(c: Cx) {
    let it = Judged::by(&c, "judged", by_name().await, json!({})).await;
    let reply = it.map("warned").await.is(201);
    let given: Vec<_> = reply.headers.get_all("warning").iter().collect();
    assert_eq!(given, ["299 - \"mind the gap\"", "299 - \"and \\\"this\\\"\""]);
    let reply = it.map("warned-and-denied").await.is(400);
    let given: Vec<_> = reply.headers.get_all("warning").iter().collect();
    assert_eq!(given, ["299 - \"last warning\""]);
    it.map("fine").await.is(201).silent();
}

pub async fn dry_run(c: Cx) {
    let it = Judged::by(&c, "judged", by_name().await, json!({"sideEffects": "NoneOnDryRun"})).await;
    let path = format!("{}?dryRun=All", it.maps);
    c.post(&path, config_map("fine", json!({}))).await.is(201);
    let request = it.last();
    assert_eq!(
        (&request["dryRun"], &request["options"]["dryRun"]),
        (&json!(true), &json!(["All"]))
    );
    c.get(&format!("{}/fine", it.maps)).await.is(404);
    c.post(&path, config_map("plain", json!({}))).await.is(400);
    it.map("fine").await.is(201);
    assert_eq!(it.last()["dryRun"], false);
    for (ask, operation) in [
        (
            Ask::patch(
                "merge",
                format!("{}/fine?dryRun=All", it.maps),
                &json!({"data": {"c": "d"}}),
            ),
            "UPDATE",
        ),
        (Ask::delete(format!("{}/fine?dryRun=All", it.maps)), "DELETE"),
    ] {
        c.send(ask).await.is(200);
        let request = it.last();
        assert_eq!(
            (&request["dryRun"], &request["operation"]),
            (&json!(true), &json!(operation))
        );
    }
    c.get(&format!("{}/fine", it.maps))
        .await
        .is(200)
        .has("/data", json!({"a": "b"}));
}

fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

pub async fn patches(c: Cx) {
    let hook = Webhook::judge(|_, request| {
        let name = request["name"].as_str().unwrap_or_default();
        match (request["operation"].as_str().unwrap_or_default(), name) {
            ("CREATE", "bad") => patch(json!([{"op": "add", "path": "/data/no key!", "value": "x"}])),
            ("CREATE", "wrong") => patch(json!([{"op": "add", "path": "/data/n", "value": 1}])),
            ("CREATE", "nope") => patch(json!([{"op": "replace", "path": "/nope/x", "value": "x"}])),
            ("CREATE", "odd") => patch(json!([{"op": "add", "path": "/unknown", "value": "x"}])),
            ("CREATE", "renamed") => patch(json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
            ("CREATE", _) => patch(json!([{"op": "add", "path": "/data/added", "value": "x"}])),
            ("UPDATE", "good") => patch(json!([{"op": "add", "path": "/data/updated", "value": "x"}])),
            ("UPDATE", "odd") => patch(json!([{"op": "replace", "path": "/metadata/uid", "value": "mine"}])),
            ("UPDATE", "scaled") => patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])),
            _ => json!({"allowed": true}),
        }
    })
    .await;
    let more = json!({"rules": super::rules(&["configmaps", "deployments/scale"])});
    let it = Judged::as_a(MUTATING, &c, "patched", hook, more).await;
    // Who validates sees what was made of it.
    let judge = Judged::unjudged(&c, "judge", super::allowing().await).await;
    let seen = webhook(
        "seen",
        judge.hook.config("/"),
        json!({"namespaceSelector": only(&it.namespace)}),
    );
    configure(&c, VALIDATING, "seen", &[seen]).await;
    let good = it
        .map("good")
        .await
        .is(201)
        .has("/data", json!({"a": "b", "added": "x"}));
    let object = judge.last()["object"].clone();
    assert_eq!(
        (&object["data"]["added"], &object["metadata"]["uid"]),
        (&json!("x"), &good["metadata"]["uid"])
    );
    // What a webhook adds belongs to nobody.
    let fields = good["metadata"]["managedFields"].to_string();
    assert!(fields.contains("f:a") && !fields.contains("added"), "{fields}");
    it.map("bad")
        .await
        .fails(422, "Invalid")
        .has("/details/causes/0/field", "data[no key!]");
    it.map("nope")
        .await
        .fails(500, "InternalError")
        .says("Internal error occurred: replace operation does not apply: doc is missing path: /nope/x: missing value");
    it.map("wrong").await.fails(500, "InternalError");
    it.map("odd").await.is(201).lacks("/unknown");
    it.map("renamed").await.is(201).has("/metadata/name", "other");
    let path = |name: &str| format!("{}/{name}", it.maps);
    c.merge(&path("good"), json!({"data": {"c": "d"}}))
        .await
        .is(200)
        .has("/data", json!({"a": "b", "added": "x", "c": "d", "updated": "x"}));
    c.merge(&path("odd"), json!({"data": {"c": "d"}}))
        .await
        .fails(422, "Invalid")
        .mentions("metadata.uid: Invalid value: \"mine\": field is immutable");
    let deployments = format!("/apis/apps/v1/namespaces/{}/deployments", it.namespace);
    let mut deployment = crate::cx::deployment("scaled");
    deployment["spec"]["replicas"] = 0.into();
    c.make(&deployments, deployment).await;
    it.asked();
    c.merge(&format!("{deployments}/scaled/scale"), json!({"spec": {"replicas": 3}}))
        .await
        .is(200)
        .has("/spec/replicas", 7);
    let request = it.last();
    assert_eq!(
        request["kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(request["object"]["spec"]["replicas"], 3);
    assert_eq!(request["oldObject"]["kind"], "Scale");
}

/// Two webhooks in two configurations: the first copies `data.b`, the second sets it.
async fn in_turn(c: &Cx, policy: &str, called: &[&str], data: Value) {
    let what = policy.to_lowercase();
    let hook = Webhook::judge(|path, request| {
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
    let it = Judged::unjudged(c, &what, hook).await;
    let here = |more: Value| {
        let mut all = json!({"namespaceSelector": only(&it.namespace)});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let first = webhook(
        "first",
        it.hook.config("/first"),
        here(json!({"reinvocationPolicy": policy})),
    );
    let second = webhook("second", it.hook.config("/second"), here(json!({})));
    // Order is by name, not by age.
    configure(c, MUTATING, &format!("z-{what}"), &[second]).await;
    configure(c, MUTATING, &format!("a-{what}"), &[first]).await;
    it.map("m").await.is(201).has("/data", data);
    let paths: Vec<String> = it
        .asked()
        .iter()
        .map(|it| it.path.replace("?timeout=10s", ""))
        .collect();
    assert_eq!(paths, called);
}

pub async fn again(c: Cx) {
    let all = json!({"a": "b", "b": "x", "copy": "x"});
    in_turn(&c, "IfNeeded", &["/first", "/second", "/first"], all).await;
    in_turn(&c, "Never", &["/first", "/second"], json!({"a": "b", "b": "x"})).await;
}
