//! What is told of clusters that could not get a Subscription. Pure.

use ocm_addon_sdk::{
    ocm_api::{
        apps::{Subscription, SubscriptionReportResult},
        work::ManifestWork,
    },
    reconcile::{Done, Outcome, Plan, Site, Step, cache::key_of, execute::sentence},
};

use super::propagation::Seen;
use crate::report::{cluster_report, timestamp};

/// Says in the reports of clusters that could not get the Subscription that they did not.
/// Upstream: multicloud-operators-subscription pkg/utils/policyreport.go, `CreateFailedAppsubReportResult`.
pub(super) fn tell_of_failures(plan: &mut Plan, seen: &Seen, subscription: &Subscription, outcome: &Outcome) {
    let source = key_of(subscription);
    for (cluster, why) in unpropagated(outcome) {
        plan.remark(format!("cluster {cluster}: {why}"));
        let result = SubscriptionReportResult {
            source: source.clone(),
            result: "propagationFailed".to_owned(),
            timestamp: Some(timestamp(seen.now)),
        };
        match seen.cluster_reports.get(&cluster) {
            Some(report) if report.results.iter().any(|it| it.source == source) => {}
            Some(report) => {
                let mut new = (**report).clone();
                new.results.push(result);
                plan.change(Site::Hub, &**report, &new);
            }
            None => {
                plan.create(Site::Hub, &cluster_report(&cluster, vec![result]));
            }
        }
    }
}

/// The clusters whose works could not be written, and why.
pub(super) fn unpropagated(outcome: &Outcome) -> impl Iterator<Item = (String, String)> {
    outcome.results().filter_map(|(step, result)| {
        let is_write = matches!(step, Step::Create { .. } | Step::MergePatch { .. });
        let target = step
            .target()
            .filter(|it| is_write && it.api_resource.kind == ManifestWork::KIND)?;
        let why = match result {
            // Its label says that it is of another Subscription, or of somebody else.
            Ok(Done::AlreadyExists) => format!("there is a ManifestWork {} already", target.name),
            // Two writers have met, and the next run knows more.
            Err(error) if error.is_conflict() => return None,
            Err(error) => sentence(error),
            Ok(_) => return None,
        };
        Some((target.namespace.clone().unwrap_or_default(), why))
    })
}
