//! The AddOnTemplate of a GitOpsCluster: a plain function.

use ocm_addon_sdk::{
    kube::{ResourceExt, core::ObjectMeta},
    ocm_api::{addon::v1alpha1::AddOnTemplate, gitops::GitOpsCluster},
};
use serde_json::{Value, json};

use super::{ADD_ON, AUTHORITY, GitOpsSettings, labels};
use crate::cluster::ADD_ON_NAMESPACE as NAMESPACE;

/// Who signs the certificates of agents.
pub const SIGNER: &str = "open-cluster-management.io/argocd-agent-addon";
const LABEL_PREFIX: &str = "gitopscluster.apps.open-cluster-management.io";

/// The name of the template of a GitOpsCluster.
pub fn name(of: &GitOpsCluster) -> String {
    format!("{ADD_ON}-{}-{}", of.namespace().unwrap_or_default(), of.name_any())
}

/// The template; `present` is the one that is there. The image of the controller is the one of this program.
///
/// # Errors
/// When nobody has said the image.
pub fn template(
    of: &GitOpsCluster,
    settings: &GitOpsSettings,
    present: Option<&AddOnTemplate>,
) -> Result<AddOnTemplate, String> {
    let image = settings.controller_image.as_deref();
    let Some(image) = image.filter(|it| !it.is_empty()) else {
        let why = "CONTROLLER_IMAGE environment variable is not set - this must be configured in the deployment";
        return Err(why.to_owned());
    };
    let namespace = of.namespace().unwrap_or_default();
    let mut all = labels("addon-template");
    all.insert(format!("{LABEL_PREFIX}/name"), of.name_any());
    all.insert(format!("{LABEL_PREFIX}/namespace"), namespace.clone());
    let mut template = present.cloned().unwrap_or_else(|| AddOnTemplate {
        metadata: ObjectMeta {
            name: Some(name(of)),
            ..ObjectMeta::default()
        },
        ..AddOnTemplate::default()
    });
    template.metadata.labels = Some(all);
    let spec = json!({
        "addonName": ADD_ON,
        "agentSpec": {"workload": {"manifests": manifests(image, settings.operator_image.as_deref())}},
        "registration": [{
            "type": "CustomSigner",
            "customSigner": {
                "signerName": SIGNER,
                "signingCA": {"name": AUTHORITY, "namespace": namespace},
            },
        }],
    });
    template.spec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
    Ok(template)
}

fn manifests(image: &str, operator_image: Option<&str>) -> Vec<Value> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ADD_ON, "namespace": NAMESPACE},
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ADD_ON},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ADD_ON, "namespace": NAMESPACE}],
    });
    let selector = json!({"app": ADD_ON});
    let mut agent = pod(image, "addon");
    agent["metadata"] = json!({"labels": selector});
    if let Some(operator) = operator_image.filter(|it| !it.is_empty()) {
        let environment = agent["spec"]["containers"][0]["env"].as_array_mut();
        environment
            .expect("pods have one")
            .push(json!({"name": "ARGOCD_OPERATOR_IMAGE", "value": operator}));
    }
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": ADD_ON, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "selector": {"matchLabels": selector}, "template": agent},
    });
    let mut cleanup = pod(image, "cleanup");
    cleanup["spec"]["restartPolicy"] = json!("Never");
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": format!("{ADD_ON}-cleanup"), "namespace": NAMESPACE,
            "annotations": {"addon.open-cluster-management.io/addon-pre-delete": ""},
        },
        "spec": {"template": cleanup},
    });
    vec![job, account, binding, deployment]
}

fn pod(image: &str, mode: &str) -> Value {
    let variable = |name: &str| json!({"name": name, "value": format!("{{{{{name}}}}}")});
    let container = json!({
        "name": ADD_ON, "image": image, "imagePullPolicy": "IfNotPresent",
        "command": ["/manager"], "args": [format!("--mode={mode}")],
        "env": [variable("ARGOCD_NAMESPACE"), variable("ARGOCD_OPERATOR_NAMESPACE")],
    });
    json!({"spec": {"serviceAccountName": ADD_ON, "containers": [container]}})
}
