//! The add-on as the hub delivers it: what runs on a cluster, and what its agent may do on the hub.
//! Upstream: stolostron's governance-policy-addon-controller `pkg/addon/certpolicy/`.
//!
//! Names of the chart's values, annotations and variables are upstream's. Ours differs:
//!
//! 1. Image registries and the proxy of an AddOnDeploymentConfig count.
//! 2. The controller may watch Secrets and namespaces, and not only list them.
//! 3. The network policy of a hosted controller is where the controller is.

use std::sync::LazyLock;

use ocm_addon_sdk::{
    AddOn, AddOnContext, ConfigKind, Permission, Registration, UserError, Values, include_files,
    manifests::{self, Chart, IncludedFile},
    ocm_api::{
        addon::{AddOnDeploymentConfigSpec, v1alpha1::AddOnDeploymentConfig},
        cluster::ManagedCluster,
        policy::{self, certificate_policy::CertificatePolicy},
    },
    values::{
        self, at, config, distribution, images,
        settings::{self, Setting, parse_bool, unless_paused},
    },
};
use serde_json::Value;

use crate::NAME;

/// The image of the controller where nobody names another.
pub const IMAGE: &str = "quay.io/stolostron/cert-policy-controller:latest";

const FILES: &[IncludedFile] = include_files![
    "../../chart/Chart.yaml",
    "../../chart/values.yaml",
    "../../chart/templates/_helpers.tpl",
    "../../chart/templates/namespace.yaml",
    "../../chart/templates/rbac.yaml",
    "../../chart/templates/deployment.yaml",
    "../../chart/templates/metrics.yaml",
    "../../chart/templates/network_policy.yaml",
];

/// Read when it is needed for the first time, which on many hubs is never.
static CHART: LazyLock<Chart> = LazyLock::new(|| {
    manifests::read_chart("../../chart", FILES).expect("the chart of this crate is one: its tests render it")
});

/// What can be set of this add-on, besides what can be set of every controller.
const OWN: &[Setting] = &[Setting {
    variable: "managedKubeConfigSecret",
    annotation: None,
    read: |text| (!text.is_empty()).then(|| at("managedKubeConfigSecret", text)),
}];

/// What it is on the hub: answers about one cluster at a time.
#[derive(Clone, Debug)]
pub struct CertPolicy {
    /// The image of the controller.
    pub image: String,
    /// Whether clusters get network policies, unless a value of a cluster says otherwise.
    pub network_policies: bool,
}

impl Default for CertPolicy {
    fn default() -> Self {
        Self {
            image: IMAGE.to_owned(),
            network_policies: true,
        }
    }
}

impl CertPolicy {
    /// As the environment says it: `$CERT_POLICY_CONTROLLER_IMAGE`, `$NETWORK_POLICIES_ENABLED`.
    pub fn from_environment() -> Self {
        let said = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
        Self {
            image: said("CERT_POLICY_CONTROLLER_IMAGE").unwrap_or_else(|| IMAGE.to_owned()),
            network_policies: said("NETWORK_POLICIES_ENABLED").is_none_or(|it| parse_bool(&it) != Some(false)),
        }
    }
}

fn of_variables(config: &AddOnDeploymentConfigSpec) -> Values {
    settings::of_variables(config, OWN)
}

impl AddOn for CertPolicy {
    fn name(&self) -> &str {
        NAME
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        unless_paused(place)?;
        let converters = [
            config::node_placement,
            config::proxy,
            config::resource_requirements,
            of_variables,
        ];
        let values = values::merge([
            at("global.networkPolicies.enabled", self.network_policies),
            distribution::values(place),
            settings::of_annotations(place, OWN),
            values::from_annotation(place)?,
            config::values(place, &converters)?,
            images::value(place, "global.imageOverrides.cert_policy_controller", &self.image)?,
        ]);
        let mut all = manifests::definitions(policy::GROUP, &[CertificatePolicy::PLURAL]);
        all.extend(manifests::chart(&CHART, place, values)?);
        Ok(all)
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        Ok(vec![Permission::role(
            "open-cluster-management:cert-policy-controller-hub",
            Permission::lease(NAME),
        )])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace_beside_klusterlet(place)
    }

    fn hosted(&self, _: &AddOnContext) -> bool {
        true
    }

    fn redeploys_on(&self, before: &ManagedCluster, after: &ManagedCluster) -> bool {
        values::differ(before, after) || distribution::differ(before, after)
    }
}

#[cfg(test)]
#[path = "manifests_tests.rs"]
mod tests;
