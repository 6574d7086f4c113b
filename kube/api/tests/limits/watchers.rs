//! Watches that nobody reads.

use crate::client::{CONFIGMAPS, World, config_map, lines};
use kube_api::Options;
use serde_json::json;

/// More than a watch, a connection and the log hold together.
const CHANGES: usize = 12_000;

#[tokio::test]
async fn an_unread_watch_blocks_nothing_and_misses_nothing_silently() {
    let world = World::start(Options::default()).await;
    let slow = world.client("slow").await;
    let response = slow
        .get(&format!("{CONFIGMAPS}?watch=1&fieldSelector=metadata.name%3Dmany"))
        .await;
    // Written past the connection, whose other requests would be read.
    let local = world.server.local();
    local.create("configmaps", "default", config_map("many")).await.unwrap();
    for turn in 0..CHANGES {
        let patch = json!({"data": {"turn": turn.to_string(), "padding": "x".repeat(200)}});
        local
            .merge_patch("configmaps", "default", "many", "", patch)
            .await
            .unwrap();
    }
    let events = lines(response).await;
    let (last, seen) = events.split_last().unwrap();
    assert_eq!(last["type"], "ERROR", "it was told that it is too late");
    assert_eq!(last["object"]["code"], 410);
    assert!(seen.len() < CHANGES, "somebody kept it all");
    assert_eq!(seen[0]["type"], "ADDED");
    for (turn, event) in seen[1..].iter().enumerate() {
        assert_eq!(event["object"]["data"]["turn"], turn.to_string());
    }
    world.stop().await;
}
