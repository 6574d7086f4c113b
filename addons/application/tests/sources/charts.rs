//! Charts of Helm repositories.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::{Api, api::ListParams},
};
use serde_json::{Value, json};
use source_servers::{ChartServer, web::answer};
use testkit::wait;

use crate::ground::{BASIC, CHANNELS, TEAM, World, map};

const LOGIN: &[(&str, &str)] = &[("user", "me"), ("password", "secret")];

/// A repository that wants a login.
async fn guarded() -> ChartServer {
    ChartServer::start_guarded(|asked| (asked.authorization() != Some(BASIC)).then(|| answer(401, ""))).await
}

/// A ConfigMap that says which version of the chart it is from, and what it was given.
fn template() -> String {
    map(
        "a",
        "{version: '{{ .Chart.Version }}', greeting: '{{ .Values.greeting }}', size: '{{ .Values.size.height }}'}",
    )
}

async fn revisions(world: &World) -> usize {
    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), TEAM);
    let listed = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap();
    listed.items.len()
}

/// The chart `web` in this range of versions, with an alias and values.
fn spec(range: &str) -> Value {
    json!({
        "name": "web",
        "packageFilter": {"version": range},
        "packageOverrides": [{"packageName": "web", "packageAlias": "shop", "packageOverrides": [
            {"path": "spec", "value": "greeting: hello\nsize: {width: 1}\n"},
            {"path": "spec.size.height", "value": "2"},
        ]}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_is_installed_upgraded_and_taken_away() {
    let (world, charts) = (World::start().await, guarded().await);
    let (a, b) = (template(), map("b", "{}"));
    let files = [("values.yaml", "greeting: none\n"), ("templates/a.yaml", a.as_str())];
    charts.add(
        "web",
        "1.0.0",
        &[&files[..], &[("templates/b.yaml", b.as_str())]].concat(),
    );
    charts.add("web", "2.0.0", &files);
    world.channel("HelmRepo", &charts.url(), LOGIN).await;
    world.subscribe(json!({}), spec("1.x")).await;
    let made = world.map("a", "version", "1.0.0").await.data.unwrap();
    assert_eq!((made["greeting"].as_str(), made["size"].as_str()), ("hello", "2"));
    wait::until_with(&world.maps(), "b", "is there", |it| it.is_some()).await;
    world.told("Subscribed", "").await;

    charts.add("web", "1.1.0", &files);
    world.refresh("1").await;
    let made = world.map("a", "version", "1.1.0").await.data.unwrap();
    assert_eq!(made["greeting"], "hello");
    wait::gone(&world.maps(), "b").await;
    wait::until_with(&world.releases(), "shop", "is upgraded", |it| {
        let status = it.and_then(|it| it.status.as_ref());
        status.is_some_and(|it| it.conditions.iter().any(|it| it.reason == "UpgradeSuccessful"))
    })
    .await;
    assert_eq!(revisions(&world).await, 2);

    world.unsubscribe().await;
    wait::gone(&world.releases(), "shop").await;
    assert!(!world.has_map("a").await);
    assert_eq!(revisions(&world).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_stays_while_no_version_is_in_range() {
    let (world, charts) = (World::start().await, guarded().await);
    let a = template();
    let files = [("templates/a.yaml", a.as_str()), ("values.yaml", "size: {}\n")];
    charts.add("web", "1.0.0", &files);
    world.channel("HelmRepo", &charts.url(), LOGIN).await;
    world.subscribe(json!({}), spec(">=2")).await;
    let index = format!("{}/index.yaml", charts.url());
    let why = format!(r#"{index}: chart web with a version in ">=2" is not there"#);
    world.told("Failed", &why).await;
    charts.add("web", "2.0.0", &files);
    world.refresh("1").await;
    world.map("a", "version", "2.0.0").await;
    world.told("Subscribed", "").await;
    // The password is changed where the repository is.
    world.log_in_with(&[("user", "me"), ("password", "hidden")]).await;
    world.refresh("2").await;
    let why = format!("{index} needs a login: 401 Unauthorized, the credentials are wrong, or may not read this");
    world.told("Failed", &why).await;
    assert!(world.has_map("a").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_of_the_secondary_channel_gets_its_login() {
    let (world, charts) = (World::start().await, guarded().await);
    let a = map("a", "{x: '1'}");
    charts.add("web", "1.0.0", &[("templates/a.yaml", a.as_str())]);
    let away = ChartServer::start_guarded(|_| Some(answer(503, ""))).await;
    world
        .channel("HelmRepo", &away.url(), &[("user", "me"), ("password", "other")])
        .await;
    let names = ["mirror", "login-of-mirror"];
    world.channel_named(names, "HelmRepo", &charts.url(), LOGIN).await;
    let spec = json!({"name": "web", "secondaryChannel": format!("{CHANNELS}/mirror")});
    world.subscribe(json!({}), spec).await;
    world.map("a", "x", "1").await;
    world.told("Subscribed", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_on_another_server_gets_no_login() {
    let (world, charts, other) = (World::start().await, guarded().await, ChartServer::start().await);
    let a = map("a", "{x: '1'}");
    let files = [("templates/a.yaml", a.as_str())];
    other.add("web", "1.0.0", &files);
    let elsewhere = other.web.url("/web-1.0.0.tgz");
    charts.add_at("web", "1.0.0", &[], &elsewhere, &files);
    world.channel("HelmRepo", &charts.url(), LOGIN).await;
    world.subscribe(json!({}), json!({"name": "web"})).await;
    world.map("a", "x", "1").await;
    world.told("Subscribed", "").await;
    let asked = other.web.asked();
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|it| it.authorization().is_none()), "{asked:?}");
}
