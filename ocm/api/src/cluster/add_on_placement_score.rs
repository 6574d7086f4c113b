//! AddOnPlacementScore: an add-on's opinion of a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

crate::kind::kind! {
    /// Scores that an add-on gives to one cluster, for placements that ask for them.
    /// It lives in the cluster's namespace on the hub.
    pub struct AddOnPlacementScore { status: AddOnPlacementScoreStatus }
    api "cluster.open-cluster-management.io" "v1alpha1" "addonplacementscores" Namespaced;
    short [];
    columns [];
    flags [status];
}

/// The scores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnPlacementScoreStatus {
    /// How the scoring went.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// One score per name.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub scores: Vec<AddOnPlacementScoreItem>,
    /// After this time the scores no longer count; without it they always do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
}

/// One score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnPlacementScoreItem {
    /// What is scored.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// From -100 to 100, higher is better.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minimum" = -100, "maximum" = 100))]
    pub value: i32,
}
