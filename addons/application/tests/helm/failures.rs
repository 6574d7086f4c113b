//! What cannot be installed is told, and what has failed is undone.

use application_render::release::{ReleaseInfo, ReleaseStatus, StoredRelease};
use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::kube::api::{DeleteParams, PostParams};
use serde_json::json;
use testkit::wait;

use crate::ground::{NAME, World, annotated, condition, map};

/// An object that the API server refuses.
const REFUSED: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {ports: [{port: 70000}]}\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_that_cannot_be_read_is_told() {
    let world = World::start().await;
    world.install(json!({})).await;
    let release = world.told("Irreconcilable", "ReconcileError").await;
    assert_eq!(
        condition(&release, "Irreconcilable").unwrap().message,
        "there is no chart"
    );
    assert!(world.revisions().await.is_empty());
    world.chart("1.0.0", &[("a.yaml", &map("a", "{}"))]);
    world.patch(json!({"spec": {"x": 1}})).await;
    let release = world.told("Deployed", "InstallSuccessful").await;
    assert!(condition(&release, "Irreconcilable").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_source_stands_in() {
    let world = World::start().await;
    world.chart("1.0.0", &[("a.yaml", &map("a", "{}"))]);
    let repo = json!({"source": {"type": "away"}, "altSource": {"type": "git"}});
    world.install_from(repo, json!({})).await;
    world.told("Deployed", "InstallSuccessful").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_source_there_is_no_chart() {
    let world = World::start().await;
    world.install_from(json!({"chartName": "web"}), json!({})).await;
    let release = world.told("Irreconcilable", "ReconcileError").await;
    let told = &condition(&release, "Irreconcilable").unwrap().message;
    assert_eq!(told, "the HelmRelease names no source of its chart");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_fails_is_told() {
    let world = World::start().await;
    world.chart("1.0.0", &[("a.yaml", "{{ required \"x is needed\" .Values.x }}")]);
    world.install(json!({})).await;
    let release = world.told("ReleaseFailed", "InstallError").await;
    let told = &condition(&release, "ReleaseFailed").unwrap().message;
    assert!(told.ends_with("x is needed"), "{told}");
    assert!(world.revisions().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_served_is_told() {
    let world = World::start().await;
    let thing = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: one}\n";
    world.chart("1.0.0", &[("a.yaml", &map("a", "{}")), ("b.yaml", thing)]);
    world.install(json!({})).await;
    let release = world.told("ReleaseFailed", "InstallError").await;
    assert_eq!(
        condition(&release, "ReleaseFailed").unwrap().message,
        "unable to build kubernetes objects from release manifest: resource mapping not found for name: \"one\" \
         namespace: \"\" from \"\": no matches for kind \"Thing\" in version \"example.org/v1\""
    );
    assert!(world.maps().get_opt("a").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_somebody_else_is_left_alone() {
    let world = World::start().await;
    let theirs = serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"x": "theirs"}})).unwrap();
    world.maps().create(&PostParams::default(), &theirs).await.unwrap();
    world.chart(
        "1.0.0",
        &[("a.yaml", &map("a", "{x: ours}")), ("b.yaml", &map("b", "{}"))],
    );
    world.install(json!({})).await;
    let release = world.told("ReleaseFailed", "InstallError").await;
    let told = &condition(&release, "ReleaseFailed").unwrap().message;
    let begins = "Unable to continue with install: ConfigMap \"a\" in namespace \"team\" exists and cannot be imported \
                  into the current release: invalid ownership metadata; label validation error: missing key";
    assert!(told.starts_with(begins), "{told}");
    assert!(world.maps().get_opt("b").await.unwrap().is_none());
    // It may be given away.
    let given = json!({"metadata": {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": NAME, "meta.helm.sh/release-namespace": "team"},
    }});
    world.patch_map("a", given).await;
    world.patch(json!({"spec": {"again": 1}})).await;
    world.told("Deployed", "InstallSuccessful").await;
    world.map("a", "x", "ours").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_failed_goes() {
    let world = World::start().await;
    world.chart("1.0.0", &[("a.yaml", &map("a", "{}")), ("b.yaml", REFUSED)]);
    world.install(json!({})).await;
    let release = world.told("ReleaseFailed", "InstallError").await;
    let told = &condition(&release, "ReleaseFailed").unwrap().message;
    assert!(
        told.starts_with("Service \"refused\": ") && told.contains("70000"),
        "{told}"
    );
    assert!(world.maps().get_opt("a").await.unwrap().is_none());
    assert!(world.revisions().await.is_empty());
    world.chart("1.0.1", &[("a.yaml", &map("a", "{}"))]);
    world.patch(json!({"spec": {"again": 1}})).await;
    let release = world.told("Deployed", "InstallSuccessful").await;
    assert!(condition(&release, "ReleaseFailed").is_none());
    assert_eq!(world.revisions().await, ["1 deployed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_failed_is_rolled_back() {
    let world = World::start().await;
    world.chart(
        "1.0.0",
        &[("a.yaml", &map("a", "{x: '1'}")), ("b.yaml", &map("b", "{}"))],
    );
    world.install(json!({})).await;
    world.told("Deployed", "InstallSuccessful").await;
    let hook = annotated("hook", "{helm.sh/hook: post-rollback}", "{}");
    world.chart(
        "2.0.0",
        &[
            ("a.yaml", &map("a", "{x: '2'}")),
            ("c.yaml", &map("c", "{}")),
            ("s.yaml", REFUSED),
            ("h.yaml", &hook),
        ],
    );
    world.patch(json!({"spec": {"v": 2}})).await;
    let release = world.told("ReleaseFailed", "UpgradeError").await;
    assert_eq!(condition(&release, "Deployed").unwrap().reason, "InstallSuccessful");
    world.map("a", "x", "1").await;
    wait::gone(&world.maps(), "c").await;
    assert!(world.maps().get_opt("b").await.unwrap().is_some());
    assert_eq!(world.revisions().await, ["1 superseded", "2 failed", "3 deployed"]);
    world.chart("2.0.1", &[("a.yaml", &map("a", "{x: '3'}"))]);
    world.patch(json!({"spec": {"v": 3}})).await;
    world.map("a", "x", "3").await;
    let release = world.told("Deployed", "UpgradeSuccessful").await;
    assert!(condition(&release, "ReleaseFailed").is_none());
    assert_eq!(
        world.revisions().await,
        ["1 superseded", "2 failed", "3 superseded", "4 deployed"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn data_stays_when_somebody_deleted_the_revisions() {
    let world = World::start().await;
    world.chart("1.0.0", &[("a.yaml", &map("a", "{x: '1'}"))]);
    world.install(json!({})).await;
    world.told("Deployed", "InstallSuccessful").await;
    let secrets = world.site.api("v1", "Secret", "team").await;
    secrets
        .delete("sh.helm.release.v1.web.v1", &DeleteParams::default())
        .await
        .unwrap();
    world.chart("2.0.0", &[("a.yaml", &map("a", "{x: '2'}")), ("s.yaml", REFUSED)]);
    world.patch(json!({"spec": {"v": 2}})).await;
    world.told("ReleaseFailed", "InstallError").await;
    assert!(world.maps().get_opt("a").await.unwrap().is_some());
    assert_eq!(world.revisions().await, ["1 failed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_waits_for_what_holds_its_objects() {
    let world = World::start().await;
    world.chart("1.0.0", &[("a.yaml", &map("a", "{}"))]);
    world.install(json!({})).await;
    world.told("Deployed", "InstallSuccessful").await;
    let held = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
    let hold = async |finalizers: &[&str]| {
        world.patch_map("a", held(finalizers)).await;
    };
    hold(&["example.org/hold"]).await;
    world.releases().delete(NAME, &DeleteParams::default()).await.unwrap();
    let release = world.told("ReleaseFailed", "UninstallError").await;
    assert_eq!(
        condition(&release, "ReleaseFailed").unwrap().message,
        "Failed to delete HelmRelease due to resource: ConfigMap team/a is not deleted yet. Checking again after 1 \
         minute."
    );
    assert_eq!(world.revisions().await, ["1 uninstalling"]);
    hold(&[]).await;
    world.run();
    wait::gone(&world.releases(), NAME).await;
    assert!(world.revisions().await.is_empty());
}

/// A revision that somebody began to install so long ago.
async fn begun(world: &World, ago: SignedDuration) {
    let release = StoredRelease {
        name: NAME.to_owned(),
        namespace: "team".to_owned(),
        version: 1,
        manifest: format!("---\n{}", map("old", "{}")),
        info: ReleaseInfo {
            status: ReleaseStatus::PendingInstall,
            ..ReleaseInfo::default()
        },
        ..StoredRelease::default()
    };
    let secret = release.secret(Some(Timestamp::now() - ago), None).unwrap();
    let secrets = world.site.api("v1", "Secret", "team").await;
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_under_way_is_left_to_who_began_it() {
    let world = World::start().await;
    begun(&world, SignedDuration::from_secs(60)).await;
    world.chart("1.0.0", &[("a.yaml", &map("a", "{}"))]);
    world.install(json!({})).await;
    let release = world.told("Irreconcilable", "ReconcileError").await;
    let told = &condition(&release, "Irreconcilable").unwrap().message;
    assert_eq!(told, "another operation (install/upgrade/rollback) is in progress");
    assert_eq!(world.revisions().await, ["1 pending-install"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_that_was_given_up_is_cleaned_up() {
    let world = World::start().await;
    begun(&world, SignedDuration::from_secs(600)).await;
    let old = json!({
        "metadata": {"name": "old", "annotations": {
            "meta.helm.sh/release-name": NAME, "meta.helm.sh/release-namespace": "team",
        }},
    });
    let old = serde_json::from_value(old).unwrap();
    world.maps().create(&PostParams::default(), &old).await.unwrap();
    world.chart("1.0.0", &[("a.yaml", &map("a", "{}"))]);
    world.install(json!({})).await;
    world.told("Deployed", "InstallSuccessful").await;
    wait::gone(&world.maps(), "old").await;
    assert_eq!(world.revisions().await, ["1 failed", "2 deployed"]);
}
