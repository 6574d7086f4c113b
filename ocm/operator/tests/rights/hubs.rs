//! What the operator of hubs does.

use operator::{
    Layout, NAMESPACE,
    hub::{self as of_hubs, Options},
};
use serde_json::{Value, json};
use testkit::Ask;

use crate::ground::{Ground, Leading, says};

const HUB: &str = "open-cluster-management-hub";
const NAME: &str = "cluster-manager";
const MANAGER: (&str, &str) = ("operator.open-cluster-management.io/v1", "ClusterManager");
const PULL_SECRET: &str = "open-cluster-management-image-pull-credentials";

async fn lead(ground: &Ground, layout: Layout) -> Leading {
    lead_with(ground, layout, false).await
}

async fn lead_with(ground: &Ground, layout: Layout, skip_remove_crds: bool) -> Leading {
    let start = move |client, stop| {
        let options = Options {
            layout,
            skip_remove_crds,
            compact_rights: hub::rbac::RIGHTS,
            ..Options::default()
        };
        of_hubs::start(client, options, stop)
    };
    ground.lead(start).await
}

async fn ask(ground: &Ground, name: &str, spec: Value) {
    let (api_version, kind) = MANAGER;
    ground
        .apply(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}))
        .await;
}

async fn until_up_to_date(ground: &Ground, name: &str) {
    let (api_version, kind) = MANAGER;
    ground
        .until((api_version, kind, "", name), "is up to date", |it| {
            says(it, "Applied", "True") && says(it, "Progressing", "False")
        })
        .await;
}

fn gates(mode: &str) -> Value {
    json!({"registrationConfiguration": {"featureGates": [
        {"feature": "NetworkPolicies", "mode": mode}, {"feature": "ClusterProfile", "mode": mode},
    ]}})
}

async fn remove(ground: &Ground, name: &str) {
    let (api_version, kind) = MANAGER;
    ground.delete(api_version, kind, "", name).await;
    ground
        .until((api_version, kind, "", name), "is gone", |it| it.is_none())
        .await;
}

/// A hub is asked for, and nothing is waited for.
pub async fn asked_for(ground: &Ground) {
    ask(ground, NAME, json!({})).await;
    // It ends with the ground.
    drop(lead(ground, Layout::Compact).await);
}

/// A hub comes, changes and goes.
pub async fn installed_upgraded_and_removed(ground: &Ground, layout: Layout) {
    ask(ground, NAME, gates("Enable")).await;
    let leading = lead(ground, layout).await;
    until_up_to_date(ground, NAME).await;
    ground
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": PULL_SECRET, "namespace": NAMESPACE},
            "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="},
        }))
        .await;
    let copy = ("v1", "Secret", HUB, PULL_SECRET);
    ground.until(copy, "is copied", |it| it.is_some()).await;
    ground
        .patch("v1", "Secret", NAMESPACE, PULL_SECRET, json!({"data": {"x": "eA=="}}))
        .await;
    ground
        .until(copy, "follows", |it| {
            it.is_some_and(|it| it.data["data"]["x"] == "eA==")
        })
        .await;
    let mut spec = gates("Disable");
    spec["registrationImagePullSpec"] = json!("drover:next");
    ask(ground, NAME, spec).await;
    until_up_to_date(ground, NAME).await;
    ground.delete("v1", "Secret", NAMESPACE, PULL_SECRET).await;
    ground.until(copy, "goes with it", |it| it.is_none()).await;
    remove(ground, NAME).await;
    leading.stop().await;
}

/// All of it: from upstream's layout and from our former chart, certificates that are lost, a hub on another cluster,
/// and what it says when something is wrong.
pub async fn everything(ground: &Ground) {
    installed_upgraded_and_removed(ground, Layout::Compact).await;
    before(ground).await;
    let leading = lead(ground, Layout::Compact).await;
    until_up_to_date(ground, NAME).await;
    ground
        .until(("v1", "ServiceAccount", HUB, "drover-hub"), "is gone", |it| {
            it.is_none()
        })
        .await;
    hosted(ground).await;
    certificates(ground).await;
    drift(ground).await;
    ask(
        ground,
        NAME,
        json!({"registrationConfiguration": {"featureGates": [{"feature": "Nonsense", "mode": "Enable"}]}}),
    )
    .await;
    let (api_version, kind) = MANAGER;
    let manager = (api_version, kind, "", NAME);
    ground
        .until(manager, "names the gate", |it| says(it, "ValidFeatureGates", "False"))
        .await;
    leading.stop().await;
    kept(ground).await;
    released(ground).await;
}

/// A hub in upstream's layout, made by an operator that may do everything, beside what our chart drover-hub left.
async fn before(ground: &Ground) {
    ask(ground, NAME, gates("Enable")).await;
    let stop = tokio_util::sync::CancellationToken::new();
    let running = of_hubs::start(ground.site.client(), Options::default(), stop.clone()).await;
    until_up_to_date(ground, NAME).await;
    stop.cancel();
    futures::future::join_all(running.into_iter().map(|it| it.finished)).await;
    let (rbac, role) = ("rbac.authorization.k8s.io/v1", "drover-hub-webhooks");
    let metadata = json!({"name": role, "namespace": HUB});
    for object in [
        json!({"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": []}),
        json!({"apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "drover-hub-webhook", "namespace": HUB}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "drover-hub", "namespace": HUB}}),
    ] {
        ground.apply(object).await;
    }
}

/// A hub on another cluster, of which the pods are here.
async fn hosted(ground: &Ground) {
    let name = "elsewhere";
    ground
        .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .await;
    let kubeconfig = ground.other.kubeconfig("admin", &["system:masters"]).unwrap();
    ground
        .apply(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "external-hub-kubeconfig", "namespace": name}, "stringData": {"kubeconfig": kubeconfig},
        }))
        .await;
    let webhook = json!({"address": "hub.example.com"});
    let hosted = json!({"registrationWebhookConfiguration": webhook, "workWebhookConfiguration": webhook});
    ask(
        ground,
        name,
        json!({"deployOption": {"mode": "Hosted", "hosted": hosted}}),
    )
    .await;
    until_up_to_date(ground, name).await;
    let secret = ("v1", "Secret", name, "registration-controller-sa-kubeconfig");
    ground.until(secret, "is there", |it| it.is_some()).await;
    // Somebody takes the token away: a new one is written.
    ground
        .patch(secret.0, secret.1, secret.2, secret.3, json!({"data": {"token": null}}))
        .await;
    // It is the Deployment that wakes the operator.
    let replicas = json!({"spec": {"replicas": 5}});
    ground
        .patch(
            "apps/v1",
            "Deployment",
            name,
            "elsewhere-registration-controller",
            replicas,
        )
        .await;
    ground
        .until(secret, "has a token again", |it| {
            it.is_some_and(|it| it.data["data"]["token"].is_string())
        })
        .await;
    remove(ground, name).await;
}

async fn certificates(ground: &Ground) {
    let name = "registration-webhook-serving-cert";
    let secret = ("v1", "Secret", HUB, name);
    ground.delete("v1", "Secret", HUB, name).await;
    ground.until(secret, "is made anew", |it| it.is_some()).await;
    ground
        .patch("v1", "Secret", HUB, name, json!({"data": {"tls.crt": "eA=="}}))
        .await;
    ground
        .until(secret, "is repaired", |it| {
            it.is_some_and(|it| it.data["data"]["tls.crt"] != "eA==")
        })
        .await;
    ground
        .patch(
            "v1",
            "ConfigMap",
            HUB,
            "ca-bundle-configmap",
            json!({"data": {"ca-bundle.crt": ""}}),
        )
        .await;
    let bundle = ("v1", "ConfigMap", HUB, "ca-bundle-configmap");
    ground
        .until(bundle, "is repaired", |it| {
            it.is_some_and(|it| it.data["data"]["ca-bundle.crt"] != "")
        })
        .await;
}

/// Somebody else changes what the operator has made, and an earlier release has written a definition.
async fn drift(ground: &Ground) {
    let (admission, crds) = ("admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1");
    let version = json!({"metadata": {"annotations": {"operator.open-cluster-management.io/version": "1.0.0"}}});
    let definition = "placements.cluster.open-cluster-management.io";
    ground
        .patch(crds, "CustomResourceDefinition", "", definition, version)
        .await;
    let account = ("v1", "ServiceAccount", HUB, "registration-controller-sa");
    let unlabelled = json!({"metadata": {"labels": null}});
    ground
        .patch(account.0, account.1, account.2, account.3, unlabelled)
        .await;
    let webhook = "managedclustermutators.admission.cluster.open-cluster-management.io";
    let webhook = (admission, "MutatingWebhookConfiguration", "", webhook);
    ground
        .patch(webhook.0, webhook.1, webhook.2, webhook.3, json!({"webhooks": []}))
        .await;
    // It is the Deployment that wakes the operator.
    let deployment = ("apps/v1", "Deployment", HUB, "cluster-manager-registration-controller");
    ground
        .patch(
            deployment.0,
            deployment.1,
            deployment.2,
            deployment.3,
            json!({"spec": {"replicas": 5}}),
        )
        .await;
    ground
        .until(deployment, "is put back", |it| {
            it.is_some_and(|it| it.data["spec"]["replicas"] == 1)
        })
        .await;
    ground
        .until(account, "has its labels", |it| {
            it.is_some_and(|it| it.metadata.labels.is_some())
        })
        .await;
    ground
        .until(webhook, "is put back", |it| {
            it.is_some_and(|it| it.data["webhooks"][0].is_object())
        })
        .await;
    let definition = (crds, "CustomResourceDefinition", "", definition);
    ground
        .until(definition, "is of this release", |it| {
            let annotations = it.and_then(|it| it.metadata.annotations.as_ref());
            annotations.is_some_and(|it| {
                it.get("operator.open-cluster-management.io/version")
                    .map(String::as_str)
                    == Some(operator::OCM_VERSION)
            })
        })
        .await;
}

/// What is still there of each kind that goes first keeps a hub, and is named.
async fn kept(ground: &Ground) {
    let (admission, home) = ("admissionregistration.k8s.io/v1", "cluster1");
    // Nobody answers in this test, and no operator runs that would put them back.
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let api = ground.site.api(admission, kind, "").await;
        for found in api.list(&Default::default()).await.unwrap() {
            ground
                .delete(admission, kind, "", found.metadata.name.as_deref().unwrap())
                .await;
        }
    }
    ground
        .apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}}))
        .await;
    let held = |name: &str, namespace: Option<&str>| json!({"name": name, "namespace": namespace, "finalizers": ["test/held"]});
    let (add_on, work) = ("addon.open-cluster-management.io", "work.open-cluster-management.io");
    let cluster = "cluster.open-cluster-management.io";
    let all = [
        (add_on, "v1alpha1", "ManagedClusterAddOn", "managedclusteraddons", home),
        (work, "v1", "ManifestWork", "manifestworks", home),
        (cluster, "v1", "ManagedCluster", "managedclusters", ""),
        (
            work,
            "v1alpha1",
            "ManifestWorkReplicaSet",
            "manifestworkreplicasets",
            home,
        ),
    ];
    for (group, version, kind, _, namespace) in all {
        let namespace = Some(namespace).filter(|it| !it.is_empty());
        let spec = match kind {
            "ManifestWork" => json!({"workload": {"manifests": []}}),
            "ManifestWorkReplicaSet" => {
                json!({"manifestWorkTemplate": {"workload": {"manifests": []}}, "placementRefs": [{"name": "a", "rolloutStrategy": {"type": "All"}}]})
            }
            _ => json!({}),
        };
        ground
            .apply(json!({
                "apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": held("held", namespace), "spec": spec,
            }))
            .await;
    }
    let (api_version, kind) = MANAGER;
    ground.delete(api_version, kind, "", NAME).await;
    let leading = lead(ground, Layout::Compact).await;
    for (group, version, kind, plural, namespace) in all {
        ground.hears(&Ask::new(group, plural, "list")).await;
        let free = json!({"metadata": {"finalizers": null}});
        ground
            .patch(&format!("{group}/{version}"), kind, namespace, "held", free)
            .await;
    }
    ground
        .until((api_version, kind, "", NAME), "is gone", |it| it.is_none())
        .await;
    leading.stop().await;
}

/// A hub goes and leaves the definitions to whoever comes next.
async fn released(ground: &Ground) {
    ask(ground, NAME, json!({})).await;
    let leading = lead_with(ground, Layout::Compact, true).await;
    until_up_to_date(ground, NAME).await;
    remove(ground, NAME).await;
    leading.stop().await;
}
