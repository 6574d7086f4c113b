//! What both halves write the same way: the report of a cluster, and the label of what belongs to a Subscription. Pure.

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::api::ObjectMeta,
    ocm_api::apps::{
        ReportTimestamp, ReportType, SubscriptionReport, SubscriptionReportResult, SubscriptionReportSummary, labels,
    },
};

/// Values of labels are at most this long.
const LABEL_MAX: usize = 63;

/// The label of what belongs to a Subscription.
pub(crate) fn hosting_label(namespace: &str, name: &str) -> String {
    format!("{namespace}.{name}").chars().take(LABEL_MAX).collect()
}

/// The report of a cluster with these results. Its numbers say nothing: they are of Subscriptions.
pub(crate) fn cluster_report(cluster: &str, results: Vec<SubscriptionReportResult>) -> SubscriptionReport {
    let none = || "n/a".to_owned();
    SubscriptionReport {
        metadata: ObjectMeta {
            name: Some(cluster.to_owned()),
            namespace: Some(cluster.to_owned()),
            labels: Some([(labels::CLUSTER.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        report_type: ReportType::Cluster,
        summary: SubscriptionReportSummary {
            deployed: none(),
            in_progress: none(),
            failed: none(),
            propagation_failed: none(),
            clusters: none(),
        },
        results,
        resources: Vec::new(),
    }
}

/// A time as reports have it.
pub(crate) fn timestamp(now: Timestamp) -> ReportTimestamp {
    ReportTimestamp {
        seconds: now.as_second(),
        nanos: 0,
    }
}
