//! A custom resource whose versions differ in structure, converted by a plug-in: every verb in every version.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use kube_api::{
    Options, Server,
    conversion::Conversion,
    identity::{AUTHENTICATED, MASTERS, User},
    respond::Body,
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// `v1` says `address: host:port`, `v2` says `host` and `port`.
#[derive(Default)]
struct Widgets {
    conversions: AtomicUsize,
}

impl Conversion for Widgets {
    fn wants(&self, resource: &str) -> bool {
        resource == "widgets.ex.io"
    }

    fn convert(&self, object: &mut Value, api_version: &str) {
        self.conversions.fetch_add(1, Ordering::SeqCst);
        object["apiVersion"] = api_version.into();
        // While ownership is settled, objects without some of their fields are converted too.
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
            return;
        };
        if api_version == "ex.io/v2" {
            if let Some(Value::String(address)) = spec.remove("address") {
                let (host, port) = address.split_once(':').unwrap();
                spec.insert("host".into(), host.into());
                spec.insert("port".into(), port.parse::<i64>().unwrap().into());
            }
            spec.insert("unknown".into(), "to the schema".into());
        } else {
            let host = spec.remove("host").unwrap_or("".into());
            let port = spec.remove("port").unwrap_or(0.into());
            spec.insert("address".into(), format!("{}:{port}", host.as_str().unwrap()).into());
        }
    }
}

fn definition() -> Value {
    let version = |name: &str, storage: bool, spec: Value, column: &str| {
        json!({
            "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": column, "type": "string", "jsonPath": format!(".spec.{column}")}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": spec},
                "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
            }}},
        })
    };
    let first = json!({"address": {"type": "string"}, "color": {"type": "string", "default": "red"}});
    let second = json!({
        "host": {"type": "string"}, "port": {"type": "integer", "maximum": 9, "default": 8}, "color": {"type": "string"},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true, first, "address"), version("v2", false, second, "host")],
        },
    })
}

struct World {
    server: Server,
    plugin: Arc<Widgets>,
}

const V1: &str = "/apis/ex.io/v1/namespaces/default/widgets";
const V2: &str = "/apis/ex.io/v2/namespaces/default/widgets";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl World {
    async fn new() -> Self {
        let plugin = Arc::new(Widgets::default());
        let options = Options {
            conversion: vec![plugin.clone()],
            ..Options::default()
        };
        let world = Self {
            server: Server::open(options).await.unwrap(),
            plugin,
        };
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        world.ok(Method::POST, definitions, definition()).await;
        world
    }

    async fn send(&self, method: Method, path: &str, media: &str, accept: &str, body: Value) -> http::Response<Body> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .header(header::ACCEPT, accept)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        self.server
            .answer(request, User::new("admin", &[MASTERS, AUTHENTICATED]))
            .await
    }

    async fn ask(&self, method: Method, path: &str, media: &str, body: Value) -> (u16, Value) {
        let response = self.send(method, path, media, "application/json", body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    async fn ok(&self, method: Method, path: &str, body: Value) -> Value {
        let media = "application/json";
        self.ok_as(method, path, media, body).await
    }

    async fn ok_as(&self, method: Method, path: &str, media: &str, body: Value) -> Value {
        let (code, value) = self.ask(method, path, media, body).await;
        assert!(code < 300, "{code}: {value}");
        value
    }
}

fn widget(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("ex.io/{version}"), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn an_object_created_in_one_version_is_readable_in_another() {
    let world = World::new().await;
    let made = world
        .ok(Method::POST, V2, widget("v2", "a", json!({"host": "h", "odd": 1})))
        .await;
    assert_eq!(made["apiVersion"], "ex.io/v2");
    // The default of the request's version comes first, then the conversion, then the default of the stored version.
    assert_eq!(made["spec"], json!({"host": "h", "port": 8, "color": "red"}));
    let stored = world.ok(Method::GET, &format!("{V1}/a"), Value::Null).await;
    assert_eq!(stored["apiVersion"], "ex.io/v1");
    assert_eq!(stored["spec"], json!({"address": "h:8", "color": "red"}));
    let list = world.ok(Method::GET, V2, Value::Null).await;
    assert_eq!(list["items"][0]["apiVersion"], "ex.io/v2");
    assert_eq!(list["items"][0]["spec"], made["spec"]);
    assert_eq!(list["items"][0]["metadata"], stored["metadata"]);
}

#[tokio::test]
async fn a_write_is_checked_by_the_schema_of_its_version() {
    let world = World::new().await;
    let (code, status) = world
        .ask(
            Method::POST,
            V2,
            "application/json",
            widget("v2", "a", json!({"host": "h", "port": 10})),
        )
        .await;
    assert_eq!(code, 422, "{status}");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.port");
    world
        .ok(Method::POST, V1, widget("v1", "a", json!({"address": "h:10"})))
        .await;
}

#[tokio::test]
async fn patches_and_updates_speak_the_version_of_their_path() {
    let world = World::new().await;
    world
        .ok(Method::POST, V1, widget("v1", "a", json!({"address": "h:1"})))
        .await;
    let path = format!("{V2}/a");
    let patched = world
        .ok_as(Method::PATCH, &path, MERGE, json!({"spec": {"port": 2}}))
        .await;
    assert_eq!(patched["spec"]["port"], 2);
    assert_eq!(patched["metadata"]["generation"], 2);
    let mut whole = world.ok(Method::GET, &path, Value::Null).await;
    whole["spec"]["host"] = "g".into();
    let updated = world.ok(Method::PUT, &path, whole.clone()).await;
    assert_eq!(updated["metadata"]["generation"], 3);
    let stored = world.ok(Method::GET, &format!("{V1}/a"), Value::Null).await;
    assert_eq!(stored["spec"]["address"], "g:2");
    // The same again changes nothing.
    let again = world.ok(Method::PUT, &path, updated.clone()).await;
    assert_eq!(
        again["metadata"]["resourceVersion"],
        updated["metadata"]["resourceVersion"]
    );
    let status = json!({"status": {"phase": "Up"}, "spec": {"port": 5}});
    let with_status = world
        .ok_as(Method::PATCH, &format!("{path}/status"), MERGE, status)
        .await;
    assert_eq!(with_status["status"]["phase"], "Up");
    assert_eq!(with_status["spec"]["port"], 2);
    let gone = world.ok(Method::DELETE, &path, Value::Null).await;
    assert_eq!(gone["status"], "Success");
}

#[tokio::test]
async fn each_watch_sees_its_own_version() {
    let world = World::new().await;
    let mut bodies = Vec::new();
    for path in [V1, V2] {
        let watch = format!("{path}?watch=true&resourceVersion=0");
        let response = world
            .send(Method::GET, &watch, "application/json", "application/json", Value::Null)
            .await;
        bodies.push(response.into_body());
    }
    world
        .ok(Method::POST, V1, widget("v1", "a", json!({"address": "h:1"})))
        .await;
    world.ok(Method::DELETE, &format!("{V1}/a"), Value::Null).await;
    let wanted = [
        json!({"address": "h:1", "color": "red"}),
        json!({"host": "h", "port": 1, "color": "red"}),
    ];
    for (mut body, spec) in bodies.into_iter().zip(wanted) {
        let mut text = String::new();
        while text.lines().count() < 2 {
            let frame = tokio::time::timeout(Duration::from_secs(30), body.frame()).await;
            let data = frame.expect("an event comes").unwrap().unwrap().into_data();
            text.push_str(std::str::from_utf8(&data.unwrap()).unwrap());
        }
        let events: Vec<Value> = text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(
            (&events[0]["type"], &events[0]["object"]["spec"]),
            (&"ADDED".into(), &spec)
        );
        assert_eq!(
            (&events[1]["type"], &events[1]["object"]["spec"]),
            (&"DELETED".into(), &spec)
        );
    }
}

#[tokio::test]
async fn a_table_has_the_columns_of_its_version() {
    let world = World::new().await;
    world
        .ok(Method::POST, V1, widget("v1", "a", json!({"address": "h:1"})))
        .await;
    for (path, cell) in [(V1, "h:1"), (V2, "h")] {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let response = world
            .send(Method::GET, path, "application/json", accept, Value::Null)
            .await;
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let table: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(table["rows"][0]["cells"], json!(["a", cell]));
    }
}

#[tokio::test]
async fn many_readers_of_one_state_cost_one_conversion() {
    let world = World::new().await;
    world
        .ok(Method::POST, V1, widget("v1", "a", json!({"address": "h:1"})))
        .await;
    for _ in 0..5 {
        world.ok(Method::GET, &format!("{V2}/a"), Value::Null).await;
        world.ok(Method::GET, V2, Value::Null).await;
    }
    assert_eq!(world.plugin.conversions.load(Ordering::SeqCst), 1);
}

fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries
        .iter()
        .map(|it| {
            let text = |key: &str| it[key].as_str().unwrap().to_owned();
            format!(
                "{} {} {}",
                text("manager"),
                text("apiVersion"),
                it["fieldsV1"]["f:spec"]
            )
        })
        .collect()
}

#[tokio::test]
async fn managers_own_fields_in_their_own_version() {
    let world = World::new().await;
    let first = widget("v1", "a", json!({"address": "h:1", "color": "blue"}));
    world
        .ok_as(Method::PATCH, &format!("{V1}/a?fieldManager=one"), APPLY, first)
        .await;
    // An edit in the other version takes from the first what it changed, in the words of the first.
    let patch = json!({"spec": {"port": 2}});
    let patched = world
        .ok_as(Method::PATCH, &format!("{V2}/a?fieldManager=two"), MERGE, patch)
        .await;
    assert_eq!(
        managers(&patched),
        [r#"one ex.io/v1 {"f:color":{}}"#, r#"two ex.io/v2 {"f:port":{}}"#]
    );
    // An apply in the other version meets what the first still has.
    let second = widget("v2", "a", json!({"color": "green", "host": "x"}));
    let (code, status) = world
        .ask(Method::PATCH, &format!("{V2}/a?fieldManager=three"), APPLY, second)
        .await;
    assert_eq!(code, 409, "{status}");
    assert_eq!(status["details"]["causes"][0]["message"], "conflict with \"one\"");
    assert_eq!(status["details"]["causes"][0]["field"], ".spec.color");
    let second = widget("v2", "a", json!({"color": "blue", "host": "x"}));
    let shared = world
        .ok_as(Method::PATCH, &format!("{V2}/a?fieldManager=three"), APPLY, second)
        .await;
    assert_eq!(shared["spec"], json!({"host": "x", "port": 2, "color": "blue"}));
    // One of two owners lets go: the other one, of another version, keeps the field.
    let third = widget("v2", "a", json!({"host": "x"}));
    let kept = world
        .ok_as(Method::PATCH, &format!("{V2}/a?fieldManager=three"), APPLY, third)
        .await;
    assert_eq!(kept["spec"]["color"], "blue");
    // The first applies in the other version from now on; what it no longer wants goes.
    let moved = widget("v2", "a", json!({"port": 2}));
    let last = world
        .ok_as(Method::PATCH, &format!("{V2}/a?fieldManager=one"), APPLY, moved)
        .await;
    assert_eq!(last["spec"], json!({"host": "x", "port": 2, "color": "red"}));
}
