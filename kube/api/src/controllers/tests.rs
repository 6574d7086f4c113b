//! The controllers on a server in memory: what clients see after a while, whatever happens in between.

use crate::{Options, Server, local::Local};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube_store::Object;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Generous: a loaded machine must not fail a test that only waits.
const PATIENCE: Duration = Duration::from_secs(30);

async fn server() -> Local {
    Server::open(Options::default())
        .await
        .expect("a server in memory starts")
        .local()
}

/// Waits until `holds`, looking again after every event.
async fn until(local: &Local, what: &str, holds: impl Fn(&Local) -> bool) {
    let mut events = local.subscribe();
    let wait = async {
        while !holds(local) {
            events.next().await.expect("the server runs");
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("{what} did not come about"));
}

async fn gone(local: &Local, id: &str, namespace: &str, name: &str) {
    let what = format!("the end of {id} {namespace}/{name}");
    until(local, &what, |it| it.store().get(id, namespace, name).is_none()).await;
}

async fn create(local: &Local, id: &str, object: Value) -> Value {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    local
        .create(id, &namespace, object)
        .await
        .unwrap_or_else(|it| panic!("{id}: {it}"))
}

async fn config_map(local: &Local, namespace: &str, name: &str, metadata: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = namespace.into();
    create(local, "configmaps", object).await
}

async fn namespace(local: &Local, name: &str) {
    create(
        local,
        "namespaces",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
    )
    .await;
    let complete = |it: &Local| {
        it.store().get("serviceaccounts", name, "default").is_some()
            && it.store().get("configmaps", name, "kube-root-ca.crt").is_some()
    };
    until(local, "the ServiceAccount and the root CA", complete).await;
}

fn owned_by(owner: &Value, block: bool) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block,
    })
}

fn object(local: &Local, id: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
    local.store().get(id, namespace, name)
}

#[tokio::test]
async fn a_namespace_always_regains_its_service_account_and_root_ca() {
    let local = server().await;
    namespace(&local, "n").await;
    let account = object(&local, "serviceaccounts", "n", "default").unwrap();
    local
        .delete("serviceaccounts", "n", "default", None, None)
        .await
        .unwrap();
    let again = |it: &Local| object(it, "serviceaccounts", "n", "default").is_some_and(|it| it.uid != account.uid);
    until(&local, "another ServiceAccount", again).await;
    let edit = json!({"data": {"ca.crt": "edited", "more": "x"}});
    local
        .merge_patch("configmaps", "n", "kube-root-ca.crt", "", edit)
        .await
        .unwrap();
    let restored = |it: &Local| {
        object(it, "configmaps", "n", "kube-root-ca.crt").is_some_and(|it| {
            let data = &it.value()["data"];
            data.get("more").is_none()
                && data["ca.crt"]
                    .as_str()
                    .is_some_and(|it| it.contains("BEGIN CERTIFICATE"))
        })
    };
    until(&local, "the root CA", restored).await;
}

#[tokio::test]
async fn a_deleted_namespace_takes_everything_in_it_along() {
    let local = server().await;
    namespace(&local, "n").await;
    config_map(&local, "n", "a", json!({})).await;
    local.delete("namespaces", "", "n", None, None).await.unwrap();
    gone(&local, "namespaces", "", "n").await;
    assert!(local.store().list("configmaps", "n").0.is_empty());
    assert!(local.store().list("serviceaccounts", "n").0.is_empty());
}

#[tokio::test]
async fn a_namespace_reports_remaining_content_until_it_is_deleted() {
    let local = server().await;
    namespace(&local, "n").await;
    config_map(&local, "n", "held", json!({"finalizers": ["a.b/c"]})).await;
    local.delete("namespaces", "", "n", None, None).await.unwrap();
    let says = |it: &Local| {
        object(it, "namespaces", "", "n").is_some_and(|it| {
            let conditions = it.value()["status"]["conditions"].to_string();
            conditions.contains("Some resources are remaining: configmaps. has 1 resource instances\"")
                && conditions
                    .contains("Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances")
        })
    };
    until(&local, "the conditions", says).await;
    local
        .merge_patch("configmaps", "n", "held", "", json!({"metadata": {"finalizers": null}}))
        .await
        .unwrap();
    gone(&local, "namespaces", "", "n").await;
}

#[tokio::test]
async fn a_deleted_claim_stays_until_no_scheduled_pod_uses_it() {
    let local = server().await;
    namespace(&local, "n").await;
    let resources = json!({"requests": {"storage": "1Gi"}});
    for name in ["used", "unused"] {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "n", "name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
        });
        create(&local, "persistentvolumeclaims", claim).await;
    }
    let pod = |name: &str, claim: &str, spec: Value| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "n", "name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}],
                     "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]},
        });
        pod["spec"]["nodeName"] = spec;
        pod
    };
    create(&local, "pods", pod("placed", "used", json!("node"))).await;
    create(&local, "pods", pod("waiting", "unused", Value::Null)).await;
    for name in ["used", "unused"] {
        local
            .delete("persistentvolumeclaims", "n", name, None, None)
            .await
            .unwrap();
    }
    gone(&local, "persistentvolumeclaims", "n", "unused").await;
    assert!(object(&local, "persistentvolumeclaims", "n", "used").is_some());
    local
        .merge_patch(
            "pods",
            "n",
            "placed",
            "status",
            json!({"status": {"phase": "Succeeded"}}),
        )
        .await
        .unwrap();
    gone(&local, "persistentvolumeclaims", "n", "used").await;
}

#[tokio::test]
async fn an_object_goes_with_its_last_owner() {
    let local = server().await;
    let (a, b) = (
        config_map(&local, "default", "a", json!({})).await,
        config_map(&local, "default", "b", json!({})).await,
    );
    let owners = json!({"ownerReferences": [owned_by(&a, false), owned_by(&b, false)]});
    config_map(&local, "default", "child", owners).await;
    local
        .delete("configmaps", "default", "a", None, Some("Background"))
        .await
        .unwrap();
    let one_left = |it: &Local| object(it, "configmaps", "default", "child").is_some_and(|it| it.owners.len() == 1);
    until(&local, "one owner", one_left).await;
    local
        .delete("configmaps", "default", "b", None, Some("Background"))
        .await
        .unwrap();
    gone(&local, "configmaps", "default", "child").await;
}

#[tokio::test]
async fn a_namesake_of_the_owner_does_not_count() {
    let local = server().await;
    let mut owner = config_map(&local, "default", "owner", json!({})).await;
    owner["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    config_map(
        &local,
        "default",
        "child",
        json!({"ownerReferences": [owned_by(&owner, false)]}),
    )
    .await;
    gone(&local, "configmaps", "default", "child").await;
    assert!(object(&local, "configmaps", "default", "owner").is_some());
}

#[tokio::test]
async fn a_cross_namespace_owner_is_absent_and_causes_an_event() {
    let local = server().await;
    namespace(&local, "n").await;
    let owner = config_map(&local, "default", "owner", json!({})).await;
    config_map(
        &local,
        "n",
        "child",
        json!({"ownerReferences": [owned_by(&owner, false)]}),
    )
    .await;
    gone(&local, "configmaps", "n", "child").await;
    let warned = |it: &Local| {
        it.store()
            .list("events", "n")
            .0
            .iter()
            .any(|it| it.value()["reason"] == "OwnerRefInvalidNamespace")
    };
    until(&local, "the event", warned).await;
}

#[tokio::test]
async fn a_cluster_scoped_object_survives_a_missing_namespaced_owner() {
    let local = server().await;
    let mut owner = config_map(&local, "default", "owner", json!({})).await;
    owner["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "kept", "ownerReferences": [owned_by(&owner, false)]}, "rules": [],
    });
    create(&local, "clusterroles.rbac.authorization.k8s.io", role).await;
    // What comes later in the queue is collected: the role was looked at before.
    config_map(
        &local,
        "default",
        "child",
        json!({"ownerReferences": [owned_by(&owner, false)]}),
    )
    .await;
    gone(&local, "configmaps", "default", "child").await;
    assert!(object(&local, "clusterroles.rbac.authorization.k8s.io", "", "kept").is_some());
}

#[tokio::test]
async fn a_foreground_deletion_waits_for_blocking_dependents() {
    let local = server().await;
    let owner = config_map(&local, "default", "owner", json!({})).await;
    let child = json!({"finalizers": ["a.b/c"], "ownerReferences": [owned_by(&owner, true)]});
    config_map(&local, "default", "child", child).await;
    local
        .delete("configmaps", "default", "owner", None, Some("Foreground"))
        .await
        .unwrap();
    let leaving = |it: &Local| object(it, "configmaps", "default", "child").is_some_and(|it| it.terminating);
    until(&local, "the deletion of the child", leaving).await;
    assert!(object(&local, "configmaps", "default", "owner").is_some());
    local
        .merge_patch(
            "configmaps",
            "default",
            "child",
            "",
            json!({"metadata": {"finalizers": null}}),
        )
        .await
        .unwrap();
    gone(&local, "configmaps", "default", "owner").await;
}

#[tokio::test]
async fn orphaned_dependents_live_on_without_the_reference() {
    let local = server().await;
    let owner = config_map(&local, "default", "owner", json!({})).await;
    config_map(
        &local,
        "default",
        "child",
        json!({"ownerReferences": [owned_by(&owner, true)]}),
    )
    .await;
    local
        .delete("configmaps", "default", "owner", None, Some("Orphan"))
        .await
        .unwrap();
    gone(&local, "configmaps", "default", "owner").await;
    let child = object(&local, "configmaps", "default", "child").unwrap();
    assert!(child.owners.is_empty() && !child.terminating);
}

#[tokio::test]
async fn a_token_secret_is_filled_and_goes_with_its_account() {
    let local = server().await;
    create(
        &local,
        "serviceaccounts",
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa", "namespace": "default"},
        }),
    )
    .await;
    create(
        &local,
        "secrets",
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": "token", "namespace": "default", "annotations": {"kubernetes.io/service-account.name": "sa"},
            },
        }),
    )
    .await;
    let filled = |it: &Local| {
        object(it, "secrets", "default", "token").is_some_and(|it| {
            let data = &it.value()["data"];
            ["token", "ca.crt", "namespace"].iter().all(|it| data[*it].is_string())
        })
    };
    until(&local, "the token", filled).await;
    local
        .delete("serviceaccounts", "default", "sa", None, None)
        .await
        .unwrap();
    gone(&local, "secrets", "default", "token").await;
}

#[tokio::test]
async fn an_expired_bootstrap_token_is_deleted_and_another_stays() {
    let local = server().await;
    for (name, expiration) in [("kept", "2999-01-01T00:00:00Z"), ("expired", "2020-01-01T00:00:00Z")] {
        create(
            &local,
            "secrets",
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
                "metadata": {"name": name, "namespace": "kube-system"},
                "data": {"expiration": BASE64_STANDARD.encode(expiration)},
            }),
        )
        .await;
    }
    gone(&local, "secrets", "kube-system", "expired").await;
    assert!(object(&local, "secrets", "kube-system", "kept").is_some());
}

#[tokio::test]
async fn an_aggregated_role_contains_rules_of_selected_roles() {
    let local = server().await;
    let id = "clusterroles.rbac.authorization.k8s.io";
    let role = |name: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        })
    };
    let mut part = role("part");
    part["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    part["rules"] = json!([{"apiGroups": ["ex.io"], "resources": ["widgets"], "verbs": ["get"]}]);
    create(&local, id, part).await;
    let has =
        |it: &Local| object(it, id, "", "view").is_some_and(|it| it.value()["rules"].to_string().contains("widgets"));
    until(&local, "the rule in view", has).await;
    // edit aggregates view, and admin aggregates edit.
    let has =
        |it: &Local| object(it, id, "", "admin").is_some_and(|it| it.value()["rules"].to_string().contains("widgets"));
    until(&local, "the rule in admin", has).await;
}

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.io"},
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

#[tokio::test]
async fn a_deleted_definition_takes_its_instances_and_their_dependents_along() {
    let local = server().await;
    let id = "customresourcedefinitions.apiextensions.k8s.io";
    create(&local, id, widgets()).await;
    let widget = json!({
        "apiVersion": "ex.io/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default", "finalizers": ["a.b/c"]},
    });
    let widget = create(&local, "widgets.ex.io", widget).await;
    config_map(
        &local,
        "default",
        "child",
        json!({"ownerReferences": [owned_by(&widget, false)]}),
    )
    .await;
    local
        .delete(id, "", "widgets.ex.io", None, Some("Background"))
        .await
        .unwrap();
    let says = |it: &Local| {
        object(it, id, "", "widgets.ex.io")
            .is_some_and(|it| it.value().to_string().contains("InstanceDeletionInProgress"))
    };
    until(&local, "the condition", says).await;
    local
        .merge_patch(
            "widgets.ex.io",
            "default",
            "w",
            "",
            json!({"metadata": {"finalizers": null}}),
        )
        .await
        .unwrap();
    gone(&local, id, "", "widgets.ex.io").await;
    gone(&local, "configmaps", "default", "child").await;
}

#[tokio::test]
async fn the_objects_of_every_cluster_are_there_from_the_start() {
    let local = server().await;
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(object(&local, "namespaces", "", name).is_some(), "{name}");
    }
    assert!(object(&local, "services", "default", "kubernetes").is_some());
    assert!(
        object(
            &local,
            "configmaps",
            "kube-system",
            "extension-apiserver-authentication"
        )
        .is_some()
    );
    assert!(object(&local, "clusterroles.rbac.authorization.k8s.io", "", "cluster-admin").is_some());
}
