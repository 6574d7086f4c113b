//! What a ClusterManager asks for, read once: everything that its objects are made of. Upstream: ocm
//! `pkg/operator/operators/clustermanager/controllers/clustermanagercontroller/clustermanager_controller.go`.

use ocm_api::{
    namespaces,
    operator::{
        BindConfiguration, ClusterManager, ClusterManagerInstallMode, ClusterManagerSpec, FeatureGate,
        RegistrationAuthType, WorkDriverType,
    },
};
use serde_json::Value;

use super::Options;
use crate::{
    Layout,
    feature_gates::{self, GatedComponent},
    objects,
};

/// The label of everything that is made for a ClusterManager, with its name.
pub const CREATED_BY: &str = "open-cluster-management.io/created-by-clustermanager";

/// The Service of the webhooks of registration. Its name does not depend on the ClusterManager's.
pub const REGISTRATION_WEBHOOK: &str = "cluster-manager-registration-webhook";
/// The Service of the webhooks of work.
pub const WORK_WEBHOOK: &str = "cluster-manager-work-webhook";
/// The Service of the conversion of add-on kinds.
pub const ADD_ON_WEBHOOK: &str = "cluster-manager-addon-webhook";

/// The Secret with the kubeconfig of a hub that is on another cluster, in the namespace of the ClusterManager's name.
pub const EXTERNAL_KUBECONFIG: &str = "external-hub-kubeconfig";
/// The Secret that says how to reach a broker of CloudEvents.
pub const WORK_DRIVER_CONFIG: &str = "work-driver-config";

/// What the API fills in for images.
const IMAGES: &str = "quay.io/open-cluster-management";

/// What is known beside the ClusterManager.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// How many pods a component has.
    pub replicas: i32,
    /// Whether there is a Secret to pull images with.
    pub has_pull_secret: bool,
    /// The TLS versions and ciphers of components.
    pub tls: TlsProfile,
    /// The certificates that the webhooks' are signed with, PEM.
    pub authorities: String,
    /// Whether the operator may let components keep ControllerRevisions: a role of upstream's does not.
    pub may_keep_revisions: bool,
}

/// The TLS versions and ciphers of components: ConfigMap `ocm-tls-profile` in the operator's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsProfile {
    /// Such as `VersionTLS12`.
    pub min_version: String,
    /// Separated by commas; empty for the usual ones.
    pub cipher_suites: String,
}

impl Default for TlsProfile {
    fn default() -> Self {
        Self {
            min_version: "VersionTLS12".to_owned(),
            cipher_suites: String::new(),
        }
    }
}

/// The name of the ConfigMap of the TLS profile.
pub const TLS_PROFILE: &str = "ocm-tls-profile";

impl TlsProfile {
    /// Reads the data of the ConfigMap.
    ///
    /// # Errors
    /// A sentence, when the version is none.
    pub fn read(min_version: Option<&String>, cipher_suites: Option<&String>) -> Result<Self, String> {
        let version = min_version.map(|it| it.trim()).unwrap_or_default();
        let min_version = match version {
            "" | "VersionTLS12" | "TLSv1.2" => "VersionTLS12",
            "VersionTLS10" | "TLSv1.0" => "VersionTLS10",
            "VersionTLS11" | "TLSv1.1" => "VersionTLS11",
            "VersionTLS13" | "TLSv1.3" => "VersionTLS13",
            other => {
                return Err(format!(
                    "data.minTLSVersion of ConfigMap {TLS_PROFILE} is {other:?}: write VersionTLS12 or VersionTLS13"
                ));
            }
        };
        let ciphers = cipher_suites.into_iter().flat_map(|it| it.split(','));
        let ciphers: Vec<&str> = ciphers.map(str::trim).filter(|it| !it.is_empty()).collect();
        Ok(Self {
            min_version: min_version.to_owned(),
            cipher_suites: ciphers.join(","),
        })
    }

    /// The arguments of a component.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![format!("--tls-min-version={}", self.min_version)];
        if !self.cipher_suites.is_empty() {
            arguments.push(format!("--tls-cipher-suites={}", self.cipher_suites));
        }
        arguments
    }
}

/// Where a webhook listens, and how the API server of the hub comes to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its port, and its Service's.
    pub port: i32,
    /// The port of its health probe; 0 for none.
    pub health_probe_port: i32,
    /// The port of its metrics; 0 for none.
    pub metrics_port: i32,
    /// Whether it uses the network of its node.
    pub host_network: bool,
    /// The name or IPv4 address, and the port, by which a hub on another cluster comes to it.
    pub hosted: Option<(String, i32)>,
}

impl Default for Webhook {
    fn default() -> Self {
        Self {
            port: 9443,
            health_probe_port: 8000,
            metrics_port: 8080,
            host_network: false,
            hosted: None,
        }
    }
}

impl Webhook {
    fn bound(bind: &BindConfiguration) -> Self {
        let usual = Self::default();
        if *bind == BindConfiguration::default() {
            return usual;
        }
        Self {
            port: if bind.port > 0 { bind.port } else { usual.port },
            health_probe_port: bind.health_probe_port.unwrap_or(usual.health_probe_port),
            metrics_port: bind.metrics_port.unwrap_or(usual.metrics_port),
            host_network: bind.host_network,
            hosted: None,
        }
    }

    /// Whether a hub on another cluster comes to it by an IPv4 address, not by a name.
    pub fn is_by_address(&self) -> bool {
        let is_digit = |it: char| it.is_ascii_digit() || it == '.';
        let address = self.hosted.as_ref().map(|it| it.0.as_str()).unwrap_or_default();
        !address.is_empty() && address.chars().all(is_digit)
    }
}

/// What a ClusterManager asks for.
#[derive(Clone, Debug)]
pub struct HubObjects<'a> {
    /// The ClusterManager's name.
    pub name: &'a str,
    /// Where the components are.
    pub namespace: String,
    /// Whether the hub is on another cluster than its pods.
    pub is_hosted: bool,
    /// What the ClusterManager says.
    pub spec: &'a ClusterManagerSpec,
    /// What the operator was told.
    pub options: &'a Options,
    /// What else is known.
    pub facts: &'a Facts,
    /// The labels of all objects.
    pub labels: Value,
    /// The labels of the ClusterManager as CRDs have them.
    pub own_labels: Value,
    /// The webhooks of registration.
    pub registration_webhook: Webhook,
    /// The webhooks of work.
    pub work_webhook: Webhook,
    /// The conversion of add-on kinds.
    pub add_on_webhook: Webhook,
}

/// The namespace of a ClusterManager's components.
pub fn namespace(manager: &ClusterManager) -> String {
    match manager.spec.deploy_option.mode {
        ClusterManagerInstallMode::Default => namespaces::HUB.to_owned(),
        ClusterManagerInstallMode::Hosted => manager.metadata.name.clone().unwrap_or_default(),
    }
}

impl<'a> HubObjects<'a> {
    /// What this ClusterManager asks for.
    pub fn of(manager: &'a ClusterManager, options: &'a Options, facts: &'a Facts) -> Self {
        let spec = &manager.spec;
        let name = manager.metadata.name.as_deref().unwrap_or_default();
        let is_hosted = spec.deploy_option.mode == ClusterManagerInstallMode::Hosted;
        let own = manager.metadata.labels.iter().flatten();
        let mut own_labels = serde_json::json!({});
        for (key, value) in own.clone() {
            own_labels[key.as_str()] = value.as_str().into();
        }
        let [registration_webhook, work_webhook, add_on_webhook] = webhooks(spec);
        Self {
            name,
            namespace: namespace(manager),
            is_hosted,
            spec,
            options,
            facts,
            labels: objects::labels(own, options.enable_sync_labels, (CREATED_BY, name)),
            own_labels,
            registration_webhook,
            work_webhook,
            add_on_webhook,
        }
    }

    /// Whether a hub is one Deployment.
    pub fn is_compact(&self) -> bool {
        self.options.layout == Layout::Compact
    }

    /// The gates of registration that the ClusterManager names.
    pub fn registration_gates(&self) -> &'a [FeatureGate] {
        let of = self.spec.registration_configuration.as_ref();
        of.map(|it| it.feature_gates.as_slice()).unwrap_or_default()
    }

    /// The gates of work that the ClusterManager names.
    pub fn work_gates(&self) -> &'a [FeatureGate] {
        let of = self.spec.work_configuration.as_ref();
        of.map(|it| it.feature_gates.as_slice()).unwrap_or_default()
    }

    /// All gates that the ClusterManager names, by component.
    pub fn gates(&self) -> [(GatedComponent, &'a [FeatureGate]); 4] {
        let add_ons = self.spec.add_on_manager_configuration.as_ref();
        let placement = self.spec.placement_configuration.as_ref();
        [
            (feature_gates::HUB_REGISTRATION, self.registration_gates()),
            (feature_gates::HUB_WORK, self.work_gates()),
            (
                feature_gates::HUB_ADD_ONS,
                add_ons.map(|it| it.feature_gates.as_slice()).unwrap_or_default(),
            ),
            (
                feature_gates::HUB_PLACEMENT,
                placement.map(|it| it.feature_gates.as_slice()).unwrap_or_default(),
            ),
        ]
    }

    /// Whether a gate of a component is on.
    pub fn is_on(&self, component: &GatedComponent, gate: &str) -> bool {
        let mut all = self.gates().into_iter();
        let of = all.find(|(it, _)| it.title == component.title);
        of.is_some_and(|(component, asked)| component.is_on(asked, gate))
    }

    /// Whether there is a work controller.
    pub fn has_work_controller(&self) -> bool {
        let is_on = |gate| self.is_on(&feature_gates::HUB_WORK, gate);
        is_on("ManifestWorkReplicaSet") || is_on("CleanUpCompletedManifestWork")
    }

    /// Whether there is an add-on manager.
    pub fn has_add_on_manager(&self) -> bool {
        self.is_on(&feature_gates::HUB_ADD_ONS, "AddonManagement")
    }

    /// Whether placements can be tried out.
    pub fn has_debug_server(&self) -> bool {
        self.is_on(&feature_gates::HUB_PLACEMENT, "PlacementDebugServer")
    }

    /// Whether clusters are written as ClusterProfiles.
    pub fn has_cluster_profiles(&self) -> bool {
        self.is_on(&feature_gates::HUB_REGISTRATION, "ClusterProfile")
    }

    /// Whether clusters that a provider knows are made to join.
    pub fn has_importer(&self) -> bool {
        self.is_on(&feature_gates::HUB_REGISTRATION, "ClusterImporter")
    }

    /// Whether the network is closed but for what the components need.
    pub fn has_network_policies(&self) -> bool {
        self.is_on(&feature_gates::HUB_REGISTRATION, "NetworkPolicies")
    }

    /// How works get to agents, where that is not the API server.
    pub fn work_driver(&self) -> Option<&'static str> {
        let driver = self.spec.work_configuration.as_ref().map(|it| it.work_driver);
        let driver = match driver.unwrap_or_default() {
            WorkDriverType::Kube => None,
            WorkDriverType::Mqtt => Some("mqtt"),
            WorkDriverType::Grpc => Some("grpc"),
        };
        driver.filter(|_| self.has_cloud_events())
    }

    /// Whether works may get to agents otherwise than by the API server.
    pub fn has_cloud_events(&self) -> bool {
        self.is_on(&feature_gates::HUB_WORK, "CloudEventsDrivers")
    }

    /// The ways agents may prove who they are, as upstream's program is told.
    pub fn registration_drivers(&self) -> Vec<&'static str> {
        let of = self.spec.registration_configuration.as_ref();
        let drivers = of.map(|it| it.registration_drivers.as_slice()).unwrap_or_default();
        drivers.iter().map(|it| driver_name(it.auth_type)).collect()
    }

    /// Users whose certificate requests are approved without a human: as the driver `csr` says.
    pub fn auto_approved_users(&self) -> Vec<&'a str> {
        let of = self.spec.registration_configuration.as_ref();
        let drivers = of.map(|it| it.registration_drivers.as_slice()).unwrap_or_default();
        let csr = drivers.iter().filter_map(|it| it.csr.as_ref());
        csr.flat_map(|it| &it.auto_approved_identities)
            .map(String::as_str)
            .collect()
    }

    /// The same as the deprecated `autoApproveUsers` says.
    pub fn formerly_auto_approved_users(&self) -> Vec<&'a str> {
        let of = self.spec.registration_configuration.as_ref();
        let users = of.map(|it| it.auto_approve_users.as_slice()).unwrap_or_default();
        users.iter().map(String::as_str).collect()
    }

    /// The image of a component.
    pub fn image(&self, component: Image) -> String {
        let (said, name) = match component {
            Image::Registration => (&self.spec.registration_image_pull_spec, "registration"),
            Image::Work => (&self.spec.work_image_pull_spec, "work"),
            Image::Placement => (&self.spec.placement_image_pull_spec, "placement"),
            Image::AddOnManager => (&self.spec.add_on_manager_image_pull_spec, "addon-manager"),
        };
        match said.is_empty() {
            true => format!("{IMAGES}/{name}"),
            false => said.clone(),
        }
    }
}

/// The images of a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// `spec.registrationImagePullSpec`.
    Registration,
    /// `spec.workImagePullSpec`.
    Work,
    /// `spec.placementImagePullSpec`.
    Placement,
    /// `spec.addOnManagerImagePullSpec`.
    AddOnManager,
}

fn driver_name(driver: RegistrationAuthType) -> &'static str {
    match driver {
        RegistrationAuthType::Csr => "csr",
        RegistrationAuthType::AwsIrsa => "awsirsa",
        RegistrationAuthType::Grpc => "grpc",
    }
}

/// The webhooks of registration, work and add-ons.
fn webhooks(spec: &ClusterManagerSpec) -> [Webhook; 3] {
    let option = &spec.deploy_option;
    match (option.mode, &option.default, &option.hosted) {
        (ClusterManagerInstallMode::Default, Some(of), _) => [
            &of.registration_webhook_configuration.bind_configuration,
            &of.work_webhook_configuration.bind_configuration,
            &of.addon_webhook_configuration.bind_configuration,
        ]
        .map(Webhook::bound),
        (ClusterManagerInstallMode::Hosted, _, Some(of)) => {
            let [registration, work] =
                [&of.registration_webhook_configuration, &of.work_webhook_configuration].map(|it| Webhook {
                    hosted: Some((it.address.clone(), if it.port > 0 { it.port } else { 443 })),
                    ..Webhook::bound(&it.bind_configuration)
                });
            [registration, work, Webhook::default()]
        }
        _ => [Webhook::default(), Webhook::default(), Webhook::default()],
    }
}

/// Why nothing is made of a ClusterManager: the reason of its condition `Applied`, and a sentence that names the field
/// and what to write there.
pub fn refusal(hub: &HubObjects<'_>) -> Option<(&'static str, String)> {
    let of = hub.spec.registration_configuration.as_ref();
    for (number, driver) in of.iter().flat_map(|it| &it.registration_drivers).enumerate() {
        if driver.auth_type != RegistrationAuthType::Csr {
            let field = format!("spec.registrationConfiguration.registrationDrivers[{number}].authType");
            let name = driver_name(driver.auth_type);
            return Some((
                "RegistrationDriverNotSupported",
                format!("{field}: {name} is not supported; take the entry out, or write csr"),
            ));
        }
    }
    if let Some(driver) = hub.work_driver().filter(|it| hub.is_compact() || *it == "grpc") {
        return Some((
            "WorkDriverNotSupported",
            format!("spec.workConfiguration.workDriver: {driver} is not supported; write kube"),
        ));
    }
    let webhooks = [
        ("registrationWebhookConfiguration", &hub.registration_webhook),
        ("workWebhookConfiguration", &hub.work_webhook),
    ];
    for (field, webhook) in webhooks.iter().filter(|_| hub.is_hosted) {
        if webhook.hosted.as_ref().is_none_or(|it| it.0.is_empty()) {
            return Some((
                "WebhookAddressMissing",
                format!(
                    "spec.deployOption.hosted.{field}.address is missing: write the name or IPv4 address by which the API \
                     server of the hub reaches the webhook"
                ),
            ));
        }
    }
    None
}
