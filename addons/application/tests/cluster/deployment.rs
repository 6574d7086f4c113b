//! A source's objects come, change and go.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Namespace},
    kube::{
        Api, ResourceExt,
        api::{DeleteParams, Patch, PatchParams},
    },
    ocm_api::apps::HelmRelease,
    reconcile::{discovery::DiscoveredKinds, install::install_crds},
};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{TEAM, World, config_map, owner, value};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_commit_changes_and_prunes() {
    let world = World::start().await;
    world.holds(
        "1",
        &[config_map("a", json!({"x": "1", "y": "1"})), config_map("b", json!({}))],
    );
    world.subscribe("app", json!({}), json!({})).await;
    let maps = world.maps(TEAM);
    let made = wait::until_with(&maps, "a", "is there", |it| it.is_some())
        .await
        .unwrap();
    assert_eq!(owner(&made), "team/app");
    world.told("app", "Subscribed", "").await;
    world.reported("app", "deployed").await;
    let lines = ["ConfigMap team/a Deployed", "ConfigMap team/b Deployed"];
    assert_eq!(world.packages("app", "Deployed").await, lines);
    world.holds("2", &[config_map("a", json!({"x": "2"}))]);
    world.refresh("app", "now").await;
    wait::gone(&maps, "b").await;
    let changed = wait::until_with(&maps, "a", "is changed", |it| {
        it.is_some_and(|it| value(it, "x") == "2")
    });
    // What the source does not say any more is gone.
    assert_eq!(value(&changed.await.unwrap(), "y"), "");
    wait::until_with(&world.statuses(), "app", "has one object", |it| {
        it.is_some_and(|it| it.statuses.packages.len() == 1)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_deployed_goes_with_its_subscription() {
    let world = World::start().await;
    let mut kept = config_map("kept", json!({}));
    kept["metadata"]["annotations"] = json!({"apps.open-cluster-management.io/do-not-delete": "true"});
    world.holds("1", &[config_map("a", json!({})), kept]);
    world.subscribe("app", json!({}), json!({})).await;
    world.told("app", "Subscribed", "").await;
    world.unsubscribe("app").await;
    wait::gone(&world.maps(TEAM), "a").await;
    wait::gone(&world.statuses(), "app").await;
    assert!(world.maps(TEAM).get_opt("kept").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_while_a_source_cannot_be_read() {
    let world = World::start().await;
    world.holds("1", &[config_map("a", json!({})), config_map("b", json!({}))]);
    world.subscribe("app", json!({}), json!({})).await;
    world.told("app", "Subscribed", "").await;
    world.fails("the repository is away");
    world.refresh("app", "1").await;
    world.told("app", "Failed", "the repository is away").await;
    world.reported("app", "failed").await;
    world.holds("2", &[config_map("a", json!({}))]);
    if let Ok(content) = &mut *world.source.content.lock() {
        content.problems = vec!["b.yaml: it cannot be read".to_owned()];
    }
    world.refresh("app", "2").await;
    world.told("app", "Failed", "b.yaml: it cannot be read").await;
    assert!(world.maps(TEAM).get_opt("b").await.unwrap().is_some());
    wait::until_with(&world.statuses(), "app", "says why", |it| {
        let whole = it.and_then(|it| it.statuses.subscription.as_ref());
        whole.is_some_and(|it| it.phase == "Failed" && it.message == "b.yaml: it cannot be read")
    })
    .await;
    world.holds("3", &[config_map("a", json!({}))]);
    world.refresh("app", "3").await;
    wait::gone(&world.maps(TEAM), "b").await;
    world.reported("app", "deployed").await;
}

fn definition_of_shops() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Shop", "plural": "shops", "singular": "shop", "listKind": "ShopList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

fn shop() -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "s"}, "spec": {}})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_kind_comes_later_is_deployed() {
    let world = World::start().await;
    world.holds("1", &[shop()]);
    world.subscribe("app", json!({}), json!({})).await;
    let why = r#"no matches for kind "Shop" in version "example.com/v1""#;
    world.told("app", "Failed", why).await;
    assert_eq!(
        world.packages("app", "Failed").await,
        [format!("Shop /s Failed: {why}")]
    );
    let definitions = vec![definition_of_shops()];
    install_crds(&world.cluster.client(), definitions).await.unwrap();
    let kinds = DiscoveredKinds::new(world.cluster.client());
    assert!(kinds.find("example.com/v1", "Shop").await.unwrap().is_some());
    world.refresh("app", "1").await;
    world.told("app", "Subscribed", "").await;
    assert_eq!(world.packages("app", "Deployed").await, ["Shop team/s Deployed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_that_was_never_installed_is_no_success() {
    let world = World::start().await;
    let release = json!({
        "apiVersion": HelmRelease::API_VERSION, "kind": HelmRelease::KIND, "metadata": {"name": "web"},
        "repo": {"source": {"type": "helmrepo"}, "chartName": "web"}, "spec": {},
    });
    world.holds("1", std::slice::from_ref(&release));
    world.subscribe("app", json!({}), json!({})).await;
    world.reported("app", "failed").await;
    let line = "HelmRelease team/web Failed: there are no charts";
    assert_eq!(world.packages("app", "Failed").await, [line]);
    world.holds("2", &[release, config_map("a", json!({}))]);
    world.refresh("app", "1").await;
    wait::until(&world.maps(TEAM), "a", "is there", |it| it.is_some()).await;
    assert_eq!(world.packages("app", "Failed").await[0], line);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_the_source_brings_is_waited_for() {
    let world = World::start().await;
    world.holds("1", &[shop(), definition_of_shops()]);
    world.subscribe("app", json!({}), json!({})).await;
    world.told("app", "Subscribed", "").await;
    let lines = [
        "Shop team/s Deployed",
        "CustomResourceDefinition /shops.example.com Deployed",
    ];
    assert_eq!(world.packages("app", "Deployed").await, lines);
    let unknown = json!({"apiVersion": "example.com/v2", "kind": "Shop", "metadata": {"name": "t"}});
    world.holds("2", &[unknown, config_map("a", json!({}))]);
    world.refresh("app", "1").await;
    let why = r#"no matches for kind "Shop" in version "example.com/v2""#;
    world.told("app", "Failed", why).await;
    assert!(world.maps(TEAM).get_opt("a").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_channel_is_said() {
    let world = World::start().await;
    world
        .subscribe("app", json!({}), json!({"channel": "channels/other"}))
        .await;
    let why = r#"failed to get channel: channels.apps.open-cluster-management.io "other" not found"#;
    world.told("app", "Failed", why).await;
    world.reported("app", "failed").await;
    let second = json!({"secondaryChannel": "x"});
    world.subscribe("two", json!({}), second).await;
    let why = r#"failed to get the secondary channel: spec.channel: "x" is no NAMESPACE/NAME"#;
    world.told("two", "Failed", why).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_agent_goes_on() {
    let world = World::prepare().await;
    world.holds("1", &[config_map("a", json!({"x": "1"}))]);
    world.subscribe("app", json!({}), json!({})).await;
    world.run();
    world.told("app", "Subscribed", "").await;
    let before = world.maps(TEAM).get("a").await.unwrap();
    world.stop.cancel();
    let mut again = World::prepare().await;
    // The same cluster, another process, and a source that has moved on meanwhile.
    std::mem::swap(&mut again.cluster, &mut { world }.cluster);
    again.holds("2", &[config_map("a", json!({"x": "1"})), config_map("c", json!({}))]);
    again.run();
    wait::until_with(&again.maps(TEAM), "c", "is there", |it: Option<&ConfigMap>| {
        it.is_some()
    })
    .await;
    let after = again.maps(TEAM).get("a").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_missing_is_made() {
    let world = World::start().await;
    let mut map = config_map("a", json!({}));
    map["metadata"]["namespace"] = "shop".into();
    world.holds("1", &[map]);
    let admin = json!({"apps.open-cluster-management.io/cluster-admin": "true"});
    world.subscribe("app", admin, json!({})).await;
    world.told("app", "Subscribed", "").await;
    let namespaces: Api<Namespace> = Api::all(world.cluster.client());
    let made = namespaces.get("shop").await.unwrap();
    let hosting = &made.annotations()["apps.open-cluster-management.io/hosting-subscription"];
    assert_eq!(hosting, "team/app");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_change_is_put_back() {
    let world = World::start().await;
    world.holds("1", &[config_map("a", json!({"x": "1"}))]);
    world.subscribe("app", json!({}), json!({})).await;
    world.told("app", "Subscribed", "").await;
    let maps = world.maps(TEAM);
    let patch: Value = json!({"data": {"x": "other", "own": "1"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    world.refresh("app", "1").await;
    let put_back = wait::until_with(&maps, "a", "is put back", |it| {
        it.is_some_and(|it| value(it, "x") == "1")
    });
    assert_eq!(value(&put_back.await.unwrap(), "own"), "1");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    world.refresh("app", "2").await;
    wait::until_with(&maps, "a", "is there again", |it| it.is_some()).await;
}
