//! PlacementBinding: which clusters get which Policies.

use kube::core::ObjectMeta;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, ser::SerializeStruct};

use crate::{Column, Kind};

/// Brings Policies and PolicySets of its namespace to the clusters that a Placement has chosen. It has no spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementBinding {
    /// Standard object metadata.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub metadata: ObjectMeta,
    /// The Placement.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub placement_ref: PlacementRef,
    /// The Policies and PolicySets.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    pub subjects: Vec<BindingSubject>,
    /// What is different for the clusters of this binding.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub binding_overrides: BindingOverrides,
    /// `restricted`: its overrides are for clusters that other bindings choose, and it chooses none.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub sub_filter: String,
}

/// Who has chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = [
    {"properties": {"apiGroup": {"enum": ["cluster.open-cluster-management.io"]}, "kind": {"enum": ["Placement"]}}},
    {"properties": {"apiGroup": {"enum": ["apps.open-cluster-management.io"]}, "kind": {"enum": ["PlacementRule"]}}},
]))]
pub struct PlacementRef {
    /// The API group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(length(min = 1), extend("enum" = ["apps.open-cluster-management.io", "cluster.open-cluster-management.io"]))]
    pub api_group: String,
    /// Placement, or PlacementRule.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(length(min = 1), extend("enum" = ["PlacementRule", "Placement"]))]
    pub kind: String,
    /// Its name, in the same namespace.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(length(min = 1))]
    pub name: String,
}

/// What is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSubject {
    /// The API group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(length(min = 1), extend("enum" = ["policy.open-cluster-management.io"]))]
    pub api_group: String,
    /// Policy, or PolicySet.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(length(min = 1), extend("enum" = ["Policy", "PolicySet"]))]
    pub kind: String,
    /// Its name, in the same namespace.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(length(min = 1))]
    pub name: String,
}

/// What is different for the clusters of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingOverrides {
    /// Replaces the remediation action of the Policy; it can only be enforce.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Enforce", "enforce"]))]
    pub remediation_action: String,
}

impl PlacementBinding {
    /// The API group.
    pub const GROUP: &'static str = super::GROUP;
    /// Group and version as in `apiVersion`.
    pub const API_VERSION: &'static str = "policy.open-cluster-management.io/v1";
    /// The kind's name as in `kind`.
    pub const KIND: &'static str = "PlacementBinding";
    /// The value of `subFilter` that makes a binding only override.
    pub const RESTRICTED: &'static str = "restricted";
}

impl Serialize for PlacementBinding {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct(Self::KIND, 7)?;
        object.serialize_field("apiVersion", Self::API_VERSION)?;
        object.serialize_field("kind", Self::KIND)?;
        object.serialize_field("metadata", &self.metadata)?;
        if self.binding_overrides != BindingOverrides::default() {
            object.serialize_field("bindingOverrides", &self.binding_overrides)?;
        }
        object.serialize_field("placementRef", &self.placement_ref)?;
        if !self.sub_filter.is_empty() {
            object.serialize_field("subFilter", &self.sub_filter)?;
        }
        object.serialize_field("subjects", &self.subjects)?;
        object.end()
    }
}

impl kube::Resource for PlacementBinding {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind(_: &()) -> std::borrow::Cow<'_, str> {
        Self::KIND.into()
    }
    fn group(_: &()) -> std::borrow::Cow<'_, str> {
        Self::GROUP.into()
    }
    fn version(_: &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }
    fn plural(_: &()) -> std::borrow::Cow<'_, str> {
        Self::PLURAL.into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Kind for PlacementBinding {
    const PLURAL: &'static str = "placementbindings";
    const NAMESPACED: bool = true;
    const SHORT_NAMES: &'static [&'static str] = &["pb"];
    const COLUMNS: &'static [Column] = &[];
    const STATUS_SUBRESOURCE: bool = true;
    const REQUIRED: &'static [&'static str] = &["placementRef", "subjects"];
    const ABOUT: &'static str =
        "Brings Policies and PolicySets of its namespace to the clusters that a Placement has chosen.";

    fn sections(generator: &mut SchemaGenerator) -> Vec<(&'static str, Schema)> {
        let subject = generator.subschema_for::<BindingSubject>();
        vec![
            ("bindingOverrides", generator.subschema_for::<BindingOverrides>()),
            ("placementRef", generator.subschema_for::<PlacementRef>()),
            (
                "subFilter",
                json_schema!({"type": "string", "enum": [Self::RESTRICTED], "description": "Makes the binding only override."}),
            ),
            (
                "subjects",
                json_schema!({"type": "array", "minItems": 1, "items": subject}),
            ),
            ("status", json_schema!({"type": "object"})),
        ]
    }
}
