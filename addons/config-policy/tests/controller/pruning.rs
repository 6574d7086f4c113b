//! What a policy leaves behind.

use ocm_addon_sdk::{
    k8s_openapi::api::apps::v1::Deployment,
    kube::{Api, ResourceExt, api::PostParams},
    ocm_api::policy::finalizers::DELETE_RELATED_OBJECTS,
};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{AGENT, APP, World, delete, map_policy, map_template, merge};

fn pruning(behaviour: &str, action: &str) -> Value {
    let mut spec = map_policy(action, "musthave", "one", json!({"a": "b"}));
    spec["pruneObjectBehavior"] = behaviour.into();
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_policy_takes_its_objects_along() {
    let world = World::start().await;
    world.map("mine", json!({"a": "b"})).await;
    let mut spec = pruning("DeleteIfCreated", "enforce");
    let templates = spec["object-templates"].as_array_mut().unwrap();
    templates.push(map_template("musthave", "mine", json!({"a": "b"})));
    world.apply("p", spec).await;
    let both = "Compliant; notification - configmaps [one] found as specified in namespace app; notification - configmaps \
                [mine] found as specified in namespace app";
    let policy = world.says("p", both).await;
    assert!(policy.finalizers().iter().any(|it| it == DELETE_RELATED_OBJECTS));
    delete(&world.policies(), "p").await;
    wait::gone(&world.policies(), "p").await;
    wait::gone(&world.maps(), "one").await;
    assert!(
        world.maps().get_opt("mine").await.unwrap().is_some(),
        "it was there before"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_named_no_more_goes() {
    let world = World::start().await;
    world.map("one", json!({"a": "b"})).await;
    world.apply("p", pruning("DeleteAll", "enforce")).await;
    world
        .says(
            "p",
            "Compliant; notification - configmaps [one] found as specified in namespace app",
        )
        .await;
    let other = json!({"spec": {"object-templates": [map_template("musthave", "two", json!({"a": "b"}))]}});
    merge(&world.policies(), "p", other).await;
    wait::gone(&world.maps(), "one").await;
    world.map_has("two", "b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_only_looks_prunes_nothing() {
    let world = World::start().await;
    world.map("one", json!({"a": "b"})).await;
    world.apply("p", pruning("DeleteAll", "inform")).await;
    world
        .policy("p", "has the finalizer", |it| !it.finalizers().is_empty())
        .await;
    world
        .says(
            "p",
            "Compliant; notification - configmaps [one] found as specified in namespace app",
        )
        .await;
    delete(&world.policies(), "p").await;
    wait::gone(&world.policies(), "p").await;
    assert!(world.maps().get_opt("one").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_do_not_go_are_told_of() {
    let world = World::start().await;
    world.apply("p", pruning("DeleteAll", "enforce")).await;
    world.map_has("one", "b").await;
    merge(
        &world.maps(),
        "one",
        json!({"metadata": {"finalizers": ["example.com/stay"]}}),
    )
    .await;
    delete(&world.policies(), "p").await;
    let policy = world
        .policy("p", "tells", |it| {
            it.status.as_ref().is_some_and(|it| it.compliant == "Terminating")
        })
        .await;
    let condition = policy.status.unwrap().compliancy_details[0].conditions[0].clone();
    assert_eq!(condition.reason, "Error cleaning up child objects");
    assert_eq!(
        condition.message,
        format!("Failed to delete objects: /v1, Kind=ConfigMap \"one\" in namespace {APP}")
    );
    merge(&world.maps(), "one", json!({"metadata": {"finalizers": null}})).await;
    wait::gone(&world.policies(), "p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstalled_controller_lets_go_of_everything() {
    let world = World::start().await;
    world.apply("p", pruning("DeleteAll", "enforce")).await;
    world.map_has("one", "b").await;
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "controller", "namespace": AGENT},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }))
    .unwrap();
    let deployments: Api<Deployment> = Api::namespaced(world.cluster.client(), AGENT);
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    let trigger = addon_config_policy::controller::uninstall::UninstallTrigger {
        deployment: "controller".to_owned(),
        deployment_namespace: AGENT.to_owned(),
        policy_namespaces: vec!["managed".to_owned()],
        timeout: wait::PATIENCE,
    };
    let client = world.cluster.client();
    addon_config_policy::controller::uninstall::trigger(&client, &trigger)
        .await
        .unwrap();
    delete(&world.policies(), "p").await;
    wait::gone(&world.policies(), "p").await;
    assert!(world.maps().get_opt("one").await.unwrap().is_some());
}
