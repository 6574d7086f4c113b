//! SubscriptionReport: what Subscriptions have deployed, on the hub, of one Subscription or of one cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::ObjectReference;

crate::kind::kind! {
    /// How a Subscription fares on its clusters, or a cluster with its Subscriptions.
    pub struct SubscriptionReport {
        report_type: ReportType,
        summary: SubscriptionReportSummary,
        results: Vec<SubscriptionReportResult>,
        resources: Vec<ObjectReference>,
    }
    api "apps.open-cluster-management.io" "v1alpha1" "subscriptionreports" Namespaced;
    short ["appsubreport"];
    columns [
        ("ReportType", "string", ".reportType"),
        ("Deployed", "string", ".summary.deployed"),
        ("InProgress", "string", ".summary.inProgress"),
        ("Failed", "string", ".summary.failed"),
        ("PropagationFailed", "string", ".summary.propagationFailed"),
        ("Clusters", "string", ".summary.clusters"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    flags [report_type_required];
}

/// Of what a report is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReportType {
    /// Of one Subscription; its results are of clusters.
    #[default]
    Application,
    /// Of one cluster; its results are of Subscriptions.
    Cluster,
}

/// Numbers of clusters, as text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionReportSummary {
    /// On how many all is deployed.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub deployed: String,
    /// How many have not told yet.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub in_progress: String,
    /// On how many something failed.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub failed: String,
    /// To how many the Subscription could not be brought.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub propagation_failed: String,
    /// How many there are.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub clusters: String,
}

/// What became of one Subscription on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionReportResult {
    /// The cluster, in the report of a Subscription; `NAMESPACE/NAME` of the Subscription in that of a cluster.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub source: String,
    /// deployed, failed or propagationFailed.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("enum" = ["deployed", "failed", "propagationFailed"]))]
    pub result: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<ReportTimestamp>,
}

/// A time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportTimestamp {
    /// Seconds since 1970.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub seconds: i64,
    /// Nanoseconds of the second.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub nanos: i32,
}
