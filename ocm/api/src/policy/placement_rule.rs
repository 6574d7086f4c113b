//! PlacementRule: the predecessor of Placement. Drover neither serves nor decides it: where its definition and its
//! controller are, what that has decided is read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::kind::kind! {
    /// Clusters that a controller of others has chosen.
    pub struct PlacementRule { status: PlacementRuleStatus }
    api "apps.open-cluster-management.io" "v1" "placementrules" Namespaced;
    short [];
    columns [];
    flags [status];
}

/// The choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRuleStatus {
    /// The clusters.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    pub decisions: Vec<PlacementRuleDecision>,
}

/// One of the clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRuleDecision {
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub cluster_name: String,
    /// Its namespace.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub cluster_namespace: String,
}
