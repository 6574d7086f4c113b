//! RolloutStrategy: how a change reaches the clusters of a placement. Embedded in other kinds.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a change reaches the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// All at once, a few at a time, or group by group.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "All"))]
    pub r#type: RolloutType,
    /// Details of All.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<RolloutAll>,
    /// Details of Progressive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<RolloutProgressive>,
    /// Details of ProgressivePerGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive_per_group: Option<RolloutProgressivePerGroup>,
}

/// The ways a change spreads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutType {
    /// To all clusters at once.
    #[default]
    All,
    /// To a few clusters at a time.
    Progressive,
    /// To one decision group after the other.
    ProgressivePerGroup,
}

/// Details of a rollout to all at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutAll {
    /// How long a cluster has to be well before it counts as done, such as 5m.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "0"))]
    pub min_success_time: String,
    /// How long a cluster may take, such as 2h; None for ever.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "None", "pattern" = "^(([0-9])+[h|m|s])|None$"))]
    pub progress_deadline: String,
    /// How many clusters, as number or percentage, may fail before the rollout stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::count_or_percent", extend("x-default" = 0))]
    pub max_failures: Option<IntOrString>,
}

/// Details of a rollout to a few at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressive {
    /// How long a cluster has to be well before it counts as done, such as 5m.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "0"))]
    pub min_success_time: String,
    /// How long a cluster may take, such as 2h; None for ever.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "None", "pattern" = "^(([0-9])+[h|m|s])|None$"))]
    pub progress_deadline: String,
    /// How many clusters, as number or percentage, may fail before the rollout stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::count_or_percent", extend("x-default" = 0))]
    pub max_failures: Option<IntOrString>,
    /// Decision groups that have to succeed before all others.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
    /// How many clusters, as number or percentage, may be under way together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::count_or_percent")]
    pub max_concurrency: Option<IntOrString>,
}

/// Details of a rollout group by group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressivePerGroup {
    /// How long a cluster has to be well before it counts as done, such as 5m.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "0"))]
    pub min_success_time: String,
    /// How long a cluster may take, such as 2h; None for ever.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "None", "pattern" = "^(([0-9])+[h|m|s])|None$"))]
    pub progress_deadline: String,
    /// How many clusters, as number or percentage, may fail before the rollout stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::count_or_percent", extend("x-default" = 0))]
    pub max_failures: Option<IntOrString>,
    /// Decision groups that have to succeed before all others.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
}

/// A decision group, by name or by index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MandatoryDecisionGroup {
    /// The group's name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub group_name: String,
    /// The group's index; counts when there is no name.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub group_index: i32,
}
