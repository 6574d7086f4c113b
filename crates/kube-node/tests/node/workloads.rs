//! Workloads on a real node.

use crate::world::World;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use testkit::wait;

fn deployment(replicas: i32, version: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d}}\nspec: {{replicas: {replicas}, selector: {{matchLabels: {{app: d}}}}, \
         template: {{metadata: {{labels: {{app: d}}}}, spec: {{terminationGracePeriodSeconds: 0, containers: [{{name: c, image: sh, \
         env: [{{name: VERSION, value: '{version}'}}], command: [sleep, '1000']}}]}}}}}}"
    )
}

fn says(it: Option<&Deployment>, kind: &str) -> String {
    let conditions = it.and_then(|it| it.status.as_ref()?.conditions.as_ref());
    let found = conditions
        .into_iter()
        .flatten()
        .find(|it| it.type_.as_deref() == Some(kind));
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    found.map_or(String::new(), |it| format!("{}/{}", text(&it.status), text(&it.reason)))
}

fn counts(it: Option<&Deployment>) -> [i32; 4] {
    let status = it.and_then(|it| it.status.clone()).unwrap_or_default();
    [
        status.replicas,
        status.updated_replicas,
        status.ready_replicas,
        status.available_replicas,
    ]
    .map(Option::unwrap_or_default)
}

fn is_done(it: Option<&Deployment>) -> bool {
    let seen = it.is_some_and(|it| it.status.as_ref().and_then(|it| it.observed_generation) == it.metadata.generation);
    seen && says(it, "Progressing") == "True/NewReplicaSetAvailable"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_becomes_available_is_rolled_scaled_and_deleted() {
    let world = World::new().await;
    let deployments: Api<Deployment> = Api::namespaced(world.client(), "default");
    let sets: Api<ReplicaSet> = Api::namespaced(world.client(), "default");
    world.site.apply(&deployment(2, "one")).await;
    let made = wait::until(&deployments, "d", "is available", |it| {
        is_done(it) && counts(it) == [2, 2, 2, 2]
    })
    .await;
    assert_eq!(says(made.as_ref(), "Available"), "True/MinimumReplicasAvailable");

    world.site.apply(&deployment(2, "two")).await;
    let rolled = wait::until(&deployments, "d", "is rolled out", |it| {
        let revision = it.and_then(|it| {
            it.metadata
                .annotations
                .as_ref()?
                .get("deployment.kubernetes.io/revision")
                .cloned()
        });
        is_done(it) && counts(it) == [2, 2, 2, 2] && revision.as_deref() == Some("2")
    });
    rolled.await;
    let all = sets.list(&Default::default()).await.unwrap().items;
    let mut wanted: Vec<_> = all.iter().map(|it| it.spec.replicas.unwrap_or_default()).collect();
    wanted.sort_unstable();
    assert_eq!(wanted, [0, 2]);

    // Back to the first template: the old set is used again.
    world.site.apply(&deployment(2, "one")).await;
    wait::until(&deployments, "d", "is rolled back", |it| {
        let revision = it.and_then(|it| {
            it.metadata
                .annotations
                .as_ref()?
                .get("deployment.kubernetes.io/revision")
                .cloned()
        });
        is_done(it) && counts(it) == [2, 2, 2, 2] && revision.as_deref() == Some("3")
    })
    .await;
    assert_eq!(sets.list(&Default::default()).await.unwrap().items.len(), 2);

    let scale = json!({"spec": {"replicas": 1}});
    deployments
        .patch("d", &PatchParams::default(), &Patch::Merge(&scale))
        .await
        .unwrap();
    wait::until(&deployments, "d", "is scaled", |it| {
        is_done(it) && counts(it) == [1, 1, 1, 1]
    })
    .await;

    deployments.delete("d", &DeleteParams::background()).await.unwrap();
    wait::until_all::<Pod>(&world.pods(), "no pods are left", |all| all.is_empty()).await;
    wait::until_all(&sets, "no sets are left", |all| all.is_empty()).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_deleted_is_replaced_and_an_orphan_is_adopted() {
    let world = World::new().await;
    world
        .site
        .apply("apiVersion: v1\nkind: Pod\nmetadata: {name: orphan, labels: {app: r}}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: sh, command: [sleep, '1000']}]}")
        .await;
    world
        .site
        .apply(
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: r}\nspec: {replicas: 2, selector: {matchLabels: {app: r}}, \
             template: {metadata: {labels: {app: r}}, spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: sh, command: [sleep, '1000']}]}}}",
        )
        .await;
    let sets: Api<ReplicaSet> = Api::namespaced(world.client(), "default");
    let ready = |it: Option<&ReplicaSet>| it.and_then(|it| it.status.as_ref()?.ready_replicas) == Some(2);
    wait::until(&sets, "r", "has two pods", ready).await;
    let all = world.pods().list(&Default::default()).await.unwrap().items;
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|it| it.metadata.owner_references.is_some()));
    world.pods().delete("orphan", &DeleteParams::default()).await.unwrap();
    wait::gone(&world.pods(), "orphan").await;
    wait::until(&sets, "r", "has two pods again", ready).await;
    world.stop().await;
}
