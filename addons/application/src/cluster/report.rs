//! Tells the hub how the Subscriptions of the cluster fare.
//!
//! Root: the SubscriptionReport of the cluster on the hub. Reads: Subscriptions and SubscriptionStatuses on the
//! cluster. Writes: that report. Never: anything on the cluster.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::apps::{Subscription, SubscriptionReport, SubscriptionReportResult, SubscriptionStatus, annotations},
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Watches, async_trait, cache::Watching,
        caches::put_written, rbac::Right,
    },
};

use super::statuses::{DEPLOYED, FAILED};
use crate::report::{cluster_report, timestamp};

/// The reconciler.
pub struct ClusterReport {
    cluster: String,
    reports: Cache<SubscriptionReport>,
    subscriptions: Cache<Subscription>,
    statuses: Cache<SubscriptionStatus>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster.
    pub cluster: String,
    /// Its report.
    pub report: Option<Arc<SubscriptionReport>>,
    /// The Subscriptions of the hub that it has, `NAMESPACE/NAME`, and whether all of each is deployed.
    pub results: BTreeMap<String, bool>,
}

impl ClusterReport {
    /// Of a cluster, over the caches of the hub and of the cluster.
    pub fn new(hub: &Caches, cluster: &Caches, name: &str) -> Self {
        let watching = Watching {
            forbidden_at_first: true,
            ..Watching::default()
        };
        Self {
            cluster: name.to_owned(),
            reports: hub.in_namespace(name, watching),
            subscriptions: cluster.of(),
            statuses: cluster.of(),
        }
    }
}

#[async_trait]
impl Reconciler for ClusterReport {
    const NAME: &'static str = "subscription-report";
    const RIGHTS: &'static [Right] = &[Right::new(
        SubscriptionReport::GROUP,
        "subscriptionreports",
        "create patch",
        "The hub is told how Subscriptions fare.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let name = self.cluster.clone();
        let (of_reports, of_statuses) = (name.clone(), name.clone());
        watches
            .wakes(&self.reports, move |old, new| {
                old.or(new).map(|it| it.name_any()).filter(|it| *it == of_reports)
            })
            .wakes(&self.subscriptions, move |old, new| {
                let phase = |it: &Subscription| it.status.as_ref().map(|it| it.phase.clone());
                (old.map(phase) != new.map(phase)).then(|| name.clone())
            })
            .wakes(&self.statuses, move |_, _| Some(of_statuses.clone()));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let mut results = BTreeMap::new();
        for subscription in self.subscriptions.list() {
            let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
            let status = self.statuses.get(&namespace, &name);
            if let Some((source, result)) = result(&subscription, status.as_deref()) {
                results.insert(source, result);
            }
        }
        Ok(Seen {
            now: Timestamp::now(),
            cluster: self.cluster.clone(),
            report: self.reports.get(key, key),
            results,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let before = seen.report.as_deref();
        let known: BTreeMap<_, _> = before
            .iter()
            .flat_map(|it| &it.results)
            .map(|it| (it.source.as_str(), it))
            .collect();
        let results = seen.results.iter().map(|(source, deployed)| {
            let result = if *deployed { "deployed" } else { "failed" };
            let old = known.get(source.as_str()).filter(|it| it.result == result);
            SubscriptionReportResult {
                source: source.clone(),
                result: result.to_owned(),
                timestamp: old
                    .and_then(|it| it.timestamp.clone())
                    .or_else(|| Some(timestamp(seen.now))),
            }
        });
        let results = results.collect();
        match before {
            None if seen.results.is_empty() => plan.remark("no Subscription is here"),
            None => {
                plan.create(Site::Hub, &cluster_report(&seen.cluster, results));
                return plan;
            }
            Some(before) => {
                let mut new = before.clone();
                new.results = results;
                plan.change(Site::Hub, before, &new);
                return plan;
            }
        };
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.reports, outcome);
    }
}

/// How a Subscription of the hub fares; `None` while nothing is known, and of those that are of the cluster alone.
fn result(subscription: &Subscription, status: Option<&SubscriptionStatus>) -> Option<(String, bool)> {
    let source = subscription.annotation(annotations::HOSTING_SUBSCRIPTION)?.to_owned();
    if !subscription.is_local() {
        return None;
    }
    let phase = subscription
        .status
        .as_ref()
        .map(|it| it.phase.as_str())
        .unwrap_or_default();
    let whole = status
        .and_then(|it| it.statuses.subscription.as_ref())
        .map(|it| it.phase.as_str());
    match (phase, whole) {
        (FAILED, _) | (_, Some(FAILED)) => Some((source, false)),
        (_, Some(DEPLOYED)) => Some((source, true)),
        // All of a source that holds nothing is deployed.
        ("Subscribed", None) => Some((source, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::ocm_api::apps::ReportTimestamp;

    use super::*;

    fn seen(report: Option<SubscriptionReport>, results: &[(&str, bool)], now: &str) -> Seen {
        Seen {
            now: now.parse().unwrap(),
            cluster: "c1".to_owned(),
            report: report.map(Arc::new),
            results: results.iter().map(|(name, it)| ((*name).to_owned(), *it)).collect(),
        }
    }

    fn result_of(source: &str, result: &str, seconds: i64) -> SubscriptionReportResult {
        SubscriptionReportResult {
            source: source.to_owned(),
            result: result.to_owned(),
            timestamp: Some(ReportTimestamp { seconds, nanos: 0 }),
        }
    }

    #[test]
    fn a_report_is_made_with_the_first_result() {
        let none = ClusterReport::plan(&seen(None, &[], "2026-01-01T00:00:00Z"));
        assert_eq!(format!("{none}").trim(), "nothing to do\nnote: no Subscription is here");
        let plan = ClusterReport::plan(&seen(None, &[("n/a", true)], "1970-01-01T00:00:07Z"));
        let text = format!("{plan:#}");
        assert!(
            text.contains(r#""results":[{"result":"deployed","source":"n/a","timestamp":{"nanos":0,"seconds":7}}]"#),
            "{text}"
        );
        assert!(text.contains(r#""deployed":"n/a""#), "{text}");
    }

    #[test]
    fn only_what_has_changed_has_a_new_time() {
        let before = cluster_report(
            "c1",
            vec![result_of("n/a", "deployed", 1), result_of("n/b", "deployed", 1)],
        );
        let same = ClusterReport::plan(&seen(
            Some(before.clone()),
            &[("n/a", true), ("n/b", true)],
            "2026-01-01T00:00:00Z",
        ));
        assert!(same.is_empty(), "{same:#}");
        let plan = ClusterReport::plan(&seen(
            Some(before),
            &[("n/a", true), ("n/b", false)],
            "1970-01-01T00:00:09Z",
        ));
        let text = format!("{plan:#}");
        assert!(
            text.contains(r#"{"result":"failed","source":"n/b","timestamp":{"nanos":0,"seconds":9}}"#),
            "{text}"
        );
        assert!(
            text.contains(r#"{"result":"deployed","source":"n/a","timestamp":{"nanos":0,"seconds":1}}"#),
            "{text}"
        );
    }
}
