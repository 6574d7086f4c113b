//! PlacementRules, and Subscriptions that they place.

use ocm_addon_sdk::{
    kube::Api,
    ocm_api::{apps::PlacementRule, cluster::PlacementDecision},
};
use serde_json::json;
use testkit::wait;

use crate::ground::{NAMESPACE, SubscriptionHub, merge};

fn decided(rule: &PlacementRule) -> Vec<&str> {
    let decisions = rule.status.iter().flat_map(|it| &it.decisions);
    decisions.map(|it| it.cluster_name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_decides_where_a_subscription_goes() {
    let hub = SubscriptionHub::start(&["c1", "c2"]).await;
    hub.cluster("c1", json!({"env": "dev"})).await;
    hub.apply(json!({
        "apiVersion": "apps.open-cluster-management.io/v1", "kind": "PlacementRule",
        "metadata": {"name": "r", "namespace": NAMESPACE}, "spec": {"clusterSelector": {"matchLabels": {"env": "dev"}}},
    }))
    .await;
    hub.subscribe_for(
        "s",
        json!({}),
        json!({"placementRef": {"kind": "PlacementRule", "name": "r"}}),
    )
    .await;
    let rules: Api<PlacementRule> = Api::namespaced(hub.site.client(), NAMESPACE);
    wait::until(&rules, "r", "has chosen", |it| {
        it.is_some_and(|it| decided(it) == ["c1"])
    })
    .await;
    hub.copy("c1", "s", "comes", |_| true).await;
    let decisions: Api<PlacementDecision> = Api::namespaced(hub.site.client(), NAMESPACE);
    let says = |it: &PlacementDecision| {
        it.status
            .as_ref()
            .is_some_and(|it| it.decisions[0].cluster_name == "c1")
    };
    wait::until(&decisions, "r-decision-1", "says the same", |it| it.is_some_and(says)).await;
    hub.cluster("c2", json!({"env": "dev"})).await;
    wait::until(&rules, "r", "has both", |it| {
        it.is_some_and(|it| decided(it) == ["c1", "c2"])
    })
    .await;
    hub.copy("c2", "s", "comes", |_| true).await;
    merge(&rules, "r", json!({"spec": {"clusterReplicas": 0}})).await;
    wait::gone(&hub.works("c1"), "ns-s").await;
    wait::gone(&decisions, "r-decision-1").await;
}
