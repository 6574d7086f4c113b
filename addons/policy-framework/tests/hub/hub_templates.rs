//! Templates that the hub fills in, and what it encrypts.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::{Api, core::DynamicObject},
    ocm_api::policy::Policy,
};
use serde_json::{Value, json};

use crate::ground::{GROUP, Hub, NAMESPACE, merge, policy};

const KEY: &str = "policy-encryption-key";

/// Policy `p` with this spec of its template, on cluster `c1`.
async fn filled(hub: &Hub, spec: Value, options: Value) {
    let mut one = policy("p");
    one["spec"]["policy-templates"][0]["objectDefinition"]["spec"] = spec;
    one["spec"]["hubTemplateOptions"] = options;
    hub.apply(one).await;
    hub.bind("all", ("Policy", "p"), json!({})).await;
}

async fn config_map(hub: &Hub, namespace: &str, name: &str, value: &str) {
    let metadata = json!({"name": name, "namespace": namespace});
    hub.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}))
        .await;
}

fn definition(policy: &Policy) -> &Value {
    &policy.spec.policy_templates[0].object_definition
}

fn error(policy: &Policy) -> &str {
    let annotations = &definition(policy)["metadata"]["annotations"];
    annotations[format!("{GROUP}/hub-templates-error")]
        .as_str()
        .unwrap_or_default()
}

/// Whether the field `it` of the template is this.
fn is(value: &'static str) -> impl Fn(&Policy) -> bool {
    move |policy| definition(policy)["spec"]["it"] == value
}

#[tokio::test(flavor = "multi_thread")]
async fn what_templates_look_up_is_watched() {
    let hub = Hub::start(&["c1"]).await;
    config_map(&hub, NAMESPACE, "settings", "red").await;
    let text = r#"{{hub .ManagedClusterName hub}} {{hub fromConfigMap "" "settings" "key" hub}}"#;
    filled(&hub, json!({"it": text}), Value::Null).await;
    hub.replica("c1", "p", "is red", is("c1 red")).await;
    config_map(&hub, NAMESPACE, "settings", "blue").await;
    hub.replica("c1", "p", "is blue", is("c1 blue")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_namespace_is_not_read_and_that_is_told() {
    let hub = Hub::start(&["c1"]).await;
    config_map(&hub, "open-cluster-management", "settings", "red").await;
    let text = r#"{{hub fromConfigMap "open-cluster-management" "settings" "key" hub}}"#;
    filled(&hub, json!({"it": text}), Value::Null).await;
    let wrong = "the namespace argument is restricted to ns";
    let replica = hub
        .replica("c1", "p", "says why", |it| error(it).ends_with(wrong))
        .await;
    assert_eq!(definition(&replica)["spec"]["it"], text);
    let notes = hub.notes("PolicyPropagation", 2).await;
    let note = format!(
        "Warning: Failed to resolve templates for cluster c1: {}",
        error(&replica)
    );
    assert!(notes.contains(&note), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_reads_what_it_may() {
    let hub = Hub::start(&["c1"]).await;
    let far = "open-cluster-management";
    config_map(&hub, far, "settings", "red").await;
    let text = r#"{{hub fromConfigMap "open-cluster-management" "settings" "key" hub}}"#;
    filled(&hub, json!({"it": text}), json!({"serviceAccountName": "reader"})).await;
    let missing = "the service account in hubTemplateOptions.serviceAccountName (ns/reader) does not exist";
    hub.replica("c1", "p", "has no identity", |it| error(it) == missing)
        .await;
    let group = "rbac.authorization.k8s.io";
    let metadata = json!({"name": "reader", "namespace": far});
    hub.apply(json!({
        "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata,
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
    }))
    .await;
    hub.apply(json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}],
    }))
    .await;
    let metadata = json!({"name": "reader", "namespace": NAMESPACE});
    hub.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}))
        .await;
    hub.replica("c1", "p", "is red", is("red")).await;
    config_map(&hub, far, "settings", "blue").await;
    hub.replica("c1", "p", "is blue", is("blue")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_encrypted_anew_when_the_key_changes() {
    let hub = Hub::start(&["c1"]).await;
    let metadata = json!({"name": "password", "namespace": NAMESPACE});
    hub.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"key": "cGFzc3dvcmQ="}}))
        .await;
    filled(
        &hub,
        json!({"it": r#"{{hub fromSecret "" "password" "key" hub}}"#}),
        Value::Null,
    )
    .await;
    let text = |it: &Policy| definition(it)["spec"]["it"].as_str().unwrap_or_default().to_owned();
    let encrypted = |it: &Policy| text(it).starts_with("$ocm_encrypted:");
    let before = text(&hub.replica("c1", "p", "is encrypted", encrypted).await);
    let keys: Api<Secret> = Api::namespaced(hub.client(), "c1");
    let old = keys.get(KEY).await.unwrap();
    let aged = json!({"metadata": {"annotations": {format!("{GROUP}/last-rotated"): "2020-01-01T00:00:00Z"}}});
    merge(&keys, KEY, aged).await;
    let is_new = |it: &Policy| encrypted(it) && text(it) != before;
    hub.replica("c1", "p", "is encrypted anew", is_new).await;
    let new = keys.get(KEY).await.unwrap().data.unwrap();
    assert_eq!(new["previousKey"], old.data.unwrap()["key"]);
    let trigger = format!("{GROUP}/trigger-update");
    let said = |it: &Policy| {
        let said = it.metadata.annotations.as_ref().and_then(|it| it.get(&trigger));
        said.is_some_and(|it| it.starts_with("rotate-key-c1-"))
    };
    hub.root("p", "was triggered", said).await;
    // Whoever turns the rotation off keeps the key; the roots hear of every change all the same.
    let off = json!({"metadata": {"annotations": {format!("{GROUP}/disable-rotation"): "true", "a": "b"}}});
    merge(&keys, KEY, off).await;
    let kept: DynamicObject = hub.site.api("v1", "Secret", "c1").await.get(KEY).await.unwrap();
    assert_eq!(kept.data["data"]["key"], json!(new["key"]));
}
