//! ClusterManagementAddOn: an add-on as the hub offers it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addon::{
    AddOnMeta, ConfigCoordinates, ConfigReferent, DefaultConfigReference, InstallProgression, InstallStrategy,
};

crate::kind::kind! {
    /// An add-on that clusters of this hub can have.
    pub struct ClusterManagementAddOn { spec: ClusterManagementAddOnSpec, status: ClusterManagementAddOnStatus }
    api "addon.open-cluster-management.io" "v1alpha1" "clustermanagementaddons" Cluster;
    short ["cma", "cmas"];
    columns [
        ("DISPLAY NAME", "string", ".spec.addOnMeta.displayName"),
        ("CRD NAME", "string", ".spec.addOnConfiguration.crdName"),
    ];
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
    /// A custom resource that configures it. Deprecated in favour of supportedConfigs.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub add_on_configuration: ConfigCoordinates,
    /// The kinds of configuration it understands, and the ones that hold where nothing else is said.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub supported_configs: Vec<ConfigMeta>,
    /// Where it is installed.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = {"type": "Manual"}))]
    pub install_strategy: InstallStrategy,
}

/// A kind of configuration and the one that holds where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMeta {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = ""))]
    pub group: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub resource: String,
    /// The one that holds where nothing else is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_config: Option<ConfigReferent>,
}

/// How far the add-on got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnStatus {
    /// The configurations that hold where nothing else is said. The key is spelled as upstream spells it.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[serde(rename = "defaultconfigReferences")]
    pub default_config_references: Vec<DefaultConfigReference>,
    /// One entry per placement.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub install_progressions: Vec<InstallProgression>,
}
