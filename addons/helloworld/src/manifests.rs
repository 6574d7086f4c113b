//! What runs on the cluster.

use ocm_addon_sdk::{Permission, Place, Refusal, values::images};
use serde_json::{Value, json};

const IMAGE: &str = "quay.io/open-cluster-management/addon-examples:latest";
const ACCOUNT: &str = "helloworld-agent-sa";

/// All of it, for one cluster.
pub fn of(place: &Place) -> Result<Vec<Value>, Refusal> {
    let namespace = &place.install_namespace;
    let image = &images::value(place, "image", IMAGE)?["image"];
    let meta = |name: &str| json!({"name": name, "namespace": namespace});
    let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let role = "rbac.authorization.k8s.io";
    Ok(vec![
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "labels": {"addon.open-cluster-management.io/namespace": "true"},
                // Others may live in it.
                "annotations": {"addon.open-cluster-management.io/deletion-orphan": ""},
            },
        }),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(ACCOUNT)}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "helloworld-addon"},
            "rules": [
                Permission::rule("", &["configmaps"], &all),
                Permission::rule("coordination.k8s.io", &["leases"], &all),
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "helloworld-addon"},
            "roleRef": {"apiGroup": role, "kind": "ClusterRole", "name": "helloworld-addon"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": meta("helloworld-agent"),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"addon": "helloworld"}},
                "template": {
                    "metadata": {"labels": {"addon": "helloworld"}},
                    "spec": {
                        "serviceAccountName": ACCOUNT,
                        "containers": [{
                            "name": "helloworld-agent", "image": image, "imagePullPolicy": "IfNotPresent",
                            "args": [
                                "/helloworld", "agent", "--hub-kubeconfig=/var/run/hub/kubeconfig",
                                format!("--cluster-name={}", place.cluster_name()),
                                format!("--addon-namespace={namespace}"),
                            ],
                            "volumeMounts": [{"name": "hub-config", "mountPath": "/var/run/hub"}],
                        }],
                        "volumes": [{
                            "name": "hub-config",
                            "secret": {"secretName": place.hub_kubeconfig_secret()},
                        }],
                    },
                },
            },
        }),
    ])
}
