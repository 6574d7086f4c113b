//! The objects of Argo CD's operator on a cluster: written here, and no more than it needs to carry out an ArgoCD.
//! Names are upstream's, so that ours takes over where upstream's add-on was, and the other way round.

use ocm_addon_sdk::{
    k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    kube::{Resource, core::ApiResource},
    reconcile::{Site, Target, rbac::Right},
};
use serde_json::{Value, json};

use super::{ArgoNamespaces, ArgoOperatorSettings, MANAGED_BY, roles};

const ACCOUNT: &str = "argocd-operator-controller-manager";
const RBAC: &str = "rbac.authorization.k8s.io";

/// An object as it is to be on the cluster.
#[derive(Clone, Debug)]
pub struct ArgoOperatorObject {
    /// Where it is.
    pub target: Target,
    /// All of it.
    pub object: Value,
}

impl ArgoOperatorObject {
    /// Labelled as ours.
    fn of<K>(namespace: Option<&str>, name: &str, mut object: Value) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        let api_resource = ApiResource::erase::<K>(&());
        object["apiVersion"] = api_resource.api_version.as_str().into();
        object["kind"] = api_resource.kind.as_str().into();
        object["metadata"]["name"] = name.into();
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        object["metadata"]["labels"][MANAGED_BY.0] = MANAGED_BY.1.into();
        Self {
            target: Target {
                site: Site::Cluster,
                api_resource,
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            },
            object,
        }
    }
}

/// The namespaces of the operator and of Argo CD, each once.
pub fn namespaces(of: &ArgoNamespaces) -> Vec<ArgoOperatorObject> {
    let mut names = vec![&of.operator, &of.argo_cd];
    names.dedup();
    let labels = json!({
        "addon.open-cluster-management.io/namespace": "true", "apps.open-cluster-management.io/argocd-addon": "true",
    });
    let namespace =
        |name: &String| ArgoOperatorObject::of::<Namespace>(None, name, json!({"metadata": {"labels": labels}}));
    names.into_iter().map(namespace).collect()
}

/// What is in the namespace of the operator, and its roles.
pub fn objects(settings: &ArgoOperatorSettings) -> Vec<ArgoOperatorObject> {
    const MANAGER: (&str, &str) = ("argocd-operator-manager-role", "argocd-operator-manager-rolebinding");
    const LEADER: (&str, &str) = (
        "argocd-operator-leader-election-role",
        "argocd-operator-leader-election-rolebinding",
    );
    let namespace = settings.namespaces.operator.as_str();
    let bound = |kind: &str, role: &str| {
        json!({
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
        })
    };
    let aggregated = json!({
        "metadata": {"labels": {"open-cluster-management.io/aggregate-to-work": "true"}},
        "rules": rules(roles::WORK_AGENT),
    });
    vec![
        ArgoOperatorObject::of::<ServiceAccount>(Some(namespace), ACCOUNT, json!({})),
        ArgoOperatorObject::of::<Role>(Some(namespace), LEADER.0, json!({"rules": rules(roles::LEADER)})),
        ArgoOperatorObject::of::<RoleBinding>(Some(namespace), LEADER.1, bound("Role", LEADER.0)),
        ArgoOperatorObject::of::<ClusterRole>(None, MANAGER.0, json!({"rules": rules(roles::OPERATOR)})),
        ArgoOperatorObject::of::<ClusterRoleBinding>(None, MANAGER.1, bound("ClusterRole", MANAGER.0)),
        ArgoOperatorObject::of::<ClusterRole>(
            None,
            "open-cluster-management:argocd-agent:work-agent-argocd",
            aggregated,
        ),
        ArgoOperatorObject::of::<Deployment>(Some(namespace), ACCOUNT, deployment(&settings.operator_image)),
    ]
}

fn rules(rights: &[Right]) -> Vec<Value> {
    rights.iter().map(|it| json!(it.rule())).collect()
}

fn deployment(image: &str) -> Value {
    let selector = json!({"control-plane": "argocd-operator"});
    let probe = |path: &str, after: u8, every: u8| json!({"httpGet": {"path": path, "port": 8081}, "initialDelaySeconds": after, "periodSeconds": every});
    let container = json!({
        "name": "manager", "image": image, "command": ["/manager"], "args": ["--leader-elect"],
        "env": [
            // An ArgoCD in any namespace may deploy to all of the cluster.
            {"name": "ARGOCD_CLUSTER_CONFIG_NAMESPACES", "value": "*"},
            // Empty means all namespaces. It is written without a value, as the API server gives it back.
            {"name": "WATCH_NAMESPACE"},
        ],
        "livenessProbe": probe("/healthz", 15, 20),
        "readinessProbe": probe("/readyz", 5, 10),
        "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
            "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    json!({
        "metadata": {"labels": selector},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": selector},
                "spec": {
                    "serviceAccountName": ACCOUNT, "securityContext": {"runAsNonRoot": true},
                    "terminationGracePeriodSeconds": 10, "containers": [container],
                },
            },
        },
    })
}
