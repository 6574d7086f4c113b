//! Templates of policies, and what they look up.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::{Api, api::PostParams},
    ocm_api::crds,
    reconcile::install::install_crds,
};
use serde_json::{Value, json};
use testkit::{site::Site, wait};

use crate::ground::{MANAGED, World, map_policy, merge, messages};

fn with(action: &str, data: Value) -> Value {
    map_policy(action, "musthave", "one", data)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_template_looks_up_is_watched() {
    let world = World::start().await;
    world.map("source", json!({"key": "first"})).await;
    let data = json!({"a": "{{ fromConfigMap \"app\" \"source\" \"key\" }}"});
    world.apply("p", with("enforce", data)).await;
    world.map_has("one", "first").await;
    world
        .says(
            "p",
            "Compliant; notification - configmaps [one] found as specified in namespace app",
        )
        .await;
    merge(&world.maps(), "source", json!({"data": {"key": "second"}})).await;
    world.map_has("one", "second").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_look_up_is_told_and_found_later() {
    let world = World::start().await;
    let data = json!({"a": "{{ fromConfigMap \"app\" \"source\" \"key\" }}"});
    world.apply("p", with("enforce", data)).await;
    let policy = world.policy("p", "tells", |it| !messages(it).is_empty()).await;
    let message = messages(&policy)[0].clone();
    assert!(
        message.starts_with("NonCompliant; violation - failed to resolve the template"),
        "{message}"
    );
    assert!(
        message.contains("failed getting the ConfigMap source from app"),
        "{message}"
    );
    world.map("source", json!({"key": "now"})).await;
    world.map_has("one", "now").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_lists_of_objects_come_from_a_template() {
    let world = World::start().await;
    let raw = "{{ range $i := until 2 }}\n- complianceType: musthave\n  objectDefinition:\n    apiVersion: v1\n    kind: \
               ConfigMap\n    metadata:\n      name: raw-{{ $i }}\n      namespace: app\n    data:\n      a: v{{ $i }}\n{{ \
               end }}";
    let spec = json!({"remediationAction": "enforce", "object-templates-raw": raw});
    world.apply("p", spec).await;
    world.map_has("raw-0", "v0").await;
    world.map_has("raw-1", "v1").await;
    let bad = json!({"spec": {"object-templates-raw": "{{ nothing }}"}});
    merge(&world.policies(), "p", bad).await;
    let policy = world
        .policy("p", "tells", |it| {
            messages(it)[0].contains("function \"nothing\" not defined")
        })
        .await;
    let condition = policy.status.unwrap().compliancy_details[0].conditions[0].clone();
    assert_eq!(condition.reason, "Error processing template");
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_that_are_turned_off_stay_as_they_are() {
    let world = World::prepare().await;
    world.apply("p", with("enforce", json!({"a": "{{ 1 }}"}))).await;
    let annotations = json!({"policy.open-cluster-management.io/disable-templates": "true"});
    merge(
        &world.policies(),
        "p",
        json!({"metadata": {"annotations": annotations}}),
    )
    .await;
    world.run();
    world.map_has("one", "{{ 1 }}").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_values_are_decrypted_and_never_shown() {
    let world = World::start().await;
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let iv = "AAECAwQFBgcICQoLDA0ODw==";
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "policy-encryption-key"}, "data": {"key": key},
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), MANAGED);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    // `hidden`, encrypted with this key and vector by OpenSSL.
    let value = "$ocm_encrypted:A2zLrDHecon937IjuMi8vw==";
    world.apply("p", with("inform", json!({"a": value}))).await;
    let annotations = json!({"policy.open-cluster-management.io/encryption-iv": iv});
    merge(
        &world.policies(),
        "p",
        json!({"metadata": {"annotations": annotations}}),
    )
    .await;
    merge(
        &world.policies(),
        "p",
        json!({"spec": {"remediationAction": "enforce"}}),
    )
    .await;
    world.map_has("one", "hidden").await;
    merge(&world.maps(), "one", json!({"data": {"a": "x"}})).await;
    world.map_has("one", "hidden").await;
    let policy = world.policies().get("p").await.unwrap();
    assert!(!serde_json::to_string(&policy.status).unwrap().contains("hidden"));
    let bad = json!({"metadata": {"annotations": {"policy.open-cluster-management.io/encryption-iv": "%"}}});
    merge(&world.policies(), "p", bad).await;
    world
        .says(
            "p",
            "NonCompliant; violation - the policy annotation of \"policy.open-cluster-management.io/encryption-iv\" is not \
             Base64: illegal base64 data at input byte 0",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_templates_need_their_add_on() {
    let world = World::start().await;
    world
        .apply("p", with("enforce", json!({"a": "{{hub .ManagedClusterName hub}}"})))
        .await;
    world
        .says(
            "p",
            "NonCompliant; violation - the governance-standalone-hub-templating addon must be enabled to resolve hub templates \
             on the managed cluster",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_templates_are_filled_in_on_the_cluster() {
    let hub = Site::start().await.unwrap();
    install_crds(&hub.client(), crds::hub()).await.unwrap();
    let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "cluster1", "labels": {"zone": "north"}}, "spec": {"hubAcceptsClient": true}});
    let clusters = hub
        .api("cluster.open-cluster-management.io/v1", "ManagedCluster", "")
        .await;
    let cluster = serde_json::from_value(cluster).unwrap();
    clusters.create(&PostParams::default(), &cluster).await.unwrap();
    let mut world = World::prepare().await;
    world.hub = Some(hub.client());
    world.run();
    let data = json!({"a": "{{hub .ManagedClusterName hub}} in {{hub .ManagedClusterLabels.zone hub}}"});
    let policy = world.apply("p", with("enforce", data)).await;
    world.map_has("one", "cluster1 in north").await;
    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), MANAGED);
    let kept = format!("{}-last-resolved", policy.metadata.uid.clone().unwrap());
    wait::until(&secrets, &kept, "is kept", |it| it.is_some()).await;
    merge(
        &clusters,
        "cluster1",
        json!({"metadata": {"labels": {"zone": "south"}}}),
    )
    .await;
    world.map_has("one", "cluster1 in south").await;
    // The hub goes away: what it said last holds, as long as the policy is the same.
    hub.stop().await;
    merge(&world.maps(), "one", json!({"data": {"a": "by hand"}})).await;
    world.map_has("one", "cluster1 in south").await;
    let spec = world.policies().get("p").await.unwrap().spec;
    assert!(
        json!(spec).to_string().contains("{{hub"),
        "the spec stays as it was written"
    );
}
