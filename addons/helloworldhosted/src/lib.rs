//! An add-on whose agent can run on another cluster than the one it looks after: helloworld's agent, with the way to
//! the managed cluster in a Secret that the administrator makes on the hosting one.

use addon_helloworld::{COPY, copy, image};
use ocm_addon_sdk::{
    AddOn, AddOnAgent, AddOnContext, AddOnProgram, ConfigKind, Permission, Registration, UserError, agent,
    include_files,
    k8s_openapi::api::core::v1::ConfigMap,
    manifests::{self, IncludedFile},
    ocm_api::addon::v1alpha1::AddOnDeploymentConfig,
    values::{self, config, images},
};
use serde_json::Value;

const MANIFESTS: &[IncludedFile] = include_files!["manifests.yaml"];

/// What it is on the hub.
pub struct HelloWorldHosted {
    pub image: String,
}

impl AddOn for HelloWorldHosted {
    fn name(&self) -> &str {
        "helloworldhosted"
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let configured = config::values(place, &[config::for_templates])?;
        let image = images::value(place, "Image", &self.image)?;
        manifests::templates(MANIFESTS, place, values::merge([configured, image]))
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let read = ["get", "list", "watch"];
        let maps = Permission::rule("", &["configmaps"], &read);
        let itself = Permission::rule("addon.open-cluster-management.io", &["managedclusteraddons"], &read);
        let name = format!("open-cluster-management:{}:agent", self.name());
        Ok(vec![Permission::role(name, vec![maps, itself])])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace(place)
    }

    fn hosted(&self, _: &AddOnContext) -> bool {
        true
    }
}

// Runs before the add-on goes, while its agent, which sees that it goes, copies nothing any more.
async fn remove_copies(agent: AddOnAgent) -> agent::Result<()> {
    agent.delete_labelled(agent.objects::<ConfigMap>(), COPY).await
}

/// Both halves as one program.
pub fn program() -> AddOnProgram {
    AddOnProgram::new(HelloWorldHosted { image: image() })
        .agent(copy)
        .cleanup(remove_copies)
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::{Hosting, Mode};
    use serde_json::json;

    use super::*;

    const LOCATION: &str = "addon.open-cluster-management.io/hosted-manifest-location";

    fn made(place: &AddOnContext) -> Vec<Value> {
        let add_on = HelloWorldHosted {
            image: "agent:1".to_owned(),
        };
        add_on.manifests(place).unwrap()
    }

    fn agent(all: &[Value]) -> &Value {
        let deployment = all.iter().find(|it| it["kind"] == "Deployment").unwrap();
        &deployment["spec"]["template"]["spec"]
    }

    #[test]
    fn a_hosted_agent_has_a_kubeconfig_for_the_managed_cluster() {
        let mut place = AddOnContext::new("cluster1", "helloworldhosted");
        place.mode = Mode::Hosted(Hosting {
            name: "host".to_owned(),
            cluster: None,
        });
        let all = made(&place);
        let at = |location: &str| {
            let there = all
                .iter()
                .filter(|it| it["metadata"]["annotations"][LOCATION] == location);
            there.map(|it| it["kind"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            at("hosting"),
            [
                "Namespace",
                "ServiceAccount",
                "Role",
                "RoleBinding",
                "Deployment",
                "Job"
            ]
        );
        assert_eq!(at("none"), ["ClusterRole", "ClusterRoleBinding"]);
        let pod = agent(&all);
        let arguments = pod["containers"][0]["args"].as_array().unwrap();
        assert!(
            arguments
                .iter()
                .any(|it| it == "--managed-kubeconfig=/var/run/managed/kubeconfig")
        );
        assert_eq!(
            pod["volumes"][1]["secret"]["secretName"],
            "helloworldhosted-managed-kubeconfig"
        );
    }

    #[test]
    fn a_configuration_reaches_the_agent_and_the_job() {
        let config = json!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {
                "nodePlacement": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
                "proxyConfig": {"httpProxy": "http://proxy", "httpsProxy": "https://proxy"},
                "registries": [{"source": "quay.io", "mirror": "mirror"}],
                "resourceRequirements": [
                    {"containerID": "*:*:*", "resources": {"limits": {"memory": "1Gi"}}},
                    {"containerID": "jobs:helloworldhosted-cleanup-configmap:*", "resources": {"limits": {"memory": "64Mi"}}},
                ],
            },
        });
        let config: AddOnDeploymentConfig = serde_json::from_value(config).unwrap();
        let add_on = HelloWorldHosted {
            image: "quay.io/agent:1".to_owned(),
        };
        let place = AddOnContext::new("cluster1", "helloworldhosted").with_config(&config);
        let all = add_on.manifests(&place).unwrap();
        for (kind, memory) in [("Deployment", "1Gi"), ("Job", "64Mi")] {
            let found = all.iter().find(|it| it["kind"] == kind).unwrap();
            let pod = &found["spec"]["template"]["spec"];
            assert_eq!(pod["nodeSelector"], json!({"disk": "ssd"}), "{kind}");
            assert_eq!(
                pod["tolerations"],
                json!([{"key": "gpu", "operator": "Exists"}]),
                "{kind}"
            );
            let container = &pod["containers"][0];
            assert_eq!(container["image"], "mirror/agent:1", "{kind}");
            assert_eq!(
                container["env"],
                json!([
                    {"name": "HTTP_PROXY", "value": "http://proxy"},
                    {"name": "HTTPS_PROXY", "value": "https://proxy"},
                ]),
                "{kind}"
            );
            assert_eq!(container["resources"], json!({"limits": {"memory": memory}}), "{kind}");
        }
    }

    #[test]
    fn without_hosting_it_runs_on_its_own_cluster() {
        let all = made(&AddOnContext::new("cluster1", "helloworldhosted"));
        assert_eq!(all.iter().filter(|it| it["kind"] == "Namespace").count(), 1);
        assert_eq!(agent(&all)["volumes"].as_array().unwrap().len(), 1);
    }
}
