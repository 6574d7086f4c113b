//! Numbers as large as they can be written, and objects as deep as they can be: an answer, and a server that goes on.

use crate::client::{Client, World, text};
use http::Method;
use kube_api::Options;
use serde_json::{Value, json};

async fn said(client: &Client, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let response = client.ask(method, path, body).await;
    let code = response.status().as_u16();
    (code, serde_json::from_str(&text(response).await).unwrap_or_default())
}

async fn made(client: &Client, path: &str, object: Value) {
    let (code, answer) = said(client, Method::POST, path, Some(object)).await;
    assert_eq!(code, 201, "{path}: {answer}");
}

/// Namespaces are emptied by the controllers, which have to be alive for it.
async fn gone(client: &Client, namespace: &str) {
    let path = format!("/api/v1/namespaces/{namespace}");
    let (code, _) = said(client, Method::DELETE, &path, None).await;
    assert_eq!(code, 200);
    while said(client, Method::GET, &path, None).await.0 != 404 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_endless_grace_period_blocks_neither_delete_nor_controllers() {
    let world = World::start(Options::default()).await;
    let client = world.client("user").await;
    made(&client, "/api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    for (namespace, grace) in [("asked", ""), ("own", "?gracePeriodSeconds=9223372036854775807")] {
        made(&client, "/api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "nodeName": "n", "terminationGracePeriodSeconds": i64::MAX, "containers": [{"name": "c", "image": "i"}],
        }});
        made(&client, &pods, pod).await;
        let (code, pod) = said(&client, Method::DELETE, &format!("{pods}/p{grace}"), None).await;
        assert_eq!(code, 200, "{pod}");
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], i64::MAX);
        // No kubelet of this test ends it.
        let (code, _) = said(&client, Method::DELETE, &format!("{pods}/p?gracePeriodSeconds=0"), None).await;
        assert_eq!(code, 200);
        gone(&client, namespace).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn a_watch_without_end_begins() {
    let world = World::start(Options::default()).await;
    let client = world.client("user").await;
    let path = format!("/api/v1/configmaps?watch=1&timeoutSeconds={}", u64::MAX);
    assert_eq!(client.get(&path).await.status(), 200);
    assert_eq!(client.get("/readyz").await.status(), 200);
    world.stop().await;
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("leaf"), |inner, _| json!({"k": inner}))
}

#[tokio::test]
async fn objects_nested_too_deeply_to_read_back_are_refused() {
    let world = World::start(Options::default()).await;
    let client = world.client("user").await;
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": free}});
    let definition = json!({"metadata": {"name": "frees.ex.io"}, "spec": {
        "group": "ex.io", "scope": "Namespaced", "names": {"plural": "frees", "kind": "Free"}, "versions": [version],
    }});
    made(
        &client,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    )
    .await;
    made(&client, "/api/v1/namespaces", json!({"metadata": {"name": "deep"}})).await;
    let path = "/apis/ex.io/v1/namespaces/deep/frees";
    while said(&client, Method::GET, path, None).await.0 != 200 {
        tokio::task::yield_now().await;
    }
    let object = |name: &str, levels: usize| json!({"apiVersion": "ex.io/v1", "kind": "Free", "metadata": {"name": name}, "spec": nested(levels)});
    for levels in [100, 115, 126] {
        let (code, answer) = said(&client, Method::POST, path, Some(object("x", levels))).await;
        assert_eq!(code, 400, "{levels}: {answer}");
        assert!(
            answer["message"]
                .as_str()
                .is_some_and(|it| it.ends_with("it nests deeper than 100 levels")),
            "{answer}"
        );
    }
    made(&client, path, object("x", 99)).await;
    let one = format!("{path}/x");
    let (code, mut read) = said(&client, Method::GET, &one, None).await;
    assert_eq!((code, &read["kind"]), (200, &json!("Free")));
    // With its managed fields, which nest deeper.
    read["other"] = 1.into();
    let (code, answer) = said(&client, Method::PUT, &one, Some(read)).await;
    assert_eq!(code, 200, "{answer}");
    let patch = json!({"metadata": {"annotations": nested(100)}});
    assert!(
        said(&client, Method::PUT, &one, Some(patch)).await.0 >= 400,
        "metadata counts as well"
    );
    let (_, list) = said(&client, Method::GET, path, None).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "x");
    gone(&client, "deep").await;
    world.stop().await;
}
