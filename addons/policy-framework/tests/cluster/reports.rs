//! What templates say, on its way to the hub.

use std::time::Duration;

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Event,
    kube::{
        Api, Client, Config,
        api::{DeleteParams, ListParams, Patch, PatchParams},
    },
    reconcile::Guard,
};
use serde_json::json;
use testkit::wait;

use crate::ground::{CLUSTER, MANAGED, World, configuration, merge, messages, of, state};

#[tokio::test(flavor = "multi_thread")]
async fn what_templates_say_reaches_the_hub_in_order() {
    let world = World::start().await;
    world
        .replicate("ns.p", of(json!([configuration("a"), configuration("b")])))
        .await;
    world.object("b", "is made", |_| true).await;
    world
        .say("ns.p", "a", "NonCompliant; violation - pods [x] not found")
        .await;
    let first = world
        .reported("ns.p", "NonCompliant; violation - pods [x] not found")
        .await;
    assert_eq!(state(&first), Some("NonCompliant"));
    world.say("ns.p", "a", "Compliant; notification - pods [x] found").await;
    let second = world.reported("ns.p", "Compliant; notification - pods [x] found").await;
    // The other template has said nothing yet.
    assert_eq!(state(&second), Some("NonCompliant"));
    assert_eq!(messages(&second, 0).len(), 2);
    world.say("ns.p", "b", "Compliant; too").await;
    let complies = |it: Option<&_>| it.is_some_and(|it| state(it) == Some("Compliant"));
    let all = wait::until(&world.on_hub(), "ns.p", "complies", complies)
        .await
        .unwrap();
    let on_cluster = world.on_cluster().get("ns.p").await.unwrap();
    assert_eq!(all.status, on_cluster.status);
    let names: Vec<_> = all
        .status
        .iter()
        .flat_map(|it| &it.details)
        .map(|it| it.name().to_owned())
        .collect();
    assert_eq!(names, ["a", "b"]);
    let events: Api<Event> = Api::namespaced(world.hub.client(), CLUSTER);
    let text = "Policy ns.p status was updated to Compliant in cluster namespace cluster1";
    let told = |it: &[Event]| it.iter().any(|it| it.message.as_deref() == Some(text));
    wait::until_all(&events, "the hub is told", told).await;
    let notes = world.notes("PolicyStatusSync").await;
    assert_eq!(notes, ["Policy ns.p status was updated in cluster namespace managed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_outlives_its_events_and_has_ten_entries() {
    let world = World::start().await;
    world.replicate("ns.p", of(json!([configuration("a")]))).await;
    world.object("a", "is made", |_| true).await;
    for count in 0..12 {
        world.say("ns.p", "a", &format!("Compliant; {count}")).await;
    }
    world.reported("ns.p", "Compliant; 11").await;
    let events: Api<Event> = Api::namespaced(world.cluster.client(), MANAGED);
    events
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
    world.say("ns.p", "a", "NonCompliant; 12").await;
    let policy = world.reported("ns.p", "NonCompliant; 12").await;
    let said = messages(&policy, 0);
    assert_eq!(
        (said.len(), said[1].as_str(), said[9].as_str()),
        (10, "Compliant; 11", "Compliant; 3")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_may_say_its_history_itself() {
    let world = World::start().await;
    world.replicate("ns.p", of(json!([configuration("a")]))).await;
    world.object("a", "is made", |_| true).await;
    let history = json!([
        {"lastTimestamp": "2026-01-01T00:00:02.000000Z", "message": "Compliant; newer"},
        {"lastTimestamp": "2026-01-01T00:00:01.500000Z", "message": "NonCompliant; older"},
    ]);
    let patch = Patch::Merge(json!({"status": {"history": history}}));
    let api = world.objects("ConfigurationPolicy").await;
    api.patch_status("a", &PatchParams::default(), &patch).await.unwrap();
    let policy = world.reported("ns.p", "Compliant; newer").await;
    let details = serde_json::to_value(&policy.status.unwrap().details[0].history).unwrap();
    assert_eq!(
        details,
        json!([
            {"lastTimestamp": "2026-01-01T00:00:02Z", "message": "Compliant; newer", "eventName": "ns.p.18867252652f9400"},
            {"lastTimestamp": "2026-01-01T00:00:01Z", "message": "NonCompliant; older",
                "eventName": "ns.p.1886725247622f00"},
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_changed_on_the_hub_is_put_back() {
    let world = World::start().await;
    world.replicate("ns.p", of(json!([configuration("a")]))).await;
    world.object("a", "is made", |_| true).await;
    world.say("ns.p", "a", "Compliant; all is well").await;
    world.reported("ns.p", "Compliant; all is well").await;
    let lie = Patch::Merge(json!({"status": {"compliant": "NonCompliant", "details": null}}));
    world
        .on_hub()
        .patch_status("ns.p", &PatchParams::default(), &lie)
        .await
        .unwrap();
    let policy = world.reported("ns.p", "Compliant; all is well").await;
    assert_eq!(state(&policy), Some("Compliant"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_the_hub_takes_no_writes() {
    let world = World::prepare().await;
    let guard = Guard::until(tokio::time::Instant::now() + Duration::from_secs(3600));
    world.run(guard.over(world.hub.client()), false);
    world.replicate("ns.p", of(json!([configuration("a")]))).await;
    world.object("a", "is made", |_| true).await;
    guard.close();
    for count in 0..3 {
        world.say("ns.p", "a", &format!("Compliant; {count}")).await;
        let told = |it: &_| messages(it, 0).first() == Some(&format!("Compliant; {count}"));
        world.policy("ns.p", "says so on the cluster", told).await;
    }
    guard.extend(tokio::time::Instant::now() + Duration::from_secs(3600));
    let policy = world.reported("ns.p", "Compliant; 2").await;
    assert_eq!(messages(&policy, 0), ["Compliant; 2", "Compliant; 1", "Compliant; 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_on_that_has_never_seen_its_hub() {
    let world = World::prepare().await;
    // Of an earlier run, when the hub was there.
    let before = crate::ground::policy("ns.p", MANAGED, of(json!([configuration("a")])));
    world.on_cluster().create(&Default::default(), &before).await.unwrap();
    // Nobody listens there.
    let nobody = Config::new("http://127.0.0.1:1".parse().unwrap());
    world.run(Client::try_from(nobody).unwrap(), false);
    world.object("a", "is made", |_| true).await;
    world.say("ns.p", "a", "NonCompliant; alone").await;
    world
        .policy("ns.p", "says so on the cluster", |it| state(it) == Some("NonCompliant"))
        .await;
    merge(
        &world.on_cluster(),
        "ns.p",
        json!({"spec": {"remediationAction": "enforce"}}),
    )
    .await;
    world
        .object("a", "has the action", |it| {
            it.data["spec"]["remediationAction"] == "enforce"
        })
        .await;
}
