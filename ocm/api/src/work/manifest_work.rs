//! ManifestWork: objects to be put on one cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Manifests;
use crate::condition::Condition;

crate::kind::kind! {
    /// Objects that the agent of one cluster applies there, keeps as they are, reports on, and removes with the work.
    /// It lives in the hub namespace named like the cluster.
    pub struct ManifestWork { spec: ManifestWorkSpec, status: ManifestWorkStatus }
    api "work.open-cluster-management.io" "v1" "manifestworks" Namespaced;
    short [];
    columns [];
    flags [status];
}

/// The objects and how to treat them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSpec {
    /// The objects.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub workload: ManifestsTemplate,
    /// What happens to the objects when the work goes; without it they are removed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// How single objects are updated and reported on.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub manifest_configs: Vec<ManifestConfigOption>,
    /// On whose behalf the objects are applied; without it the agent's own rights count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<ManifestWorkExecutor>,
}

/// The objects of a work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestsTemplate {
    /// Whole objects, as one would apply them by hand.
    #[serde(
        default,
        skip_serializing_if = "Manifests::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "crate::schema::manifests")]
    pub manifests: Manifests,
}

/// What happens to the objects when the work goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// Remove all, leave all, or leave some.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = "Foreground"))]
    pub propagation_policy: DeletePropagationPolicy,
    /// Which ones to leave, when some are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
    /// How many seconds after all objects are complete the work is removed; without it, it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// Remove all, leave all, or leave some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletePropagationPolicy {
    /// The objects go before the work does.
    #[default]
    Foreground,
    /// The objects stay.
    Orphan,
    /// The objects named by the orphaning rules stay.
    SelectivelyOrphan,
}

/// Which objects stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectivelyOrphan {
    /// One rule per object, exact.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub orphaning_rules: Vec<OrphaningRule>,
}

/// An object that stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrphaningRule {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub group: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub resource: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// Its namespace; empty when it has none.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
}

/// How one object, or all that match, are treated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfigOption {
    /// Which objects; name and namespace may hold `*`.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub resource_identifier: ResourceIdentifier,
    /// What of the objects' state is reported.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub feedback_rules: Vec<FeedbackRule>,
    /// How the objects are updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Conditions to derive from the objects' state.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["condition"]))]
    pub condition_rules: Vec<ConditionRule>,
    /// Whether the state is read now and then or watched.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "Poll"))]
    pub feedback_scrape_type: FeedbackScrapeType,
}

/// Names an object on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceIdentifier {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub group: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub resource: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// Its namespace; empty when it has none.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
}

/// What of an object's state is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// Fields known for the kind, or fields named by paths.
    pub r#type: FeedbackRuleType,
    /// The paths, when they are named.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub json_paths: Vec<JsonPath>,
}

/// Where feedback comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FeedbackRuleType {
    /// Fields that everyone wants to see of this kind, such as the ready replicas of a Deployment.
    WellKnownStatus,
    /// Fields named by JSONPath.
    JSONPaths,
}

/// A field to report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonPath {
    /// The name to report it under.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// The API version in which the path holds; any when empty.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub version: String,
    /// A Kubernetes JSONPath without braces, on the whole object.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub path: String,
}

/// Whether an object's state is read now and then or watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FeedbackScrapeType {
    /// Read now and then.
    #[default]
    Poll,
    /// Watched, and reported as soon as it changes.
    Watch,
}

/// How an object is updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// Which way.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "Update"))]
    pub r#type: UpdateStrategyType,
    /// Details of server-side apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApplyConfig>,
}

/// The ways to update an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategyType {
    /// Write it whole whenever it differs in what the work says.
    #[default]
    Update,
    /// Create it and never touch it again.
    CreateOnly,
    /// Let the API server merge it by field ownership.
    ServerSideApply,
    /// Never write it; only report on it.
    ReadOnly,
}

/// Details of server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApplyConfig {
    /// Whether to take fields over from other managers.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub force: bool,
    /// The field manager's name, which begins with `work-agent`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "work-agent", "pattern" = "^work-agent"))]
    pub field_manager: String,
    /// Fields that are left to others.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["condition"]))]
    pub ignore_fields: Vec<IgnoreField>,
}

/// Fields that are left to others, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnoreField {
    /// From when on the fields are left alone.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "OnSpokePresent"))]
    pub condition: IgnoreFieldsCondition,
    /// The fields as JSONPaths.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(extend("x-optional" = true))]
    pub json_paths: Vec<String>,
    /// The fields as JSON pointers.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub json_pointers: Vec<String>,
    /// The fields as jq path expressions.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub jq_path_expressions: Vec<String>,
}

/// From when on fields are left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IgnoreFieldsCondition {
    /// As soon as the object exists.
    #[default]
    OnSpokePresent,
    /// As soon as somebody else has changed it.
    OnSpokeChange,
}

/// A condition to derive from an object's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.type != 'CEL' || self.condition != \"\"",
    "message": "Condition is required for CEL rules"
}]))]
pub struct ConditionRule {
    /// The type of the condition to set.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub condition: String,
    /// Rules known for the kind, or CEL expressions.
    pub r#type: ConditionRuleType,
    /// Expressions on `object` that all have to be true.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub cel_expressions: Vec<String>,
    /// The condition's message.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub message: String,
    /// A CEL expression on `object` and `result` for the message; goes before `message`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub message_expression: String,
}

/// Where a derived condition comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionRuleType {
    /// Rules that hold for everyone, such as when a Job is complete.
    WellKnownConditions,
    /// CEL expressions.
    CEL,
}

/// On whose behalf objects are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkExecutor {
    /// Who.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub subject: ManifestWorkExecutorSubject,
}

/// Whose rights count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkExecutorSubject {
    /// Always a ServiceAccount.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub r#type: ManifestWorkExecutorSubjectType,
    /// The ServiceAccount on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ManifestWorkSubjectServiceAccount>,
}

/// Who can be an executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ManifestWorkExecutorSubjectType {
    /// A ServiceAccount on the cluster.
    #[default]
    ServiceAccount,
}

/// A ServiceAccount on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSubjectServiceAccount {
    /// Its namespace.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1, "maxLength" = 253, "pattern" = crate::schema::DNS_SUBDOMAIN))]
    pub namespace: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1, "maxLength" = 253, "pattern" = crate::schema::DNS_SUBDOMAIN))]
    pub name: String,
}

/// How far the agent got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// Of the work as a whole.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Of each object.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub resource_status: ManifestResourceStatus,
}

/// How far the agent got with each object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestResourceStatus {
    /// One entry per object, in the order of the spec.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub manifests: Vec<ManifestCondition>,
}

/// How far the agent got with one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestCondition {
    /// Which object.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub resource_meta: ManifestResourceMeta,
    /// What was asked to be reported.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub status_feedback: StatusFeedbackResult,
    /// Applied, available, and what the condition rules say.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Names an object of a work as the agent understood it. All fields are always written; what is unknown is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestResourceMeta {
    /// Its place in the spec, from 0.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub ordinal: i32,
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub group: String,
    /// The API version.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub version: String,
    /// The kind.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub kind: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub resource: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub name: String,
    /// Its namespace.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub namespace: String,
}

/// What was asked to be reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusFeedbackResult {
    /// The values, by name.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub values: Vec<FeedbackValue>,
}

/// One reported value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// The name of the rule's path, or the well-known name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
}

/// A value and its type; exactly the field of that type is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// Which field is set.
    pub r#type: ValueType,
    /// A whole number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// A yes or no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// Anything else, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 1024))]
    pub json_raw: Option<String>,
}

impl FieldValue {
    /// A whole number.
    pub fn integer(value: i64) -> Self {
        Self {
            integer: Some(value),
            ..Self::empty(ValueType::Integer)
        }
    }

    /// A text.
    pub fn string(value: impl Into<String>) -> Self {
        Self {
            string: Some(value.into()),
            ..Self::empty(ValueType::String)
        }
    }

    /// A yes or no.
    pub fn boolean(value: bool) -> Self {
        Self {
            boolean: Some(value),
            ..Self::empty(ValueType::Boolean)
        }
    }

    /// Anything else, as JSON text.
    pub fn json_raw(value: impl Into<String>) -> Self {
        Self {
            json_raw: Some(value.into()),
            ..Self::empty(ValueType::JsonRaw)
        }
    }

    fn empty(r#type: ValueType) -> Self {
        Self {
            r#type,
            integer: None,
            string: None,
            boolean: None,
            json_raw: None,
        }
    }
}

/// The types of reported values.
#[allow(missing_docs)] // A variant with a text of its own would be an alternative of its own in the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ValueType {
    Integer,
    String,
    Boolean,
    JsonRaw,
}
