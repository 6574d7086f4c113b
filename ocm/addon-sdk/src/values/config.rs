//! The cluster's AddOnDeploymentConfig as values, in the shapes that charts and templates of today's add-ons know.

use k8s_openapi::api::core::v1::Toleration;
use ocm_api::addon::{AddOnDeploymentConfigSpec, v1alpha1::AddOnDeploymentConfig};
use serde_json::{Map, Value, json};

use super::{Values, at, images, merge, resources};
use crate::{AddOnContext, Mode, UserError};

/// The AddOnDeploymentConfig that is meant for this cluster; an empty one when there is none.
///
/// # Errors
/// When it does not exist, cannot be read, or the hub has not settled its state.
pub fn of(place: &AddOnContext) -> Result<AddOnDeploymentConfigSpec, UserError> {
    Ok(place
        .config::<AddOnDeploymentConfig>()?
        .map(|it| it.spec)
        .unwrap_or_default())
}

/// Some values of a configuration.
pub type Converter = fn(&AddOnDeploymentConfigSpec) -> Values;

/// The values that the converters make of the cluster's AddOnDeploymentConfig, later ones over earlier ones;
/// none without one.
///
/// ```
/// use ocm_addon_sdk::{AddOnContext, values::config};
///
/// let values = config::values(&AddOnContext::new("cluster1", "greeter"), &[config::node_placement, config::proxy]).unwrap();
/// assert!(values.is_empty());
/// ```
///
/// # Errors
/// As [`of`].
pub fn values(place: &AddOnContext, converters: &[Converter]) -> Result<Values, UserError> {
    let config = of(place)?;
    Ok(merge(converters.iter().map(|convert| convert(&config))))
}

/// What an agent's namespace is according to the configuration; `None` when it leaves that to others.
///
/// # Errors
/// As [`of`].
pub fn install_namespace(place: &AddOnContext) -> Result<Option<String>, UserError> {
    Ok(Some(of(place)?.agent_install_namespace).filter(|it| !it.is_empty()))
}

/// The same for an agent that, when it is hosted, is beside the klusterlet of its cluster, in `klusterlet-CLUSTER`,
/// whatever a configuration says. Upstream: governance-policy-addon-controller `pkg/addon/common.go`.
///
/// ```
/// use ocm_addon_sdk::{AddOnContext, Hosting, Mode, values::config};
///
/// let mut place = AddOnContext::new("cluster1", "greeter");
/// assert_eq!(config::install_namespace_beside_klusterlet(&place).unwrap(), None);
/// place.mode = Mode::Hosted(Hosting { name: "host".to_owned(), cluster: None });
/// let namespace = config::install_namespace_beside_klusterlet(&place).unwrap();
/// assert_eq!(namespace.as_deref(), Some("klusterlet-cluster1"));
/// ```
///
/// # Errors
/// As [`of`].
pub fn install_namespace_beside_klusterlet(place: &AddOnContext) -> Result<Option<String>, UserError> {
    match place.mode {
        Mode::Hosted(_) => Ok(Some(format!("klusterlet-{}", place.cluster_name()))),
        Mode::Default => install_namespace(place),
    }
}

/// Each variable under its own name. Upstream: `ToAddOnCustomizedVariableValues`.
pub fn variables(config: &AddOnDeploymentConfigSpec) -> Values {
    let variables = config.customized_variables.iter();
    variables
        .map(|it| (it.name.clone(), it.value.as_str().into()))
        .collect()
}

/// For Go templates: the variables, `NodeSelector`, `Tolerations`, `HTTPProxy`, `HTTPSProxy`, `NoProxy`,
/// `ProxyCABundle` (base64) and `ResourceRequirements`, whose entries have `ContainerIDRegex`, `Resources` and
/// `ResourcesRaw`. Only what is configured is there. Upstream: `ToAddOnDeploymentConfigValues`.
///
/// Entries of `Tolerations` have the names that Go gives them: `Key`, `Operator`, `Value`, `Effect` and, when it is
/// set, `TolerationSeconds`. `TolerationsRaw` is the same as Kubernetes writes it, for `toJson` and `toYaml`.
///
/// ```
/// use ocm_addon_sdk::values::config;
/// use ocm_api::addon::AddOnDeploymentConfigSpec;
/// use serde_json::json;
///
/// let config = json!({"nodePlacement": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}});
/// let config: AddOnDeploymentConfigSpec = serde_json::from_value(config).unwrap();
/// let values = config::for_templates(&config);
/// assert_eq!(values["Tolerations"][0]["Key"], "gpu");
/// assert_eq!(values["TolerationsRaw"], json!([{"key": "gpu", "operator": "Exists"}]));
/// ```
pub fn for_templates(config: &AddOnDeploymentConfigSpec) -> Values {
    let mut values = variables(config);
    if let Some(placement) = &config.node_placement {
        values.insert("NodeSelector".to_owned(), json!(placement.node_selector));
        let tolerations = placement.tolerations.iter().map(toleration);
        values.insert("Tolerations".to_owned(), tolerations.collect());
        values.insert("TolerationsRaw".to_owned(), json!(placement.tolerations));
    }
    let proxy = &config.proxy_config;
    let texts = [
        ("HTTPProxy", proxy.http_proxy.clone()),
        ("HTTPSProxy", proxy.https_proxy.clone()),
        ("NoProxy", proxy.no_proxy.clone()),
        ("ProxyCABundle", ca_bundle(config)),
    ];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        values.insert(key.to_owned(), text.into());
    }
    if !config.resource_requirements.is_empty() {
        let entries = requirements(
            config,
            ["ContainerIDRegex", "Resources", "ResourcesRaw"],
            ["Limits", "Requests"],
        );
        values.insert("ResourceRequirements".to_owned(), entries);
    }
    values
}

/// For charts: `global.nodeSelector` and `tolerations`. Upstream: `ToAddOnNodePlacementValues`.
pub fn node_placement(config: &AddOnDeploymentConfigSpec) -> Values {
    let Some(placement) = &config.node_placement else {
        return Values::new();
    };
    let mut values = at("global.nodeSelector", json!(placement.node_selector));
    values.insert("tolerations".to_owned(), json!(placement.tolerations));
    values
}

/// For charts: `global.proxyConfig` with `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY` and `PROXY_CA_BUNDLE` (base64), if
/// there is a proxy. Upstream: `ToAddOnProxyConfigValues`.
pub fn proxy(config: &AddOnDeploymentConfigSpec) -> Values {
    let proxy = &config.proxy_config;
    if proxy.http_proxy.is_empty() && proxy.https_proxy.is_empty() {
        return Values::new();
    }
    let values = json!({
        "HTTP_PROXY": proxy.http_proxy,
        "HTTPS_PROXY": proxy.https_proxy,
        "NO_PROXY": proxy.no_proxy,
        "PROXY_CA_BUNDLE": ca_bundle(config),
    });
    at("global.proxyConfig", values)
}

/// For charts: `global.resourceRequirements`, whose entries have `containerIDRegex`, `resources` and `resourcesRaw`; of
/// those that fit a container the last counts. Upstream: `ToAddOnResourceRequirementsValues`.
pub fn resource_requirements(config: &AddOnDeploymentConfigSpec) -> Values {
    if config.resource_requirements.is_empty() {
        return Values::new();
    }
    let entries = requirements(
        config,
        ["containerIDRegex", "resources", "resourcesRaw"],
        ["limits", "requests"],
    );
    at("global.resourceRequirements", entries)
}

/// An image at a path of names with dots between them, after the configuration's registries.
/// Upstream: `ToImageOverrideValuesFunc`.
pub fn image(config: &AddOnDeploymentConfigSpec, path: &str, image: &str) -> Values {
    at(path, images::overridden(&config.registries, image))
}

/// A toleration as a Go template sees it: texts that are not set are empty.
fn toleration(it: &Toleration) -> Value {
    let mut fields = json!({
        "Key": it.key.as_deref().unwrap_or_default(),
        "Operator": it.operator.as_deref().unwrap_or_default(),
        "Value": it.value.as_deref().unwrap_or_default(),
        "Effect": it.effect.as_deref().unwrap_or_default(),
    });
    // A pointer in Go, so that `if` asks whether it is set: 0 is. As a number it would not be, as a text it is,
    // and prints alike.
    if let Some(seconds) = it.toleration_seconds {
        fields["TolerationSeconds"] = seconds.to_string().into();
    }
    fields
}

fn requirements(config: &AddOnDeploymentConfigSpec, entry: [&str; 3], amounts: [&str; 2]) -> Value {
    let one = |it: &ocm_api::addon::ContainerResourceRequirements| {
        let [limits, requests] = amounts;
        // The amounts are texts already.
        let texts = json!({ limits: it.resources.limits.clone().unwrap_or_default(),
            requests: it.resources.requests.clone().unwrap_or_default() });
        let fields = [resources::pattern(&it.container_id).into(), texts, json!(it.resources)];
        Value::Object(Map::from_iter(entry.iter().map(|it| (*it).to_owned()).zip(fields)))
    };
    config.resource_requirements.iter().map(one).collect()
}

/// The proxy's certificates as base64; empty when there are none.
fn ca_bundle(config: &AddOnDeploymentConfigSpec) -> String {
    let bundle = config.proxy_config.ca_bundle.as_ref().map(|it| json!(it));
    bundle.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> AddOnDeploymentConfigSpec {
        serde_json::from_value(json!({
            "customizedVariables": [{"name": "LOG_LEVEL", "value": "4"}],
            "nodePlacement": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "k", "operator": "Exists"}]},
            "registries": [{"source": "quay.io", "mirror": "m.io"}],
            "proxyConfig": {"httpProxy": "http://p", "noProxy": "a,b", "caBundle": "cGVt"},
            "agentInstallNamespace": "elsewhere",
            "resourceRequirements": [{"containerID": "deployments:*:agent", "resources": {"limits": {"cpu": "1"}}}],
        }))
        .unwrap()
    }

    #[test]
    fn go_templates_get_names_with_capitals() {
        assert_eq!(
            json!(for_templates(&full())),
            json!({
                "LOG_LEVEL": "4",
                "NodeSelector": {"disk": "ssd"},
                "Tolerations": [{"Key": "k", "Operator": "Exists", "Value": "", "Effect": ""}],
                "TolerationsRaw": [{"key": "k", "operator": "Exists"}],
                "HTTPProxy": "http://p",
                "NoProxy": "a,b",
                "ProxyCABundle": "cGVt",
                "ResourceRequirements": [{
                    "ContainerIDRegex": "^deployments:.+:agent$",
                    "Resources": {"Limits": {"cpu": "1"}, "Requests": {}},
                    "ResourcesRaw": {"limits": {"cpu": "1"}},
                }],
            })
        );
        assert_eq!(for_templates(&Default::default()), Values::new());
    }

    #[test]
    fn a_template_of_a_go_program_places_tolerations() {
        const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: a, namespace: b}
spec:
{{- if .Tolerations }}
  tolerations:
  {{- range $it := .Tolerations }}
  - {key: \"{{ $it.Key }}\", operator: \"{{ $it.Operator }}\", value: \"{{ $it.Value }}\", effect: \"{{ $it.Effect }}\"
    {{- if $it.TolerationSeconds }}, tolerationSeconds: {{ $it.TolerationSeconds }}{{ end }}}
  {{- end }}
{{- end }}
";
        let config = json!({"nodePlacement": {"tolerations": [
            {"key": "k", "operator": "Exists"},
            {"key": "l", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 0},
        ]}});
        let values = for_templates(&serde_json::from_value(config).unwrap());
        let file = crate::manifests::IncludedFile {
            path: "pod.yaml",
            text: POD,
        };
        let made = crate::manifests::templates(&[file], &AddOnContext::new("cluster1", "a"), values).unwrap();
        assert_eq!(
            made[0]["spec"]["tolerations"],
            json!([
                {"key": "k", "operator": "Exists", "value": "", "effect": ""},
                {"key": "l", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 0},
            ])
        );
    }

    #[test]
    fn charts_get_global_values() {
        let converters: [Converter; 4] = [variables, node_placement, proxy, resource_requirements];
        let config = AddOnDeploymentConfig::new("c", full());
        let place = AddOnContext::new("cluster1", "a").with_config(&config);
        assert_eq!(
            json!(values(&place, &converters).unwrap()),
            json!({
                "LOG_LEVEL": "4",
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "global": {
                    "nodeSelector": {"disk": "ssd"},
                    "proxyConfig": {"HTTP_PROXY": "http://p", "HTTPS_PROXY": "", "NO_PROXY": "a,b", "PROXY_CA_BUNDLE": "cGVt"},
                    "resourceRequirements": [{
                        "containerIDRegex": "^deployments:.+:agent$",
                        "resources": {"limits": {"cpu": "1"}, "requests": {}},
                        "resourcesRaw": {"limits": {"cpu": "1"}},
                    }],
                },
            })
        );
        let empty = AddOnDeploymentConfig::new("c", Default::default());
        let place = AddOnContext::new("cluster1", "a").with_config(&empty);
        assert_eq!(values(&place, &converters).unwrap(), Values::new());
    }

    #[test]
    fn a_certificate_alone_is_no_proxy_for_charts() {
        let mut config = full();
        config.proxy_config.http_proxy.clear();
        assert_eq!(proxy(&config), Values::new());
    }

    #[test]
    fn the_namespace_is_the_configured_one_if_one_is_configured() {
        let config = AddOnDeploymentConfig::new("c", full());
        let place = AddOnContext::new("cluster1", "a").with_config(&config);
        assert_eq!(install_namespace(&place).unwrap().as_deref(), Some("elsewhere"));
        let empty = AddOnDeploymentConfig::new("c", Default::default());
        assert_eq!(
            install_namespace(&AddOnContext::new("cluster1", "a").with_config(&empty)).unwrap(),
            None
        );
        assert_eq!(install_namespace(&AddOnContext::new("cluster1", "a")).unwrap(), None);
    }

    #[test]
    fn images_come_from_the_configured_registries() {
        let values = image(&full(), "global.image", "quay.io/ocm/a:1");
        assert_eq!(json!(values), json!({"global": {"image": "m.io/ocm/a:1"}}));
    }
}
