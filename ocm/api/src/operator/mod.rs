//! Group `operator.open-cluster-management.io`: putting the hub and the agent on a cluster.

mod cluster_manager;
mod endpoint;
mod klusterlet;

use k8s_openapi::api::core::v1::ResourceRequirements;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::addon::NodePlacement;
pub use cluster_manager::*;
pub use endpoint::*;
pub use klusterlet::*;

/// The API group.
pub const GROUP: &str = "operator.open-cluster-management.io";

/// Turns a feature on or off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeatureGate {
    /// The feature's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub feature: String,
    /// On or off.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "Disable"))]
    pub mode: FeatureGateMode,
}

/// On or off.
#[allow(missing_docs)] // A variant with a text of its own would be an alternative of its own in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FeatureGateMode {
    Enable,
    #[default]
    Disable,
}

/// What the containers of a component ask for and may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirement {
    /// The defaults, nothing at all, or what is said here.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "Default"))]
    pub r#type: ResourceQosClass,
    /// The amounts, when they are said here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::container_resources")]
    pub resource_requirements: Option<ResourceRequirements>,
}

/// Where amounts come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResourceQosClass {
    /// From the operator.
    #[default]
    Default,
    /// From nowhere; the containers take what is left.
    BestEffort,
    /// From resourceRequirements.
    ResourceRequirement,
}

/// An object as the operator last wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationStatus {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub group: String,
    /// The API version.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub version: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub resource: String,
    /// Its namespace; empty when it has none.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub namespace: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// Its generation after the last write.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub last_generation: i64,
}

/// An object that the operator made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedResourceMeta {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub group: String,
    /// The API version.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub version: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub resource: String,
    /// Its namespace; empty when it has none.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub namespace: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
}
