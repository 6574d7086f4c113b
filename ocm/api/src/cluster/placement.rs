//! Placement: which clusters a workload goes to.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TaintEffect;
use crate::condition::Condition;

crate::kind::kind! {
    /// Chooses clusters from the sets bound to its namespace, and writes the choice to PlacementDecisions.
    pub struct Placement { spec: PlacementSpec, status: PlacementStatus }
    api "cluster.open-cluster-management.io" "v1beta1" "placements" Namespaced;
    short [];
    columns [
        ("Succeeded", "string", ".status.conditions[?(@.type==\"PlacementSatisfied\")].status"),
        ("Reason", "string", ".status.conditions[?(@.type==\"PlacementSatisfied\")].reason"),
        ("SelectedClusters", "integer", ".status.numberOfSelectedClusters"),
    ];
    flags [status, spec_required];
}

/// How clusters are chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// The sets to choose from; all bound ones when empty.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub cluster_sets: Vec<String>,
    /// How many clusters are wanted; all that fit when it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_of_clusters: Option<i32>,
    /// What a cluster must have; one of several is enough.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub predicates: Vec<ClusterPredicate>,
    /// Which of the clusters that fit are preferred.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub prioritizer_policy: PrioritizerPolicy,
    /// How the choice spreads over regions, vendors and the like.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub spread_policy: SpreadPolicy,
    /// Taints that do not keep the placement away.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub tolerations: Vec<Toleration>,
    /// How the choice is split into groups.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub decision_strategy: DecisionStrategy,
    /// The order of the decisions.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "ClusterName"))]
    pub sort_by: DecisionSortBy,
    /// How often changed scores may change the choice, such as 5m.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "1m", "pattern" = "^[0-9]+[hms]$"))]
    pub score_rate_limit: String,
}

/// The order of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DecisionSortBy {
    /// By the clusters' names.
    #[default]
    ClusterName,
    /// By score, the best first.
    Score,
}

/// What a cluster must have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPredicate {
    /// Labels, claims and expressions that all have to hold.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub required_cluster_selector: ClusterSelector,
}

/// Labels, claims and expressions that all have to hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// On the cluster's labels.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub label_selector: LabelSelector,
    /// On the cluster's claims.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub claim_selector: ClusterClaimSelector,
    /// On the whole ManagedCluster.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub cel_selector: ClusterCelSelector,
}

/// Requirements on a cluster's claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSelector {
    /// Requirements that all have to hold.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::selector_requirements")]
    pub match_expressions: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement>,
}

/// CEL expressions on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCelSelector {
    /// Expressions on managedCluster that all have to be true.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub cel_expressions: Vec<String>,
}

/// Which of the clusters that fit are preferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerPolicy {
    /// Whether the default prioritizers count beside the configured ones (Additive) or not (Exact).
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "Additive"))]
    pub mode: String,
    /// The prioritizers and their weights.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub configurations: Vec<PrioritizerConfig>,
}

/// A prioritizer and its weight.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerConfig {
    /// Where the score comes from.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub score_coordinate: ScoreCoordinate,
    /// How much it counts, from -10 to 10; 0 turns it off.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = 1, "minimum" = -10, "maximum" = 10))]
    pub weight: i32,
}

/// Where a score comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoreCoordinate {
    /// A built-in prioritizer or an add-on's score.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "BuiltIn"))]
    pub r#type: ScoreCoordinateType,
    /// The built-in prioritizer's name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub built_in: String,
    /// The add-on's score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on: Option<AddOnScore>,
}

/// The sources of scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScoreCoordinateType {
    /// A built-in prioritizer.
    #[default]
    BuiltIn,
    /// An AddOnPlacementScore.
    AddOn,
}

/// A score of an AddOnPlacementScore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnScore {
    /// The AddOnPlacementScore's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub resource_name: String,
    /// The score's name in it.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub score_name: String,
}

/// How the choice spreads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadPolicy {
    /// Constraints, the most important first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("maxItems" = 8))]
    pub spread_constraints: Vec<SpreadConstraint>,
}

/// One way the choice spreads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// How many clusters one topology may have more than another.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = 1, "minimum" = 1))]
    pub max_skew: i32,
    /// The label or claim whose values are the topologies.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("maxLength" = 316, "pattern" = crate::schema::TOPOLOGY_KEY))]
    pub topology_key: String,
    /// Whether the key is a label or a claim.
    pub topology_key_type: TopologyKeyType,
    /// What happens when the skew cannot be kept.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "ScheduleAnyway"))]
    pub when_unsatisfiable: UnsatisfiableMaxSkewAction,
}

/// What a topology key names.
#[allow(missing_docs)] // A variant with a text of its own would be an alternative of its own in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TopologyKeyType {
    Label,
    Claim,
}

/// What happens when a skew cannot be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnsatisfiableMaxSkewAction {
    /// Fewer clusters are chosen.
    DoNotSchedule,
    /// Clusters are chosen nevertheless, those that reduce the skew first.
    #[default]
    ScheduleAnyway,
}

/// A taint that does not keep the placement away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The taint's key; with operator Exists it may be empty and then means all.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("maxLength" = 316, "pattern" = crate::schema::QUALIFIED_NAME))]
    pub key: String,
    /// Equal (the default) or Exists.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "Equal"))]
    pub operator: String,
    /// The taint's value, for Equal.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("maxLength" = 1024))]
    pub value: String,
    /// The taint's effect; all when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// For how long the taint is tolerated; for ever when it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How the choice is split into groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStrategy {
    /// The groups.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub group_strategy: GroupStrategy,
}

/// The groups a choice is split into.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStrategy {
    /// Named groups, in order.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub decision_groups: Vec<DecisionGroup>,
    /// The size, as number or percentage, of the groups of all other clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::group_size")]
    pub clusters_per_decision_group: Option<IntOrString>,
}

/// A named group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroup {
    /// The group's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("pattern" = "^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"))]
    pub group_name: String,
    /// Which of the chosen clusters belong to it.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub group_cluster_selector: GroupClusterSelector,
}

/// Which of the chosen clusters belong to a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupClusterSelector {
    /// On the cluster's labels.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub label_selector: LabelSelector,
    /// On the cluster's claims.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub claim_selector: ClusterClaimSelector,
}

/// How the choice went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// How many clusters are chosen.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub number_of_selected_clusters: i32,
    /// The groups they are split into.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub decision_groups: Vec<DecisionGroupStatus>,
    /// Whether the wish could be fulfilled and made sense.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// When changed scores last changed the choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_score_update_time: Option<Time>,
}

/// One group of the choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroupStatus {
    /// The group's index, from 0.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub decision_group_index: i32,
    /// The group's name; empty for the groups of all other clusters.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub decision_group_name: String,
    /// The names of its PlacementDecisions.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub decisions: Vec<String>,
    /// How many clusters it has.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = 0))]
    pub cluster_count: i32,
}
