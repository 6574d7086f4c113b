//! ManifestWorkReplicaSet: one work on every cluster of a placement.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ManifestWorkSpec;
use crate::cluster::RolloutStrategy;
use crate::condition::Condition;

crate::kind::kind! {
    /// Keeps a ManifestWork in the namespace of every cluster that its placements choose.
    pub struct ManifestWorkReplicaSet { spec: ManifestWorkReplicaSetSpec, status: ManifestWorkReplicaSetStatus }
    api "work.open-cluster-management.io" "v1alpha1" "manifestworkreplicasets" Namespaced;
    short ["mwrs"];
    columns [
        ("Placement", "string", ".status.conditions[?(@.type==\"PlacementVerified\")].reason"),
        ("Found", "string", ".status.conditions[?(@.type==\"PlacementVerified\")].status"),
        ("ManifestWorks", "string", ".status.conditions[?(@.type==\"ManifestworkApplied\")].reason"),
        ("Applied", "string", ".status.conditions[?(@.type==\"ManifestworkApplied\")].status"),
    ];
    flags [status];
}

/// Which work goes where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkReplicaSetSpec {
    /// The work.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub manifest_work_template: ManifestWorkSpec,
    /// The placements that choose the clusters, and how the work spreads over them.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(extend("minItems" = 1))]
    pub placement_refs: Vec<LocalPlacementReference>,
    /// Whether the works are gone before this object is (Foreground) or some time after (Background).
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "Background"))]
    pub cascade_deletion_policy: CascadeDeletionPolicy,
}

/// The order of going.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CascadeDeletionPolicy {
    /// This object first.
    #[default]
    Background,
    /// The works first.
    Foreground,
}

/// A placement in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalPlacementReference {
    /// The placement's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub name: String,
    /// How a change spreads over its clusters.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = {"type": "All", "all": {"progressDeadline": "None"}}))]
    pub rollout_strategy: RolloutStrategy,
}

/// How far the works got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkReplicaSetStatus {
    /// Placement found, works applied, rollout complete.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Counts over all placements.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub summary: ManifestWorkReplicaSetSummary,
    /// Counts of each placement.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[serde(rename = "placementSummary")]
    pub placements_summary: Vec<PlacementSummary>,
}

/// Counts of works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkReplicaSetSummary {
    /// How many there are.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(schema_with = "crate::schema::count")]
    pub total: i64,
    /// How many are on their way.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "crate::schema::count")]
    pub progressing: i64,
    /// How many are available.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(schema_with = "crate::schema::count")]
    pub available: i64,
    /// How many are degraded.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(schema_with = "crate::schema::count")]
    pub degraded: i64,
    /// How many are applied.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(schema_with = "crate::schema::count")]
    pub applied: i64,
    /// How many there should be. Upstream never writes it.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(schema_with = "crate::schema::count")]
    pub desired_total: i64,
    /// How many are up to date. Upstream never writes it.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(schema_with = "crate::schema::count")]
    pub updated: i64,
}

/// Counts of the works of one placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSummary {
    /// The placement's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub name: String,
    /// How many decision groups there are and how many clusters of them have the work, in words.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub available_decision_groups: String,
    /// The counts.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub summary: ManifestWorkReplicaSetSummary,
}
