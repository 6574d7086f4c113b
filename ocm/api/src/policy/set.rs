//! PolicySet: Policies that are bound to clusters together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ComplianceState;

crate::kind::kind! {
    /// Policies of one namespace that are bound to clusters together.
    pub struct PolicySet { spec: PolicySetSpec, status: PolicySetStatus }
    api "policy.open-cluster-management.io" "v1beta1" "policysets" Namespaced;
    short ["plcset"];
    columns [
        ("Compliance state", "string", ".status.compliant"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    flags [status, spec_required];
}

/// Its Policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySetSpec {
    /// What the set is for.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub description: String,
    /// The names of the Policies.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(inner(length(min = 1)))]
    pub policies: Vec<String>,
    /// Clusters that do not get a Policy by this set. Other bindings of the Policy count nevertheless.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub exclusions: Vec<PolicySetExclusion>,
}

/// Clusters that do not get a Policy by a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySetExclusion {
    /// The name of the Policy, one of the set's.
    #[schemars(length(min = 1))]
    pub policy_name: String,
    /// Why, for people.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub reason: String,
    /// The names of the clusters.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub cluster_names: Vec<String>,
}

/// What has become of its Policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySetStatus {
    /// What binds the set, sorted.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub placement: Vec<PolicySetPlacement>,
    /// The state of all Policies together.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::compliance_or_nothing"
    )]
    #[schemars(with = "Option<ComplianceState>")]
    pub compliant: Option<ComplianceState>,
    /// Which Policies are in no state, and why.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub status_message: String,
    /// The exclusions that are in effect, sorted.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub exclusions: Vec<PolicySetStatusExclusion>,
}

/// What binds a set to clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySetPlacement {
    /// The PlacementBinding.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub placement_binding: String,
    /// Its Placement.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub placement: String,
    /// Its PlacementRule.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub placement_rule: String,
}

/// An exclusion that is in effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySetStatusExclusion {
    /// The name of the Policy.
    #[schemars(length(min = 1))]
    pub policy_name: String,
    /// The names of the clusters, sorted.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub clusters: Vec<String>,
}
