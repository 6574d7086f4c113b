//! OperatorPolicy: operators that the Operator Lifecycle Manager installs.
//! Upstream: config-policy-controller `api/v1beta1/operatorpolicy_types.go`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::configuration_policy::{ComplianceHistory, RelatedReference};

crate::kind::kind! {
    /// An operator that a cluster must have or must not have, installed and removed through the Operator Lifecycle
    /// Manager.
    pub struct OperatorPolicy { spec: OperatorPolicySpec, status: OperatorPolicyStatus }
    api "policy.open-cluster-management.io" "v1beta1" "operatorpolicies" Namespaced;
    short [];
    columns [];
    flags [status];
}

/// Which operator, and what is done about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorPolicySpec {
    /// How much a violation matters to the author.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["low", "Low", "medium", "Medium", "high", "High", "critical", "Critical"]))]
    pub severity: String,
    /// `inform` reports, `enforce` puts right.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(
        required,
        extend("enum" = ["Inform", "inform", "Enforce", "enforce"], "x-default" = "inform")
    )]
    pub remediation_action: String,
    /// Whether the operator is to be there.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(required, extend("enum" = ["musthave", "mustnothave"]))]
    pub compliance_type: String,
    /// The OperatorGroup: name, namespace and the fields of its spec. Without it one for all namespaces is made where
    /// there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub operator_group: Option<Value>,
    /// The Subscription: its namespace and the fields of its spec.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(required, schema_with = "anything")]
    pub subscription: Value,
    /// The ClusterServiceVersions that comply and whose InstallPlans are approved; all where none is named. An entry
    /// may be a template, and may name several with commas between them.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub versions: Vec<String>,
    /// What is removed when the operator must not be there.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = {}, "x-optional" = true))]
    pub removal_behavior: RemovalBehavior,
    /// Whether InstallPlans that upgrade are approved when the policy enforces. The first one always is.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(required, extend("enum" = ["None", "Automatic"]))]
    pub upgrade_approval: String,
    /// Which observations make the policy NonCompliant.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = {}, "x-optional" = true))]
    pub compliance_config: ComplianceConfig,
}

fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

fn removal(values: [&str; 2], default: &str) -> Schema {
    json_schema!({
        "type": "string",
        "allOf": [{ "enum": ["Keep", "Delete", "DeleteIfUnused"] }, { "enum": values }],
        "x-default": default
    })
}

fn removal_of_groups(_: &mut SchemaGenerator) -> Schema {
    removal(["Keep", "DeleteIfUnused"], "DeleteIfUnused")
}

fn removed_by_default(_: &mut SchemaGenerator) -> Schema {
    removal(["Keep", "Delete"], "Delete")
}

fn kept_by_default(_: &mut SchemaGenerator) -> Schema {
    removal(["Keep", "Delete"], "Keep")
}

/// What is removed of an operator that must not be there. Empty fields mean their default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovalBehavior {
    /// The OperatorGroup, unless another Subscription is in its namespace.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "removal_of_groups")]
    pub operator_groups: String,
    /// The Subscription.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "removed_by_default")]
    pub subscriptions: String,
    /// The ClusterServiceVersion.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "removed_by_default")]
    pub cluster_service_versions: String,
    /// The operator's CustomResourceDefinitions, and with them all objects of their kinds.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "kept_by_default")]
    pub custom_resource_definitions: String,
}

/// Whether an observation makes the policy NonCompliant, or is only told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComplianceConfig {
    /// The catalog is missing or not ready.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Compliant", "NonCompliant"], "x-default" = "Compliant"))]
    pub catalog_source_unhealthy: String,
    /// Deployments of the operator lack replicas.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Compliant", "NonCompliant"], "x-default" = "NonCompliant"))]
    pub deployments_unavailable: String,
    /// An InstallPlan waits for approval.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Compliant", "NonCompliant"], "x-default" = "Compliant"))]
    pub upgrades_available: String,
    /// The package, the channel or the version is deprecated.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Compliant", "NonCompliant"], "x-default" = "Compliant"))]
    pub deprecations_present: String,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorPolicyStatus {
    /// All of it in one word.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Compliant", "Pending", "NonCompliant", "Terminating"]))]
    pub compliant: String,
    /// Which generation of the policy was looked at.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub observed_generation: i64,
    /// One for each kind that was looked at, and `Compliant` for all of them.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The objects that were looked at.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(extend("x-optional" = true))]
    pub related_objects: Vec<OperatorObject>,
    /// NAME.NAMESPACE of the Subscription.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub resolved_subscription_label: String,
    /// NAME.NAMESPACE of all enforced policies over the same Subscription, where there are several.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub overlapping_policies: Vec<String>,
    /// Until when the Operator Lifecycle Manager is left alone with a Subscription that it cannot resolve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub subscription_intervention_time: Option<Time>,
    /// The last ten compliance messages, the newest first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub history: Vec<ComplianceHistory>,
}

/// An object that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorObject {
    /// What the policy knows of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<OperatorObjectProperties>,
    /// Which one.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub object: RelatedReference,
    /// Whether it is as it should be.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub compliant: String,
    /// Why.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub reason: String,
}

/// What the policy knows of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorObjectProperties {
    /// Whether the policy has created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by_policy: Option<bool>,
    /// Which of several objects of that name it was.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub uid: String,
}
