//! What a Klusterlet asks for, with everything that it leaves open filled in; and what of it cannot be done.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/klusterletcontroller/klusterlet_controller.go`,
//! `klusterletConfig`. We differ in these: a mode, driver or set of hubs that the agent could not start with is refused
//! with a sentence, and what runs is left as it is; `MultipleHubs` without `localSecretsConfig` does not crash.

use kube::ResourceExt;
use ocm_api::{
    annotations, namespaces,
    operator::{
        BootstrapKubeConfigType, FeatureGate, HubApiServerHostAlias, Klusterlet, NodePlacement, RegistrationAuthType,
        RegistrationConfiguration, ResourceRequirement, WorkAgentConfiguration,
    },
};
use serde_json::Value;

use super::names;
use crate::{
    Layout,
    feature_gates::{AGENT_REGISTRATION, AGENT_WORK},
    objects, replicas,
};

/// Where the agent's pods run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the managed cluster itself.
    Managed,
    /// On the cluster of the operator, for another one.
    Hosting,
}

/// How many Deployments an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Registration and work are one each.
    Two,
    /// Both in one.
    One,
}

/// A value of `spec.deployOption.mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstallMode {
    /// Where the pods run.
    pub place: Place,
    /// How many Deployments upstream makes.
    pub shape: Shape,
}

/// What becomes of NetworkPolicies. Upstream's operator of the release that we follow knows of none, and its role lets
/// nobody read them: they are only looked at where we have made some, or are to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkPolicies {
    /// There are none of ours.
    None,
    /// They are kept.
    Kept,
    /// They go.
    Going,
}

/// What is the same for all Klusterlets of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Ground {
    /// How many Deployments an agent is.
    pub layout: Layout,
    /// The operator's namespace.
    pub operator_namespace: String,
    /// The replicas that the operator was told; 0 for those that the control plane's nodes allow.
    pub told_replicas: i32,
    /// How many nodes the control plane has, as far as that can be told.
    pub control_plane_nodes: Option<usize>,
    /// Whether the add-ons' namespace is made.
    pub has_addon_namespace: bool,
    /// Whether a Klusterlet's labels are copied.
    pub syncs_labels: bool,
    /// What TLS is to be spoken with.
    pub tls: Option<TlsProfile>,
}

/// A TLS profile of the cluster's administrator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsProfile {
    /// `VersionTLS12`, say.
    pub min_version: String,
    /// Comma-separated.
    pub cipher_suites: String,
}

/// What a Klusterlet asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// The Klusterlet's name.
    pub name: String,
    /// Its uid, by which its agent knows what it has applied.
    pub agent_id: String,
    /// Where the pods run.
    pub place: Place,
    /// How many Deployments the operator makes of an agent.
    pub layout: Layout,
    /// How many Deployments the agent is.
    pub shape: Shape,
    /// The namespace on the managed cluster.
    pub klusterlet_namespace: String,
    /// The namespace of the pods; the same if they run on the managed cluster.
    pub agent_namespace: String,
    /// The operator's namespace.
    pub operator_namespace: String,
    /// Whether the add-ons' namespace is made.
    pub has_addon_namespace: bool,
    /// What everything that is made is labelled with.
    pub labels: Value,
    /// The replicas of each Deployment.
    pub replicas: i32,
    /// Whether the managed cluster gets the CRD of ClusterProperties.
    pub has_properties: bool,
    /// What becomes of NetworkPolicies in the agent's namespace.
    pub network_policies: NetworkPolicies,
    /// Ports of API servers that the agent speaks to, beside the usual ones.
    pub api_ports: Vec<u16>,
    /// What the Deployments are made of.
    pub pods: PodSettings,
}

/// What the Deployments are made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSettings {
    /// The image of the registration agent.
    pub registration_image: String,
    /// The image of the work agent.
    pub work_image: String,
    /// The image of both in one.
    pub image: String,
    /// The cluster's name on the hub; empty if the agent makes it up.
    pub cluster_name: String,
    /// Comma-separated URLs.
    pub external_server_urls: String,
    /// The Secrets with the hubs to try; `None` for the one Secret of the fixed name.
    pub hubs: Option<Hubs>,
    /// `--feature-gates` of the registration agent, an argument each.
    pub registration_gates: Vec<String>,
    /// `--feature-gates` of the work agent.
    pub work_gates: Vec<String>,
    /// `key=value`, comma-separated, in the order of the keys.
    pub cluster_annotations: String,
    /// The Klusterlet's own words on registration.
    pub registration: RegistrationConfiguration,
    /// The Klusterlet's own words on work.
    pub work: WorkAgentConfiguration,
    /// What TLS is to be spoken with.
    pub tls: Option<TlsProfile>,
    /// What the containers ask for and may use.
    pub resources: ResourceRequirement,
    /// The nodes for the pods.
    pub node_placement: NodePlacement,
    /// An address for the hub's name, where DNS does not know it.
    pub host_alias: Option<HubApiServerHostAlias>,
    /// The priority of the pods.
    pub priority_class: String,
}

/// Several hubs to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hubs {
    /// One Secret each, the best first.
    pub secrets: Vec<String>,
    /// After how many seconds without a hub the next one is tried.
    pub timeout_seconds: i32,
}

/// The mode's meaning; nothing if there is no such mode.
pub fn mode(klusterlet: &Klusterlet) -> Option<InstallMode> {
    let (place, shape) = match klusterlet.spec.deploy_option.mode.as_str() {
        "" | "Default" => (Place::Managed, Shape::Two),
        "Singleton" => (Place::Managed, Shape::One),
        "Hosted" => (Place::Hosting, Shape::Two),
        "SingletonHosted" => (Place::Hosting, Shape::One),
        _ => return None,
    };
    Some(InstallMode { place, shape })
}

/// Whether the managed cluster is another one than the operator's.
pub fn is_hosted(klusterlet: &Klusterlet) -> bool {
    mode(klusterlet).is_some_and(|it| it.place == Place::Hosting)
}

/// Where an agent was put, if it was put anywhere: what its mode said then.
pub fn installed_at(klusterlet: &Klusterlet) -> Option<Place> {
    let generations = klusterlet.status.iter().flat_map(|it| &it.generations);
    let namespaces: Vec<&str> = generations.map(|it| it.namespace.as_str()).collect();
    if klusterlet.finalizers().iter().any(|it| it == names::HOSTED_FINALIZER) {
        return Some(Place::Hosting);
    }
    namespaces
        .contains(&klusterlet_namespace(klusterlet))
        .then_some(Place::Managed)
}

/// The namespace on the managed cluster.
pub fn klusterlet_namespace(klusterlet: &Klusterlet) -> &str {
    match klusterlet.spec.namespace.as_str() {
        "" => namespaces::AGENT,
        namespace => namespace,
    }
}

/// The namespace of the agent's pods and Secrets.
pub fn agent_namespace(klusterlet: &Klusterlet) -> String {
    match is_hosted(klusterlet) {
        true => klusterlet.name_any(),
        false => klusterlet_namespace(klusterlet).to_owned(),
    }
}

/// Everything that cannot be done, a sentence each that names the field and the fix.
pub fn refusals(klusterlet: &Klusterlet) -> Vec<String> {
    let mut all = Vec::new();
    let spec = &klusterlet.spec;
    if mode(klusterlet).is_none() {
        all.push(format!(
            "spec.deployOption.mode {:?} is unknown: choose Default, Singleton, Hosted or SingletonHosted",
            spec.deploy_option.mode
        ));
    }
    if let (Some(mode), Some(place)) = (mode(klusterlet), installed_at(klusterlet))
        && mode.place != place
    {
        all.push(format!(
            "spec.deployOption.mode {:?} would move the agent to another cluster than it is on: delete the Klusterlet, and \
             create it anew with this mode",
            spec.deploy_option.mode
        ));
    }
    let registration = spec.registration_configuration.as_ref();
    let refused = match registration.map(|it| it.registration_driver.auth_type) {
        Some(RegistrationAuthType::Grpc) => Some("grpc"),
        Some(RegistrationAuthType::AwsIrsa) => Some("awsirsa"),
        Some(RegistrationAuthType::Csr) | None => None,
    };
    if let Some(driver) = refused {
        all.push(format!(
            "spec.registrationConfiguration.registrationDriver.authType {driver} is not supported: choose csr"
        ));
    }
    if has_multiple_hubs(klusterlet) {
        let hubs = hubs(registration);
        if hubs.secrets.len() < 2 {
            all.push(format!(
                "feature gate MultipleHubs is on and spec.registrationConfiguration.bootstrapKubeConfigs names {} Secrets: set \
                 type to LocalSecrets and name at least 2 in localSecretsConfig.kubeConfigSecrets",
                hubs.secrets.len()
            ));
        }
    }
    all
}

fn hubs(registration: Option<&RegistrationConfiguration>) -> Hubs {
    let configs = registration.map(|it| &it.bootstrap_kube_configs);
    let local = configs
        .filter(|it| it.r#type == BootstrapKubeConfigType::LocalSecrets)
        .and_then(|it| it.local_secrets_config.as_ref());
    let seconds = local.map_or(0, |it| it.hub_connection_timeout_seconds);
    Hubs {
        secrets: local
            .iter()
            .flat_map(|it| &it.kube_config_secrets)
            .map(|it| it.name.clone())
            .collect(),
        timeout_seconds: if seconds > 0 { seconds } else { 600 },
    }
}

/// The gates that `spec.registrationConfiguration` names.
pub fn registration_gates(klusterlet: &Klusterlet) -> &[FeatureGate] {
    let configuration = klusterlet.spec.registration_configuration.as_ref();
    configuration.map_or(&[], |it| it.feature_gates.as_slice())
}

/// The gates that `spec.workConfiguration` names.
pub fn work_gates(klusterlet: &Klusterlet) -> &[FeatureGate] {
    let configuration = klusterlet.spec.work_configuration.as_ref();
    configuration.map_or(&[], |it| it.feature_gates.as_slice())
}

/// Whether a gate of the registration agent, or of the operator, is on.
pub fn is_on(klusterlet: &Klusterlet, gate: &str) -> bool {
    AGENT_REGISTRATION.is_on(registration_gates(klusterlet), gate)
}

/// Whether the agent chooses among several hubs.
pub fn has_multiple_hubs(klusterlet: &Klusterlet) -> bool {
    is_on(klusterlet, "MultipleHubs")
}

fn network_policies(klusterlet: &Klusterlet) -> NetworkPolicies {
    let made = klusterlet.status.iter().flat_map(|it| &it.related_resources);
    match is_on(klusterlet, "NetworkPolicies") {
        true => NetworkPolicies::Kept,
        false if made.into_iter().any(|it| it.resource == "networkpolicies") => NetworkPolicies::Going,
        false => NetworkPolicies::None,
    }
}

/// What a Klusterlet asks for, of which nothing is [refused](refusals).
pub fn settings(klusterlet: &Klusterlet, ground: &Ground) -> AgentSettings {
    let spec = &klusterlet.spec;
    let mode = mode(klusterlet).unwrap_or(InstallMode {
        place: Place::Managed,
        shape: Shape::Two,
    });
    let shape = match ground.layout {
        Layout::Upstream => mode.shape,
        Layout::Compact => Shape::One,
    };
    AgentSettings {
        name: klusterlet.name_any(),
        agent_id: klusterlet.uid().unwrap_or_default(),
        place: mode.place,
        layout: ground.layout,
        shape,
        klusterlet_namespace: klusterlet_namespace(klusterlet).to_owned(),
        agent_namespace: agent_namespace(klusterlet),
        operator_namespace: ground.operator_namespace.clone(),
        has_addon_namespace: ground.has_addon_namespace,
        labels: objects::labels(
            klusterlet.labels(),
            ground.syncs_labels,
            (names::CREATED_BY, &klusterlet.name_any()),
        ),
        replicas: replicas::decide(
            ground.told_replicas,
            mode.place == Place::Hosting,
            ground.control_plane_nodes,
        ),
        has_properties: is_on(klusterlet, "ClusterProperty"),
        network_policies: network_policies(klusterlet),
        api_ports: Vec::new(),
        pods: PodSettings {
            registration_image: spec.registration_image_pull_spec.clone(),
            work_image: spec.work_image_pull_spec.clone(),
            image: image(klusterlet, mode.shape),
            cluster_name: spec.cluster_name.clone(),
            external_server_urls: joined(spec.external_server_urls.iter().map(|it| it.url.clone())),
            hubs: has_multiple_hubs(klusterlet).then(|| hubs(spec.registration_configuration.as_ref())),
            registration_gates: AGENT_REGISTRATION.arguments(registration_gates(klusterlet)),
            work_gates: AGENT_WORK.arguments(work_gates(klusterlet)),
            cluster_annotations: cluster_annotations(spec.registration_configuration.as_ref()),
            registration: spec.registration_configuration.clone().unwrap_or_default(),
            work: spec.work_configuration.clone().unwrap_or_default(),
            tls: ground.tls.clone(),
            resources: spec.resource_requirement.clone().unwrap_or_default(),
            node_placement: spec.node_placement.clone(),
            host_alias: spec.hub_api_server_host_alias.clone(),
            priority_class: spec.priority_class_name.clone(),
        },
    }
}

/// The image of an agent that is one Deployment. A Klusterlet of mode Default may name those of the two alone: where
/// they are one and the same image, it has both programs.
fn image(klusterlet: &Klusterlet, shape: Shape) -> String {
    let spec = &klusterlet.spec;
    let same = spec.registration_image_pull_spec == spec.work_image_pull_spec;
    match (spec.image_pull_spec.as_str(), shape) {
        ("", Shape::One) => String::new(),
        ("", Shape::Two) => spec.registration_image_pull_spec.clone(),
        (_, Shape::Two) if same && !spec.registration_image_pull_spec.is_empty() => {
            spec.registration_image_pull_spec.clone()
        }
        (image, _) => image.to_owned(),
    }
}

fn cluster_annotations(registration: Option<&RegistrationConfiguration>) -> String {
    let all = registration.iter().flat_map(|it| &it.cluster_annotations);
    let ours = all.filter(|(key, _)| key.starts_with(annotations::AGENT_PREFIX));
    joined(ours.map(|(key, value)| format!("{key}={value}")))
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(",")
}

impl AgentSettings {
    /// The images that nobody names, a sentence each.
    pub fn missing_images(&self) -> Vec<String> {
        let pods = &self.pods;
        let needed: &[(&str, &str)] = match self.shape {
            Shape::Two => &[
                ("spec.registrationImagePullSpec", &pods.registration_image),
                ("spec.workImagePullSpec", &pods.work_image),
            ],
            Shape::One => &[("spec.imagePullSpec", &pods.image)],
        };
        let missing = needed.iter().filter(|(_, image)| image.is_empty());
        missing
            .map(|(field, _)| format!("{field} is empty: say which image the agent runs"))
            .collect()
    }

    /// The ServiceAccount of registration.
    pub fn registration_account(&self) -> String {
        match self.shape {
            Shape::Two => names::registration_account(&self.name),
            Shape::One => names::work_account(&self.name),
        }
    }

    /// The ServiceAccount of work.
    pub fn work_account(&self) -> String {
        names::work_account(&self.name)
    }

    /// The Deployments that the agent is.
    pub fn deployments(&self) -> Vec<String> {
        match self.shape {
            Shape::Two => vec![names::registration_agent(&self.name), names::work_agent(&self.name)],
            Shape::One => vec![names::agent(&self.name)],
        }
    }

    /// The Deployments of the other shape, which have to go.
    pub fn surplus(&self) -> Vec<String> {
        match self.shape {
            Shape::Two => vec![names::agent(&self.name)],
            Shape::One => vec![names::registration_agent(&self.name), names::work_agent(&self.name)],
        }
    }

    /// The Secrets with kubeconfigs of the managed cluster that the pods have, and whose they are.
    pub fn derived_secrets(&self) -> Vec<(&'static str, String)> {
        match (self.place, self.shape) {
            (Place::Managed, _) => Vec::new(),
            (Place::Hosting, Shape::Two) => vec![
                (names::EXTERNAL_REGISTRATION, self.registration_account()),
                (names::EXTERNAL_WORK, self.work_account()),
            ],
            (Place::Hosting, Shape::One) => vec![(names::EXTERNAL_AGENT, self.work_account())],
        }
    }
}
