//! ManagedClusterSet: clusters that are used together.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

crate::kind::kind! {
    /// A group of managed clusters, exclusive by label or chosen by a selector.
    /// A workload in a namespace may be placed on the clusters of the sets bound to that namespace.
    pub struct ManagedClusterSet { spec: ManagedClusterSetSpec, status: ManagedClusterSetStatus }
    api "cluster.open-cluster-management.io" "v1beta2" "managedclustersets" Cluster;
    short ["mclset", "mclsets"];
    columns [
        ("Empty", "string", ".status.conditions[?(@.type==\"ClusterSetEmpty\")].status"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    flags [status];
}

/// Which clusters form the set, and what they share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-default" = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}))]
pub struct ManagedClusterSetSpec {
    /// How clusters become members.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = {"selectorType": "ExclusiveClusterSetLabel"}))]
    pub cluster_selector: ManagedClusterSelector,
    /// Namespaces to keep on every member.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub managed_namespaces: Vec<ManagedNamespaceConfig>,
}

/// How clusters become members of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSelector {
    /// By the exclusive label or by a label selector.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "ExclusiveClusterSetLabel"))]
    pub selector_type: SelectorType,
    /// The selector, when that is the way; none selects nothing, an empty one everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
}

/// The two ways to become a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorType {
    /// The cluster carries the set's name in the label `cluster.open-cluster-management.io/clusterset`.
    #[default]
    ExclusiveClusterSetLabel,
    /// The cluster's labels match.
    LabelSelector,
}

/// A namespace to keep on every member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespaceConfig {
    /// The namespace's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("maxLength" = 63, "pattern" = crate::schema::DNS_LABEL))]
    pub name: String,
}

/// What is known of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetStatus {
    /// Whether the set has members.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::plain_conditions")]
    pub conditions: Vec<Condition>,
}
