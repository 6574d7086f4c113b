//! A world is what its documentation says.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::DeleteParams};
use testkit::{World, objects, wait};

const WORK: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: cluster1}
---
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: w, namespace: cluster1}
spec: {workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]}}
";

#[tokio::test]
async fn the_hub_and_the_clusters_know_the_kinds_of_ocm() {
    let world = World::new(1).await;
    let applied = world.hub.apply(WORK).await;
    assert!(objects::plain(&applied[1]).contains("kind: ManifestWork"));
    world.clusters[0]
        .resource("work.open-cluster-management.io/v1", "AppliedManifestWork")
        .await;
    world.clusters[0]
        .resource("cluster.open-cluster-management.io/v1alpha1", "ClusterClaim")
        .await;
}

#[tokio::test]
async fn waiting_ends_with_the_state_that_was_waited_for() {
    let world = World::new(0).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(world.hub.client());
    let later = maps.clone();
    let writer = tokio::spawn(async move {
        let object =
            objects::read("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}").remove(0);
        let object: ConfigMap = object.try_parse().unwrap();
        later.create(&Default::default(), &object).await.unwrap();
    });
    let found = wait::until(&maps, "a", "has data", |it| it.is_some_and(|it| it.data.is_some())).await;
    writer.await.unwrap();
    assert_eq!(found.unwrap().data.unwrap()["key"], "value");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    wait::gone(&maps, "a").await;
}

#[tokio::test]
async fn somebody_else_may_not_do_what_the_administrator_may() {
    let world = World::new(0).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(world.hub.client_as("somebody", &[]));
    let error = maps.list(&Default::default()).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("User \"somebody\" cannot list resource \"configmaps\""),
        "{error}"
    );
}
