//! Zero values (`""`, `false`, 0) of built-in kinds: a plain field of Go counts as absent then, a pointer does not.

use super::world::{APPLY, World};
use http::Method;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const NODES: &str = "/api/v1/nodes";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const PRIORITIES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
const NETWORK_POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const JSON_PATCH: &str = "application/json-patch+json";

fn pod(more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i:1"}]});
    put_members(&mut spec, more);
    json!({"metadata": {"name": "x"}, "spec": spec})
}

fn workload(more: Value) -> Value {
    let labels = json!({"app": "x"});
    let mut spec = json!({"selector": {"matchLabels": labels}, "template": {
        "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    }});
    put_members(&mut spec, more);
    json!({"metadata": {"name": "x"}, "spec": spec})
}

/// Puts members over those of an object.
fn put_members(object: &mut Value, members: Value) {
    for (key, value) in members.as_object().expect("members") {
        object[key] = value.clone();
    }
}

#[tokio::test]
async fn an_empty_plain_field_gets_its_default() {
    let world = World::new().await;
    let port = json!([{"port": 80, "protocol": ""}]);
    let service = json!({"metadata": {"name": "x"}, "spec": {"type": "", "sessionAffinity": "", "ports": port}});
    let probed = json!([{
        "name": "c", "image": "i:1", "imagePullPolicy": "", "terminationMessagePolicy": "",
        "env": [{"name": "A", "value": ""}], "ports": [{"containerPort": 80, "protocol": ""}],
        "livenessProbe": {"httpGet": {"port": 80, "scheme": "", "path": ""}, "timeoutSeconds": 0, "periodSeconds": 0},
    }]);
    let named =
        json!({"restartPolicy": "", "dnsPolicy": "", "schedulerName": "", "nodeName": "", "containers": probed});
    let never = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let cron = json!({"metadata": {"name": "x"}, "spec": {
        "schedule": "0 0 1 1 *", "concurrencyPolicy": "", "jobTemplate": {"spec": {"template": {"spec": never}}},
    }});
    let container = "/spec/containers/0";
    let at = |below: &str| format!("{container}/{below}");
    let table = [
        (
            SERVICES,
            service,
            vec![
                ("/spec/type".to_owned(), json!("ClusterIP")),
                ("/spec/sessionAffinity".to_owned(), json!("None")),
                ("/spec/ports/0/protocol".to_owned(), json!("TCP")),
            ],
        ),
        (
            DEPLOYMENTS,
            workload(json!({"strategy": {"type": ""}})),
            vec![("/spec/strategy/type".to_owned(), json!("RollingUpdate"))],
        ),
        (
            PODS,
            pod(named),
            vec![
                ("/spec/restartPolicy".to_owned(), json!("Always")),
                ("/spec/dnsPolicy".to_owned(), json!("ClusterFirst")),
                ("/spec/schedulerName".to_owned(), json!("default-scheduler")),
                ("/spec/nodeName".to_owned(), Value::Null),
                (at("imagePullPolicy"), json!("IfNotPresent")),
                (at("terminationMessagePolicy"), json!("File")),
                (at("env/0"), json!({"name": "A"})),
                (at("ports/0/protocol"), json!("TCP")),
                (at("livenessProbe/httpGet/scheme"), json!("HTTP")),
                (at("livenessProbe/httpGet/path"), json!("/")),
                (at("livenessProbe/timeoutSeconds"), json!(1)),
                (at("livenessProbe/periodSeconds"), json!(10)),
            ],
        ),
        (
            CRON_JOBS,
            cron,
            vec![("/spec/concurrencyPolicy".to_owned(), json!("Allow"))],
        ),
        (
            SECRETS,
            json!({"metadata": {"name": "x", "generateName": ""}, "type": ""}),
            vec![
                ("/type".to_owned(), json!("Opaque")),
                ("/metadata/generateName".to_owned(), Value::Null),
            ],
        ),
    ];
    for (path, body, wants) in table {
        let (code, made) = world.post(path, &body).await;
        assert_eq!(code, 201, "{path}: {made}");
        for (pointer, want) in wants {
            let found = made.pointer(&pointer).cloned().unwrap_or_default();
            assert_eq!(found, want, "{path} {pointer}");
        }
    }
}

#[tokio::test]
async fn patching_an_absent_plain_field_to_zero_changes_nothing() {
    let world = World::new().await;
    let class = json!({"metadata": {"name": "x"}, "value": 5});
    let node = json!({"metadata": {"name": "x"}});
    let table = [
        (DEPLOYMENTS, workload(json!({})), "/spec", json!({"paused": false})),
        (DEPLOYMENTS, workload(json!({})), "/spec", json!({"minReadySeconds": 0})),
        (
            DEPLOYMENTS,
            workload(json!({})),
            "/spec/template/spec",
            json!({"hostNetwork": false, "nodeName": ""}),
        ),
        (NODES, node, "/spec", json!({"unschedulable": false})),
        (PRIORITIES, class, "", json!({"globalDefault": false})),
    ];
    for (path, body, place, members) in table {
        let (code, made) = world.post(path, &body).await;
        assert_eq!(code, 201, "{path}: {made}");
        let at = format!("{path}/x");
        let steps = place.split('/').filter(|it| !it.is_empty());
        let merge = steps.rev().fold(members.clone(), |below, key| json!({key: below}));
        let adds: Value = members
            .as_object()
            .expect("members")
            .iter()
            .map(|(key, value)| json!({"op": "add", "path": format!("{place}/{key}"), "value": value}))
            .collect();
        let merged = world.merge(&at, merge).await;
        let added = world.ask(Method::PATCH, &at, JSON_PATCH, &adds).await;
        for (code, patched) in [merged, added] {
            assert_eq!(code, 200, "{patched}");
            for key in ["generation", "resourceVersion", "managedFields"] {
                assert_eq!(patched["metadata"][key], made["metadata"][key], "{members}: {key}");
            }
        }
        assert_eq!(world.delete(&at).await.0, 200);
    }
}

#[tokio::test]
async fn patching_a_plain_field_to_zero_removes_it() {
    let world = World::new().await;
    let (code, made) = world
        .post(DEPLOYMENTS, &workload(json!({"paused": true, "minReadySeconds": 5})))
        .await;
    assert_eq!(code, 201, "{made}");
    let zeros = json!({"spec": {"paused": false, "minReadySeconds": 0}});
    let (code, patched) = world.merge(&format!("{DEPLOYMENTS}/x"), zeros).await;
    assert_eq!((code, &patched["metadata"]["generation"]), (200, &json!(2)));
    for key in ["paused", "minReadySeconds"] {
        assert_eq!(patched["spec"].get(key), None, "{patched}");
    }
}

#[tokio::test]
async fn a_pointer_keeps_its_zero() {
    let world = World::new().await;
    let (code, made) = world.post(DEPLOYMENTS, &workload(json!({"replicas": 0}))).await;
    assert_eq!((code, &made["spec"]["replicas"]), (201, &json!(0)));
    let body = pod(json!({"automountServiceAccountToken": false, "enableServiceLinks": false}));
    let (code, made) = world.post(PODS, &body).await;
    assert_eq!(code, 201, "{made}");
    for key in ["automountServiceAccountToken", "enableServiceLinks"] {
        assert_eq!(made["spec"][key], false, "{key}");
    }
    let policy =
        json!({"metadata": {"name": "x"}, "spec": {"podSelector": {}, "ingress": [{"ports": [{"protocol": ""}]}]}});
    let hook = |field: &str| {
        let mut hook = json!({
            "name": "a.ex.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://ex.io/"},
        });
        hook[field] = "".into();
        json!({"metadata": {"name": "x"}, "webhooks": [hook]})
    };
    for (path, body) in [
        (NETWORK_POLICIES, policy),
        (WEBHOOKS, hook("failurePolicy")),
        (WEBHOOKS, hook("matchPolicy")),
    ] {
        let (code, answer) = world.post(path, &body).await;
        assert_eq!(code, 422, "{path}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains("Unsupported value: \"\""), "{message}");
    }
}

#[tokio::test]
async fn what_is_required_is_missed_when_it_is_empty() {
    let world = World::new().await;
    let external = json!({"metadata": {"name": "x"}, "spec": {"type": "ExternalName", "externalName": ""}});
    let table = [
        (
            PODS,
            pod(json!({"containers": [{"name": "", "image": "i"}]})),
            "spec.containers[0].name",
        ),
        (
            PODS,
            pod(json!({"containers": [{"name": "c", "image": ""}]})),
            "spec.containers[0].image",
        ),
        (SERVICES, external, "spec.externalName"),
    ];
    for (path, body, field) in table {
        let (code, answer) = world.post(path, &body).await;
        assert_eq!(code, 422, "{field}: {answer}");
        let cause = &answer["details"]["causes"][0];
        assert_eq!(
            (&cause["field"], &cause["reason"]),
            (&json!(field), &json!("FieldValueRequired")),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn plain_fields_that_go_always_writes_are_there() {
    let world = World::new().await;
    let revision = json!({"metadata": {"name": "x"}, "data": {"a": 1}});
    let table = [
        (STATEFUL_SETS, workload(json!({})), "/spec/serviceName", json!("")),
        (PRIORITIES, json!({"metadata": {"name": "x"}}), "/value", json!(0)),
        (REVISIONS, revision, "/revision", json!(0)),
        (
            CSI_NODES,
            json!({"metadata": {"name": "x"}, "spec": {}}),
            "/spec/drivers",
            Value::Null,
        ),
    ];
    for (path, body, pointer, want) in table {
        let (code, made) = world.post(path, &body).await;
        assert_eq!(code, 201, "{path}: {made}");
        assert_eq!(made.pointer(pointer), Some(&want), "{made}");
    }
}

#[tokio::test]
async fn who_applies_a_zero_owns_the_field_though_it_vanishes() {
    let world = World::new().await;
    let mut body = workload(json!({"paused": false}));
    put_members(&mut body, json!({"apiVersion": "apps/v1", "kind": "Deployment"}));
    let path = format!("{DEPLOYMENTS}/x?fieldManager=m");
    let (code, made) = world.ask(Method::PATCH, &path, APPLY, &body).await;
    assert_eq!((code, made["spec"].get("paused")), (201, None), "{made}");
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert_eq!(owned["f:paused"], json!({}), "{owned}");
    let (code, again) = world.ask(Method::PATCH, &path, APPLY, &body).await;
    assert_eq!((code, &again["metadata"]), (200, &made["metadata"]));
}
