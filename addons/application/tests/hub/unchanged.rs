//! A hub process that starts where everything is as it is to be writes nothing.

use std::time::Duration;

use addon_application::hub::{
    channels::ChannelAccess, placement_rules::PlacementRuleDecisions, propagation::SubscriptionPropagation,
    reports::SubscriptionReports, sources::SubscriptionSources, world::SubscriptionWorld,
};
use ocm_addon_sdk::{
    kube::{Api, ResourceExt},
    ocm_api::apps::{PlacementRule, SubscriptionReport},
    reconcile::{Caches, Clients, settle::settle},
};
use serde_json::json;
use testkit::wait;
use tokio_util::sync::CancellationToken;

use crate::ground::{CHANNELS, NAMESPACE, SubscriptionHub, merge, phase};

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_fleet_costs_nothing() {
    let hub = SubscriptionHub::start(&["c1", "c2"]).await;
    hub.cluster("c2", json!({"local-cluster": "true"})).await;
    hub.apply(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": CHANNELS}, "data": {},
    }))
    .await;
    let channels = hub
        .site
        .api("apps.open-cluster-management.io/v1", "Channel", CHANNELS)
        .await;
    merge(&channels, "c", json!({"spec": {"secretRef": {"name": "token"}}})).await;
    hub.apply(json!({
        "apiVersion": "apps.open-cluster-management.io/v1", "kind": "PlacementRule",
        "metadata": {"name": "r", "namespace": NAMESPACE}, "spec": {},
    }))
    .await;
    hub.subscribe("s", json!({"apps.open-cluster-management.io/git-branch": "main"}))
        .await;
    let placement = json!({"placementRef": {"kind": "PlacementRule", "name": "r"}});
    hub.subscribe_for("ruled", json!({}), placement).await;
    for name in ["s", "ruled"] {
        hub.subscription(name, "is propagated", |it| phase(it) == ("Propagated", ""))
            .await;
        hub.copy("c1", name, "comes", |_| true).await;
        hub.copy("c2", name, "comes", |it| {
            it["metadata"]["name"] == format!("{name}-local")
        })
        .await;
    }
    hub.report("c1", json!({"ns/s": "deployed", "ns/ruled": "failed"}))
        .await;
    let client = hub.site.client();
    let reports: Api<SubscriptionReport> = Api::namespaced(client.clone(), NAMESPACE);
    for name in ["s", "ruled"] {
        let counted = |it: &SubscriptionReport| it.summary.in_progress == "1" && it.summary.clusters == "2";
        wait::until(&reports, name, "counts", |it| it.is_some_and(counted)).await;
    }
    let secrets = hub.site.api("v1", "Secret", CHANNELS).await;
    let serves = |it: &ocm_addon_sdk::kube::core::DynamicObject| !it.annotations().is_empty();
    wait::until_with(&secrets, "token", "serves", |it| it.is_some_and(serves)).await;
    let bindings = hub
        .site
        .api("rbac.authorization.k8s.io/v1", "RoleBinding", CHANNELS)
        .await;
    wait::until_with(&bindings, "c", "comes", |it| it.is_some()).await;
    let decisions = hub
        .site
        .api(
            "cluster.open-cluster-management.io/v1beta1",
            "PlacementDecision",
            NAMESPACE,
        )
        .await;
    let decided = |it: &ocm_addon_sdk::kube::core::DynamicObject| it.data["status"]["decisions"].is_array();
    wait::until_with(&decisions, "r-decision-1", "says both", |it| it.is_some_and(decided)).await;
    let rules: Api<PlacementRule> = Api::namespaced(client.clone(), NAMESPACE);
    wait::until(&rules, "r", "has decided", |it| {
        it.is_some_and(|it| it.status.is_some())
    })
    .await;

    let stop = CancellationToken::new();
    let caches = Caches::new(client.clone(), stop.clone());
    let world = SubscriptionWorld::new(&caches);
    let sources = SubscriptionSources::new(hub.source.clone(), Some(client.clone()));
    let propagation = SubscriptionPropagation::new(world.clone(), sources.clone(), &caches, true);
    let reports = SubscriptionReports::new(world, sources, Duration::from_secs(60));
    let access = ChannelAccess::new(&caches, None);
    let decisions = PlacementRuleDecisions::new(&caches);
    caches.synced().await;
    let clients = Clients::hub(client);
    for key in ["ns/s", "ns/ruled"] {
        assert!(settle(&propagation, &clients, key, 1).await.unwrap().is_empty());
        assert!(settle(&reports, &clients, key, 1).await.unwrap().is_empty());
    }
    assert!(settle(&access, &clients, "ch/c", 1).await.unwrap().is_empty());
    assert!(settle(&decisions, &clients, "ns/r", 1).await.unwrap().is_empty());
    stop.cancel();
}
