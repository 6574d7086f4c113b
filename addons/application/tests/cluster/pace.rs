//! When a Subscription changes something, and when not.

use std::sync::atomic::Ordering;

use ocm_addon_sdk::ocm_api::apps::annotations;
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{TEAM, World, config_map};

/// A window that is closed all day, whatever day it is.
fn closed() -> Value {
    json!({"windowtype": "blocked", "daysofweek":
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_window_blocks_changes() {
    let world = World::start().await;
    world.holds("1", &[config_map("a", json!({}))]);
    world.subscribe("app", json!({}), json!({"timewindow": closed()})).await;
    let says = |message: &'static str| {
        let api = world.subscriptions();
        async move {
            wait::until_with(&api, "app", message, |it| {
                let status = it.and_then(|it| it.status.as_ref());
                status.is_some_and(|it| it.message == message)
            })
            .await
        }
    };
    says("Blocked").await;
    assert!(world.maps(TEAM).get_opt("a").await.unwrap().is_none());
    world.patch("app", json!({"spec": {"timewindow": null}})).await;
    says("Active").await;
    wait::until_with(&world.maps(TEAM), "a", "is there", |it| it.is_some()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_subscription_changes_nothing() {
    let world = World::start().await;
    world.holds("1", &[config_map("a", json!({}))]);
    world.subscribe("app", json!({}), json!({})).await;
    world.told("app", "Subscribed", "").await;
    world
        .patch("app", json!({"metadata": {"labels": {"subscription-pause": "true"}}}))
        .await;
    world.holds("2", &[config_map("b", json!({}))]);
    world.refresh("app", "1").await;
    // Another one shows that the agent has gone on meanwhile.
    world.subscribe("other", json!({}), json!({})).await;
    world.told("other", "Subscribed", "").await;
    assert!(world.maps(TEAM).get_opt("a").await.unwrap().is_some());
    world
        .patch("app", json!({"metadata": {"labels": {"subscription-pause": "false"}}}))
        .await;
    wait::gone(&world.maps(TEAM), "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_and_a_webhook_look_at_once() {
    let world = World::start().await;
    world.holds("1", &[config_map("a", json!({}))]);
    world
        .subscribe("app", json!({annotations::RECONCILE_RATE: "off"}), json!({}))
        .await;
    world.told("app", "Subscribed", "").await;
    let reads = world.source.reads.load(Ordering::SeqCst);
    world.holds("2", &[config_map("b", json!({}))]);
    // What the hub tells of the commit is no reason.
    world
        .patch(
            "app",
            json!({"metadata": {"annotations": {annotations::GIT_CURRENT_COMMIT: "2"}}}),
        )
        .await;
    world.subscribe("other", json!({}), json!({"name": "x"})).await;
    world.told("other", "Subscribed", "").await;
    assert_eq!(world.source.reads.load(Ordering::SeqCst), reads + 1);
    world
        .patch(
            "app",
            json!({"metadata": {"annotations": {annotations::WEBHOOK_EVENT_COUNT: "1"}}}),
        )
        .await;
    wait::gone(&world.maps(TEAM), "a").await;
}
