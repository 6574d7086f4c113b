//! An add-on made of a Helm chart: helloworld's agent, delivered as a chart, configured by AddOnDeploymentConfigs, by
//! ConfigMaps and by an annotation, with a Job that cleans up before it goes.

use std::sync::LazyLock;

use addon_helloworld::{COPY, copy, image};
use ocm_addon_sdk::{
    AddOn, AddOnAgent, AddOnContext, AddOnProgram, ConfigKind, Permission, Registration, UserError, Values, agent,
    include_files,
    k8s_openapi::api::core::v1::ConfigMap,
    manifests::{self, Chart, IncludedFile},
    ocm_api::addon::v1alpha1::AddOnDeploymentConfig,
    values::{self, config, images},
};
use serde_json::{Value, json};

const FILES: &[IncludedFile] = include_files![
    "../chart/Chart.yaml",
    "../chart/values.yaml",
    "../chart/templates/_helpers.tpl",
    "../chart/templates/namespace.yaml",
    "../chart/templates/service_account.yaml",
    "../chart/templates/cluster_role.yaml",
    "../chart/templates/cluster_role_binding.yaml",
    "../chart/templates/deployment.yaml",
    "../chart/templates/cleanup_job.yaml",
];
const IMAGE: &str = "global.imageOverrides.helloWorldHelm";

/// Read when it is needed for the first time, which on most hubs is never.
static CHART: LazyLock<Chart> = LazyLock::new(|| {
    manifests::read_chart("../chart", FILES).expect("the chart of this crate is one: its tests render it")
});

/// What it is on the hub.
pub struct HelloWorldHelm {
    pub image: String,
}

impl AddOn for HelloWorldHelm {
    fn name(&self) -> &str {
        "helloworldhelm"
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let converters = [config::node_placement, config::proxy, config::resource_requirements];
        let values = [
            config::values(place, &converters)?,
            images::value(place, IMAGE, &self.image)?,
            from_config_map(place)?,
            values::from_annotation(place)?,
        ];
        manifests::chart(&CHART, place, values::merge(values))
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
        vec![ConfigKind::of::<ConfigMap>(), ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace(place)
    }
}

// The image, and when to pull it, from a ConfigMap: both, or it says nothing that could be used.
fn from_config_map(place: &AddOnContext) -> Result<Values, UserError> {
    let Some(map) = place.config::<ConfigMap>()? else {
        return Ok(Values::new());
    };
    let data = map.data.unwrap_or_default();
    let key = |name: &str| {
        let value = data.get(name).filter(|it| !it.is_empty());
        value.ok_or_else(|| UserError::new(format!("the ConfigMap has no {name}")))
    };
    let image = values::at(IMAGE, key("image")?.as_str());
    let policy = values::at("global.imagePullPolicy", json!(key("imagePullPolicy")?));
    Ok(values::merge([image, policy]))
}

// Runs before the add-on goes, while its agent, which sees that it goes, copies nothing any more.
async fn remove_copies(agent: AddOnAgent) -> agent::Result<()> {
    agent.delete_labelled(agent.objects::<ConfigMap>(), COPY).await
}

/// Both halves as one program.
pub fn program() -> AddOnProgram {
    AddOnProgram::new(HelloWorldHelm { image: image() })
        .agent(copy)
        .cleanup(remove_copies)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ocm_addon_sdk::ocm_api::annotations;

    use super::*;

    fn made(place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let add_on = HelloWorldHelm {
            image: "quay.io/agent:1".to_owned(),
        };
        add_on.manifests(place)
    }

    fn of_kind<'a>(all: &'a [Value], kind: &str) -> &'a Value {
        all.iter().find(|it| it["kind"] == kind).expect(kind)
    }

    #[test]
    fn the_chart_contains_an_agent_and_a_cleanup_job() {
        let all = made(&AddOnContext::new("cluster1", "helloworldhelm")).unwrap();
        let deployment = of_kind(&all, "Deployment");
        assert_eq!(deployment["metadata"]["name"], "helloworldhelm-agent");
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["image"], "quay.io/agent:1");
        assert_eq!(pod["containers"][0]["args"][3], "--cluster-name=cluster1");
        assert_eq!(
            pod["volumes"][0]["secret"]["secretName"],
            "helloworldhelm-hub-kubeconfig"
        );
        assert!(pod["containers"][0].get("env").is_none(), "{pod}");
        let job = of_kind(&all, "Job");
        assert_eq!(job["metadata"]["name"], "helloworldhelm-cleanup-configmap");
        assert!(
            job["metadata"]["annotations"]
                .get(annotations::ADDON_PRE_DELETE)
                .is_some()
        );
    }

    #[test]
    fn everything_that_can_be_configured_is() {
        let config = json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {
                "nodePlacement": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
                "proxyConfig": {"httpsProxy": "https://proxy"},
                "registries": [{"source": "quay.io", "mirror": "mirror"}],
                "resourceRequirements": [
                    {"containerID": "*:*:*", "resources": {"limits": {"memory": "1Gi"}}},
                    {"containerID": "deployments:helloworldhelm-agent:*", "resources": {"limits": {"memory": "64Mi"}}},
                ],
            },
        });
        let config: AddOnDeploymentConfig = serde_json::from_value(config).unwrap();
        let mut place = AddOnContext::new("cluster1", "helloworldhelm").with_config(&config);
        let all = made(&place).unwrap();
        let pod = &of_kind(&all, "Deployment")["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({"disk": "ssd"}));
        assert_eq!(pod["tolerations"], json!([{"key": "gpu", "operator": "Exists"}]));
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "mirror/agent:1");
        assert_eq!(
            container["env"],
            json!([{"name": "HTTPS_PROXY", "value": "https://proxy"}])
        );
        assert_eq!(container["resources"]["limits"]["memory"], "64Mi");

        let edited = json!({"global": {"imageOverrides": {"helloWorldHelm": "from/annotation:2"}}});
        let annotation = (annotations::ADDON_VALUES.to_owned(), edited.to_string());
        Arc::make_mut(&mut place.addon).metadata.annotations = Some([annotation].into());
        let all = made(&place).unwrap();
        let pod = &of_kind(&all, "Deployment")["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["image"], "from/annotation:2");
    }

    #[test]
    fn a_config_map_names_image_and_policy_or_is_refused() {
        let map = |data: Value| {
            let object = json!({"metadata": {"name": "a", "namespace": "b"}, "data": data});
            let map: ConfigMap = serde_json::from_value(object).unwrap();
            made(&AddOnContext::new("cluster1", "helloworldhelm").with_config(&map))
        };
        let all = map(json!({"image": "other:2", "imagePullPolicy": "Never"})).unwrap();
        let container = &of_kind(&all, "Deployment")["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(
            (&container["image"], &container["imagePullPolicy"]),
            (&json!("other:2"), &json!("Never"))
        );
        let refused = map(json!({"image": "other:2"})).unwrap_err();
        assert_eq!(refused.message(), "the ConfigMap has no imagePullPolicy");
    }
}
