//! Who may deploy what, and what belongs to whom.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::future::join_all;
use kube_api::admission::{Admission, AdmissionOperation, Review};
use kube_store::status::Status;
use ocm_addon_sdk::ocm_api::apps::annotations;
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{TEAM, World, config_map, namespace, owner, value};

fn admin(option: &str) -> Value {
    json!({annotations::CLUSTER_ADMIN: "true", annotations::RECONCILE_OPTION: option})
}

#[tokio::test(flavor = "multi_thread")]
async fn two_subscriptions_that_want_one_object_do_not_fight() {
    let world = World::start().await;
    world.holds("1", &[config_map("a", json!({"x": "1"}))]);
    world.subscribe("first", json!({}), json!({})).await;
    world.told("first", "Subscribed", "").await;
    world.holds("2", &[config_map("a", json!({"x": "2", "y": "2"}))]);
    world
        .subscribe("second", json!({annotations::RECONCILE_OPTION: "replace"}), json!({}))
        .await;
    let why = "Obj team/a exists and owned by others, backoff";
    world.told("second", "Failed", why).await;
    let lines = [format!("ConfigMap team/a Failed: {why}")];
    assert_eq!(world.packages("second", "Failed").await, lines);
    let map = world.maps(TEAM).get("a").await.unwrap();
    assert_eq!(
        (owner(&map), value(&map, "x")),
        ("team/first".to_owned(), "1".to_owned())
    );
    // What is not its own does not go with it.
    world.unsubscribe("second").await;
    wait::gone(&world.statuses(), "second").await;
    assert!(world.maps(TEAM).get_opt("a").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_makers_of_an_object_owns_it() {
    let world = World::start().await;
    let names: Vec<_> = (0..20).map(|it| format!("a{it}")).collect();
    let maps: Vec<_> = names.iter().map(|it| config_map(it, json!({}))).collect();
    world.holds("1", &maps);
    let all = ["first", "second", "third"];
    let spec = json!({});
    join_all(all.iter().map(|it| world.subscribe(it, json!({}), spec.clone()))).await;
    let mut owners = Vec::new();
    for subscription in all {
        let status = wait::until(&world.statuses(), subscription, "is there", |it| it.is_some()).await;
        let status = status.unwrap();
        let deployed = status.statuses.packages.into_iter().filter(|it| it.phase == "Deployed");
        owners.extend(deployed.map(|it| (it.name, format!("{TEAM}/{subscription}"))));
    }
    owners.sort();
    let mut expected = Vec::new();
    for name in names {
        expected.push((name.clone(), owner(&world.maps(TEAM).get(&name).await.unwrap())));
    }
    expected.sort();
    assert_eq!(owners, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_merge_replace_and_own_what_is_others() {
    let world = World::start().await;
    let maps = world.maps(TEAM);
    world.holds("1", &[config_map("a", json!({"x": "1"}))]);
    world.subscribe("first", json!({}), json!({})).await;
    world.told("first", "Subscribed", "").await;
    world.holds("2", &[config_map("a", json!({"y": "2"}))]);
    world.subscribe("merges", admin("merge"), json!({})).await;
    world.told("merges", "Subscribed", "").await;
    let map = maps.get("a").await.unwrap();
    assert_eq!(
        (owner(&map), value(&map, "x"), value(&map, "y")),
        ("team/first".into(), "1".into(), "2".into())
    );
    world.holds("3", &[config_map("a", json!({"z": "3"}))]);
    world.subscribe("owns", admin("mergeAndOwn"), json!({})).await;
    world.told("owns", "Subscribed", "").await;
    let map = maps.get("a").await.unwrap();
    assert_eq!((owner(&map), value(&map, "x")), ("team/owns".into(), "1".into()));
    world.holds("4", &[config_map("a", json!({"only": "4"}))]);
    world.subscribe("replaces", admin("replace"), json!({})).await;
    world.told("replaces", "Subscribed", "").await;
    let map = maps.get("a").await.unwrap();
    let data = map.data.clone().unwrap_or_default();
    assert_eq!(
        (owner(&map), data.len(), value(&map, "only")),
        ("team/replaces".into(), 1, "4".into())
    );
}

/// Refuses the first updates of ConfigMaps as if somebody else had written them a moment before.
struct Overtaking(AtomicUsize);

impl Admission for Overtaking {
    fn wants(&self, resource: &str) -> bool {
        resource == "configmaps"
    }

    fn admit(&self, review: &Review<'_>, _: &mut Value) -> Result<Vec<String>, Status> {
        let is_update = matches!(review.operation, AdmissionOperation::Update);
        if is_update && self.0.fetch_add(1, Ordering::SeqCst) < 3 {
            return Err(Status::new(409, "Conflict", "the object has been modified"));
        }
        Ok(Vec::new())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_was_overtaken_is_made_again() {
    let updates = Arc::new(Overtaking(AtomicUsize::new(0)));
    let world = World::prepare_with(vec![updates.clone()]).await;
    world.run();
    world.holds("1", &[config_map("a", json!({"x": "1"}))]);
    world.subscribe("app", admin("replace"), json!({})).await;
    world.told("app", "Subscribed", "").await;
    world.holds("2", &[config_map("a", json!({"x": "2"}))]);
    world
        .patch(
            "app",
            json!({"metadata": {"annotations": {annotations::MANUAL_REFRESH_TIME: "1"}}}),
        )
        .await;
    wait::until_with(&world.maps(TEAM), "a", "is replaced", |it| {
        it.is_some_and(|it| value(it, "x") == "2")
    })
    .await;
    assert_eq!(updates.0.load(Ordering::SeqCst), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_stay_in_their_namespace_and_make_no_policies() {
    let world = World::start().await;
    namespace(&world.cluster, "other").await;
    let mut map = config_map("a", json!({}));
    map["metadata"]["namespace"] = "other".into();
    world.holds("1", &[map]);
    let deny = json!({"deny": [{"apiVersion": "v1", "kinds": ["*"]}]});
    world.subscribe("user", json!({}), deny.clone()).await;
    world.told("user", "Subscribed", "").await;
    assert!(world.maps("other").get_opt("a").await.unwrap().is_none());
    assert!(world.maps(TEAM).get_opt("a").await.unwrap().is_some());
    world
        .subscribe("admin", json!({annotations::CLUSTER_ADMIN: "true"}), deny)
        .await;
    let why = "the resource apiVersion: v1 kind: ConfigMap is on the deny list. Not deployed";
    world.told("admin", "Failed", why).await;
    let allow = json!({"allow": [{"apiVersion": "v1", "kinds": ["ConfigMap"]}]});
    world
        .subscribe("allowed", json!({annotations::CLUSTER_ADMIN: "true"}), allow)
        .await;
    world.told("allowed", "Subscribed", "").await;
    assert!(world.maps("other").get_opt("a").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_agent_has_deployed_is_left_alone() {
    let world = World::start().await;
    world.holds("1", &[config_map("a", json!({}))]);
    world.subscribe("app", json!({}), json!({})).await;
    world.told("app", "Subscribed", "").await;
    // From now on it is of an agent without a hub, which deploys those that no hub has sent.
    let own = json!({"metadata": {"annotations": {annotations::HOSTING_SUBSCRIPTION: null}}});
    world.patch("app", own).await;
    // Another one shows that the agent has gone on meanwhile.
    world.holds("2", &[config_map("b", json!({}))]);
    world.subscribe("other", json!({}), json!({})).await;
    world.told("other", "Subscribed", "").await;
    assert!(world.maps(TEAM).get_opt("a").await.unwrap().is_some());
    assert!(world.statuses().get_opt("app").await.unwrap().is_some());
}
