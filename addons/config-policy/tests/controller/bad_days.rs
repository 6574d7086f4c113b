//! Bad input, and others who write.

use ocm_addon_sdk::{
    k8s_openapi::{
        api::core::v1::Event, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    },
    kube::{Api, api::PostParams},
};
use serde_json::json;
use testkit::wait;

use crate::ground::{APP, MANAGED, World, map_policy, map_template, merge, messages};

fn definition() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}],
        },
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_kind_is_found_when_it_comes() {
    let world = World::start().await;
    let thing = |spec| {
        json!({"complianceType": "musthave", "objectDefinition": {"apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": "t", "namespace": APP}, "spec": spec}})
    };
    let templates = json!([
        thing(json!({"size": 1})),
        map_template("musthave", "one", json!({"a": "b"}))
    ]);
    world
        .apply(
            "p",
            json!({"remediationAction": "enforce", "object-templates": templates}),
        )
        .await;
    world.map_has("one", "b").await;
    let missing = "couldn't find mapping resource with kind Thing in API version example.com/v1, please check if you have CRD \
                   deployed";
    world
        .policy("p", missing, |it| messages(it).iter().any(|it| it.contains(missing)))
        .await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.cluster.client());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    world
        .says(
            "p",
            "Compliant; notification - things [t] found as specified in namespace app; notification - configmaps [one] found \
             as specified in namespace app",
        )
        .await;
    let unknown = json!([thing(json!({"size": 1, "colour": "red"}))]);
    merge(&world.policies(), "p", json!({"spec": {"object-templates": unknown}})).await;
    let policy = world
        .policy("p", "tells of the field", |it| {
            messages(it)[0].contains("strict decoding error")
        })
        .await;
    assert!(
        messages(&policy)[0].contains("Error validating the object t, the error is `"),
        "{:?}",
        messages(&policy)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_policies_that_fight_say_so_and_slow_down() {
    let world = World::start().await;
    for name in ["x", "y"] {
        world
            .apply(name, map_policy("enforce", "musthave", "one", json!({"a": name})))
            .await;
    }
    let events: Api<Event> = Api::namespaced(world.cluster.client(), MANAGED);
    let tells = |it: &Event, name: &str| {
        it.reason.as_deref() == Some("PolicyContested") && it.involved_object.name.as_deref() == Some(name)
    };
    wait::until_all(&events, "both tell", |all| {
        ["x", "y"].iter().all(|name| all.iter().any(|it| tells(it, name)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_named_and_the_rest_goes_on() {
    let world = World::start().await;
    let no_kind =
        json!({"complianceType": "musthave", "objectDefinition": {"apiVersion": "v1", "metadata": {"name": "x"}}});
    let nowhere = json!({"complianceType": "musthave", "objectDefinition": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}});
    let selector = json!({"complianceType": "musthave", "objectSelector": {"matchExpressions": [
        {"key": "a", "operator": "In", "values": []}]}, "objectDefinition": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": APP}}});
    let templates = json!([
        no_kind,
        nowhere,
        selector,
        map_template("musthave", "one", json!({"a": "b"}))
    ]);
    world
        .apply(
            "p",
            json!({"remediationAction": "enforce", "object-templates": templates}),
        )
        .await;
    world.map_has("one", "b").await;
    let policy = world
        .policy("p", "tells", |it| {
            messages(it).first().is_some_and(|it| it.contains("found as specified"))
        })
        .await;
    let message = messages(&policy)[0].clone();
    for part in [
        "The kind and apiVersion fields are required on the object template at index 0 in policy p",
        "namespaced object x of kind ConfigMap has no namespace specified from the policy namespaceSelector nor the object \
         metadata",
        "Error parsing provided objectSelector in the object-template at index [2]:",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selector_that_cannot_be_read_is_told() {
    let world = World::start().await;
    let template = json!({"complianceType": "musthave", "objectDefinition": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}});
    let spec = json!({"remediationAction": "inform", "namespaceSelector": {"include": ["[a"]}, "object-templates": [template]});
    world.apply("p", spec).await;
    world
        .says(
            "p",
            "NonCompliant; violation - Error filtering namespaces with provided namespaceSelector: error parsing 'include' \
             pattern '[a': syntax error in pattern",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_comes_later_gets_its_object() {
    let world = World::start().await;
    let mut spec = map_policy("enforce", "musthave", "one", json!({"a": "b"}));
    spec["object-templates"][0]["objectDefinition"]["metadata"]["namespace"] = "later".into();
    world.apply("p", spec).await;
    world
        .policy("p", "tells", |it| {
            messages(it)
                .first()
                .is_some_and(|it| it.contains("is missing, and cannot be created, reason"))
        })
        .await;
    world.namespace("later", json!({})).await;
    world
        .says(
            "p",
            "Compliant; notification - configmaps [one] found as specified in namespace later",
        )
        .await;
}
