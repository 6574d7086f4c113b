//! Objects that are wanted or not: made, told of, put right.

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount},
    kube::{Api, ResourceExt, api::PostParams},
    ocm_api::policy::{OCM_POLICY_NAMESPACE, configuration_policy::ConfigurationPolicy},
};
use serde_json::json;
use testkit::wait;

use crate::ground::{APP, World, delete, map_policy, map_template, merge, messages, related};

const FOUND: &str = "Compliant; notification - configmaps [one] found as specified in namespace app";
const NOT_FOUND: &str = "NonCompliant; violation - configmaps [one] not found in namespace app";
const NO_MATCH: &str = "NonCompliant; violation - configmaps [one] found but not as specified in namespace app";
const CREATED: &str = "Compliant; notification - configmaps [one] was created successfully in namespace app";
const UPDATED: &str = "Compliant; notification - configmaps [one] was updated successfully in namespace app";

#[tokio::test(flavor = "multi_thread")]
async fn an_enforced_object_is_created_and_told_of() {
    let world = World::start().await;
    world
        .apply("p", map_policy("enforce", "musthave", "one", json!({"a": "b"})))
        .await;
    world.map_has("one", "b").await;
    let policy = world.says("p", FOUND).await;
    assert_eq!(messages(&policy), [FOUND, CREATED, NOT_FOUND]);
    let status = policy.status.clone().unwrap();
    assert_eq!(status.last_evaluated_generation, 1);
    let entry = &status.related_objects[0];
    assert_eq!(entry.object.metadata.name, "one");
    assert_eq!(entry.properties.as_ref().unwrap().created_by_policy, Some(true));
    let condition = &status.compliancy_details[0].conditions[0];
    assert_eq!(condition.reason, "K8s `must have` object already exists");
    assert_eq!(world.told().await, [NOT_FOUND, CREATED, FOUND]);
    let notes = world.notes("PolicyUpdate").await;
    assert!(
        notes.contains(
            &"Policy status is Compliant: configmaps [one] was created successfully in namespace app".to_owned()
        ),
        "{notes:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inform_policy_tells_and_changes_nothing() {
    let world = World::start().await;
    world
        .apply("p", map_policy("inform", "musthave", "one", json!({"a": "b"})))
        .await;
    world.says("p", NOT_FOUND).await;
    world.map("one", json!({"a": "c"})).await;
    let policy = world.says("p", NO_MATCH).await;
    let properties = policy.status.unwrap().related_objects[0].properties.clone().unwrap();
    assert!(properties.diff.contains("redacted"), "{}", properties.diff);
    merge(&world.maps(), "one", json!({"data": {"a": "b", "more": "x"}})).await;
    world.says("p", FOUND).await;
    delete(&world.maps(), "one").await;
    world.says("p", NOT_FOUND).await;
    assert!(world.maps().get_opt("one").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_repaired_as_soon_as_it_is_seen() {
    let world = World::start().await;
    world
        .apply("p", map_policy("enforce", "musthave", "one", json!({"a": "b"})))
        .await;
    world.says("p", FOUND).await;
    merge(&world.maps(), "one", json!({"data": {"a": "c", "mine": "x"}})).await;
    let map = world.map_has("one", "b").await;
    assert_eq!(map.data.unwrap()["mine"], "x");
    world
        .policy("p", "tells of the update", |it| {
            messages(it).contains(&UPDATED.to_owned())
        })
        .await;
    delete(&world.maps(), "one").await;
    world.map_has("one", "b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_wanted_is_left() {
    let world = World::start().await;
    world.map("one", json!({"a": "b", "more": "x"})).await;
    world
        .apply("p", map_policy("enforce", "mustonlyhave", "one", json!({"a": "b"})))
        .await;
    world
        .policy("p", "tells of the update", |it| {
            messages(it).contains(&UPDATED.to_owned())
        })
        .await;
    let map = world.maps().get("one").await.unwrap();
    assert_eq!(json!(map.data), json!({"a": "b"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unwanted_object_is_deleted_where_enforced() {
    let world = World::start().await;
    world.map("one", json!({})).await;
    let spec = |action: &str| {
        let template = json!({"complianceType": "mustnothave", "objectDefinition": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": APP}}});
        json!({"remediationAction": action, "object-templates": [template]})
    };
    world.apply("p", spec("inform")).await;
    world
        .says("p", "NonCompliant; violation - configmaps [one] found in namespace app")
        .await;
    merge(
        &world.policies(),
        "p",
        json!({"spec": {"remediationAction": "enforce"}}),
    )
    .await;
    wait::gone(&world.maps(), "one").await;
    world
        .says(
            "p",
            "Compliant; notification - configmaps [one] missing as expected in namespace app",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_differs_changes_nothing_else() {
    let world = World::start().await;
    let pods: Api<Pod> = Api::namespaced(world.cluster.client(), APP);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "one"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    let before = pods.create(&PostParams::default(), &pod).await.unwrap();
    let definition = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": APP},
        "status": {"phase": "Succeeded"}});
    let spec = json!({"remediationAction": "enforce", "object-templates": [
        {"complianceType": "musthave", "objectDefinition": definition}]});
    world.apply("p", spec).await;
    let policy = world
        .says(
            "p",
            "NonCompliant; violation - pods [one] found but not as specified in namespace app",
        )
        .await;
    let diff = policy.status.unwrap().related_objects[0]
        .properties
        .clone()
        .unwrap()
        .diff;
    assert!(diff.contains("+  phase: Succeeded"), "{diff}");
    let after = pods.get("one").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
}

#[tokio::test(flavor = "multi_thread")]
async fn selected_namespaces_are_followed() {
    let world = World::start().await;
    world.namespace("team-a", json!({"team": "yes"})).await;
    let template = json!({"complianceType": "musthave", "objectDefinition": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "b"}}});
    let spec = json!({
        "remediationAction": "enforce", "evaluationInterval": {"compliant": "never", "noncompliant": "1h"},
        "namespaceSelector": {"matchLabels": {"team": "yes"}, "exclude": ["*-x"]}, "object-templates": [template],
    });
    world.apply("p", spec).await;
    let maps = |namespace: &str| -> Api<ConfigMap> { Api::namespaced(world.cluster.client(), namespace) };
    wait::until(&maps("team-a"), "one", "is made", |it| it.is_some()).await;
    world.namespace("team-x", json!({"team": "yes"})).await;
    world.namespace("team-b", json!({"team": "yes"})).await;
    wait::until(&maps("team-b"), "one", "is made", |it| it.is_some()).await;
    assert!(maps("team-x").get_opt("one").await.unwrap().is_none());
    world.policy("p", "knows both", |it| related(it).len() == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_without_a_name_are_found_by_content() {
    let world = World::start().await;
    let template = |r#type: &str| {
        json!({"complianceType": r#type, "objectDefinition": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": APP, "labels": {"x": "1"}}}})
    };
    let spec = json!({"remediationAction": "enforce", "object-templates": [template("musthave")]});
    world.apply("p", spec).await;
    world
        .says(
            "p",
            "NonCompliant; violation - configmaps found but not as specified in namespace app",
        )
        .await;
    let labelled = |name: &str| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {"x": "1"}}})).unwrap()
    };
    for name in ["one", "two"] {
        world
            .maps()
            .create(&PostParams::default(), &labelled(name))
            .await
            .unwrap();
    }
    let policy = world
        .says(
            "p",
            "Compliant; notification - configmaps [one, two] found as specified in namespace app",
        )
        .await;
    let found = "Resource found as expected";
    assert_eq!(
        related(&policy),
        [
            ("one".to_owned(), "Compliant".to_owned(), found.to_owned()),
            ("two".to_owned(), "Compliant".to_owned(), found.to_owned())
        ]
    );
    let unwanted = json!({"spec": {"object-templates": [template("mustnothave")]}});
    merge(&world.policies(), "p", unwanted).await;
    world
        .says(
            "p",
            "NonCompliant; violation - configmaps [one, two] found in namespace app",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_selected_by_labels() {
    let world = World::start().await;
    for (name, tier) in [("one", "a"), ("two", "a"), ("three", "b")] {
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": {"tier": tier}}})).unwrap();
        world.maps().create(&PostParams::default(), &map).await.unwrap();
    }
    let template = json!({"complianceType": "musthave", "objectSelector": {"matchLabels": {"tier": "a"}},
        "objectDefinition": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": APP},
            "data": {"name": "{{ .ObjectName }}"}}});
    world
        .apply(
            "p",
            json!({"remediationAction": "enforce", "object-templates": [template]}),
        )
        .await;
    world
        .says(
            "p",
            "Compliant; notification - configmaps [one, two] found as specified in namespace app",
        )
        .await;
    assert_eq!(world.maps().get("two").await.unwrap().data.unwrap()["name"], "two");
    assert!(world.maps().get("three").await.unwrap().data.is_none());
    let none = json!({"spec": {"object-templates": [{"complianceType": "musthave",
        "objectSelector": {"matchLabels": {"tier": "c"}},
        "objectDefinition": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": APP}}}]}});
    merge(&world.policies(), "p", none).await;
    world
        .says(
            "p",
            "Compliant; notification - No objects of kind ConfigMap were matched from the policy objectSelector",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_updated_is_recreated_on_demand() {
    let world = World::start().await;
    let secrets: Api<Secret> = Api::namespaced(world.cluster.client(), APP);
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "one"}, "type": "Opaque", "stringData": {"a": "b"}}))
            .unwrap();
    let before = secrets.create(&PostParams::default(), &secret).await.unwrap();
    let template = |option: &str| {
        json!({"complianceType": "musthave", "recreateOption": option, "objectDefinition": {
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one", "namespace": APP},
            "type": "example.com/other", "stringData": {"a": "c"}}})
    };
    let spec = json!({"remediationAction": "enforce", "object-templates": [template("None")]});
    world.apply("p", spec).await;
    let refusal = "NonCompliant; violation - secrets [one] in namespace app cannot be updated, likely due to immutable fields \
                   not matching, you may set spec[\"object-templates\"][].recreateOption to recreate the object";
    world.says("p", refusal).await;
    let change = json!({"spec": {"object-templates": [template("IfRequired")]}});
    merge(&world.policies(), "p", change).await;
    world
        .says(
            "p",
            "Compliant; notification - secrets [one] found as specified in namespace app",
        )
        .await;
    let after = secrets.get("one").await.unwrap();
    assert_ne!(after.uid(), before.uid());
    assert_eq!(after.type_.as_deref(), Some("example.com/other"));
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_accounts_stay_whatever_is_wanted() {
    let world = World::start().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.cluster.client(), APP);
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "one"}, "secrets": [{"name": "token"}]})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let template = json!({"complianceType": "mustonlyhave", "objectDefinition": {
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "one", "namespace": APP}}});
    world
        .apply(
            "p",
            json!({"remediationAction": "enforce", "object-templates": [template]}),
        )
        .await;
    world
        .says(
            "p",
            "Compliant; notification - serviceaccounts [one] found as specified in namespace app",
        )
        .await;
    assert!(accounts.get("one").await.unwrap().secrets.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_words_its_own_messages() {
    let world = World::start().await;
    world.map("one", json!({"a": "whole"})).await;
    let mut spec = map_policy("inform", "musthave", "one", json!({"a": "whole"}));
    spec["customMessage"] = json!({
        "compliant": "{{ range .Policy.status.relatedObjects }}{{ .object.data.a }}{{ end }} of {{ .Policy.metadata.name }}",
        "noncompliant": "{{ .DefaultMessage }}!",
    });
    world.apply("p", spec).await;
    world.says("p", "Compliant; whole of p").await;
    delete(&world.maps(), "one").await;
    world.says("p", &format!("{NOT_FOUND}!")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_templates_are_told_of_together() {
    let world = World::start().await;
    let spec = json!({"remediationAction": "inform", "object-templates": [
        map_template("musthave", "one", json!({})), map_template("mustnothave", "two", json!({}))]});
    world.apply("p", spec).await;
    world
        .says(
            "p",
            "NonCompliant; violation - configmaps [one] not found in namespace app; notification - configmaps [two] missing as \
             expected in namespace app",
        )
        .await;
    let none = json!({"spec": {"object-templates": null, "object-templates-raw": "[]"}});
    merge(&world.policies(), "p", none).await;
    world
        .says(
            "p",
            "Compliant; notification - p contains no object templates to check, and thus has no violations",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_of_the_cluster_alone_are_evaluated_too() {
    let world = World::start().await;
    world
        .apply("p", map_policy("enforce", "musthave", "one", json!({"a": "b"})))
        .await;
    world.says("p", FOUND).await;
    let own: Api<ConfigurationPolicy> = Api::namespaced(world.cluster.client(), OCM_POLICY_NAMESPACE);
    let policy: ConfigurationPolicy = serde_json::from_value(json!({
        "metadata": {"name": "own"}, "spec": map_policy("enforce", "musthave", "two", json!({"a": "b"})),
    }))
    .unwrap();
    own.create(&PostParams::default(), &policy).await.unwrap();
    world.map_has("two", "b").await;
    delete(&world.maps(), "one").await;
    world.map_has("one", "b").await;
}
