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

async fn refusal(config: Value, more: Value) -> String {
    let answer = with(config, more).await.map("a").await;
    assert_eq!(
        (answer.code, &answer.body["reason"]),
        (500, &json!("InternalError")),
        "{answer:?}"
    );
    let message = answer.body["message"].as_str().unwrap();
    let rest = message
        .strip_prefix("Internal error occurred: failed calling webhook \"test.ex.io\": ")
        .unwrap();
    let cause = answer.body["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(message.ends_with(cause));
    rest.to_owned()
}

#[tokio::test]
async fn n157_a_webhook_that_is_not_there_fails_the_write_or_is_passed_over() {
    // Nobody listens there any more.
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let config = json!({"url": format!("https://{address}/x")});
    let said = refusal(config.clone(), json!({})).await;
    assert_eq!(
        said,
        format!(
            "failed to call webhook: Post \"https://{address}/x?timeout=10s\": dial tcp {address}: connect: connection refused"
        )
    );
    let world = with(config, json!({"failurePolicy": "Ignore"})).await;
    assert_eq!(world.map("a").await.code, 201);
}

#[tokio::test]
async fn n157_a_webhook_that_does_not_answer_in_time_fails_the_write() {
    let hook = Hook::raw(|_, _| None).await;
    let said = refusal(hook.config("/slow"), json!({"timeoutSeconds": 1})).await;
    let address = hook.address;
    assert_eq!(
        said,
        format!("failed to call webhook: Post \"https://{address}/slow?timeout=1s\": context deadline exceeded")
    );
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
async fn n157_a_certificate_of_another_authority_is_not_trusted() {
    let (hook, other) = (
        Hook::new(|_, _| json!({"allowed": true})).await,
        Hook::raw(|_, _| None).await,
    );
    let config = json!({"url": format!("https://{}/", hook.address), "caBundle": other.authorities()});
    let said = refusal(config, json!({})).await;
    assert!(
        said.contains("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{said}"
    );
    let config = json!({"url": format!("https://{}/", hook.address)});
    let said = refusal(config, json!({})).await;
    assert!(said.contains("certificate signed by unknown authority"), "{said}");
    assert_eq!(hook.seen().len(), 0);
}

#[tokio::test]
async fn n157_an_answer_that_makes_no_sense_is_a_failure() {
    let answer = |response: Value| {
        move |_: &str, review: &Value| {
            let mut all = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            if all["response"]["uid"] == "same" {
                all["response"]["uid"] = review["request"]["uid"].clone();
            }
            if all["response"]["other"] == "version" {
                all["apiVersion"] = "admission.k8s.io/v1beta1".into();
            }
            Some((200, all.to_string()))
        }
    };
    for (response, said) in [
        (
            json!({"uid": "x", "allowed": true}),
            "received invalid webhook response: expected response.uid=",
        ),
        (
            json!({"uid": "same", "allowed": true, "patch": "e30="}),
            "validating webhook may not return response.patch",
        ),
        (
            json!({"uid": "same", "allowed": true, "other": "version"}),
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview",
        ),
        (json!(null), "webhook response was absent"),
    ] {
        let hook = Hook::raw(answer(response.clone())).await;
        let refused = refusal(hook.config("/"), json!({})).await;
        assert!(refused.contains(said), "{response}: {refused}");
    }
    for (code, text, said) in [
        (
            500,
            "",
            "an error on the server (\"unknown\") has prevented the request from succeeding",
        ),
        (
            503,
            "not now",
            "an error on the server (\"not now\") has prevented the request from succeeding",
        ),
        (404, "", "the server could not find the requested resource"),
        (200, "no json", "json parse error"),
    ] {
        let hook = Hook::raw(move |_, _| Some((code, text.to_owned()))).await;
        let refused = refusal(hook.config("/"), json!({})).await;
        assert!(refused.contains(said), "{code}: {refused}");
    }
}

#[tokio::test]
async fn n164_a_service_is_found_by_slice_endpoints_or_pods() {
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
