//! What the operator of agents does.

use kube::api::ListParams;
use operator::{
    Layout, NAMESPACE,
    klusterlet::{self, HUB_ACCESS_CHECK_INTERVAL, Options},
};
use serde_json::{Value, json};

use crate::ground::{Ground, Leading, says};

const AGENT: &str = "open-cluster-management-agent";
const ADD_ONS: &str = "open-cluster-management-agent-addon";
const NAME: &str = "klusterlet";
const KLUSTERLET: (&str, &str) = ("operator.open-cluster-management.io/v1", "Klusterlet");
const PULL_SECRET: &str = "open-cluster-management-image-pull-credentials";
const TLS_PROFILE: &str = "ocm-tls-profile";

async fn lead(ground: &Ground, layout: Layout) -> Leading {
    let start = move |client, stop| {
        let options = Options {
            layout,
            namespace: NAMESPACE.to_owned(),
            control_plane_node_label_selector: "node-role.kubernetes.io/master=".to_owned(),
            deployment_replicas: 0,
            disable_default_addon_namespace: false,
            enable_sync_labels: false,
            hub_access_check_interval: HUB_ACCESS_CHECK_INTERVAL,
        };
        klusterlet::start(client, options, stop)
    };
    ground.lead(start).await
}

fn spec(mode: &str, namespace: &str, network_policies: &str) -> Value {
    json!({
        "clusterName": "cluster1", "namespace": namespace, "deployOption": {"mode": mode},
        "registrationImagePullSpec": "drover:1", "workImagePullSpec": "drover:1", "imagePullSpec": "drover:1",
        "registrationConfiguration": {"featureGates": [{"feature": "NetworkPolicies", "mode": network_policies}]},
    })
}

async fn ask(ground: &Ground, name: &str, spec: Value) {
    let (api_version, kind) = KLUSTERLET;
    ground
        .apply(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}))
        .await;
}

async fn until(ground: &Ground, name: &str, condition: &str) {
    let (api_version, kind) = KLUSTERLET;
    ground
        .until((api_version, kind, "", name), condition, |it| {
            says(it, condition, "True")
        })
        .await;
}

async fn remove(ground: &Ground, name: &str) {
    let (api_version, kind) = KLUSTERLET;
    ground.delete(api_version, kind, "", name).await;
    ground
        .until((api_version, kind, "", name), "is gone", |it| it.is_none())
        .await;
}

/// A Secret with a kubeconfig of the other cluster.
async fn kubeconfig(ground: &Ground, namespace: &str, name: &str) {
    ground
        .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        .await;
    let kubeconfig = ground.other.kubeconfig("admin", &["system:masters"]).unwrap();
    ground
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace},
            "stringData": {"kubeconfig": kubeconfig, "cluster-name": "cluster1", "agent-name": "a"},
        }))
        .await;
}

/// An agent is asked for, and nothing is waited for.
pub async fn asked_for(ground: &Ground) {
    kubeconfig(ground, AGENT, "bootstrap-hub-kubeconfig").await;
    ask(ground, NAME, spec("Default", AGENT, "Disable")).await;
    // It ends with the ground.
    drop(lead(ground, Layout::Compact).await);
}

/// An agent comes, becomes another, moves, and goes.
pub async fn installed_changed_and_removed(ground: &Ground, layout: Layout) {
    for name in ["bootstrap-hub-kubeconfig", "hub-kubeconfig-secret"] {
        kubeconfig(ground, AGENT, name).await;
    }
    ground
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": PULL_SECRET, "namespace": NAMESPACE},
            "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="},
        }))
        .await;
    ask(ground, NAME, spec("Default", AGENT, "Enable")).await;
    let leading = lead(ground, layout).await;
    until(ground, NAME, "Applied").await;
    until(ground, NAME, "Available").await;
    for copy in [AGENT, ADD_ONS] {
        ground
            .until(("v1", "Secret", copy, PULL_SECRET), "is copied", |it| it.is_some())
            .await;
    }
    ground
        .patch("v1", "Secret", NAMESPACE, PULL_SECRET, json!({"data": {"x": "eA=="}}))
        .await;
    let copy = ("v1", "Secret", ADD_ONS, PULL_SECRET);
    ground
        .until(copy, "follows", |it| {
            it.is_some_and(|it| it.data["data"]["x"] == "eA==")
        })
        .await;

    ask(ground, NAME, spec("Singleton", AGENT, "Disable")).await;
    until(ground, NAME, "Applied").await;
    let next = "open-cluster-management-next";
    ask(ground, NAME, spec("Singleton", next, "Disable")).await;
    until(ground, NAME, "Applied").await;
    ground
        .until(("v1", "Namespace", "", AGENT), "is left", |it| it.is_none())
        .await;
    ground.delete("v1", "Secret", NAMESPACE, PULL_SECRET).await;
    ground.until(copy, "goes with it", |it| it.is_none()).await;

    let uid = ground
        .site
        .api(KLUSTERLET.0, KLUSTERLET.1, "")
        .await
        .get(NAME)
        .await
        .unwrap()
        .metadata
        .uid;
    ground
        .apply(json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork",
            "metadata": {"name": "hash-work", "finalizers": ["cluster.open-cluster-management.io/applied-manifest-work-cleanup"]},
            "spec": {"hubHash": "hash", "agentID": uid, "manifestWorkName": "work"},
        }))
        .await;
    remove(ground, NAME).await;
    leading.stop().await;
}

/// All of it: TLS profiles, an agent for another cluster, and what it says when something is wrong.
pub async fn everything(ground: &Ground) {
    installed_changed_and_removed(ground, Layout::Compact).await;
    let leading = lead(ground, Layout::Compact).await;
    profiles(ground).await;
    hosted(ground).await;
    drift(ground).await;
    leading.stop().await;
}

async fn profiles(ground: &Ground) {
    ground
        .apply(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "add-on", "labels": {"addon.open-cluster-management.io/namespace": "true"}},
        }))
        .await;
    let profile = |version: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": TLS_PROFILE, "namespace": NAMESPACE},
            "data": {"minTLSVersion": version},
        })
    };
    let copy = ("v1", "ConfigMap", "add-on", TLS_PROFILE);
    for version in ["VersionTLS12", "VersionTLS13"] {
        ground.apply(profile(version)).await;
        ground
            .until(copy, version, |it| {
                it.is_some_and(|it| it.data["data"]["minTLSVersion"] == version)
            })
            .await;
    }
    ground.delete("v1", "ConfigMap", NAMESPACE, TLS_PROFILE).await;
    ground.until(copy, "goes with it", |it| it.is_none()).await;
}

/// An agent here for the other cluster.
async fn hosted(ground: &Ground) {
    let name = "elsewhere";
    for secret in ["bootstrap-hub-kubeconfig", "external-managed-kubeconfig"] {
        kubeconfig(ground, name, secret).await;
    }
    ask(
        ground,
        name,
        spec("Hosted", "open-cluster-management-cluster1", "Disable"),
    )
    .await;
    until(ground, name, "Applied").await;
    let secret = ("v1", "Secret", name, "external-managed-kubeconfig-agent");
    ground.until(secret, "is there", |it| it.is_some()).await;
    ground
        .patch(secret.0, secret.1, secret.2, secret.3, json!({"data": {"token": null}}))
        .await;
    ground
        .until(secret, "has a token again", |it| {
            it.is_some_and(|it| it.data["data"]["token"].is_string())
        })
        .await;
    remove(ground, name).await;
}

/// Somebody else changes what the operator has made.
async fn drift(ground: &Ground) {
    kubeconfig(ground, AGENT, "bootstrap-hub-kubeconfig").await;
    ask(ground, NAME, spec("Default", AGENT, "Enable")).await;
    until(ground, NAME, "Applied").await;
    let (rbac, own) = (
        "rbac.authorization.k8s.io/v1",
        "open-cluster-management.io/created-by-klusterlet",
    );
    let nothing = json!({"rules": []});
    for (api_version, kind, namespace, patch) in [
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            AGENT,
            json!({"metadata": {"labels": {own: "nobody"}}}),
        ),
        (
            "v1",
            "ServiceAccount",
            AGENT,
            json!({"metadata": {"labels": {own: "nobody"}}}),
        ),
        (rbac, "Role", AGENT, nothing.clone()),
        (rbac, "ClusterRole", "", nothing),
    ] {
        let api = ground.site.api(api_version, kind, namespace).await;
        let made = ListParams::default().labels(&format!("{own}={NAME}"));
        let found = api.list(&made).await.unwrap().items;
        let name = found[0].metadata.name.clone().unwrap();
        let before = found[0].data["rules"].clone();
        ground.patch(api_version, kind, namespace, &name, patch).await;
        if kind == "NetworkPolicy" {
            // It is put back when something else is.
            continue;
        }
        ground
            .until((api_version, kind, namespace, &name), "is put back", |it| {
                let labels = it.and_then(|it| it.metadata.labels.as_ref());
                labels.is_some_and(|it| it.get(own).map(String::as_str) == Some(NAME))
                    && it.is_some_and(|it| it.data["rules"] == before)
            })
            .await;
    }
    ground
        .patch(
            "apps/v1",
            "Deployment",
            AGENT,
            "klusterlet-agent",
            json!({"spec": {"replicas": 5}}),
        )
        .await;
    let deployment = ("apps/v1", "Deployment", AGENT, "klusterlet-agent");
    ground
        .until(deployment, "is put back", |it| {
            it.is_some_and(|it| it.data["spec"]["replicas"] == 1)
        })
        .await;
    remove(ground, NAME).await;
}
