//! The objects that the measurements are made with.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

/// Where the configurations and placements of the measurements live on the hub.
pub const NAMESPACE: &str = "default";
const GROUP: &str = "addon.open-cluster-management.io";

fn api(client: &Client, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// ManagedClusterAddOns, of one cluster or of all.
pub fn of_clusters(client: &Client, cluster: Option<&str>) -> Api<DynamicObject> {
    api(client, GROUP, "v1alpha1", "ManagedClusterAddOn", cluster)
}

/// Secrets of one namespace.
pub fn secrets(client: &Client, namespace: &str) -> Api<DynamicObject> {
    api(client, "", "v1", "Secret", Some(namespace))
}

/// Certificate requests.
pub fn requests(client: &Client) -> Api<DynamicObject> {
    api(client, "certificates.k8s.io", "v1", "CertificateSigningRequest", None)
}

/// The API for any of the objects below.
pub fn api_of(client: &Client, object: &DynamicObject) -> anyhow::Result<Api<DynamicObject>> {
    let types = object.types.clone().unwrap_or_default();
    let kind = GroupVersionKind::try_from(&types)?;
    Ok(api(
        client,
        &kind.group,
        &kind.version,
        &kind.kind,
        object.metadata.namespace.as_deref(),
    ))
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("a literal is an object")
}

/// An add-on that is installed by hand and that a program of the hub knows.
pub fn by_hand(name: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
        "metadata": {"name": name},
        "spec": {"addOnMeta": {"displayName": name}},
    }))
}

/// The add-on on one cluster.
pub fn on_cluster(name: &str, cluster: &str, install_namespace: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": name, "namespace": cluster},
        "spec": {"installNamespace": install_namespace},
    }))
}

/// Binds the set of all clusters to the namespace of the placements.
pub fn binding() -> DynamicObject {
    object(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "global", "namespace": NAMESPACE}, "spec": {"clusterSet": "global"},
    }))
}

/// A placement that chooses every cluster.
pub fn everywhere() -> DynamicObject {
    object(json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
        "metadata": {"name": "everywhere", "namespace": NAMESPACE},
        "spec": {"tolerations": [
            {"key": "cluster.open-cluster-management.io/unreachable", "operator": "Exists"},
            {"key": "cluster.open-cluster-management.io/unavailable", "operator": "Exists"},
        ]},
    }))
}

/// The configuration of one template add-on; `color` is what changes.
pub fn configuration(name: &str, color: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "agentInstallNamespace": "default",
            "customizedVariables": [{"name": "COLOR", "value": color}],
        },
    }))
}

/// An add-on with a hub registration and one small object on the cluster, so that what is measured is ours.
pub fn template(name: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
        "metadata": {"name": name},
        "spec": {
            "addonName": name,
            "agentSpec": {"workload": {"manifests": [{
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default"},
                "data": {"cluster": "{{CLUSTER_NAME}}", "color": "{{COLOR}}"},
            }]}},
            "registration": [{"type": "KubeClient", "kubeClient": {}}],
        },
    }))
}

/// The template add-on on all clusters, a quarter of them at a time.
pub fn of_template(name: &str) -> DynamicObject {
    let config = json!({"group": GROUP, "resource": "addondeploymentconfigs", "name": name, "namespace": NAMESPACE});
    object(json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
        "metadata": {"name": name},
        "spec": {
            "addOnMeta": {"displayName": name},
            "supportedConfigs": [
                {"group": GROUP, "resource": "addontemplates", "defaultConfig": {"name": name}},
                {"group": GROUP, "resource": "addondeploymentconfigs"},
            ],
            "installStrategy": {"type": "Placements", "placements": [{
                "name": "everywhere", "namespace": NAMESPACE, "configs": [config],
                "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": "25%"}},
            }]},
        },
    }))
}
