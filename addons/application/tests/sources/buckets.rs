//! The objects of buckets.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ocm_addon_sdk::{kube::ResourceExt, ocm_api::apps::annotations};
use serde_json::json;
use source_servers::{
    BucketServer,
    bucket::{KEY_ID, refused},
};
use testkit::wait;

use crate::ground::{NAME, TEAM, World, map};

const LOGIN: &[(&str, &str)] = &[("AccessKeyID", KEY_ID), ("SecretAccessKey", "hidden")];

fn objects() -> BTreeMap<String, Vec<u8>> {
    let all = [
        ("other.yaml", map("other", "{}")),
        ("shop/a.yaml", map("a", "{x: '1', y: '1'}")),
        ("shop/b.yaml", map("b", "{}")),
        ("shop/c.yaml", map("c", "{}")),
    ];
    all.into_iter()
        .map(|(key, text)| (key.to_owned(), text.into_bytes()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buckets_objects_come_change_and_go() {
    let world = World::start().await;
    let bucket = BucketServer::start(objects()).await;
    world.channel("ObjectBucket", &bucket.pathname(), LOGIN).await;
    world
        .subscribe(json!({annotations::BUCKET_PATH: "shop/"}), json!({}))
        .await;
    let made = world.map("a", "x", "1").await;
    assert_eq!(
        made.annotations()[annotations::HOSTING_SUBSCRIPTION],
        format!("{TEAM}/{NAME}")
    );
    world.told("Subscribed", "").await;
    assert!(world.has_map("b").await && world.has_map("c").await && !world.has_map("other").await);
    assert_eq!(bucket.read_keys(), ["shop/a.yaml", "shop/b.yaml", "shop/c.yaml"]);

    bucket.put("shop/a.yaml", &map("a", "{x: '2'}"));
    bucket.remove("shop/b.yaml");
    bucket.put("shop/d.yaml", &map("d", "{}"));
    world.refresh("1").await;
    wait::gone(&world.maps(), "b").await;
    let changed = world.map("a", "x", "2").await.data.unwrap();
    assert!(!changed.contains_key("y"));
    assert!(world.has_map("c").await && world.has_map("d").await);
    assert_eq!(bucket.read_keys(), ["shop/a.yaml", "shop/d.yaml"]);

    world.unsubscribe().await;
    for name in ["a", "c", "d"] {
        wait::gone(&world.maps(), name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_refuses_leaves_what_was_deployed() {
    let world = World::start().await;
    let closed = Arc::new(AtomicBool::new(false));
    let is_closed = closed.clone();
    let bucket = BucketServer::start_with(None, objects(), move |asked| {
        let refuses = is_closed.load(Ordering::SeqCst) || asked.path.ends_with("/secret.yaml");
        refuses.then(|| refused(403, "AccessDenied"))
    })
    .await;
    world.channel("ObjectBucket", &bucket.pathname(), LOGIN).await;
    world
        .subscribe(json!({annotations::BUCKET_PATH: "shop/"}), json!({}))
        .await;
    world.told("Subscribed", "").await;

    closed.store(true, Ordering::SeqCst);
    bucket.remove("shop/b.yaml");
    world.refresh("1").await;
    let refusal = "needs a login: 403 Forbidden, the credentials are wrong, or may not read this";
    world.told("Failed", &format!("{} {refusal}", bucket.pathname())).await;
    assert!(world.has_map("a").await && world.has_map("b").await);

    // One object that cannot be read is as good as the whole bucket.
    closed.store(false, Ordering::SeqCst);
    bucket.put("shop/secret.yaml", &map("secret", "{}"));
    world.refresh("2").await;
    let object = format!("{}/shop/secret.yaml", bucket.pathname());
    let why = format!("{object} {refusal} (AccessDenied) for object shop/secret.yaml");
    world.told("Failed", &why).await;
    assert!(world.has_map("b").await);

    bucket.remove("shop/secret.yaml");
    world.refresh("3").await;
    wait::gone(&world.maps(), "b").await;
    world.told("Subscribed", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_key_of_a_bucket_is_named() {
    let world = World::start().await;
    let bucket = BucketServer::start(objects()).await;
    world.channel("ObjectBucket", &bucket.pathname(), &LOGIN[..1]).await;
    world.subscribe(json!({}), json!({})).await;
    world
        .told("Failed", "Secret channels/login has no SecretAccessKey")
        .await;
    assert!(bucket.web.asked().is_empty());
    world.log_in_with(LOGIN).await;
    world.refresh("1").await;
    world.told("Subscribed", "").await;
    assert!(world.has_map("other").await);
}
