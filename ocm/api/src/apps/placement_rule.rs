//! PlacementRule: the predecessor of Placement.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::subscription::ClusterName;
use crate::object::ObjectReference;

crate::kind::kind! {
    /// Clusters that are chosen by their labels. Placement has taken its place.
    pub struct PlacementRule { spec: PlacementRuleSpec, status: PlacementRuleStatus }
    api "apps.open-cluster-management.io" "v1" "placementrules" Namespaced;
    short [];
    columns [
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Replicas", "integer", ".spec.clusterReplicas"),
    ];
    flags [status, spec_required];
}

/// Which clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRuleSpec {
    /// Of several schedulers, which one decides; empty for ours.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub scheduler_name: String,
    /// The clusters by their names.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub clusters: Vec<ClusterName>,
    /// The clusters by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::subscription::plain_selector")]
    pub cluster_selector: Option<LabelSelector>,
    /// How many are chosen; all when it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_replicas: Option<i32>,
    /// Conditions that exclude clusters which have them with another status.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub cluster_conditions: Vec<ClusterConditionFilter>,
    /// The resource by which clusters are ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_hint: Option<ResourceHint>,
    /// Policies that choose clusters, too; without effect.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "super::subscription::plain_references")]
    pub policies: Vec<ObjectReference>,
}

/// A condition and the status that a cluster that has it is to have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterConditionFilter {
    /// The type of the condition.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub r#type: String,
    /// True, False or Unknown.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub status: String,
}

/// An order of clusters by what they have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceHint {
    /// `cpu` or `memory`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub r#type: String,
    /// `asc` for those first that have less; otherwise those that have more.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub order: String,
}

/// The choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRuleStatus {
    /// The clusters.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub decisions: Vec<PlacementRuleDecision>,
}

/// One of the clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRuleDecision {
    /// Its name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub cluster_name: String,
    /// Its namespace.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub cluster_namespace: String,
}
