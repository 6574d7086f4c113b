//! What the reports of clusters say of each Subscription.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::apps::{SubscriptionReport, labels},
    reconcile::Cache,
};
use parking_lot::RwLock;

/// By Subscription and cluster. Cloning shares it.
#[derive(Clone, Default)]
pub struct ClusterResults {
    by_source: Arc<RwLock<HashMap<String, Arc<BTreeMap<String, String>>>>>,
}

impl ClusterResults {
    /// Of the reports in a cache.
    pub fn over(reports: &Cache<SubscriptionReport>) -> Self {
        let all = Self::default();
        let held = all.by_source.clone();
        reports.listen(move |old, new| {
            let report = new.or(old).map(|it| it.name_any());
            let Some(cluster) = report else { return };
            let (before, after) = (results(old.map(|it| &**it)), results(new.map(|it| &**it)));
            if before == after {
                return;
            }
            let mut held = held.write();
            for source in before.keys().filter(|it| !after.contains_key(*it)) {
                if let Some(of_source) = held.get_mut(*source) {
                    Arc::make_mut(of_source).remove(&cluster);
                    if of_source.is_empty() {
                        held.remove(*source);
                    }
                }
            }
            for (source, result) in after {
                if before.get(source) != Some(&result) {
                    let of_source = held.entry(source.to_owned()).or_default();
                    Arc::make_mut(of_source).insert(cluster.clone(), result.to_owned());
                }
            }
        });
        all
    }

    /// What clusters say of a Subscription, `NAMESPACE/NAME`, by their names.
    pub fn of(&self, source: &str) -> Arc<BTreeMap<String, String>> {
        self.by_source.read().get(source).cloned().unwrap_or_default()
    }
}

/// Whether it is the report of a cluster, which is in its namespace and has its name.
pub fn is_of_cluster(report: &SubscriptionReport) -> bool {
    let label = report.labels().get(labels::CLUSTER);
    label.is_some_and(|it| it == "true") && report.namespace() == report.metadata.name
}

/// The Subscriptions of which two versions of a report say something else.
pub fn changed(old: Option<&SubscriptionReport>, new: Option<&SubscriptionReport>) -> BTreeSet<String> {
    let (before, after) = (results(old), results(new));
    let all = before.keys().chain(after.keys());
    let changed = all.filter(|it| before.get(*it) != after.get(*it));
    changed.map(|it| (*it).to_owned()).collect()
}

fn results(report: Option<&SubscriptionReport>) -> BTreeMap<&str, &str> {
    let all = report.filter(|it| is_of_cluster(it)).into_iter();
    let all = all.flat_map(|it| &it.results);
    all.map(|it| (it.source.as_str(), it.result.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(cluster: &str, results: &[(&str, &str)]) -> SubscriptionReport {
        let results: Vec<_> = results
            .iter()
            .map(|(source, result)| json!({"source": source, "result": result}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": cluster, "namespace": cluster, "labels": {labels::CLUSTER: "true"}},
            "reportType": "Cluster", "results": results,
        }))
        .unwrap()
    }

    #[test]
    fn results_follow_the_reports_of_clusters() {
        let cache = Cache::holding([report("c1", &[("ns/a", "deployed"), ("ns/b", "failed")])]);
        let results = ClusterResults::over(&cache);
        cache.put(report("c2", &[("ns/a", "failed")]));
        assert_eq!(json!(*results.of("ns/a")), json!({"c1": "deployed", "c2": "failed"}));
        let (old, new) = (
            report("c1", &[("ns/a", "deployed"), ("ns/b", "failed")]),
            report("c1", &[("ns/a", "failed")]),
        );
        assert_eq!(
            changed(Some(&old), Some(&new)),
            ["ns/a".to_owned(), "ns/b".to_owned()].into()
        );
        cache.put(new);
        assert_eq!(json!(*results.of("ns/a")), json!({"c1": "failed", "c2": "failed"}));
        assert!(results.of("ns/b").is_empty());
    }

    #[test]
    fn only_clusters_report_in_their_namespaces() {
        let mut stranger = report("c1", &[("ns/a", "deployed")]);
        stranger.metadata.namespace = Some("ns".to_owned());
        assert!(changed(None, Some(&stranger)).is_empty());
    }
}
