//! PolicyAutomation: Ansible jobs for clusters that do not comply.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

crate::kind::kind! {
    /// Starts an Ansible job when clusters do not comply with a Policy.
    pub struct PolicyAutomation { spec: PolicyAutomationSpec, status: PolicyAutomationStatus }
    api "policy.open-cluster-management.io" "v1beta1" "policyautomations" Namespaced;
    short ["plca"];
    columns [];
    flags [status, spec_required];
}

/// The job, and when it is started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAutomationSpec {
    /// The job.
    pub automation_def: AutomationDef,
    /// The Policy, in the same namespace.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(length(min = 1))]
    pub policy_ref: String,
    /// Once, with each event, or never.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("enum" = ["once", "everyEvent", "disabled"]))]
    pub mode: String,
    /// What an event is.
    #[serde(default = "noncompliant")]
    #[schemars(extend("enum" = ["noncompliant"], "x-default" = "noncompliant", "x-optional" = true))]
    pub event_hook: String,
    /// Without effect, as upstream.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub rescan_after: String,
    /// With mode everyEvent: seconds after a job in which its cluster starts no other.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "not_negative")]
    pub delay_after_run_seconds: i64,
}

fn noncompliant() -> String {
    "noncompliant".to_owned()
}

fn not_negative(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 0})
}

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// An Ansible job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AutomationDef {
    /// The kind of job: AnsibleJob.
    #[serde(
        rename = "type",
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub kind: String,
    /// The name of the job template.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Variables for the job.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "any_object")]
    pub extra_vars: Value,
    /// The Secret with the credential for Ansible, in the same namespace.
    #[schemars(length(min = 1))]
    pub secret: String,
    /// Seconds that a finished job is kept; without it a day.
    #[serde(rename = "jobTtl", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "not_negative")]
    pub job_ttl: Option<i64>,
    /// How many clusters' violations a job is told at most; 0 is all, without it 1000.
    #[serde(rename = "policyViolationsLimit", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "not_negative")]
    pub policy_violations_limit: Option<u64>,
}

/// When jobs were started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAutomationStatus {
    /// By cluster.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub clusters_with_event: BTreeMap<String, ClusterEvent>,
}

/// When a cluster's job was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEvent {
    /// When the job was started, in RFC 3339.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub automation_start_time: String,
    /// When the cluster ceased to comply, in RFC 3339.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub event_time: String,
}
