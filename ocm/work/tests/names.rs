//! Names in manifests: what goes into the path of a request is exactly the object's name, or the manifest is refused.

#[expect(dead_code, reason = "more can be done in the world than is done here")]
mod world;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Request, Response};
use kube::{Client, client::Body};
use ocm_reconcile::{Clients, Plan, Propagation, Queue, Step, execute};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use work::agent::{
    manifest::{self, ObjectKey},
    objects::WatchedObjects,
    strategy,
};
use world::{World, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_work_with_invalid_names_reports_them_and_is_deletable() {
    let world = World::new().await;
    world
        .create_object("v1", "configmaps", config_map("other", "secret"))
        .await;
    // Those that the hub takes.
    let names = ["a b\r\nX: y", "?q", "a?dryRun=All", "other?x", "a#b"];
    for (number, name) in names.iter().enumerate() {
        let work = format!("work-{number}");
        let mut spec = json!({"workload": {"manifests": [config_map(name, "1")]}});
        spec["manifestConfigs"] = json!([{
            "resourceIdentifier": {"group": "", "resource": "configmaps", "name": "*", "namespace": "*"},
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [
                {"name": "k", "path": ".data.k"}, {"name": "first", "path": ".items[0].data.k"}
            ]}]
        }]);
        world.create_work(&work, spec).await;
        let told = world.work_until(&work, |it| applied(it)["status"] == "False").await;
        let values = &told["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"];
        assert!(values.as_array().is_none_or(Vec::is_empty), "{name:?}: {values}");
        world.delete_work(&work).await;
        world.work_until_gone(&work).await;
        assert!(world.trace(&work).await.is_none(), "{name:?}");
    }
    world.stop().await;
}

#[test]
fn an_invalid_path_segment_is_refused_with_upstreams_message() {
    let cases = [
        ("v1", "default", "..", "invalid resource name \"..\": [may not be '..']"),
        (
            "v1",
            "default",
            "a/b",
            "invalid resource name \"a/b\": [may not contain '/']",
        ),
        (
            "v1",
            "default",
            "a%2Fb",
            "invalid resource name \"a%2Fb\": [may not contain '%']",
        ),
        (
            "v1",
            "a/configmaps/b?x=",
            "a",
            "invalid namespace \"a/configmaps/b?x=\": [may not contain '/']",
        ),
        (
            "apps/v1/x",
            "default",
            "a",
            "invalid version \"v1/x\": [may not contain '/']",
        ),
        (
            "v1",
            "default",
            "a\r\nb",
            "invalid resource name \"a\\r\\nb\": [may not contain control characters]",
        ),
    ];
    for (api_version, namespace, name, why) in cases {
        let raw =
            json!({"apiVersion": api_version, "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}});
        assert_eq!(manifest::parse(0, &raw).unwrap_err().why, why);
    }
}

/// A client whose requests go nowhere but on a list.
fn recording() -> (Client, Arc<Mutex<Vec<String>>>) {
    let paths: Arc<Mutex<Vec<String>>> = Arc::default();
    let list = paths.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        list.lock().unwrap().push(request.uri().to_string());
        async {
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": ""});
            let response = Response::builder()
                .status(404)
                .body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    (Client::new(service, "default"), paths)
}

/// Reads and writes the object as the agent does, and tells the paths.
async fn paths_of(key: &ObjectKey) -> Vec<String> {
    let (client, paths) = recording();
    let objects = WatchedObjects::new(client.clone(), Queue::new(), CancellationToken::new());
    objects.fetch("web", key).await.ok();
    let target = || strategy::target(key, "ConfigMap");
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key.name, "namespace": key.namespace}});
    let (manager, propagation) = ("work-agent".to_owned(), Some(Propagation::Background));
    for step in [
        Step::Apply {
            target: target(),
            object: object.clone(),
            field_manager: manager,
            force: true,
        },
        Step::Replace {
            target: target(),
            subresource: None,
            object,
        },
        Step::MergePatch {
            target: target(),
            subresource: None,
            patch: json!({}),
        },
        Step::Delete {
            target: target(),
            uid: None,
            propagation,
        },
    ] {
        let mut plan = Plan::new();
        plan.push(step);
        execute(&Clients::cluster(client.clone()), &plan).await;
    }
    let paths = paths.lock().unwrap();
    paths.clone()
}

/// A path's segments, as a server takes it apart: what is after `?` is no path, and it is decoded before it is divided.
fn segments(uri: &str) -> Vec<String> {
    let path = uri.split(['?', '#']).next().unwrap();
    let mut bytes = path.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
            decoded.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            decoded.push(byte);
        }
    }
    let decoded = String::from_utf8(decoded).unwrap();
    decoded.split('/').skip(1).map(str::to_owned).collect()
}

fn odd_text() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "/",
        "..",
        ".",
        "%",
        "%2F",
        "?",
        "#",
        "&",
        "=",
        " ",
        "\r\n",
        "\t",
        "\0",
        ":",
        "+",
        ";",
        "ä",
        "\u{202e}",
        "a",
        "b-c",
        "X: y",
        "?dryRun=All",
        "/status",
        "\\",
    ]);
    let built = prop::collection::vec(odd, 1..6).prop_map(|it| it.concat());
    prop_oneof![
        built,
        "\\PC{1,12}",
        "[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?",
        any::<String>()
    ]
}

proptest! {
    #[test]
    fn a_request_names_exactly_its_object_or_is_refused(name in odd_text(), namespace in odd_text()) {
        let raw = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}});
        let is_read = manifest::parse(0, &raw).is_ok();
        prop_assume!(!name.is_empty() && !namespace.is_empty());
        let key = ObjectKey { version: "v1".into(), resource: "configmaps".into(), namespace: namespace.clone(), name: name.clone(), ..ObjectKey::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let paths = runtime.block_on(paths_of(&key));
        prop_assert_eq!(paths.len(), 5, "{:?}", paths);
        for path in paths {
            let segments = segments(&path);
            if is_read {
                prop_assert_eq!(segments, ["api", "v1", "namespaces", &namespace, "configmaps", &name], "{}", path);
            } else {
                // It may stand on record from before: then it is asked for, and reaches nothing else.
                let [api, v1, namespaces, at, configmaps, called] = segments.as_slice() else {
                    return Err(TestCaseError::fail(path));
                };
                prop_assert_eq!([api, v1, namespaces, configmaps], ["api", "v1", "namespaces", "configmaps"]);
                prop_assert!(at.contains('%') || *at == namespace, "{}", path);
                prop_assert!(called.contains('%') || *called == name, "{}", path);
            }
        }
    }
}

fn applied(of: &Value) -> Value {
    let conditions = of["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .find(|it| it["type"] == "Applied")
        .cloned()
        .unwrap_or_default()
}
