//! How webhooks are reached, and what happens when they are not.

use super::{
    hook::Hook,
    world::{MAPS, VALIDATING, World, configuration, map, webhook},
};
use serde_json::{Value, json};

async fn with(config: Value, more: Value) -> World {
    let world = World::new().await;
    let hooks = [webhook("test", config, more)];
    world.ok(VALIDATING, &configuration("Validating", "v", &hooks)).await;
    world
}

#[tokio::test]
async fn a_request_ends_when_its_own_time_is_over() {
    let hook = Hook::raw(|_, _| None).await;
    let world = with(hook.config("/slow"), json!({"timeoutSeconds": 30})).await;
    let answer = world.post(&format!("{MAPS}?timeout=100ms"), &map("a")).await;
    assert_eq!((answer.code, &answer.body["reason"]), (504, &json!("Timeout")));
    assert_eq!(
        answer.body["message"],
        "Timeout: request did not complete within requested timeout - context deadline exceeded"
    );
}

#[tokio::test]
async fn a_service_is_found_by_slice_endpoints_or_pods() {
    let hook = Hook::new(|_, _| json!({"allowed": true})).await;
    let port = hook.address.port();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "default"},
        "spec": {"selector": {"app": "hook"}, "ports": [{"name": "tls", "port": 8443, "targetPort": port}]},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "endpoints": [{"addresses": ["127.0.0.9"], "conditions": {"ready": false}}, {"addresses": ["127.0.0.1"]}],
        "ports": [{"name": "tls", "port": port}],
    });
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "hook"},
        "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "tls", "port": port}]}],
    });
    let config = json!({
        "service": {"namespace": "default", "name": "hook", "port": 8443, "path": "/judge"}, "caBundle": hook.authorities(),
    });
    let failed = |answer: super::world::Answer| answer.body["message"].as_str().unwrap().to_owned();
    for (path, object) in [
        ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice),
        ("/api/v1/namespaces/default/endpoints", endpoints),
    ] {
        let world = with(config.clone(), json!({})).await;
        let said = failed(world.map("a").await);
        assert!(said.ends_with("service \"hook\" not found"), "{said}");
        world.ok("/api/v1/namespaces/default/services", &service).await;
        let said = failed(world.map("a").await);
        assert!(said.ends_with("no endpoints available for service \"hook\""), "{said}");
        world.ok(path, &object).await;
        assert_eq!(world.map("a").await.code, 201);
        let (path, _) = hook.seen().pop().unwrap();
        assert_eq!(path, "/judge?timeout=10s");
    }
    // The certificate has to be for the Service's name.
    let world = World::new().await;
    let mut named = config.clone();
    named["service"]["name"] = "other".into();
    let mut other = service.clone();
    other["metadata"]["name"] = "other".into();
    world.ok("/api/v1/namespaces/default/services", &other).await;
    let mut endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "other"}});
    endpoints["subsets"] = json!([{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "tls", "port": port}]}]);
    world.ok("/api/v1/namespaces/default/endpoints", &endpoints).await;
    let hooks = [webhook("test", named, json!({}))];
    world.ok(VALIDATING, &configuration("Validating", "v", &hooks)).await;
    let said = failed(world.map("a").await);
    assert!(
        said.contains("x509: certificate is valid for") && said.contains("not other.default.svc"),
        "{said}"
    );
}

#[tokio::test]
async fn a_webhook_is_known_by_its_own_certificate_too() {
    let (hook, other) = (
        Hook::new(|_, _| json!({"allowed": true})).await,
        Hook::new(|_, _| json!({"allowed": true})).await,
    );
    let mut config = hook.config("/judge");
    config["caBundle"] = hook.own_certificate().into();
    assert_eq!(with(config.clone(), json!({})).await.map("a").await.code, 201);
    assert_eq!(hook.seen().len(), 1);
    config["caBundle"] = other.own_certificate().into();
    let refused = with(config, json!({})).await.map("a").await;
    let said = refused.body["message"].as_str().unwrap();
    assert!(
        said.ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{said}"
    );
}

#[tokio::test]
async fn webhooks_do_not_keep_a_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let options = || kube_api::Options {
        data_dir: Some(folder.path().to_owned()),
        ..kube_api::Options::default()
    };
    let world = World {
        server: kube_api::Server::open(options()).await.unwrap(),
    };
    let all = json!({"rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]});
    let hooks = [webhook("test", json!({"url": "https://127.0.0.1:1/"}), all)];
    world.ok(VALIDATING, &configuration("Validating", "v", &hooks)).await;
    assert_eq!(world.map("a").await.code, 500);
    world.server.stop(None).await;
    drop(world);
    let world = World {
        server: kube_api::Server::open(options()).await.unwrap(),
    };
    assert_eq!(world.map("a").await.code, 500);
    // Who configures webhooks is never kept from it by one.
    assert_eq!(world.delete(&format!("{VALIDATING}/v")).await.code, 200);
    assert_eq!(world.map("a").await.code, 201);
    world.server.stop(None).await;
}
