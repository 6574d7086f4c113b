//! What comes from the hub: Policies, and the key.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::{Api, ResourceExt, api::PostParams},
};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{CLUSTER, GROUP, MANAGED, World, configuration, delete, deploy, merge, of, policy, uninstall};

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_comes_from_the_hub_and_goes_with_it() {
    let world = World::start().await;
    let replica = world.replicate("ns.p", of(json!([configuration("a")]))).await;
    let copy = world.policy("ns.p", "comes", |_| true).await;
    assert_eq!(copy.spec, replica.spec);
    assert_eq!(copy.labels()[&format!("{GROUP}/cluster-namespace")], MANAGED);
    assert_eq!(copy.labels()[&format!("{GROUP}/cluster-name")], CLUSTER);
    world.object("a", "is made", |_| true).await;
    merge(
        &world.on_hub(),
        "ns.p",
        json!({"metadata": {"annotations": {"x": "y"}}}),
    )
    .await;
    world
        .policy("ns.p", "has the annotation", |it| it.annotations().contains_key("x"))
        .await;
    world.change("ns.p", json!({"remediationAction": "enforce"})).await;
    world
        .policy("ns.p", "has the action", |it| it.spec.remediation_action == "enforce")
        .await;
    world
        .object("a", "has the action", |it| {
            it.data["spec"]["remediationAction"] == "enforce"
        })
        .await;
    let notes = world.notes("PolicySpecSync").await;
    assert_eq!(
        notes,
        [
            "Policy ns.p was synchronized to cluster namespace managed",
            "Policy ns.p was updated in cluster namespace managed",
        ]
    );
    delete(&world.on_hub(), "ns.p").await;
    wait::gone(&world.on_cluster(), "ns.p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_was_changed_or_deleted_is_put_back() {
    let world = World::start().await;
    world.replicate("ns.p", of(json!([configuration("a")]))).await;
    let first = world.policy("ns.p", "comes", |_| true).await;
    merge(
        &world.on_cluster(),
        "ns.p",
        json!({"spec": {"remediationAction": "enforce"}}),
    )
    .await;
    world
        .policy("ns.p", "is put back", |it| it.spec.remediation_action.is_empty())
        .await;
    delete(&world.on_cluster(), "ns.p").await;
    world.policy("ns.p", "comes back", |it| it.uid() != first.uid()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_the_hub_does_not_know_is_deleted() {
    let world = World::start().await;
    let stray = policy("ns.stray", MANAGED, of(json!([])));
    world.on_cluster().create(&PostParams::default(), &stray).await.unwrap();
    wait::gone(&world.on_cluster(), "ns.stray").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_hub_itself_nothing_is_brought() {
    let world = World::prepare().await;
    world.run(world.hub.client(), true);
    world.replicate("ns.other", of(json!([configuration("b")]))).await;
    let local = policy("ns.p", MANAGED, of(json!([configuration("a")])));
    world.on_cluster().create(&PostParams::default(), &local).await.unwrap();
    world.object("a", "is made", |_| true).await;
    world.say("ns.p", "a", "Compliant; all is well").await;
    world
        .policy("ns.p", "is compliant", |it| {
            crate::ground::state(it) == Some("Compliant")
        })
        .await;
    assert!(world.on_cluster().get_opt("ns.other").await.unwrap().is_none());
}

fn secret(namespace: &str, data: Value) -> Secret {
    serde_json::from_value(json!({
        "metadata": {
            "name": "policy-encryption-key", "namespace": namespace,
            "labels": {"cluster.open-cluster-management.io/backup": "policy"},
        },
        "data": data,
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_follows_the_hub_without_its_labels() {
    let world = World::start().await;
    let (on_hub, on_cluster): (Api<Secret>, Api<Secret>) = (
        Api::namespaced(world.hub.client(), CLUSTER),
        Api::namespaced(world.cluster.client(), MANAGED),
    );
    let name = "policy-encryption-key";
    let key = secret(CLUSTER, json!({"key": "YQ=="}));
    on_hub.create(&PostParams::default(), &key).await.unwrap();
    let copy = wait::until(&on_cluster, name, "comes", |it| it.is_some())
        .await
        .unwrap();
    assert!(copy.labels().is_empty() && copy.data == key.data);
    merge(&on_cluster, name, json!({"data": {"key": "Yg=="}})).await;
    wait::until(&on_cluster, name, "is put back", |it| {
        it.is_some_and(|it| it.data == key.data)
    })
    .await;
    merge(&on_hub, name, json!({"data": {"key": "Yw==", "previousKey": "YQ=="}})).await;
    let rotated = secret(CLUSTER, json!({"key": "Yw==", "previousKey": "YQ=="}));
    wait::until(&on_cluster, name, "is rotated", |it| {
        it.is_some_and(|it| it.data == rotated.data)
    })
    .await;
    delete(&on_hub, name).await;
    wait::gone(&on_cluster, name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_that_is_uninstalled_lets_go() {
    let world = World::start().await;
    world
        .define(crate::ground::template_kind("WidePolicy", "Cluster"))
        .await;
    let wide = json!({"objectDefinition": {
        "apiVersion": format!("{GROUP}/v1"), "kind": "WidePolicy", "metadata": {"name": "w"}, "spec": {},
    }});
    world.replicate("ns.p", of(json!([wide]))).await;
    let finalizer = format!("{GROUP}/cleanup-cluster-scoped-policies");
    world
        .policy("ns.p", "has the finalizer", |it| it.finalizers().contains(&finalizer))
        .await;
    deploy(&world).await;
    uninstall(&world.cluster.client()).await;
    assert!(world.on_cluster().get_opt("ns.p").await.unwrap().is_none());
    assert!(world.objects("WidePolicy").await.get_opt("w").await.unwrap().is_none());
}
