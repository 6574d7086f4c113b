//! A user's object that we carry without understanding it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A whole Kubernetes object, kept exactly as the user wrote it (upstream: `runtime.RawExtension`).
///
/// ```
/// let manifest = ocm_api::RawObject(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
/// assert_eq!((manifest.kind(), manifest.name()), ("ConfigMap", "a"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawObject(pub Value);

impl RawObject {
    /// Carries `object` as it serializes.
    pub fn of(object: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::to_value(object).map(Self)
    }

    /// `apiVersion`, or nothing when the object has none.
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// `kind`, or nothing when the object has none.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// `metadata.name`, or nothing when the object has none.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// `metadata.namespace`, or nothing when the object has none.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

impl From<Value> for RawObject {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl JsonSchema for RawObject {
    fn schema_name() -> Cow<'static, str> {
        "RawObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

/// An object by its name, as Kubernetes' ObjectReference. Which of the fields count is told where it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ObjectReference {
    /// Its kind.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub kind: String,
    /// Its name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub name: String,
    /// Its namespace.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// Its API version.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub api_version: String,
    /// Its resource version.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub resource_version: String,
    /// Its uid.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub uid: String,
    /// The part of it that is meant.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub field_path: String,
}
