//! PlacementDecision: the clusters a placement chose.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::kind::kind! {
    /// Up to a hundred of the clusters that a placement chose. A placement has as many of these as it needs, in its own
    /// namespace, labelled with its name.
    pub struct PlacementDecision { status: PlacementDecisionStatus }
    api "cluster.open-cluster-management.io" "v1beta1" "placementdecisions" Namespaced;
    short [];
    columns [];
    flags [status];
}

/// The choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementDecisionStatus {
    /// The clusters, in the order of the choice.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    pub decisions: Vec<ClusterDecision>,
}

/// One chosen cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// The cluster's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub cluster_name: String,
    /// Why it was chosen.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub reason: String,
    /// Its score, where scores are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
}
