//! Words that both versions of the add-on kinds share: configurations, what an add-on is called, and its health.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an add-on is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnMeta {
    /// The name for people.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub display_name: String,
    /// What it does.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub description: String,
}

/// Names a configuration object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReferent {
    /// Its namespace; empty when it has none.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

/// Names a kind of configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigGroupResource {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = ""))]
    pub group: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub resource: String,
}

/// Names a configuration object and its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnConfig {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = ""))]
    pub group: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub resource: String,
    /// Its namespace; empty when it has none.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

/// Names a configuration object as it was at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSpecHash {
    /// Its namespace; empty when it has none.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub name: String,
    /// The hash of its spec.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub spec_hash: String,
}

/// An object that belongs to an add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub group: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub resource: String,
    /// Its namespace; empty when it has none.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
}

/// How an add-on's health is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// By a lease that the add-on's agent renews, or in a way the add-on has of its own.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "Lease"))]
    pub mode: HealthCheckMode,
}

/// The ways an add-on's health is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HealthCheckMode {
    /// The add-on's agent renews a lease.
    #[default]
    Lease,
    /// The add-on's manager writes the condition.
    Customized,
}

/// How an add-on's agent proves who it is to the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KubeClientDriver {
    /// With a certificate.
    Csr,
    /// With a ServiceAccount token.
    Token,
}

/// A custom resource that configures an add-on. Deprecated upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigCoordinates {
    /// The CustomResourceDefinition's name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub crd_name: String,
    /// The custom resource's name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub cr_name: String,
    /// The generation that was last looked at.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub last_observed_generation: i64,
}
