//! What is told of Subscriptions.

use ocm_addon_sdk::{
    kube::{Api, ResourceExt},
    ocm_api::apps::{SubscriptionReport, SubscriptionReportSummary},
};
use serde_json::json;
use testkit::wait;

use crate::ground::{NAMESPACE, SubscriptionHub, content, merge};

fn summary(counts: [&str; 5]) -> SubscriptionReportSummary {
    let [deployed, in_progress, failed, propagation_failed, clusters] = counts.map(str::to_owned);
    SubscriptionReportSummary {
        deployed,
        in_progress,
        failed,
        propagation_failed,
        clusters,
    }
}

fn reports(hub: &SubscriptionHub, namespace: &str) -> Api<SubscriptionReport> {
    Api::namespaced(hub.site.client(), namespace)
}

async fn until(hub: &SubscriptionHub, what: &str, counts: [&str; 5]) -> SubscriptionReport {
    let wanted = summary(counts);
    let holds = |it: Option<&SubscriptionReport>| it.is_some_and(|it| it.summary == wanted);
    wait::until(&reports(hub, NAMESPACE), "s", what, holds).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_counts_what_clusters_say() {
    let hub = SubscriptionHub::start(&["c1", "c2", "c3"]).await;
    hub.subscribe("s", json!({})).await;
    let report = until(&hub, "nothing is said", ["0", "3", "0", "0", "3"]).await;
    assert_eq!(
        report.labels()["apps.open-cluster-management.io/hosting-subscription"],
        "ns.s"
    );
    assert_eq!(report.owner_references()[0].name, "s");
    assert_eq!(
        json!(report.resources),
        json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": NAMESPACE},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "b"},
        ])
    );
    hub.report("c2", json!({"ns/s": "failed", "ns/unknown": "deployed"}))
        .await;
    hub.report("c1", json!({"ns/s": "deployed"})).await;
    let report = until(&hub, "two have said", ["1", "1", "1", "0", "3"]).await;
    let results = json!([{"source": "c1", "result": "deployed"}, {"source": "c2", "result": "failed"}]);
    assert_eq!(json!(report.results), results);
    hub.report("c2", json!({"ns/s": "deployed"})).await;
    until(&hub, "one has changed its mind", ["2", "1", "0", "0", "3"]).await;
    hub.place("all", &["c1", "c2"]).await;
    until(&hub, "one is gone", ["2", "0", "0", "0", "2"]).await;
    assert!(reports(&hub, NAMESPACE).get_opt("unknown").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_commit_is_told_after_a_refresh() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    hub.subscribe("s", json!({})).await;
    until(&hub, "comes", ["0", "1", "0", "0", "1"]).await;
    let mut next = content("fedcba");
    next.objects.truncate(1);
    *hub.source.content.lock().await = Ok(next);
    let refresh = json!({"metadata": {"annotations": {"apps.open-cluster-management.io/manual-refresh-time": "now"}}});
    merge(&hub.subscriptions(), "s", refresh).await;
    let shorter = |it: &SubscriptionReport| it.resources.len() == 1;
    wait::until(&reports(&hub, NAMESPACE), "s", "is shorter", |it| {
        it.is_some_and(shorter)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_get_it_is_told() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    // Somebody else's work has the name, and the hub may not see it.
    hub.apply(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "ns-s", "namespace": "c1"}, "spec": {},
    }))
    .await;
    hub.subscribe("s", json!({})).await;
    let told = |it: &SubscriptionReport| it.results.iter().any(|it| it.result == "propagationFailed");
    let report = wait::until(&reports(&hub, "c1"), "c1", "is told", |it| it.is_some_and(told))
        .await
        .unwrap();
    assert_eq!(
        (report.results[0].source.as_str(), report.summary.clusters.as_str()),
        ("ns/s", "n/a")
    );
    until(&hub, "it counts", ["0", "0", "0", "1", "1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_validation_a_source_is_not_read() {
    let hub = SubscriptionHub::start(&["c1"]).await;
    *hub.source.content.lock().await = Err("nobody may ask".to_owned());
    hub.subscribe(
        "s",
        json!({"apps.open-cluster-management.io/skip-hub-validation": "true"}),
    )
    .await;
    hub.copy("c1", "s", "comes", |_| true).await;
    assert!(reports(&hub, NAMESPACE).get_opt("s").await.unwrap().is_none());
}
