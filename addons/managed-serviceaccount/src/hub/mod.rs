//! The hub's half: what is put on a cluster, and two reconcilers for what the feature gates allow.

pub mod ephemeral;
pub mod profile_secrets;

use std::collections::BTreeMap;

use ocm_addon_sdk::{
    AddOn, AddOnContext, ConfigKind, Permission, Registration, UserError, include_files, manifests,
    ocm_api::addon::v1alpha1::AddOnDeploymentConfig,
    reconcile::{Caches, Controller},
    values::{self, Values, config, images},
};
use serde_json::{Value, json};

use crate::NAME;

/// The image of the agent where nobody names another.
pub const IMAGE: &str = "quay.io/open-cluster-management/managed-serviceaccount:latest";

/// Feature gates; all are off where nobody turns them on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// ManagedServiceAccounts are deleted `ttlSecondsAfterCreation` after they were made.
    pub ephemeral_identity: bool,
    /// Tokens are copied beside ClusterProfiles.
    pub cluster_profile: bool,
}

impl Gates {
    /// Reads `EphemeralIdentity=true,ClusterProfile=false`.
    ///
    /// # Errors
    /// When a gate is none, or its value is neither true nor false.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut gates = Self::default();
        for pair in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("--feature-gates: missing bool value for {pair}; write {pair}=true"))?;
            let on = value
                .trim()
                .parse()
                .map_err(|_| format!("--feature-gates: {name}={value} is neither true nor false"))?;
            match name.trim() {
                "EphemeralIdentity" => gates.ephemeral_identity = on,
                "ClusterProfile" => gates.cluster_profile = on,
                other => {
                    return Err(format!(
                        "--feature-gates: unrecognized feature gate {other}; there are EphemeralIdentity and ClusterProfile"
                    ));
                }
            }
        }
        Ok(gates)
    }
}

/// What the gates have a hub process run in itself.
pub fn controllers(caches: &Caches, gates: Gates) -> Vec<Controller> {
    let mut all = Vec::new();
    if gates.ephemeral_identity {
        all.push(Controller::new(ephemeral::EphemeralAccounts::new(caches)));
    }
    if gates.cluster_profile {
        all.push(Controller::new(profile_secrets::ProfileSecrets::new(caches)));
    }
    all
}

/// What it is on the hub: answers about one cluster at a time.
#[derive(Clone, Debug)]
pub struct ManagedServiceAccounts {
    /// The image of the agent.
    pub image: String,
    /// What a Secret of type `kubernetes.io/dockerconfigjson` has, in base64, for the agent's image.
    pub pull_secret: Option<String>,
    /// The gates that the agent has, too.
    pub gates: Gates,
}

impl Default for ManagedServiceAccounts {
    fn default() -> Self {
        Self {
            image: IMAGE.to_owned(),
            pull_secret: None,
            gates: Gates::default(),
        }
    }
}

impl AddOn for ManagedServiceAccounts {
    fn name(&self) -> &str {
        NAME
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let configured = config::values(place, &[config::for_templates])?;
        let image = images::value(place, "Image", &self.image)?;
        let monitor = monitor(&configured)?;
        let own = values::of(&json!({
            "ImagePullSecretData": self.pull_secret.clone().unwrap_or_default(),
            "EphemeralIdentity": self.gates.ephemeral_identity,
        }))?;
        let files = include_files!["manifests.yaml"];
        manifests::templates(files, place, values::merge([configured, image, monitor, own]))
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        const ACCOUNTS: &str = "authentication.open-cluster-management.io";
        let rules = vec![
            Permission::rule("", &["secrets"], &["get", "list", "watch", "create", "update"]),
            Permission::rule(ACCOUNTS, &["managedserviceaccounts"], &["get", "list", "watch"]),
            Permission::rule(
                ACCOUNTS,
                &["managedserviceaccounts/status"],
                &["get", "update", "patch"],
            ),
        ];
        Ok(vec![Permission::role("managed-serviceaccount-addon-agent", rules)])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace(place)
    }
}

/// Whether Prometheus' operator is to look at the agent, and the labels that it finds ServiceMonitors by.
fn monitor(configured: &Values) -> Result<Values, UserError> {
    let text = |name: &str| configured.get(name).and_then(Value::as_str).unwrap_or_default();
    let enabled = match text("prometheusEnabled") {
        "" => false,
        // As Go reads a bool.
        "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
        "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
        other => {
            return Err(UserError::new(format!(
                "invalid prometheusEnabled: {other:?} is neither true nor false"
            )));
        }
    };
    let labels: BTreeMap<String, String> = match text("prometheusServiceMonitorLabels") {
        "" => BTreeMap::new(),
        text => serde_json::from_str(text)
            .map_err(|error| UserError::new(format!("invalid prometheusServiceMonitorLabels: {error}")))?,
    };
    values::of(&json!({"PrometheusEnabled": enabled, "ServiceMonitorLabels": labels}))
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::ocm_api::addon::v1alpha1::AddOnDeploymentConfig;

    use super::*;

    fn manifests(place: &AddOnContext) -> Vec<Value> {
        ManagedServiceAccounts::default().manifests(place).unwrap()
    }

    fn named<'a>(all: &'a [Value], kind: &str) -> &'a Value {
        all.iter().find(|it| it["kind"] == kind).unwrap()
    }

    fn configured(variables: Value) -> AddOnContext {
        let config = json!({
            "metadata": {"name": "c", "namespace": "c1"},
            "spec": {
                "customizedVariables": variables,
                "nodePlacement": {"nodeSelector": {"a": "b"}},
                "registries": [{"source": "quay.io/open-cluster-management", "mirror": "m.example"}],
                "agentInstallNamespace": "elsewhere",
            },
        });
        let config: AddOnDeploymentConfig = serde_json::from_value(config).unwrap();
        AddOnContext::new("c1", NAME).with_config(&config)
    }

    #[test]
    fn the_agent_runs_as_upstreams_does() {
        let all = manifests(&AddOnContext::new("c1", NAME));
        let kinds: Vec<_> = all.iter().map(|it| it["kind"].as_str().unwrap()).collect();
        assert_eq!(
            kinds,
            [
                "Namespace",
                "ServiceAccount",
                "ClusterRole",
                "ClusterRoleBinding",
                "Role",
                "RoleBinding",
                "Deployment",
                "Service",
            ]
        );
        let pod = &named(&all, "Deployment")["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["command"], json!(["/msa", "agent"]));
        assert_eq!(
            container["args"],
            json!([
                "--leader-elect=false",
                "--cluster-name=c1",
                "--kubeconfig=/etc/hub/kubeconfig",
                "--lease-health-check=true",
            ])
        );
        assert_eq!(container["image"], IMAGE);
        assert_eq!(
            pod["volumes"][0]["secret"]["secretName"],
            "managed-serviceaccount-hub-kubeconfig"
        );
    }

    #[test]
    fn configuration_is_honoured() {
        let all = manifests(&configured(json!([{"name": "prometheusEnabled", "value": "true"},
            {"name": "prometheusServiceMonitorLabels", "value": "{\"x\": \"y\"}"}])));
        let pod = &named(&all, "Deployment")["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({"a": "b"}));
        assert_eq!(pod["containers"][0]["image"], "m.example/managed-serviceaccount:latest");
        assert_eq!(named(&all, "ServiceMonitor")["metadata"]["labels"]["x"], "y");
        let bad = configured(json!([{"name": "prometheusEnabled", "value": "maybe"}]));
        let error = ManagedServiceAccounts::default().manifests(&bad).unwrap_err();
        assert!(error.message().starts_with("invalid prometheusEnabled: "), "{error}");
    }

    #[test]
    fn a_pull_secret_goes_with_the_agent() {
        let add_on = ManagedServiceAccounts {
            pull_secret: Some("e30=".to_owned()),
            gates: Gates::read("EphemeralIdentity=true").unwrap(),
            ..ManagedServiceAccounts::default()
        };
        let all = add_on.manifests(&AddOnContext::new("c1", NAME)).unwrap();
        assert_eq!(named(&all, "Secret")["data"][".dockerconfigjson"], "e30=");
        let pod = &named(&all, "Deployment")["spec"]["template"]["spec"];
        assert_eq!(
            pod["imagePullSecrets"][0]["name"],
            "open-cluster-management-image-pull-credentials"
        );
        let args = pod["containers"][0]["args"].as_array().unwrap();
        assert!(args.contains(&json!("--feature-gates=EphemeralIdentity=true")));
    }

    #[test]
    fn an_unknown_gate_is_refused() {
        assert!(
            Gates::read("Foo=true")
                .unwrap_err()
                .contains("unrecognized feature gate Foo")
        );
        assert!(
            Gates::read("ClusterProfile")
                .unwrap_err()
                .contains("write ClusterProfile=true")
        );
        assert!(Gates::read(" ClusterProfile=true ,").unwrap().cluster_profile);
    }
}
