//! The add-on as the hub delivers it: what runs on a cluster, and what its agent may do on the hub.
//! Upstream: governance-policy-addon-controller `pkg/addon/configpolicy/`.
//!
//! Names of the chart's values, annotations and variables are upstream's. Ours differs:
//!
//! 1. Image registries and the proxy of an AddOnDeploymentConfig count.
//! 2. A hosted controller may delete Secrets where it is: it keeps filled in hub templates there.
//! 3. No port is open to callers but that of the metrics.

pub mod settings;
pub mod standalone_templating;

use std::sync::LazyLock;

use ocm_addon_sdk::{
    AddOn, AddOnContext, ConfigKind, Permission, Registration, UserError, include_files,
    manifests::{self, Chart, IncludedFile},
    ocm_api::{addon::v1alpha1::AddOnDeploymentConfig, cluster::ManagedCluster, policy},
    values::{
        self, config, images,
        settings::{parse_bool, unless_paused},
    },
};
use serde_json::Value;
pub use standalone_templating::StandaloneTemplating;

use crate::NAME;

/// The image of the controller where nobody names another.
pub const IMAGE: &str = "quay.io/open-cluster-management/config-policy-controller:latest";

const FILES: &[IncludedFile] = include_files![
    "../../chart/Chart.yaml",
    "../../chart/values.yaml",
    "../../chart/templates/_helpers.tpl",
    "../../chart/templates/namespace.yaml",
    "../../chart/templates/rbac.yaml",
    "../../chart/templates/deployment.yaml",
    "../../chart/templates/uninstall.yaml",
    "../../chart/templates/metrics.yaml",
    "../../chart/templates/network_policy.yaml",
];

/// Read when it is needed for the first time, which on many hubs is never.
static CHART: LazyLock<Chart> = LazyLock::new(|| {
    manifests::read_chart("../../chart", FILES).expect("the chart of this crate is one: its tests render it")
});

/// What it is on the hub: answers about one cluster at a time.
#[derive(Clone, Debug)]
pub struct ConfigPolicy {
    /// The image of the controller.
    pub image: String,
    /// Whether clusters get network policies, unless a value of a cluster says otherwise.
    pub network_policies: bool,
}

impl Default for ConfigPolicy {
    fn default() -> Self {
        Self {
            image: IMAGE.to_owned(),
            network_policies: true,
        }
    }
}

impl ConfigPolicy {
    /// As the environment says it: `$CONFIG_POLICY_CONTROLLER_IMAGE`, `$NETWORK_POLICIES_ENABLED`.
    pub fn from_environment() -> Self {
        let said = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
        Self {
            image: said("CONFIG_POLICY_CONTROLLER_IMAGE").unwrap_or_else(|| IMAGE.to_owned()),
            network_policies: said("NETWORK_POLICIES_ENABLED").is_none_or(|it| parse_bool(&it) != Some(false)),
        }
    }
}

impl AddOn for ConfigPolicy {
    fn name(&self) -> &str {
        NAME
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        unless_paused(place)?;
        let converters = [
            config::node_placement,
            config::proxy,
            config::resource_requirements,
            settings::of_variables,
        ];
        let values = values::merge([
            values::at("global.networkPolicies.enabled", self.network_policies),
            settings::of_place(place),
            values::from_annotation(place)?,
            config::values(place, &converters)?,
            settings::mandatory(place),
            images::value(place, "global.imageOverrides.config_policy_controller", &self.image)?,
        ]);
        let mut all = manifests::definitions(policy::GROUP, &["configurationpolicies", "operatorpolicies"]);
        all.extend(manifests::chart(&CHART, place, values)?);
        Ok(all)
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let name = "open-cluster-management:config-policy-controller-hub";
        Ok(vec![Permission::role(name, Permission::lease(NAME))])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn companions(&self) -> &[&str] {
        &[standalone_templating::NAME]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace_beside_klusterlet(place)
    }

    fn hosted(&self, _: &AddOnContext) -> bool {
        true
    }

    fn redeploys_on(&self, before: &ManagedCluster, after: &ManagedCluster) -> bool {
        values::differ(before, after) || settings::differ(before, after)
    }
}

#[cfg(test)]
#[path = "manifests_tests.rs"]
mod tests;
