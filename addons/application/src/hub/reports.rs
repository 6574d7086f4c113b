//! Tells in the report of a Subscription what it deploys and how its clusters fare.
//!
//! Root: Subscription. Reads: its source as it was read last, what chooses its clusters, the reports of clusters.
//! Writes: its report. Never: the reports of clusters.
//! Upstream: multicloud-operators-subscription pkg/controller/appsubsummary, and `createAppAppsubReport` of
//! pkg/controller/mcmhub/hub.go. Ours looks when a cluster reports something else, and not every minute at everything.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference,
    kube::{Resource, ResourceExt, api::ObjectMeta},
    ocm_api::{
        apps::{
            Channel, ChannelType, ReportType, Subscription, SubscriptionReport, SubscriptionReportResult,
            SubscriptionReportSummary, labels,
        },
        object::ObjectReference,
    },
    reconcile::{
        ObserveError, Outcome, Plan, Reconciler, Site, Watches, async_trait,
        cache::{key_of, split_key},
        caches::put_written,
        rbac::Right,
    },
};
use parking_lot::Mutex;

use super::{
    clusters::SubscriptionClusters,
    results,
    sources::{SourceObject, SourceSummary, SubscriptionSources},
    verdict::{is_for_clusters, skips_validation},
    world::{self, SubscriptionWorld},
};
use crate::report::hosting_label;

/// For so many clusters more the report is written a second later: a report names each of them, and all of them may
/// say something at once.
const CLUSTERS_EACH_SECOND: usize = 100;

/// The reconciler.
pub struct SubscriptionReports {
    world: SubscriptionWorld,
    sources: SubscriptionSources,
    interval: Duration,
    written: Mutex<HashMap<String, Timestamp>>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The object; `None` when it is gone.
    pub subscription: Option<Arc<Subscription>>,
    /// Its Channel.
    pub channel: Option<Arc<Channel>>,
    /// Its report.
    pub report: Option<Arc<SubscriptionReport>>,
    /// What its source held when it was read last.
    pub summary: Option<Arc<SourceSummary>>,
    /// Its clusters.
    pub clusters: SubscriptionClusters,
    /// What clusters say.
    pub results: Arc<BTreeMap<String, String>>,
    /// For how long the report is not written again, and nothing else is looked at.
    pub early: Option<Duration>,
    /// When to look again even if nothing happens.
    pub interval: Duration,
}

impl SubscriptionReports {
    /// Over these caches.
    pub fn new(world: SubscriptionWorld, sources: SubscriptionSources, interval: Duration) -> Self {
        Self {
            world,
            sources,
            interval,
            written: Mutex::default(),
        }
    }
}

#[async_trait]
impl Reconciler for SubscriptionReports {
    const NAME: &'static str = "subscription-reports";
    const WORKERS: usize = 4;
    const RIGHTS: &'static [Right] = &[Right::new(
        SubscriptionReport::GROUP,
        "subscriptionreports",
        "create patch",
        "What Subscriptions deploy, and how their clusters fare.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let [by_decision, by_rule, by_cluster] = [(); 3].map(|()| self.world.clone());
        let sources = self.sources.clone();
        watches
            .wakes(&self.world.subscriptions, |old, new| {
                let said = |it: &Subscription| {
                    let annotations = it.metadata.annotations.clone();
                    (it.spec.clone(), annotations, it.metadata.uid.clone())
                };
                new.or(old).filter(|_| old.map(said) != new.map(said)).map(key_of)
            })
            .wakes(&self.world.reports, |old, new| {
                let Some(either) = new.or(old) else { return Vec::new() };
                let mut keys: Vec<String> = results::changed(old, new).into_iter().collect();
                if !results::is_of_cluster(either) {
                    keys.push(key_of(either));
                }
                keys
            })
            .wakes(&self.world.decisions, move |old, new| {
                let placements = old.into_iter().chain(new).filter_map(world::decided_by);
                let keys = placements.flat_map(|it| by_decision.subscriptions_of_placement(&it));
                keys.collect::<Vec<_>>()
            })
            .wakes(&self.world.rules, move |old, new| {
                let Some(either) = new
                    .or(old)
                    .filter(|_| old.map(|it| &it.status) != new.map(|it| &it.status))
                else {
                    return Vec::new();
                };
                let namespace = either.namespace().unwrap_or_default();
                let kind = super::clusters::PlacementKind::PlacementRule;
                by_rule.subscriptions_of_placement(&world::placement_key(&namespace, kind, &either.name_any()))
            })
            .wakes(&self.world.clusters, move |old, new| {
                let said = |it: &ocm_addon_sdk::ocm_api::cluster::ManagedCluster| {
                    (it.metadata.labels.clone(), it.metadata.deletion_timestamp.is_some())
                };
                match new.or(old) {
                    Some(either) if old.map(said) != new.map(said) => {
                        by_cluster.subscriptions_of_cluster(&either.name_any())
                    }
                    _ => Vec::new(),
                }
            })
            .reads(&self.world.channels)
            .signal("what sources hold", move |queue| sources.tell(queue));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let subscription = self.world.subscriptions.get(namespace, name);
        if subscription.is_none() {
            self.written.lock().remove(key);
        }
        let (now, results) = (Timestamp::now(), self.world.results.of(key));
        let written = self.written.lock().get(key).copied();
        let early = written.and_then(|it| early(it, now, results.len()));
        let placed = subscription.as_ref().filter(|_| early.is_none());
        Ok(Seen {
            now,
            clusters: placed.map_or(Ok(BTreeMap::new()), |it| self.world.chosen(it)),
            channel: subscription
                .as_ref()
                .and_then(|it| self.world.channel(&it.spec.channel)),
            report: self.world.reports.get(namespace, name),
            summary: self.sources.last(key),
            results,
            early,
            interval: self.interval,
            subscription,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(subscription) = seen.subscription.as_deref().filter(|it| is_for_clusters(it)) else {
            return plan;
        };
        if let Some(early) = seen.early {
            plan.look_again(early);
            return plan;
        }
        let is_unread = skips_validation(subscription) || seen.summary.is_none();
        let objects = seen.summary.as_deref().map_or(&[][..], |it| &it.objects);
        match seen.report.as_deref() {
            // As upstream: there is a report of what was read and is not empty.
            None if is_unread || objects.is_empty() => {
                plan.remark("it has no report, and nothing is known of its source");
            }
            None => {
                plan.create(Site::Hub, &report(seen, subscription, None));
            }
            Some(present) if results::is_of_cluster(present) => {
                plan.remark("the report of a cluster has its name");
            }
            Some(present) => {
                let new = report(seen, subscription, Some(present));
                plan.change(Site::Hub, present, &new);
                plan.look_again(seen.interval);
            }
        }
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        put_written(&self.world.reports, outcome);
        if let Some(subscription) = seen.subscription.as_deref()
            && outcome.results().next().is_some()
        {
            self.written.lock().insert(key_of(subscription), seen.now);
        }
    }
}

/// For how long a report with so many results is not written again.
fn early(written: Timestamp, now: Timestamp, results: usize) -> Option<Duration> {
    let seconds = u64::try_from(results / CLUSTERS_EACH_SECOND).unwrap_or_default();
    let since = Duration::try_from(now.duration_since(written)).unwrap_or_default();
    Duration::from_secs(seconds)
        .checked_sub(since)
        .filter(|it| !it.is_zero())
}

fn report(seen: &Seen, subscription: &Subscription, present: Option<&SubscriptionReport>) -> SubscriptionReport {
    let (namespace, name) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
    let label = (
        labels::HOSTING_SUBSCRIPTION.to_owned(),
        hosting_label(&namespace, &name),
    );
    let mut new = present.cloned().unwrap_or_else(|| SubscriptionReport {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            owner_references: owner(subscription).map(|it| vec![it]),
            ..ObjectMeta::default()
        },
        ..SubscriptionReport::default()
    });
    new.report_type = ReportType::Application;
    new.metadata.labels.get_or_insert_default().extend([label]);
    if !skips_validation(subscription)
        && let Some(summary) = &seen.summary
        && (present.is_none() || seen.clusters.is_ok())
    {
        new.resources = resources(subscription, seen.channel.as_deref(), &summary.objects);
    }
    let all = seen.results.iter().map(|(cluster, result)| SubscriptionReportResult {
        source: cluster.clone(),
        result: result.clone(),
        timestamp: None,
    });
    new.results = all.collect();
    let count = |result: &str| seen.results.values().filter(|it| *it == result).count();
    let (deployed, failed) = (count("deployed"), count("failed"));
    let mut not_propagated = count("propagationFailed");
    let clusters = match &seen.clusters {
        Ok(clusters) => clusters.len(),
        // As upstream: nobody knows how many, and one that failed is seen.
        Err(_) if present.is_none() => {
            not_propagated = 1;
            1
        }
        Err(_) => new.summary.clusters.parse().unwrap_or_default(),
    };
    if seen.clusters.is_err() && present.is_some() && seen.results.is_empty() {
        return new;
    }
    let told = deployed + failed + not_propagated;
    new.summary = SubscriptionReportSummary {
        deployed: deployed.to_string(),
        in_progress: clusters.saturating_sub(told).to_string(),
        failed: failed.to_string(),
        propagation_failed: not_propagated.to_string(),
        clusters: clusters.to_string(),
    };
    new
}

fn owner(subscription: &Subscription) -> Option<OwnerReference> {
    let owner = subscription.controller_owner_ref(&())?;
    Some(OwnerReference {
        block_owner_deletion: Some(true),
        ..owner
    })
}

/// The objects where they are deployed to: those of who is no subscription administrator are all in the Subscription's
/// namespace.
fn resources(subscription: &Subscription, channel: Option<&Channel>, objects: &[SourceObject]) -> Vec<ObjectReference> {
    let namespace = subscription.namespace().unwrap_or_default();
    let is_administrators =
        subscription.annotation(ocm_addon_sdk::ocm_api::apps::annotations::CLUSTER_ADMIN) == Some("true");
    let kind = channel.and_then(|it| it.spec.channel_type());
    let lists_namespaces = !matches!(kind, Some(ChannelType::ObjectBucket | ChannelType::HelmRepo));
    let listed = objects
        .iter()
        .filter(|it| lists_namespaces || it.reference.kind != "Namespace");
    listed
        .map(|it| {
            let mut reference = it.reference.clone();
            if it.is_cluster_scoped {
                reference.namespace = String::new();
            } else if reference.namespace.is_empty() || !is_administrators {
                reference.namespace.clone_from(&namespace);
            }
            reference
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::ocm_api::apps::annotations;
    use serde_json::{Value, json};

    use super::*;

    fn object(kind: &str, namespace: &str, name: &str, is_cluster_scoped: bool) -> SourceObject {
        SourceObject {
            reference: ObjectReference {
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                ..ObjectReference::default()
            },
            is_cluster_scoped,
        }
    }

    fn seen(annotations: Value, clusters: SubscriptionClusters, results: &[(&str, &str)]) -> Seen {
        let metadata = json!({"name": "s", "namespace": "ns", "uid": "u", "annotations": annotations});
        let spec = json!({"channel": "ch/c", "placement": {"clusterSelector": {}}});
        let subscription = json!({"metadata": metadata, "spec": spec});
        let channel = json!({"metadata": {"name": "c", "namespace": "ch"}, "spec": {"type": "git", "pathname": "x"}});
        let objects = vec![
            object("Namespace", "", "n", true),
            object("ConfigMap", "", "a", false),
            object("ConfigMap", "other", "b", false),
        ];
        Seen {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            subscription: Some(Arc::new(serde_json::from_value(subscription).unwrap())),
            channel: Some(Arc::new(serde_json::from_value(channel).unwrap())),
            report: None,
            summary: Some(Arc::new(SourceSummary {
                objects,
                ..SourceSummary::default()
            })),
            clusters,
            results: Arc::new(
                results
                    .iter()
                    .map(|(cluster, result)| ((*cluster).to_owned(), (*result).to_owned()))
                    .collect(),
            ),
            early: None,
            interval: Duration::from_secs(60),
        }
    }

    fn clusters(names: &[&str]) -> SubscriptionClusters {
        Ok(names.iter().map(|it| ((*it).to_owned(), false)).collect())
    }

    fn printed(seen: &Seen) -> String {
        format!("{:#}", SubscriptionReports::plan(seen)).trim().to_owned()
    }

    #[test]
    fn a_report_names_what_is_deployed_and_how_clusters_fare() {
        let mut all = seen(
            json!({}),
            clusters(&["c1", "c2", "c3", "c4"]),
            &[("c1", "deployed"), ("c2", "failed"), ("c3", "propagationFailed")],
        );
        let owner = r#"[{"apiVersion":"apps.open-cluster-management.io/v1","blockOwnerDeletion":true,"controller":true,"kind":"Subscription","name":"s","uid":"u"}]"#;
        let label = r#"{"apps.open-cluster-management.io/hosting-subscription":"ns.s"}"#;
        let resources = r#"[{"apiVersion":"v1","kind":"Namespace","name":"n"},{"apiVersion":"v1","kind":"ConfigMap","name":"a","namespace":"ns"},{"apiVersion":"v1","kind":"ConfigMap","name":"b","namespace":"ns"}]"#;
        let results = r#"[{"result":"deployed","source":"c1"},{"result":"failed","source":"c2"},{"result":"propagationFailed","source":"c3"}]"#;
        let summary = r#"{"clusters":"4","deployed":"1","failed":"1","inProgress":"1","propagationFailed":"1"}"#;
        let expected = format!(
            r#"hub: create SubscriptionReport ns/s {{"metadata":{{"labels":{label},"ownerReferences":{owner}}},"reportType":"Application","resources":{resources},"results":{results},"summary":{summary}}}"#
        );
        assert_eq!(printed(&all), expected);
        all.report = Some(Arc::new(report(&all, all.subscription.as_deref().unwrap(), None)));
        assert_eq!(printed(&all), "nothing to do\nagain in 60s");
    }

    #[test]
    fn an_administrators_objects_stay_in_their_namespaces() {
        let all = seen(json!({annotations::CLUSTER_ADMIN: "true"}), clusters(&["c1"]), &[]);
        let text = printed(&all);
        assert!(text.contains(r#""name":"b","namespace":"other""#), "{text}");
    }

    #[test]
    fn clusters_that_nobody_can_tell_count_as_one_failure() {
        let unknown = || Err("unsupported".to_owned());
        let mut all = seen(json!({}), unknown(), &[]);
        let text = printed(&all);
        let summary =
            r#""summary":{"clusters":"1","deployed":"0","failed":"0","inProgress":"0","propagationFailed":"1"}"#;
        assert!(text.contains(summary), "{text}");
        let known = seen(json!({}), clusters(&["c1", "c2"]), &[]);
        all.report = Some(Arc::new(report(&known, known.subscription.as_deref().unwrap(), None)));
        assert_eq!(printed(&all), "nothing to do\nagain in 60s");
    }

    #[test]
    fn more_results_than_clusters_leave_none_in_progress() {
        let all = seen(json!({}), clusters(&["c1"]), &[("c1", "deployed"), ("c2", "deployed")]);
        let text = printed(&all);
        assert!(
            text.contains(r#""deployed":"2","failed":"0","inProgress":"0""#),
            "{text}"
        );
    }

    #[test]
    fn a_report_of_many_clusters_is_written_less_often() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert_eq!(early(at(10), at(12), 500), Some(Duration::from_secs(3)));
        assert_eq!(early(at(10), at(15), 500), None);
        assert_eq!(early(at(10), at(10), 99), None);
        let mut all = seen(json!({}), clusters(&["c1"]), &[]);
        all.early = Some(Duration::from_secs(3));
        assert_eq!(printed(&all), "nothing to do\nagain in 3s");
    }

    #[test]
    fn without_validation_there_is_no_report() {
        let mut all = seen(
            json!({annotations::SKIP_HUB_VALIDATION: "true"}),
            clusters(&["c1"]),
            &[],
        );
        let text = "nothing to do\nnote: it has no report, and nothing is known of its source";
        assert_eq!(printed(&all), text);
        all.subscription = None;
        assert_eq!(printed(&all), "nothing to do");
    }
}
