//! ClusterManagementAddOn: an add-on as the hub offers it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addon::{AddOnConfig, AddOnMeta, DefaultConfigReference, InstallProgression, InstallStrategy};

crate::kind::kind! {
    /// An add-on that clusters of this hub can have.
    pub struct ClusterManagementAddOn { spec: ClusterManagementAddOnSpec, status: ClusterManagementAddOnStatus }
    api "addon.open-cluster-management.io" "v1beta1" "clustermanagementaddons" Cluster;
    short ["cma", "cmas"];
    columns [("DISPLAY NAME", "string", ".spec.addOnMeta.displayName")];
    flags [status, spec_required];
}

/// What the add-on is and where it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnSpec {
    /// What it is called.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub add_on_meta: AddOnMeta,
    /// The configurations that hold where nothing else is said.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub default_configs: Vec<AddOnConfig>,
    /// Where it is installed.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = {"type": "Manual"}))]
    pub install_strategy: InstallStrategy,
}

/// The name of a default configuration that stands for none: a kind the add-on understands but has no default for.
pub const NO_DEFAULT_CONFIG: &str = "__reserved_no_default__";

/// How far the add-on got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnStatus {
    /// The configurations that hold where nothing else is said.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub default_config_references: Vec<DefaultConfigReference>,
    /// One entry per placement.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub install_progressions: Vec<InstallProgression>,
}
