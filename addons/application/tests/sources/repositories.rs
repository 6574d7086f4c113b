//! Git repositories behind a login, on Git's own server.

use ocm_addon_sdk::ocm_api::apps::annotations;
use serde_json::json;
use source_servers::{Repository, WebServer, git::is_here, web::answer};
use testkit::wait;

use crate::ground::{BASIC, World, map};

const LOGIN: &[(&str, &str)] = &[("user", "me"), ("accessToken", "secret")];

async fn guarded(repository: &Repository) -> WebServer {
    repository
        .serve_guarded(|asked| (asked.authorization() != Some(BASIC)).then(|| answer(401, "")))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_behind_a_login_is_followed() {
    if !is_here() {
        return;
    }
    let world = World::start().await;
    let repository = Repository::empty();
    repository.write("other/a.yaml", &map("other", "{}"));
    repository.write("shop/b.yaml", &map("b", "{}"));
    repository.commit("shop/a.yaml", &map("a", "{x: '1'}"));
    let server = guarded(&repository).await;
    let url = server.url("/repository/.git");
    world
        .channel("Git", &url, &[("user", "me"), ("accessToken", "wrong")])
        .await;
    world.subscribe(json!({annotations::GIT_PATH: "shop"}), json!({})).await;
    let refusal = "needs a login: 401 Unauthorized, the credentials are wrong, or may not read this";
    let refused = format!("{url}/info/refs {refusal}");
    world.told("Failed", &refused).await;

    world.log_in_with(LOGIN).await;
    world.refresh("1").await;
    world.map("a", "x", "1").await;
    world.told("Subscribed", "").await;
    assert!(world.has_map("b").await && !world.has_map("other").await);

    repository.git(&["rm", "--quiet", "shop/b.yaml"]);
    repository.commit("shop/a.yaml", &map("a", "{x: '2'}"));
    world.log_in_with(&[("accessToken", "expired")]).await;
    world.refresh("2").await;
    world.told("Failed", &refused).await;
    assert!(world.has_map("b").await);
    world.log_in_with(LOGIN).await;
    world.refresh("3").await;
    world.map("a", "x", "2").await;
    wait::gone(&world.maps(), "b").await;
    world.told("Subscribed", "").await;

    world.unsubscribe().await;
    wait::gone(&world.maps(), "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_of_a_repository_is_read_with_its_login() {
    if !is_here() {
        return;
    }
    let world = World::start().await;
    let repository = Repository::empty();
    repository.write("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    let template = |x: &str| map("a", &format!("{{x: '{x}', y: '{{{{ .Values.y }}}}'}}"));
    repository.commit("charts/web/templates/a.yaml", &template("1"));
    let server = guarded(&repository).await;
    world.channel("Git", &server.url("/repository/.git"), LOGIN).await;
    let overrides = json!([{"packageName": "web", "packageAlias": "shop", "packageOverrides": [
        {"path": "spec", "value": {"y": "given"}}]}]);
    world
        .subscribe(
            json!({annotations::GIT_PATH: "charts"}),
            json!({"packageOverrides": overrides}),
        )
        .await;
    let made = world.map("a", "x", "1").await;
    assert_eq!(made.data.unwrap()["y"], "given");
    world.told("Subscribed", "").await;

    repository.commit("charts/web/templates/a.yaml", &template("2"));
    world.refresh("1").await;
    world.map("a", "x", "2").await;

    world.unsubscribe().await;
    wait::gone(&world.releases(), "shop").await;
    assert!(!world.has_map("a").await);
}
