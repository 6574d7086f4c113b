//! Policy: what clusters must comply with, as objects of other kinds that it carries to them.
//!
//! A Policy that people write is a root. The propagator copies it into the namespace of each cluster that it is bound
//! to; that replica is copied once more, to the cluster itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PolicyTemplates;

crate::kind::kind! {
    /// What clusters must comply with: objects of policy kinds, such as ConfigurationPolicies, for clusters that a
    /// PlacementBinding chooses.
    pub struct Policy { spec: PolicySpec, status: PolicyStatus }
    api "policy.open-cluster-management.io" "v1" "policies" Namespaced;
    short ["plc"];
    columns [
        ("Remediation action", "string", ".spec.remediationAction"),
        ("Compliance state", "string", ".status.compliant"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    flags [status, spec_required, metadata_required];
}

/// What clusters get.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySpec {
    /// Whether no cluster gets it.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub disabled: bool,
    /// Whether replicas have all labels and annotations of the Policy (the default), or only those of the framework.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_policy_metadata: Option<bool>,
    /// Whether clusters report or put right. Where it is given, it overrides that of the templates.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Inform", "inform", "Enforce", "enforce"]))]
    pub remediation_action: String,
    /// The objects that clusters get.
    #[serde(rename = "policy-templates", default)]
    #[schemars(with = "Vec<PolicyTemplate>")]
    pub policy_templates: PolicyTemplates,
    /// What has to be in which state before any of the templates is made.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub dependencies: Vec<PolicyDependency>,
    /// How templates of the hub are resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub_template_options: Option<HubTemplateOptions>,
}

/// An object that clusters get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTemplate {
    /// The object, of a kind whose definition has the label `policy.open-cluster-management.io/policy-type: template`,
    /// or of Gatekeeper's.
    #[schemars(schema_with = "any_object")]
    pub object_definition: Value,
    /// What has to be in which state before this object is made.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub extra_dependencies: Vec<PolicyDependency>,
    /// Whether the Policy counts as compliant while the template waits for its dependencies.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub ignore_pending: bool,
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// An object on the cluster, and the state that it has to be in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("oneOf" = [
    {"properties": {
        "kind": {"enum": ["CertificatePolicy", "ConfigurationPolicy"]},
        "namespace": {"maxLength": 0},
    }},
    {"not": {"properties": {"kind": {"pattern": "^(?:(?:Certificate|Configuration)Policy)$"}}}},
]))]
pub struct PolicyDependency {
    /// The API version of the object.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub api_version: String,
    /// The kind of the object.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub kind: String,
    /// The name of the object.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// The namespace of the object.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// The state that it has to be in: Compliant, Pending or NonCompliant.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("enum" = ["Compliant", "Pending", "NonCompliant"]))]
    pub compliance: String,
}

/// How templates of the hub are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubTemplateOptions {
    /// The ServiceAccount in the namespace of the Policy whose rights look-ups have. Without it they are restricted to
    /// that namespace and to the cluster's ManagedCluster.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub service_account_name: String,
}

/// Whether somebody complies.
#[allow(missing_docs)] // A variant with a text of its own would be an alternative of its own in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ComplianceState {
    Compliant,
    Pending,
    NonCompliant,
}

impl ComplianceState {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compliant => "Compliant",
            Self::Pending => "Pending",
            Self::NonCompliant => "NonCompliant",
        }
    }
}

impl std::fmt::Display for ComplianceState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What has become of it. A root has `placement` and `status`, a replica `details`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyStatus {
    /// Of a root: what binds it, sorted.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub placement: Vec<PolicyPlacement>,
    /// Of a root: what each of its clusters says, sorted by name.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub status: Vec<PolicyOnCluster>,
    /// The state of all together.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "compliance_or_nothing"
    )]
    #[schemars(with = "Option<ComplianceState>")]
    pub compliant: Option<ComplianceState>,
    /// Of a replica: each of its templates, in their order.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub details: Vec<PolicyTemplateStatus>,
}

/// Reads a state; nothing and what is none are no state.
pub(crate) fn compliance_or_nothing<'de, D>(deserializer: D) -> Result<Option<ComplianceState>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    Ok(match text.as_str() {
        "Compliant" => Some(ComplianceState::Compliant),
        "Pending" => Some(ComplianceState::Pending),
        "NonCompliant" => Some(ComplianceState::NonCompliant),
        _ => None,
    })
}

/// What binds a root to clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyPlacement {
    /// The PlacementBinding.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub placement_binding: String,
    /// Its PlacementRule.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub placement_rule: String,
    /// Its Placement.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub placement: String,
    /// The PolicySet that the Policy is bound with.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub policy_set: String,
    /// Not filled any more.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub decisions: Vec<PolicyPlacementDecision>,
    /// The clusters that the PolicySet excludes for this Policy, sorted.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub exclusions: Vec<PolicyExclusion>,
}

/// A cluster that was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyPlacementDecision {
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

/// A cluster that a PolicySet excludes for a Policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyExclusion {
    /// Its name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub cluster_name: String,
}

/// What one cluster says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyOnCluster {
    /// Its state; nothing while it has not been reported.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "compliance_or_nothing"
    )]
    #[schemars(with = "Option<ComplianceState>")]
    pub compliant: Option<ComplianceState>,
    /// The name of the cluster.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub clustername: String,
    /// Its namespace.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub clusternamespace: String,
    /// The bindings that choose the cluster although a PolicySet excludes it, sorted.
    #[serde(
        rename = "remainingBindings",
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub remaining_bindings: Vec<RemainingBinding>,
}

/// A PlacementBinding that chooses a cluster although a PolicySet excludes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemainingBinding {
    /// Its name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub placement_binding: String,
}

/// What has become of one template on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyTemplateStatus {
    /// Metadata of its object; only the name is filled.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "any_object")]
    pub template_meta: Value,
    /// Its state.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "compliance_or_nothing"
    )]
    #[schemars(with = "Option<ComplianceState>")]
    pub compliant: Option<ComplianceState>,
    /// What it has said, newest first; at most 10.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub history: Vec<ComplianceHistory>,
}

impl PolicyTemplateStatus {
    /// The name of the template.
    pub fn name(&self) -> &str {
        self.template_meta["name"].as_str().unwrap_or_default()
    }
}

/// What a template has said once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComplianceHistory {
    /// When, to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_timestamp: Option<Time>,
    /// State and reason.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub message: String,
    /// The Event that said it.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub event_name: String,
}
