//! Conversion by the webhook that a definition names.

use super::{
    hook::Hook,
    world::{JSON, MERGE, World},
};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use kube_api::identity::{MASTERS, User};
use serde_json::{Value, json};
use std::time::Duration;

const V1: &str = "/apis/ex.io/v1/namespaces/default/convs";
const V2: &str = "/apis/ex.io/v2/namespaces/default/convs";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(config: Value) -> Value {
    let version = |name: &str, storage: bool, spec: Value| {
        json!({
            "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": spec},
                "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
            }}},
        })
    };
    let first = json!({"address": {"type": "string"}, "color": {"type": "string", "default": "red"}});
    let second = json!({"host": {"type": "string"}, "port": {"type": "string"}, "color": {"type": "string"}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "convs.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "names": {"plural": "convs", "kind": "Conv"},
            "versions": [version("v1", true, first), version("v2", false, second)],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}},
        },
    })
}

/// `v1` says `address: host:port`, `v2` says `host` and `port`; metadata is tampered with on the way.
fn convert(mut object: Value, to: &str) -> Value {
    object["apiVersion"] = to.into();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        if to == "ex.io/v2" {
            if let Some(Value::String(address)) = spec.remove("address") {
                let (host, port) = address.split_once(':').unwrap();
                spec.insert("host".into(), host.into());
                spec.insert("port".into(), port.into());
            }
            spec.insert("unknown".into(), "to the schema".into());
        } else {
            let mut text = |key: &str| {
                spec.remove(key)
                    .and_then(|it| it.as_str().map(str::to_owned))
                    .unwrap_or_default()
            };
            let address = format!("{}:{}", text("host"), text("port"));
            spec.insert("address".into(), address.into());
        }
    }
    object["metadata"]["labels"]["converted"] = "yes".into();
    object["metadata"]["finalizers"] = json!(["mine/mine"]);
    object["metadata"]["generation"] = 99.into();
    object
}

async fn converting() -> (World, Hook) {
    let world = World::new().await;
    let hook = Hook::raw(|_, review| {
        let request = &review["request"];
        let objects = request["objects"].as_array().unwrap();
        let to = request["desiredAPIVersion"].as_str().unwrap();
        let poisoned = objects.iter().any(|it| it["metadata"]["name"] == "poison");
        let mut response = json!({"uid": request["uid"], "result": {"status": "Success"}});
        if poisoned {
            response["result"] = json!({"status": "Failed", "message": "it is poisoned"});
        } else {
            response["convertedObjects"] = objects.iter().map(|it| convert(it.clone(), to)).collect();
        }
        let answer = json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response});
        Some((200, answer.to_string()))
    })
    .await;
    world.ok(CRDS, &definition(hook.config("/convert"))).await;
    (world, hook)
}

fn conv(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("ex.io/{version}"), "kind": "Conv", "metadata": {"name": name}, "spec": spec})
}

impl World {
    async fn get(&self, path: &str) -> Value {
        let answer = self.ask(Method::GET, path, "", &Value::Null).await;
        assert_eq!(answer.code, 200, "{answer:?}");
        answer.body
    }
}

#[tokio::test]
async fn n144_every_verb_speaks_the_version_of_its_path() {
    let (world, hook) = converting().await;
    let made = world.ok(V2, &conv("v2", "a", json!({"host": "h", "port": "1"}))).await;
    assert_eq!(made["spec"], json!({"host": "h", "port": "1", "color": "red"}));
    let (path, review) = hook.seen()[0].clone();
    assert_eq!(path, "/convert?timeout=30s");
    assert_eq!(
        (&review["apiVersion"], &review["kind"]),
        (&json!("apiextensions.k8s.io/v1"), &json!("ConversionReview"))
    );
    assert_eq!(review["request"]["desiredAPIVersion"], "ex.io/v1");
    assert_eq!(review["request"]["objects"][0]["spec"]["host"], "h");
    assert_eq!(
        review["response"],
        json!({"uid": "", "convertedObjects": null, "result": {"metadata": {}}})
    );
    let stored = world.get(&format!("{V1}/a")).await;
    assert_eq!(stored["spec"], json!({"address": "h:1", "color": "red"}));
    let patched = world
        .ask(
            Method::PATCH,
            &format!("{V2}/a"),
            MERGE,
            &json!({"spec": {"port": "2"}}),
        )
        .await;
    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(world.get(&format!("{V1}/a")).await["spec"]["address"], "h:2");
    let mut whole = world.get(&format!("{V2}/a")).await;
    whole["spec"]["host"] = "g".into();
    assert_eq!(world.ask(Method::PUT, &format!("{V2}/a"), JSON, &whole).await.code, 200);
    let status = json!({"status": {"phase": "Up"}});
    let answer = world
        .ask(Method::PATCH, &format!("{V2}/a/status"), MERGE, &status)
        .await;
    assert_eq!((answer.code, &answer.body["status"]["phase"]), (200, &json!("Up")));
    let config = conv("v2", "applied", json!({"host": "x", "port": "9"}));
    let answer = world
        .ask(
            Method::PATCH,
            &format!("{V2}/applied?fieldManager=me"),
            super::world::APPLY,
            &config,
        )
        .await;
    assert_eq!(answer.code, 201, "{answer:?}");
    let list = world.get(V1).await;
    let addresses: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["spec"]["address"])
        .collect();
    assert_eq!(addresses, ["g:2", "x:9"]);
    assert_eq!(world.delete(&format!("{V2}/a")).await.code, 200);
}

#[tokio::test]
async fn n144_a_webhook_changes_only_labels_and_annotations_of_metadata() {
    let (world, _hook) = converting().await;
    let made = world.ok(V1, &conv("v1", "a", json!({"address": "h:1"}))).await;
    let seen = world.get(&format!("{V2}/a")).await;
    assert_eq!(seen["metadata"]["labels"], json!({"converted": "yes"}));
    for key in [
        "uid",
        "generation",
        "finalizers",
        "creationTimestamp",
        "resourceVersion",
    ] {
        assert_eq!(seen["metadata"][key], made["metadata"][key], "{key}");
    }
    assert_eq!(seen["spec"], json!({"host": "h", "port": "1", "color": "red"}));
}

#[tokio::test]
async fn n144_a_list_is_one_call_and_results_are_cached() {
    let (world, hook) = converting().await;
    for name in ["a", "b", "c"] {
        world.ok(V1, &conv("v1", name, json!({"address": "h:1"}))).await;
    }
    assert_eq!(hook.seen().len(), 0);
    for _ in 0..3 {
        assert_eq!(world.get(V2).await["items"].as_array().unwrap().len(), 3);
        world.get(&format!("{V2}/b")).await;
    }
    let seen = hook.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].1["request"]["objects"].as_array().unwrap().len(), 3);
    let patch = json!({"spec": {"color": "blue"}});
    world.ask(Method::PATCH, &format!("{V1}/b"), MERGE, &patch).await;
    world.get(V2).await;
    assert_eq!(hook.seen()[1].1["request"]["objects"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn n144_a_failure_is_a_500_with_the_webhooks_message() {
    let (world, _hook) = converting().await;
    world.ok(V1, &conv("v1", "poison", json!({"address": "h:1"}))).await;
    let answer = world.ask(Method::GET, &format!("{V2}/poison"), "", &Value::Null).await;
    assert_eq!(answer.code, 500);
    assert_eq!(
        answer.body["message"],
        "conversion webhook for ex.io/v1, Kind=Conv failed: it is poisoned"
    );
    assert_eq!(world.ask(Method::GET, V2, "", &Value::Null).await.code, 500);
    // In its own version it can be read and removed.
    assert_eq!(world.delete(&format!("{V1}/poison")).await.code, 200);
    let world = World::new().await;
    let hook = Hook::raw(|_, _| Some((500, String::new()))).await;
    world.ok(CRDS, &definition(hook.config("/"))).await;
    let answer = world.post(V2, &conv("v2", "a", json!({"host": "h"}))).await;
    let said = "conversion webhook for ex.io/v2, Kind=Conv failed: an error on the server (\"\") has prevented the request from succeeding";
    assert_eq!((answer.code, &answer.body["message"]), (500, &json!(said)));
}

#[tokio::test]
async fn n144_a_watch_converts_events_and_ends_when_conversion_fails() {
    let (world, _hook) = converting().await;
    world.ok(V1, &conv("v1", "first", json!({"address": "h:1"}))).await;
    let request = Request::get(format!("{V2}?watch=true&resourceVersion=0"));
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let mut body = world
        .server
        .answer(request, User::new("admin", &[MASTERS]))
        .await
        .into_body();
    world.ok(V1, &conv("v1", "second", json!({"address": "h:2"}))).await;
    world.ok(V1, &conv("v1", "poison", json!({"address": "h:3"}))).await;
    let mut text = String::new();
    while text.lines().count() < 3 {
        let frame = tokio::time::timeout(Duration::from_secs(30), body.frame()).await;
        let data = frame.expect("an event comes").unwrap().unwrap().into_data();
        text.push_str(std::str::from_utf8(&data.unwrap()).unwrap());
    }
    let events: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(events[0]["object"]["spec"]["port"], "1");
    assert_eq!(events[1]["object"]["spec"]["port"], "2");
    assert_eq!(
        (&events[2]["type"], &events[2]["object"]["code"]),
        (&json!("ERROR"), &json!(500))
    );
}

#[tokio::test]
async fn objects_of_a_former_storage_version_are_converted_on_read() {
    let (world, hook) = converting().await;
    world.ok(V1, &conv("v1", "a", json!({"address": "h:1"}))).await;
    let mut crd = world.get(&format!("{CRDS}/convs.ex.io")).await;
    crd["spec"]["versions"][0]["storage"] = false.into();
    crd["spec"]["versions"][1]["storage"] = true.into();
    let answer = world.ask(Method::PUT, &format!("{CRDS}/convs.ex.io"), JSON, &crd).await;
    assert_eq!(answer.code, 200, "{answer:?}");
    let seen = world.get(&format!("{V2}/a")).await;
    assert_eq!(
        (&seen["apiVersion"], &seen["spec"]["port"]),
        (&json!("ex.io/v2"), &json!("1"))
    );
    assert_eq!(world.get(&format!("{V1}/a")).await["spec"]["address"], "h:1");
    assert_eq!(hook.seen().len(), 1);
}
