//! What one cluster has on the hub for its agent: plain functions.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::{ResourceExt, core::ObjectMeta},
    ocm_api::{
        addon::{
            AddOnConfig, CustomizedVariable,
            v1alpha1::{AddOnDeploymentConfig, ManagedClusterAddOn},
        },
        gitops::GitOpsCluster,
        work::ManifestWork,
    },
};
use serde_json::{Value, json};

use super::{ADD_ON, AUTHORITY, LOCAL_CLUSTER, OF_GITOPS_CLUSTER, argo_cd, certificates::DueCredential, data, labels};
use crate::words;

/// The ManifestWork with the authority.
pub const AUTHORITY_WORK: &str = "argocd-agent-ca-mw";
/// The AddOnDeploymentConfig in the cluster's namespace.
pub const CONFIG: &str = "argocd-agent-addon-config";
/// Annotation on the same work.
const PROPAGATES: &str = "apps.open-cluster-management.io/propagate-argocd-agent-ca";
const GROUP: &str = "addon.open-cluster-management.io";

/// A cluster that the Placement has chosen.
#[derive(Clone, Debug)]
pub struct ChosenCluster {
    /// Its name.
    pub name: String,
    /// Secrets that are to be written, or why they cannot be made.
    pub secrets: Result<Vec<DueCredential>, String>,
    /// The work with the authority.
    pub authority_work: Option<Arc<ManifestWork>>,
    /// The work with the ArgoCD.
    pub argo_cd_work: Option<Arc<ManifestWork>>,
    /// The configuration of the add-on.
    pub config: Option<Arc<AddOnDeploymentConfig>>,
    /// The add-on.
    pub add_on: Option<Arc<ManagedClusterAddOn>>,
}

impl ChosenCluster {
    /// A cluster that has nothing yet.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            secrets: Ok(Vec::new()),
            authority_work: None,
            argo_cd_work: None,
            config: None,
            add_on: None,
        }
    }

    /// Whether it is the hub, which needs no works.
    pub fn is_local(&self) -> bool {
        self.name == LOCAL_CLUSTER
    }
}

/// A cluster that no Placement of a GitOpsCluster has chosen any more.
#[derive(Clone, Debug)]
pub struct RemovedCluster {
    /// Its add-on.
    pub add_on: Arc<ManagedClusterAddOn>,
    /// Its works.
    pub works: Vec<Arc<ManifestWork>>,
}

/// The name of the Secret with the certificate that Argo CD shows for a cluster.
pub fn client_secret_name(cluster: &str) -> String {
    format!("argocd-cluster-client-{cluster}")
}

/// The name of the Secret by which Argo CD knows a cluster.
pub fn secret_name(cluster: &str) -> String {
    format!("cluster-{cluster}")
}

/// The Secret by which Argo CD knows a cluster, if that is not what is there.
pub fn secret(
    present: Option<Secret>,
    (of, cluster): (&GitOpsCluster, &str),
    (certificate, key, authority): (&[u8], &[u8], &[u8]),
) -> Option<DueCredential> {
    let config = json!({
        "username": cluster, "password": cluster,
        "tlsClientConfig": {
            "insecure": false,
            "certData": STANDARD.encode(certificate), "keyData": STANDARD.encode(key), "caData": STANDARD.encode(authority),
        },
    });
    let labels: BTreeMap<String, String> = [
        (words::SECRET_TYPE, words::SECRET_OF_CLUSTER),
        ("apps.open-cluster-management.io/cluster-name", cluster),
        ("argocd-agent.argoproj-labs.io/agent-name", cluster),
        ("placement-name", &of.spec.placement_ref.name),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    let wanted = Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(cluster)),
            namespace: of.namespace(),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(data([
            ("name", cluster.into()),
            ("server", format!("https://{cluster}-control-plane").into_bytes()),
            ("config", config.to_string().into_bytes()),
        ])),
        ..Secret::default()
    };
    let is_same = |it: &Secret| {
        let has_labels = wanted
            .labels()
            .iter()
            .all(|(key, value)| it.labels().get(key) == Some(value));
        it.data == wanted.data && has_labels
    };
    (!present.as_ref().is_some_and(is_same)).then_some(DueCredential { present, wanted })
}

/// The work with the authority, unless the one that is there has it.
pub fn authority_work(of: &GitOpsCluster, cluster: &ChosenCluster, authority: &[u8]) -> Option<ManifestWork> {
    let encoded = STANDARD.encode(authority);
    let present = cluster.authority_work.as_deref();
    let has_it = present.is_some_and(|it| {
        let manifests = it.spec.workload.manifests.read();
        manifests.iter().any(|it| it.0["data"]["ca.crt"] == encoded.as_str())
    });
    if has_it {
        return None;
    }
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": AUTHORITY, "namespace": argo_cd::agent_namespace(of)},
        "data": {"ca.crt": encoded},
    });
    let labels = BTreeMap::from([(OF_GITOPS_CLUSTER.to_owned(), "true".to_owned())]);
    let mut work = argo_cd::filled(&cluster.name, AUTHORITY_WORK, labels, vec![secret], present);
    let annotations = work.metadata.annotations.get_or_insert_default();
    annotations.insert(PROPAGATES.to_owned(), "true".to_owned());
    Some(work)
}

/// The configuration of the add-on: missing variables are added, and what is said stays.
///
/// Upstream's has only the variables that the GitOpsCluster gives. The template uses both, and our hub refuses one with
/// a variable that nothing sets; upstream's makes an empty text of it, and so does an empty variable here, which counts
/// as missing as soon as the GitOpsCluster gives one.
pub fn config(of: &GitOpsCluster, cluster: &ChosenCluster) -> AddOnDeploymentConfig {
    let mut config = match cluster.config.as_deref() {
        Some(present) => present.clone(),
        None => {
            let mut config = AddOnDeploymentConfig::new(CONFIG, Default::default());
            config.metadata.namespace = Some(cluster.name.clone());
            config.metadata.labels = Some(labels("addon-config"));
            config
        }
    };
    let said = &of.spec.argo_cd_agent_addon;
    let wanted = [
        ("ARGOCD_NAMESPACE", &said.agent_namespace),
        ("ARGOCD_OPERATOR_NAMESPACE", &said.operator_namespace),
    ];
    let variables = &mut config.spec.customized_variables;
    for (name, value) in wanted {
        match variables.iter_mut().find(|it| it.name == name) {
            Some(said) if said.value.is_empty() => said.value.clone_from(value),
            Some(_) => {}
            None => variables.push(CustomizedVariable {
                name: name.to_owned(),
                value: value.clone(),
            }),
        }
    }
    config
}

/// The add-on with its template and configuration; others that it has stay.
pub fn add_on(template: &str, cluster: &ChosenCluster) -> ManagedClusterAddOn {
    let mut add_on = match cluster.add_on.as_deref() {
        Some(present) => present.clone(),
        None => {
            let mut add_on = ManagedClusterAddOn::new(ADD_ON, Default::default());
            add_on.metadata.namespace = Some(cluster.name.clone());
            add_on.metadata.labels = Some(labels("addon"));
            add_on
        }
    };
    let config = |resource: &str, namespace: &str, name: &str| AddOnConfig {
        group: GROUP.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let configs = &mut add_on.spec.configs;
    for wanted in [
        config("addontemplates", "", template),
        config("addondeploymentconfigs", &cluster.name, CONFIG),
    ] {
        // A kind of configuration is named once.
        if !configs
            .iter()
            .any(|it| it.group == wanted.group && it.resource == wanted.resource)
        {
            configs.push(wanted);
        }
    }
    add_on
}

/// Names as conditions list them.
pub fn listed(names: &[&str]) -> String {
    let first = names.iter().take(3).copied().collect::<Vec<_>>().join(" ");
    match names.len() {
        0..=3 => format!("[{first}]"),
        all => format!("[{first}]... ({all} total)"),
    }
}

/// What an ArgoCD on the hub says of the principal's image.
pub fn principal_image(argo_cd: &Value) -> Option<&str> {
    argo_cd.pointer("/spec/argoCDAgent/principal/image")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_cut() {
        assert_eq!(listed(&["a", "b", "c"]), "[a b c]");
        assert_eq!(listed(&["a", "b", "c", "d"]), "[a b c]... (4 total)");
    }

    #[test]
    fn a_variable_that_is_not_given_is_empty() {
        let of = |add_on: Value| -> GitOpsCluster {
            let of = json!({"metadata": {"name": "g", "namespace": "argocd"}, "spec": {"argoCDAgentAddon": add_on}});
            serde_json::from_value(of).unwrap()
        };
        let values = |config: &AddOnDeploymentConfig| {
            let variables = config.spec.customized_variables.iter();
            variables
                .map(|it| format!("{}={}", it.name, it.value))
                .collect::<Vec<_>>()
        };
        let first = config(&of(json!({})), &ChosenCluster::named("c1"));
        assert_eq!(values(&first), ["ARGOCD_NAMESPACE=", "ARGOCD_OPERATOR_NAMESPACE="]);
        let cluster = ChosenCluster {
            config: Some(Arc::new(first)),
            ..ChosenCluster::named("c1")
        };
        let second = config(&of(json!({"agentNamespace": "x"})), &cluster);
        assert_eq!(values(&second), ["ARGOCD_NAMESPACE=x", "ARGOCD_OPERATOR_NAMESPACE="]);
    }

    #[test]
    fn what_a_user_has_configured_stays() {
        let of = json!({"metadata": {"name": "g", "namespace": "argocd"}, "spec": {
            "argoCDAgentAddon": {"agentNamespace": "x", "operatorNamespace": "y"},
        }});
        let of: GitOpsCluster = serde_json::from_value(of).unwrap();
        let config_there = json!({"metadata": {"name": CONFIG, "namespace": "c1"}, "spec": {
            "customizedVariables": [{"name": "ARGOCD_NAMESPACE", "value": "mine"}],
        }});
        let add_on_there = json!({"metadata": {"name": ADD_ON, "namespace": "c1"}, "spec": {
            "configs": [{"group": GROUP, "resource": "addontemplates", "name": "mine"}],
        }});
        let cluster = ChosenCluster {
            config: Some(Arc::new(serde_json::from_value(config_there).unwrap())),
            add_on: Some(Arc::new(serde_json::from_value(add_on_there).unwrap())),
            ..ChosenCluster::named("c1")
        };
        let variables = serde_json::to_value(config(&of, &cluster).spec.customized_variables).unwrap();
        let expected = json!([
            {"name": "ARGOCD_NAMESPACE", "value": "mine"}, {"name": "ARGOCD_OPERATOR_NAMESPACE", "value": "y"},
        ]);
        assert_eq!(variables, expected);
        let configs = serde_json::to_value(add_on("t", &cluster).spec.configs).unwrap();
        let expected = json!([
            {"group": GROUP, "resource": "addontemplates", "name": "mine"},
            {"group": GROUP, "resource": "addondeploymentconfigs", "namespace": "c1", "name": CONFIG},
        ]);
        assert_eq!(configs, expected);
    }
}
