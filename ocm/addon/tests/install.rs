//! Add-ons come and go with their placements, their offers and their clusters.

mod world;

use std::sync::Arc;

use addon::hub::install::Install;
use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::RoleBinding,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use ocm_addon_sdk::{AddOn, AddOnContext, Health, UserError};
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::{ManagedCluster, Placement},
    condition,
};
use ocm_reconcile::{Clients, run::once};
use serde_json::{Value, json};
use testkit::wait;
use world::{World, patch_status, read, said};

const FEATURE: &str = "feature.open-cluster-management.io/addon-simple";

struct Simple;

impl AddOn for Simple {
    fn name(&self) -> &str {
        "simple"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(vec![json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "simple", "namespace": "default"},
        })])
    }

    fn health(&self, _: &AddOnContext) -> Health {
        Health::Work(Vec::new())
    }
}

fn placed() -> Value {
    json!({
        "metadata": {"name": "simple"},
        "spec": {"installStrategy": {"type": "Placements", "placements": [{"namespace": "default", "name": "some"}]}},
    })
}

fn names(clusters: &[&str]) -> Vec<String> {
    clusters.iter().map(|it| (*it).to_owned()).collect()
}

async fn with_clusters(count: usize) -> World {
    let world = World::start(vec![Arc::new(Simple)]).await;
    for number in 1..=count {
        world.cluster(&format!("cluster{number}")).await;
    }
    world.agents();
    world
}

fn feature(watched: &world::Watched, cluster: &str) -> Option<String> {
    let cluster = watched.clusters.named(cluster)?;
    cluster.metadata.labels.as_ref()?.get(FEATURE).cloned()
}

async fn is_on(world: &World, clusters: &[&str]) {
    let what = format!("the add-on is on {clusters:?}");
    world
        .until(&what, |it| {
            (World::clusters_with(it, "simple") == clusters).then_some(())
        })
        .await;
}

#[tokio::test]
async fn installation_waits_without_failing_for_the_clusters_namespace() {
    let world = with_clusters(1).await;
    let client = world.site.client();
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let cluster = read(json!({"metadata": {"name": "cluster2"}, "spec": {}}));
    clusters.create(&PostParams::default(), &cluster).await.unwrap();
    world
        .until("cluster2 is known", |it| it.clusters.named("cluster2"))
        .await;
    world.offer(placed()).await;
    world.choose("some", &names(&["cluster1", "cluster2"])).await;
    is_on(&world, &["cluster1"]).await;
    let install = Install::new(&world.caches);
    let again = once(&install, &Clients::hub(client.clone()), "simple").await.unwrap();
    assert!(again.is_some(), "it looks again");

    let namespace: Namespace = read(json!({"metadata": {"name": "cluster2"}}));
    let namespaces = Api::all(client);
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let accepted = json!({"status": {"conditions": [said("HubAcceptedManagedCluster", "True", "Accepted")]}});
    patch_status(&clusters, "cluster2", accepted).await;
    is_on(&world, &["cluster1", "cluster2"]).await;
    world.stop().await;
}

#[tokio::test]
async fn an_add_on_follows_its_placement_and_labels_its_cluster() {
    let world = with_clusters(3).await;
    world.offer(placed()).await;
    world.choose("some", &names(&["cluster1", "cluster2"])).await;
    is_on(&world, &["cluster1", "cluster2"]).await;
    world
        .until("cluster1 says so", |it| {
            (feature(it, "cluster1").as_deref() == Some("available")).then_some(())
        })
        .await;
    world
        .until("it has arrived", |it| {
            let addon = it.addons.get("cluster1", "simple")?;
            let conditions = &addon.status.as_ref()?.conditions;
            let is =
                |r#type: &str, reason: &str| condition::find(conditions, r#type).is_some_and(|it| it.reason == reason);
            (is("Configured", "ConfigurationsConfigured") && is("Progressing", "Completed")).then_some(())
        })
        .await;
    world.until_all_pages_are_empty().await;
    world.choose("some", &names(&["cluster2", "cluster3"])).await;
    is_on(&world, &["cluster2", "cluster3"]).await;
    world
        .until("cluster1 says so no more", |it| {
            feature(it, "cluster1").is_none().then_some(())
        })
        .await;

    let placements: Api<Placement> = Api::namespaced(world.site.client(), "default");
    placements.delete("some", &DeleteParams::default()).await.unwrap();
    is_on(&world, &[]).await;
    world.stop().await;
}

#[tokio::test]
async fn deleting_a_cluster_management_add_on_removes_it_everywhere() {
    let world = with_clusters(2).await;
    world.offer(placed()).await;
    world.choose("some", &names(&["cluster1", "cluster2"])).await;
    world
        .until("works are there", |it| (it.works.len() == 2).then_some(()))
        .await;
    let offers: Api<ClusterManagementAddOn> = Api::all(world.site.client());
    offers.delete("simple", &DeleteParams::default()).await.unwrap();
    is_on(&world, &[]).await;
    world
        .until("works are gone", |it| it.works.is_empty().then_some(()))
        .await;
    world
        .until("no cluster says it has it", |it| {
            ["cluster1", "cluster2"]
                .iter()
                .all(|name| feature(it, name).is_none())
                .then_some(())
        })
        .await;
    world.stop().await;
}

#[tokio::test]
async fn cluster_annotations_reach_add_ons_and_user_annotations_stay() {
    let world = with_clusters(1).await;
    world.offer(placed()).await;
    world.choose("some", &names(&["cluster1"])).await;
    is_on(&world, &["cluster1"]).await;
    let addons = world.addons("cluster1");
    let annotate = |it: Value| json!({"metadata": {"annotations": it}});
    let own = annotate(json!({"addon.open-cluster-management.io/values": "{}"}));
    addons
        .patch("simple", &PatchParams::default(), &Patch::Merge(own))
        .await
        .unwrap();
    let clusters: Api<ManagedCluster> = Api::all(world.site.client());
    let key = "addon.open-cluster-management.io/on-multicluster-hub";
    let of = |addon: Option<&ManagedClusterAddOn>, key: &str| {
        addon
            .and_then(|it| it.metadata.annotations.as_ref())
            .is_some_and(|it| it.contains_key(key))
    };
    for (value, wanted) in [(json!("true"), true), (Value::Null, false)] {
        let patch = annotate(json!({ key: value }));
        clusters
            .patch("cluster1", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        let addon = wait::until(&addons, "simple", "what the cluster says is there or gone", |it| {
            of(it, key) == wanted
        })
        .await;
        assert!(of(addon.as_ref(), "addon.open-cluster-management.io/values"));
    }
    world.stop().await;
}

#[tokio::test]
async fn add_ons_are_unknown_while_their_cluster_is_unknown() {
    let world = with_clusters(1).await;
    world.offer(placed()).await;
    world.choose("some", &names(&["cluster1"])).await;
    let clusters: Api<ManagedCluster> = Api::all(world.site.client());
    let addons = world.addons("cluster1");
    let is = |addon: Option<&ManagedClusterAddOn>, status: &str, reason: &str| {
        let conditions = addon
            .and_then(|it| it.status.as_ref())
            .map_or(&[][..], |it| &it.conditions);
        condition::find(conditions, "Available").is_some_and(|it| it.status == status && it.reason == reason)
    };
    for _ in 0..2 {
        wait::until(&addons, "simple", "it is well", |it| is(it, "True", "WorkApplied")).await;
        let silent = said(
            "ManagedClusterConditionAvailable",
            "Unknown",
            "ManagedClusterLeaseUpdateStopped",
        );
        patch_status(&clusters, "cluster1", json!({"status": {"conditions": [silent]}})).await;
        wait::until(&addons, "simple", "nobody knows", |it| {
            is(it, "Unknown", "ManagedClusterLeaseUpdateStopped")
        })
        .await;
        world
            .until("the cluster says so", |it| {
                (feature(it, "cluster1").as_deref() == Some("unreachable")).then_some(())
            })
            .await;
        let back = said("ManagedClusterConditionAvailable", "True", "ManagedClusterAvailable");
        patch_status(&clusters, "cluster1", json!({"status": {"conditions": [back]}})).await;
    }
    world.stop().await;
}

#[tokio::test]
async fn a_token_account_exists_until_its_add_on_is_deleted() {
    let world = with_clusters(1).await;
    world.offer(json!({"metadata": {"name": "other"}, "spec": {}})).await;
    let addons = world.addons("cluster1");
    let addon = read(json!({"metadata": {"name": "other", "namespace": "cluster1"}, "spec": {}}));
    addons.create(&PostParams::default(), &addon).await.unwrap();
    let token = json!({"status": {
        "kubeClientDriver": "token", "registrations": [{"signerName": "kubernetes.io/kube-apiserver-client"}],
    }});
    patch_status(&addons, "other", token).await;
    let ready = wait::until(&addons, "other", "its account is ready", |it| {
        it.is_some_and(|it| testkit::objects::is_true(it, "TokenInfrastructureReady"))
    })
    .await;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.site.client(), "cluster1");
    let account = accounts.get("other-agent").await.unwrap();
    let message = condition::find(&ready.unwrap().status.unwrap().conditions, "TokenInfrastructureReady")
        .unwrap()
        .message
        .clone();
    assert_eq!(
        message,
        format!(
            "ServiceAccount cluster1/other-agent (UID: {}) is ready",
            account.metadata.uid.unwrap()
        )
    );

    let bindings: Api<RoleBinding> = Api::namespaced(world.site.client(), "cluster1");
    bindings
        .delete("other-token-role", &DeleteParams::default())
        .await
        .unwrap();
    wait::until(&bindings, "other-token-role", "the binding is back", |it| it.is_some()).await;

    addons.delete("other", &DeleteParams::default()).await.unwrap();
    wait::gone(&accounts, "other-agent").await;
    wait::gone(&bindings, "other-token-role").await;
    world.stop().await;
}

/// What the walk-through of older releases says today: nothing is created, whether the client asks for strictness as
/// `kubectl apply` does or not. The message names the field, or the types that there are.
#[tokio::test]
async fn the_old_rolling_update_strategy_is_refused_with_valid_types() {
    let world = World::start(Vec::new()).await;
    let client = world.site.client();
    let mut old = placed();
    old["spec"]["installStrategy"]["placements"][0]["rolloutStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxConcurrentlyUpdating": "25%"}});
    old["apiVersion"] = json!("addon.open-cluster-management.io/v1alpha1");
    old["kind"] = json!("ClusterManagementAddOn");
    for (strictness, said) in [
        (
            "Strict",
            "unknown field \"spec.installStrategy.placements[0].rolloutStrategy.rollingUpdate\"",
        ),
        (
            "Ignore",
            "spec.installStrategy.placements[0].rolloutStrategy.type: Unsupported value: \"RollingUpdate\": supported values: \
             \"All\", \"Progressive\", \"ProgressivePerGroup\"",
        ),
    ] {
        let uri = format!(
            "/apis/addon.open-cluster-management.io/v1alpha1/clustermanagementaddons?fieldValidation={strictness}"
        );
        let request = http::Request::post(uri).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&old).unwrap()).unwrap();
        let refused = client.request::<Value>(request).await.unwrap_err().to_string();
        assert!(refused.contains(said), "{strictness}: {refused}");
    }
    let offers: Api<ClusterManagementAddOn> = Api::all(client);
    assert!(offers.get_opt("simple").await.unwrap().is_none());
    world.stop().await;
}
