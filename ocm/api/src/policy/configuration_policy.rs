//! ConfigurationPolicy: objects that a cluster must have, or must not have.
//! Upstream: config-policy-controller `api/v1/configurationpolicy_types.go`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::object::RawObject;

crate::kind::kind! {
    /// Objects that a cluster must have or must not have, checked there and on demand enforced.
    pub struct ConfigurationPolicy { spec: ConfigurationPolicySpec, status: ConfigurationPolicyStatus }
    api "policy.open-cluster-management.io" "v1" "configurationpolicies" Namespaced;
    short [];
    columns [("Compliance state", "string", ".status.compliant")];
    flags [status, spec_required];
}

/// What is wanted, and what is done about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationPolicySpec {
    /// Texts of compliance messages, as Go templates.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub custom_message: CustomMessage,
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
    #[schemars(extend("enum" = ["Inform", "inform", "Enforce", "enforce"], "x-default" = "inform"))]
    pub remediation_action: String,
    /// How often objects are looked at again.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub evaluation_interval: EvaluationInterval,
    /// What becomes of objects that the policy does not name any more, and of all of them when it is deleted. It needs
    /// `enforce`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["DeleteAll", "DeleteIfCreated", "None"], "x-default" = "None"))]
    pub prune_object_behavior: String,
    /// The namespaces of objects whose definition names none.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace_selector: NamespaceTarget,
    /// The objects; either these or `object-templates-raw`.
    #[serde(
        rename = "object-templates",
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub object_templates: Vec<ObjectTemplate>,
    /// A Go template that makes a YAML list of such objects.
    #[serde(
        rename = "object-templates-raw",
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub object_templates_raw: String,
}

/// Go templates of compliance messages. They see `.DefaultMessage` and `.Policy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub struct CustomMessage {
    /// For a policy that is compliant.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub compliant: String,
    /// For a policy that is not, or of which nothing is known.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub noncompliant: String,
}

/// The least time between two evaluations: a Go duration, `watch` (the default: as soon as something changes) or
/// `never`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub struct EvaluationInterval {
    /// While the policy is compliant.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("pattern" = INTERVAL))]
    pub compliant: String,
    /// While it is not.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("pattern" = INTERVAL))]
    pub noncompliant: String,
}

const INTERVAL: &str = "^(?:(?:(?:[0-9]+(?:.[0-9])?)(?:h|m|s|(?:ms)|(?:us)|(?:ns)))|never|watch)+$";

/// Namespaces by their labels and names. Without labels, expressions and `include` it selects none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceTarget {
    /// Labels that they must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// What their labels must be like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
    /// Patterns of names, as of files.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub include: Vec<String>,
    /// Patterns of names that are left out.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub exclude: Vec<String>,
    /// Whether those that are being deleted count: `IfMatch`, `Never`, or what the controller was told (`Default`).
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub terminating_inclusion: String,
}

impl NamespaceTarget {
    /// Whether it selects nothing, whatever there is.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_none() && self.match_expressions.is_none() && self.include.is_empty()
    }
}

impl JsonSchema for NamespaceTarget {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NamespaceTarget".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let patterns = |about: &str| {
            json_schema!({
                "description": about,
                "type": "array", "items": { "type": "string", "minLength": 1 }
            })
        };
        let mut schema = crate::schema::label_selector(generator);
        if let Some(properties) = schema.get_mut("properties").and_then(|it| it.as_object_mut()) {
            properties.insert(
                "include".to_owned(),
                patterns("Patterns of names, as of files.").to_value(),
            );
            properties.insert(
                "exclude".to_owned(),
                patterns("Patterns of names that are left out.").to_value(),
            );
            let inclusion = json_schema!({
                "description": "Whether those that are being deleted count.",
                "type": "string", "enum": ["IfMatch", "Never", "Default"], "x-default": "Default"
            });
            properties.insert("terminatingInclusion".to_owned(), inclusion.to_value());
        }
        schema
    }
}

/// One object, or several that one definition describes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectTemplate {
    /// `musthave`: it is there and has at least this; `mustonlyhave`: it has exactly this; `mustnothave`: it is not
    /// there.
    #[schemars(extend("enum" = [
        "MustHave", "Musthave", "musthave", "MustOnlyHave", "Mustonlyhave", "mustonlyhave", "MustNotHave",
        "Mustnothave", "mustnothave",
    ]))]
    pub compliance_type: String,
    /// The same for labels and annotations; without it as complianceType.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = [
        "MustHave", "Musthave", "musthave", "MustOnlyHave", "Mustonlyhave", "mustonlyhave",
    ]))]
    pub metadata_compliance_type: String,
    /// When an object is deleted and created anew instead of being updated.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["None", "IfRequired", "Always"], "x-default" = "None"))]
    pub recreate_option: String,
    /// The fields that are compared.
    pub object_definition: RawObject,
    /// Where differences are written to; without it to the status, but not those of kinds that hold secrets.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Log", "InStatus", "None"]))]
    pub record_diff: String,
    /// Which objects are meant by a definition without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub object_selector: Option<LabelSelector>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationPolicyStatus {
    /// All of it in one word.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Compliant", "Pending", "NonCompliant", "Terminating"]))]
    pub compliant: String,
    /// One entry for each object template.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub compliancy_details: Vec<TemplateCompliance>,
    /// When it was looked at last.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub last_evaluated: String,
    /// Which generation of the policy that was.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub last_evaluated_generation: i64,
    /// The objects that were looked at.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub related_objects: Vec<RelatedObject>,
    /// The last ten compliance messages, the newest first.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub history: Vec<ComplianceHistory>,
}

/// What was found of one object template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateCompliance {
    /// In one word.
    #[serde(
        rename = "Compliant",
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["Compliant", "Pending", "NonCompliant", "Terminating"]))]
    pub compliant: String,
    /// Why; never more than one.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub conditions: Vec<PolicyCondition>,
    /// Nothing uses it.
    #[serde(rename = "Validity", default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub validity: TemplateValidity,
}

/// A field that nothing uses, but everybody writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateValidity {
    /// Nothing uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid: Option<bool>,
    /// Nothing uses it.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub reason: String,
}

/// Why an object template has its state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyCondition {
    /// `violation` or `notification`.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub r#type: String,
    /// Always `True`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub status: String,
    /// Since when, in RFC 3339.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    /// In a few words.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub reason: String,
    /// In a sentence.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub message: String,
}

/// An object that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedObject {
    /// What the policy knows of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<RelatedProperties>,
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

/// What names an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedReference {
    /// Its name and namespace.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub metadata: RelatedName,
    /// Its group and version.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub api_version: String,
    /// Its kind.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub kind: String,
}

/// A name; `-` stands for all objects of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedName {
    /// The name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub name: String,
    /// The namespace; empty for kinds without.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
}

/// What the policy knows of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RelatedProperties {
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
    /// How it differs from what is wanted.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub diff: String,
    /// Whether it seemed to differ, but an update would change nothing.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub matches_after_dry_run: bool,
}

/// A compliance message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComplianceHistory {
    /// When it was said, to the microsecond.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("format" = "date-time"))]
    pub last_timestamp: String,
    /// What was said.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub message: String,
}
