//! The manifests that a template makes for one cluster.

use std::collections::BTreeSet;

use ocm_addon_sdk::{
    AddOnContext, Mode, UserError,
    deploy::manifest::{Side, location, location_mark},
    values::images,
};
use ocm_api::{
    addon::{AddOnDeploymentConfigSpec, AddOnTemplateSpec, TemplateRegistration, TemplateRegistrationType},
    annotations,
    work::ManifestConfigOption,
};
use serde_json::{Map, Value, json};

use super::{
    namespaces,
    pods::{self, Decoration, Pods, Volume},
    staying,
    variables::{self, Variables},
};

const HUB_KUBECONFIG: &str = "/managed/hub-kubeconfig/kubeconfig";
const CA_BUNDLE_KEY: &str = "ca-bundle.crt";
const PROXY_CA: &str = "/managed/proxy-ca";

/// A volume's name is a label of DNS.
const VOLUME_NAME_MAX: usize = 63;

/// A template, the configuration and the cluster it is rendered for.
pub struct Rendering<'r> {
    /// The template.
    pub template: &'r AddOnTemplateSpec,
    /// The configuration; an empty one when there is none.
    pub config: &'r AddOnDeploymentConfigSpec,
    /// The cluster.
    pub place: &'r AddOnContext,
}

impl Rendering<'_> {
    /// The variables: what is known by default, under what the configuration says, under the facts of the cluster.
    pub fn variables(&self) -> Variables {
        let mut variables = Variables::new();
        if !self.template.registration.is_empty() {
            variables.insert("HUB_KUBECONFIG".to_owned(), HUB_KUBECONFIG.to_owned());
        }
        for it in &self.config.customized_variables {
            variables.insert(it.name.clone(), it.value.clone());
        }
        variables.insert("CLUSTER_NAME".to_owned(), self.place.cluster_name().to_owned());
        let namespace = self.namespace().unwrap_or(&self.place.install_namespace);
        variables.insert("INSTALL_NAMESPACE".to_owned(), namespace.to_owned());
        variables
    }

    /// The namespace that the configuration asks for.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.config.agent_install_namespace.as_str()).filter(|it| !it.is_empty())
    }

    /// The manifests with their variables replaced, and nothing else done to them.
    ///
    /// # Errors
    /// When a variable is not known.
    pub fn substituted(&self) -> Result<Vec<Value>, UserError> {
        let variables = self.variables();
        let mut unknown = BTreeSet::new();
        let manifests = self.template.agent_spec.workload.manifests.read();
        let mut manifests: Vec<Value> = manifests.iter().map(|it| it.0.clone()).collect();
        for manifest in &mut manifests {
            variables::substitute(manifest, &variables, &mut unknown);
        }
        if unknown.is_empty() {
            return Ok(manifests);
        }
        let list = |names: Vec<&String>| {
            let names: Vec<String> = names.iter().map(|it| format!("{{{{{it}}}}}")).collect();
            names.join(", ")
        };
        Err(UserError::new(format!(
            "the template uses {}, which nothing sets: known are {}; others come from customizedVariables of an \
             AddOnDeploymentConfig",
            list(unknown.iter().collect()),
            list(variables.keys().collect()),
        )))
    }

    /// The manifests as they go to the cluster.
    ///
    /// # Errors
    /// When a variable is not known, the cluster's registries cannot be read, the proxy's certificates are no text, or
    /// the template asks for what works of add-ons cannot have.
    pub fn manifests(&self) -> Result<Vec<Value>, UserError> {
        let spec = &self.template.agent_spec;
        staying::check(spec)?;
        let mut manifests = self.substituted()?;
        staying::mark_named(spec, &self.variables(), &mut manifests);
        if let Some(namespace) = self.namespace() {
            namespaces::rewrite(&mut manifests, namespace);
        }
        let decoration = self.decoration()?;
        for manifest in &mut manifests {
            if let Some(mut pods) = Pods::of(manifest) {
                decoration.apply(&mut pods);
            }
        }
        self.add_ca_bundle(&mut manifests)?;
        staying::mark_all(spec, &mut manifests);
        Ok(manifests)
    }

    /// How single manifests are updated and reported on, named as they are on the cluster.
    pub fn manifest_configs(&self) -> Vec<ManifestConfigOption> {
        let variables = self.variables();
        let mut configs = self.template.agent_spec.manifest_configs.clone();
        for config in &mut configs {
            let it = &mut config.resource_identifier;
            for text in [&mut it.name, &mut it.namespace] {
                let mut value = Value::from(text.as_str());
                variables::substitute(&mut value, &variables, &mut BTreeSet::new());
                *text = value.as_str().unwrap_or_default().to_owned();
            }
            if let Some(namespace) = self.namespace().filter(|_| !it.namespace.is_empty()) {
                it.namespace = namespace.to_owned();
            }
        }
        configs
    }

    /// The namespace of the agent: where the first Deployment is, or else the first DaemonSet, or else the first of
    /// another kind that bears pods. Of a hosted add-on those count that go to the hosting cluster.
    pub fn agent_namespace(&self) -> Option<String> {
        let variables = self.variables();
        let is_hosted = matches!(self.place.mode, Mode::Hosted(_));
        let of = |wanted: &dyn Fn(&str) -> bool| {
            let manifests = self.template.agent_spec.workload.manifests.read();
            let mut found = manifests
                .iter()
                .filter(|it| !is_hosted || location(&it.0) == Ok(Some(Side::Hosting)))
                .filter(|it| pods::workloads(&it.0).is_some_and(wanted));
            found.find_map(|it| {
                // Only this text is looked at: the question is asked with every look at a cluster.
                let mut namespace = Value::from(it.namespace());
                variables::substitute(&mut namespace, &variables, &mut BTreeSet::new());
                namespace.as_str().filter(|it| !it.is_empty()).map(str::to_owned)
            })
        };
        of(&|it| it == "deployments")
            .or_else(|| of(&|it| it == "daemonsets"))
            .or_else(|| of(&|_| true))
    }

    fn decoration(&self) -> Result<Decoration, UserError> {
        let addon = self.place.addon_name();
        let (mut environment, mut volumes) = (Vec::new(), Vec::new());
        let variables = self.variables();
        for name in ["HUB_KUBECONFIG", "CLUSTER_NAME", "INSTALL_NAMESPACE"] {
            if let Some(value) = variables.get(name) {
                environment.push((name.to_owned(), value.clone()));
            }
        }
        volumes.extend(self.template.registration.iter().map(|it| credential(addon, it)));
        let proxy = &self.config.proxy_config;
        for (name, value) in [
            ("HTTP_PROXY", &proxy.http_proxy),
            ("HTTPS_PROXY", &proxy.https_proxy),
            ("NO_PROXY", &proxy.no_proxy),
        ] {
            if !value.is_empty() {
                environment.push((name.to_owned(), value.clone()));
                environment.push((name.to_lowercase(), value.clone()));
            }
        }
        if proxy.ca_bundle.is_some() {
            environment.push(("CA_BUNDLE_FILE_PATH".to_owned(), format!("{PROXY_CA}/{CA_BUNDLE_KEY}")));
            volumes.push(Volume::config_map("proxy-ca-bundle", ca_config_map(addon), PROXY_CA));
        }
        let placement = self.config.node_placement.clone().unwrap_or_default();
        let node_selector = placement.node_selector.into_iter();
        Ok(Decoration {
            environment,
            volumes,
            node_selector: node_selector
                .map(|(key, value)| (key, value.into()))
                .collect::<Map<_, _>>(),
            tolerations: placement.tolerations,
            registries: images::registries(self.config, &self.place.cluster)?,
            resource_requirements: self.config.resource_requirements.clone(),
        })
    }

    /// A ConfigMap with the proxy's certificates in every namespace with pods, or in the add-on's when there are none.
    fn add_ca_bundle(&self, manifests: &mut Vec<Value>) -> Result<(), UserError> {
        let Some(bundle) = &self.config.proxy_config.ca_bundle else {
            return Ok(());
        };
        let bundle = std::str::from_utf8(&bundle.0)
            .map_err(|_| UserError::new("the caBundle of the AddOnDeploymentConfig's proxyConfig is no PEM"))?;
        let bearing = manifests.iter().filter(|it| pods::workloads(it).is_some());
        // Of a hosted add-on it goes to where the pods go.
        let place_of = |it| Some((location_mark(it).map(str::to_owned), namespace_of(it)?));
        let mut wanted: BTreeSet<(Option<String>, String)> = bearing.filter_map(place_of).collect();
        if wanted.is_empty() {
            let own = self.namespace().unwrap_or(&self.place.install_namespace);
            wanted.insert((None, own.to_owned()));
        }
        for (location, namespace) in wanted {
            let mut map = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": ca_config_map(self.place.addon_name()), "namespace": namespace },
                "data": { CA_BUNDLE_KEY: bundle },
            });
            if let Some(location) = location {
                map["metadata"]["annotations"] = json!({ annotations::ADDON_HOSTED_MANIFEST_LOCATION: location });
            }
            manifests.push(map);
        }
        Ok(())
    }
}

fn namespace_of(manifest: &Value) -> Option<String> {
    let namespace = manifest["metadata"]["namespace"].as_str()?;
    Some(namespace.to_owned()).filter(|it| !it.is_empty())
}

fn ca_config_map(addon: &str) -> String {
    format!("{addon}-proxy-ca")
}

/// The volume with the credential of a registration.
fn credential(addon: &str, registration: &TemplateRegistration) -> Volume {
    let signer = registration.custom_signer.as_ref().map(|it| it.signer_name.as_str());
    match (registration.r#type, signer) {
        (TemplateRegistrationType::CustomSigner, Some(signer)) => {
            let dashed = signer.replace('/', "-");
            Volume::secret(
                volume_name(&format!("cert-{}", dashed.replace('.', "-"))),
                format!("{addon}-{dashed}-client-cert"),
                format!("/managed/{dashed}"),
            )
        }
        _ => Volume::secret(
            "hub-kubeconfig",
            format!("{addon}-hub-kubeconfig"),
            "/managed/hub-kubeconfig",
        ),
    }
}

/// A signer's name may be longer than a volume's. The end tells signers of one domain apart.
fn volume_name(name: &str) -> String {
    let Some(too_much) = name.len().checked_sub(VOLUME_NAME_MAX).filter(|it| *it > 0) else {
        return name.to_owned();
    };
    let end = &name["cert-".len() + too_much..];
    format!("cert-{end}")
}
