//! ManagedClusterSetBinding: a set that a namespace may use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

crate::kind::kind! {
    /// Lets the workloads of a namespace be placed on the clusters of a set. It has the set's name.
    pub struct ManagedClusterSetBinding { spec: ManagedClusterSetBindingSpec, status: ManagedClusterSetBindingStatus }
    api "cluster.open-cluster-management.io" "v1beta2" "managedclustersetbindings" Namespaced;
    short ["mclsetbinding", "mclsetbindings"];
    columns [];
    flags [status];
}

/// Which set is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingSpec {
    /// The set's name, which is also the binding's.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("minLength" = 1))]
    pub cluster_set: String,
}

/// What is known of a binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingStatus {
    /// Whether the set exists.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::plain_conditions")]
    pub conditions: Vec<Condition>,
}
