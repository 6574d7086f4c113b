//! Subscription: an application that clusters take from a Channel.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::object::{ObjectReference, RawObject};

crate::kind::kind! {
    /// An application that clusters take from a Channel and keep as it is there.
    pub struct Subscription { spec: SubscriptionSpec, status: SubscriptionStatusOnHub }
    api "apps.open-cluster-management.io" "v1" "subscriptions" Namespaced;
    short ["appsub"];
    columns [
        ("SubscriptionState", "string", ".status.phase"),
        ("AppstatusReference", "string", ".status.appstatusReference"),
        ("Age", "date", ".metadata.creationTimestamp"),
        ("Updated", "date", ".status.lastUpdateTime"),
        ("Local placement", "boolean", ".spec.placement.local"),
        ("Time window", "string", ".spec.timewindow.windowtype"),
    ];
    flags [status, spec_required];
}

/// What is deployed, and where and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionSpec {
    /// The Channel, `NAMESPACE/NAME`.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub channel: String,
    /// The Channel that is read when the first cannot be; of the same type.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub secondary_channel: String,
    /// The name of the chart, or of the object.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub name: String,
    /// Which of what is there is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_filter: Option<PackageFilter>,
    /// Changes to what is there.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub package_overrides: Vec<PackageOverrides>,
    /// The clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<SubscriptionPlacement>,
    /// Changes for single clusters.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub overrides: Vec<ClusterOverrides>,
    /// When something may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timewindow: Option<TimeWindow>,
    /// The Secret with the access to Ansible Tower, for AnsibleJobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooksecretref: Option<ObjectReference>,
    /// The kinds that are deployed; all when it is empty. For subscription administrators.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub allow: Vec<KindsOfVersion>,
    /// The kinds that are not deployed. For subscription administrators.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub deny: Vec<KindsOfVersion>,
    /// Whether objects that charts make in namespaces are watched.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "crate::null::to_default"
    )]
    pub watch_helm_namespace_scoped_resources: bool,
}

/// Kinds of one API version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindsOfVersion {
    /// The API version.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub api_version: String,
    /// The kinds; `*` for all.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub kinds: Vec<String>,
}

/// Which objects or charts are taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageFilter {
    /// By their labels, or a chart's keywords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "atomic_selector")]
    pub label_selector: Option<LabelSelector>,
    /// By their annotations, all of them.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub annotations: BTreeMap<String, String>,
    /// Which versions of a chart.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub version: String,
    /// A ConfigMap in the Subscription's namespace whose `path` and `branch` are those of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_ref: Option<NamedConfigMap>,
}

/// A ConfigMap by its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct NamedConfigMap {
    /// Its name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub name: String,
}

/// Changes to one object or chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageOverrides {
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub package_name: String,
    /// The name of the release.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub package_alias: String,
    /// Each with `path` and `value`.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub package_overrides: Vec<RawObject>,
}

/// Where it is deployed. The first that is set counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionPlacement {
    /// The Placement or PlacementRule in the Subscription's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_ref: Option<ObjectReference>,
    /// The clusters by their names.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub clusters: Vec<ClusterName>,
    /// The clusters by their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "atomic_selector")]
    pub cluster_selector: Option<LabelSelector>,
    /// Here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<bool>,
}

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterName {
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
}

/// Changes for one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterOverrides {
    /// The cluster; `/` for any.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub cluster_name: String,
    /// Each with `path` and `value`.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(length(min = 1))]
    pub cluster_overrides: Vec<RawObject>,
}

/// When something may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeWindow {
    /// `active`: it may change at these times; `blocked`: at all others.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["active", "blocked", "Active", "Blocked"]))]
    pub windowtype: String,
    /// The time zone, such as `America/Toronto`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub location: String,
    /// The days, such as `Monday`; every day when there are none.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub daysofweek: Vec<String>,
    /// The hours; the whole day when there are none.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub hours: Vec<HourRange>,
}

/// Part of a day, such as from `10:20AM` to `03:00PM`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HourRange {
    /// When it begins.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub start: String,
    /// When it ends.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub end: String,
}

/// How far a Subscription is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionPhase {
    /// On the hub: its clusters have it.
    Propagated,
    /// On a cluster: it is deployed.
    Subscribed,
    /// On a cluster: something failed.
    Failed,
    /// On the hub: it is with no cluster.
    PropagationFailed,
    /// On the hub: the jobs before it are done.
    PreHookSucessful,
}

impl SubscriptionPhase {
    /// As `status.phase` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Propagated => "Propagated",
            Self::Subscribed => "Subscribed",
            Self::Failed => "Failed",
            Self::PropagationFailed => "PropagationFailed",
            // Upstream's spelling.
            Self::PreHookSucessful => "PreHookSucessful",
        }
    }
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStatusOnHub {
    /// A [`SubscriptionPhase`].
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub phase: String,
    /// Active, or Blocked by the time window.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub message: String,
    /// Why it failed.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub reason: String,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// The command that shows what is deployed.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub appstatus_reference: String,
    /// The AnsibleJobs before and after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ansiblejobs: Option<AnsibleJobs>,
    /// What older releases told of clusters.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub statuses: BTreeMap<String, LegacyClusterStatus>,
}

/// AnsibleJobs, `NAMESPACE/NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnsibleJobs {
    /// The last before it.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub lastprehookjob: String,
    /// Those before it.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub prehookjobshistory: Vec<String>,
    /// The last after it.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub lastposthookjob: String,
    /// Those after it.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub posthookjobshistory: Vec<String>,
}

/// What older releases told of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyClusterStatus {
    /// By the name of the object.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub packages: BTreeMap<String, LegacyUnitStatus>,
}

/// What older releases told of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LegacyUnitStatus {
    /// Its phase.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub phase: String,
    /// Details.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub message: String,
    /// Why.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub reason: String,
    /// When.
    pub last_update_time: Option<Time>,
    /// The status of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_status: Option<RawObject>,
}

impl Subscription {
    /// Whether it is deployed where it is, and nowhere else.
    pub fn is_local(&self) -> bool {
        let placement = self.spec.placement.as_ref();
        placement.and_then(|it| it.local).unwrap_or_default()
    }

    /// An annotation; `None` when it is empty or not there.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        let all = self.metadata.annotations.as_ref()?;
        all.get(name).map(String::as_str).filter(|it| !it.is_empty())
    }

    /// Whether its label says that nothing changes for now.
    pub fn is_paused(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        let pause = labels.and_then(|it| it.get(super::labels::SUBSCRIPTION_PAUSE));
        pause.is_some_and(|it| it.eq_ignore_ascii_case("true"))
    }
}

/// A selector as an older generator writes it.
pub(super) fn plain_selector(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = atomic_selector(generator);
    schema.remove("x-kubernetes-map-type");
    schema
}

/// A selector whose lists say nothing of how they are merged.
pub(super) fn atomic_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "description": "Requirements that all have to hold.",
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"description": "The label's name.", "type": "string"},
                        "operator": {"description": "In, NotIn, Exists or DoesNotExist.", "type": "string"},
                        "values": {
                            "description": "The values for In and NotIn; empty for the others.",
                            "type": "array", "items": {"type": "string"}
                        }
                    }
                }
            },
            "matchLabels": {
                "description": "Labels that have to be there with exactly these values.",
                "type": "object", "additionalProperties": {"type": "string"}
            }
        }
    })
}

/// A reference as an older generator writes it.
pub(super) fn plain_reference(generator: &mut SchemaGenerator) -> Schema {
    let mut reference = generator.subschema_for::<ObjectReference>();
    reference.remove("x-kubernetes-map-type");
    reference
}

/// References as an older generator writes them.
pub(super) fn plain_references(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": plain_reference(generator)})
}
