//! What becomes of templates.

use ocm_addon_sdk::kube::{Api, ResourceExt, api::PostParams, core::DynamicObject};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{CLUSTER, GROUP, MANAGED, World, configuration, delete, merge, messages, of, template_kind};

fn of_kind(kind: &str, name: &str) -> Value {
    json!({"objectDefinition": {
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name}, "spec": {},
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_belongs_to_its_policy() {
    let world = World::start().await;
    world.replicate("ns.p", of(json!([configuration("a")]))).await;
    let policy = world.policy("ns.p", "comes", |_| true).await;
    let object = world.object("a", "is made", |_| true).await;
    assert_eq!(
        serde_json::to_value(object.owner_references()).unwrap(),
        json!([{
            "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy", "name": "ns.p",
            "uid": policy.uid(), "controller": true, "blockOwnerDeletion": true,
        }])
    );
    let labels = json!({
        "cluster-name": CLUSTER, "cluster-namespace": MANAGED, format!("{GROUP}/policy"): "ns.p",
        format!("{GROUP}/cluster-name"): CLUSTER, format!("{GROUP}/cluster-namespace"): MANAGED,
    });
    assert_eq!(serde_json::to_value(object.labels()).unwrap(), labels);
    // What is taken from it comes back, and it itself.
    let api = world.objects("ConfigurationPolicy").await;
    merge(&api, "a", json!({"metadata": {"ownerReferences": null}})).await;
    world
        .object("a", "has its owner again", |it| !it.owner_references().is_empty())
        .await;
    merge(&api, "a", json!({"metadata": {"labels": {"cluster-name": null}}})).await;
    world
        .object("a", "has its label again", |it| {
            it.labels().contains_key("cluster-name")
        })
        .await;
    merge(&api, "a", json!({"spec": {"severity": "high"}})).await;
    world
        .object("a", "is as it was", |it| it.data["spec"]["severity"] == "low")
        .await;
    delete(&api, "a").await;
    world.object("a", "comes back", |it| it.uid() != object.uid()).await;
    let notes = world.notes("PolicyTemplateSync").await;
    assert_eq!(
        notes,
        [
            "Policy template a created successfully",
            "Policy template a was updated successfully"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_as_wanted_is_not_written() {
    let world = World::start().await;
    let mut template = configuration("a");
    // The API server fills it in.
    template["objectDefinition"]["spec"]
        .as_object_mut()
        .unwrap()
        .remove("pruneObjectBehavior");
    world.replicate("ns.p", of(json!([template, configuration("b")]))).await;
    let before = world.object("a", "is made", |_| true).await;
    let mut changed = configuration("b");
    changed["objectDefinition"]["spec"]["severity"] = "high".into();
    world.change("ns.p", of(json!([template, changed]))).await;
    world
        .object("b", "changes", |it| it.data["spec"]["severity"] == "high")
        .await;
    let after = world.object("a", "is there", |_| true).await;
    assert_eq!(after.resource_version(), before.resource_version());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_object_of_a_removed_template_goes() {
    let world = World::start().await;
    world.define(template_kind("OtherPolicy", "Namespaced")).await;
    world
        .replicate("ns.p", of(json!([configuration("a"), configuration("b")])))
        .await;
    world.object("b", "is made", |_| true).await;
    world.change("ns.p", of(json!([configuration("a")]))).await;
    let api = world.objects("ConfigurationPolicy").await;
    wait::gone(&api, "b").await;
    // Another kind of the same name leaves nothing behind.
    world.change("ns.p", of(json!([of_kind("OtherPolicy", "a")]))).await;
    wait::gone(&api, "a").await;
    let others = world.objects("OtherPolicy").await;
    wait::until_with(&others, "a", "is made", |it| it.is_some()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hinders_a_template_is_told_and_others_go_on() {
    let world = World::start().await;
    let mut unknown_field = configuration("strict");
    unknown_field["objectDefinition"]["spec"]["foo"] = 1.into();
    let mut invalid = configuration("invalid");
    invalid["objectDefinition"]["spec"]["remediationAction"] = "destroy".into();
    let unnamed = json!({"objectDefinition": {"apiVersion": format!("{GROUP}/v1"), "kind": "ConfigurationPolicy"}});
    let foreign = json!({"objectDefinition": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}}});
    let templates = json!([
        unknown_field, invalid, of_kind("Missing", "missing"), unnamed, foreign,
        {"objectDefinition": {"metadata": {"name": "kindless"}}}, configuration("good"),
        {"objectDefinition": {"apiVersion": "nobody.example/v1", "kind": "X", "metadata": {"name": "x"}}},
    ]);
    world.replicate("ns.p", of(templates)).await;
    world.object("good", "is made", |_| true).await;
    let all_told = |it: &_| (0..8).all(|index| index == 6 || !messages(it, index).is_empty());
    let policy = world.policy("ns.p", "says everything", all_told).await;
    let newest = |index| messages(&policy, index)[0].clone();
    let error = "NonCompliant; template-error; ";
    assert!(
        newest(0).starts_with(&format!("{error}Failed to create policy template: ")),
        "{}",
        newest(0)
    );
    assert!(
        newest(0).ends_with("strict decoding error: unknown field \"spec.foo\""),
        "{}",
        newest(0)
    );
    assert!(newest(1).contains("Unsupported value: \"destroy\""), "{}", newest(1));
    let missing = "Mapping not found, check if you have the CRD deployed: the resource version was not found: ";
    assert_eq!(
        newest(2),
        format!("{error}{missing}no matching kind was found: policy.open-cluster-management.io/v1, Kind=Missing")
    );
    assert_eq!(
        newest(3),
        format!("{error}Failed to parse or get name from policy template at index 3")
    );
    assert_eq!(
        newest(4),
        format!("{error}policy-template kind is not supported: /v1, Kind=ConfigMap")
    );
    assert_eq!(
        newest(5),
        format!(
            "{error}Failed to decode policy template with err: Object 'Kind' is missing in \
             '{{\"metadata\":{{\"name\":\"kindless\"}}}}'"
        )
    );
    assert_eq!(newest(7), format!("{error}{missing}nobody.example/v1, Kind=X"));
    assert_eq!(messages(&policy, 6), Vec::<String>::new());
    // A kind that comes later makes the object, at once.
    world.define(template_kind("Missing", "Namespaced")).await;
    let api = wait_for_kind(&world, "Missing").await;
    wait::until_with(&api, "missing", "is made", |it| it.is_some()).await;
}

async fn wait_for_kind(world: &World, kind: &str) -> Api<DynamicObject> {
    for _ in 0..1000 {
        let found = world
            .cluster
            .client()
            .list_api_group_resources(&format!("{GROUP}/v1"))
            .await;
        if found.is_ok_and(|it| it.resources.iter().any(|it| it.kind == kind)) {
            break;
        }
        tokio::task::yield_now().await;
    }
    world.objects(kind).await
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_of_one_name_are_refused_together() {
    let world = World::start().await;
    world
        .replicate(
            "ns.p",
            of(json!([configuration("a"), configuration("a"), configuration("b")])),
        )
        .await;
    let told = |it: &_| !messages(it, 0).is_empty() && !messages(it, 1).is_empty();
    let policy = world.policy("ns.p", "says so", told).await;
    let text = "NonCompliant; template-error; All policy-template names must be unique within a policy";
    assert_eq!(
        (messages(&policy, 0), messages(&policy, 1)),
        (vec![text.to_owned()], vec![text.to_owned()])
    );
    assert_eq!(crate::ground::state(&policy), Some("NonCompliant"));
    let api = world.objects("ConfigurationPolicy").await;
    assert!(api.get_opt("b").await.unwrap().is_none());
    // Put right, they are made, and the controller's word counts.
    world
        .change("ns.p", of(json!([configuration("a"), configuration("b")])))
        .await;
    world.object("b", "is made", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_somebody_else_is_left_alone() {
    let world = World::start().await;
    let api = world.objects("ConfigurationPolicy").await;
    let foreign: DynamicObject = serde_json::from_value(
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ConfigurationPolicy",
            "metadata": {"name": "a"}, "spec": {"severity": "critical"}}),
    )
    .unwrap();
    api.create(&PostParams::default(), &foreign).await.unwrap();
    world
        .replicate("ns.p", of(json!([configuration("a"), configuration("b")])))
        .await;
    let kind = "Template name must be unique. Policy template with kind: ConfigurationPolicy name";
    world
        .reported(
            "ns.p",
            &format!("NonCompliant; template-error; {kind}: a already exists outside of a Policy"),
        )
        .await;
    world.object("b", "is made", |_| true).await;
    world.replicate("ns.q", of(json!([configuration("b")]))).await;
    world
        .reported(
            "ns.q",
            &format!("NonCompliant; template-error; {kind}: b already exists in policy ns.p"),
        )
        .await;
    let object = api.get("a").await.unwrap();
    assert_eq!(object.data["spec"]["severity"], "critical");
    // When the other one lets go, the object is made.
    delete(&api, "a").await;
    world
        .object("a", "is ours", |it| !it.owner_references().is_empty())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_waits_for_what_it_depends_on() {
    let world = World::start().await;
    let on = |name: &str, compliance: &str| {
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ConfigurationPolicy", "name": name,
            "compliance": compliance})
    };
    world.replicate("ns.first", of(json!([configuration("first")]))).await;
    let mut second = configuration("second");
    second["extraDependencies"] = json!([on("first", "Compliant"), on("nobody", "Compliant")]);
    let mut ignored = configuration("ignored");
    ignored["extraDependencies"] = json!([on("first", "Compliant")]);
    ignored["ignorePending"] = true.into();
    world.replicate("ns.second", of(json!([second, ignored]))).await;
    let text =
        "Dependencies were not satisfied: 2 are still pending (ConfigurationPolicy first, ConfigurationPolicy nobody)";
    let pending = world.reported("ns.second", &format!("Pending; {text}")).await;
    let one = "Dependencies were not satisfied: 1 is still pending (ConfigurationPolicy first)";
    assert_eq!(crate::ground::state(&pending), Some("Pending"));
    world
        .policy("ns.second", "ignores it", |it| {
            messages(it, 1) == [format!("Compliant; {one} but ignorePending is true")]
        })
        .await;
    second["extraDependencies"] = json!([on("first", "Compliant")]);
    world.change("ns.second", of(json!([second, ignored]))).await;
    world.reported("ns.second", &format!("Pending; {one}")).await;
    world.say("ns.first", "first", "Compliant; all is well").await;
    world.object("second", "is made", |_| true).await;
    world.object("ignored", "is made", |_| true).await;
    world.say("ns.second", "second", "Compliant; this, too").await;
    world.reported("ns.second", "Compliant; this, too").await;
    // When it is not so any more, the object goes.
    world.say("ns.first", "first", "NonCompliant; no more").await;
    wait::gone(&world.objects("ConfigurationPolicy").await, "second").await;
    world.reported("ns.second", &format!("Pending; {one}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_waits_for_another_policy() {
    let world = World::start().await;
    let dependency = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Policy", "name": "ns.first",
        "compliance": "Compliant"});
    let mut spec = of(json!([configuration("second")]));
    spec["dependencies"] = json!([dependency]);
    world.replicate("ns.second", spec).await;
    let text = "Pending; Dependencies were not satisfied: 1 is still pending (Policy ns.first)";
    world.reported("ns.second", text).await;
    world.replicate("ns.first", of(json!([configuration("first")]))).await;
    world.object("first", "is made", |_| true).await;
    world.say("ns.first", "first", "Compliant; all is well").await;
    world.object("second", "is made", |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_hub_templates_takes_the_object_without_pruning() {
    let world = World::start().await;
    world.replicate("ns.p", of(json!([configuration("a")]))).await;
    let api = world.objects("ConfigurationPolicy").await;
    world.object("a", "is made", |_| true).await;
    // Its controller holds it until it has pruned.
    merge(&api, "a", json!({"metadata": {"finalizers": ["example.com/prune"]}})).await;
    let mut broken = configuration("a");
    broken["objectDefinition"]["metadata"]["annotations"] =
        json!({format!("{GROUP}/hub-templates-error"): "failed to resolve"});
    world.change("ns.p", of(json!([broken]))).await;
    let object = world
        .object("a", "goes", |it| it.metadata.deletion_timestamp.is_some())
        .await;
    assert_eq!(object.data["spec"]["pruneObjectBehavior"], "None");
    merge(&api, "a", json!({"metadata": {"finalizers": null}})).await;
    wait::gone(&api, "a").await;
    world
        .reported("ns.p", "NonCompliant; template-error; failed to resolve")
        .await;
    world.change("ns.p", of(json!([configuration("a")]))).await;
    world
        .object("a", "is made again", |it| {
            it.data["spec"]["pruneObjectBehavior"] == "DeleteAll"
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_without_a_namespace_go_before_their_policy() {
    let world = World::start().await;
    world.define(template_kind("WidePolicy", "Cluster")).await;
    world
        .replicate("ns.p", of(json!([of_kind("WidePolicy", "w"), configuration("a")])))
        .await;
    let finalizer = format!("{GROUP}/cleanup-cluster-scoped-policies");
    world
        .policy("ns.p", "has the finalizer", |it| it.finalizers().contains(&finalizer))
        .await;
    let api = wait_for_kind(&world, "WidePolicy").await;
    let wide = wait::until_with(&api, "w", "is made", |it| it.is_some()).await.unwrap();
    assert!(wide.owner_references().is_empty());
    assert_eq!(wide.labels()[&format!("{GROUP}/policy")], "ns.p");
    world.change("ns.p", of(json!([configuration("a")]))).await;
    wait::gone(&api, "w").await;
    world
        .policy("ns.p", "has no finalizer", |it| it.finalizers().is_empty())
        .await;
    world.change("ns.p", of(json!([of_kind("WidePolicy", "w")]))).await;
    world
        .policy("ns.p", "has the finalizer", |it| it.finalizers().contains(&finalizer))
        .await;
    delete(&world.on_hub(), "ns.p").await;
    wait::gone(&world.on_cluster(), "ns.p").await;
    assert!(api.get_opt("w").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_says_its_state_again_after_an_error() {
    let world = World::start().await;
    let mut broken = configuration("a");
    broken["objectDefinition"]["spec"]["foo"] = 1.into();
    world.replicate("ns.p", of(json!([configuration("a")]))).await;
    world.object("a", "is made", |_| true).await;
    world.say("ns.p", "a", "Compliant; all is well").await;
    world.reported("ns.p", "Compliant; all is well").await;
    world.change("ns.p", of(json!([broken]))).await;
    let told = |it: &_| {
        messages(it, 0)
            .first()
            .is_some_and(|it| it.contains("Failed to update policy template a: "))
    };
    world.policy("ns.p", "says what is wrong", told).await;
    world.change("ns.p", of(json!([configuration("a")]))).await;
    world
        .object("a", "has no state", |it| it.data["status"]["compliant"].is_null())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hinders_templates_is_counted_until_the_policy_goes() {
    let world = World::start().await;
    let mut invalid = configuration("invalid");
    invalid["objectDefinition"]["spec"]["remediationAction"] = "destroy".into();
    world
        .replicate("ns.counted", of(json!([of_kind("Missing", "missing"), invalid])))
        .await;
    let told = |it: &_| !messages(it, 1).is_empty();
    world.policy("ns.counted", "says what is wrong", told).await;
    let counted = || {
        let text = ocm_addon_sdk::reconcile::metrics::text();
        let lines = text.lines().filter(|it| it.contains("\"ns.counted\""));
        let name = |it: &str| it.rsplit_once(' ').unwrap().0.to_owned();
        lines.map(name).collect::<Vec<_>>()
    };
    assert_eq!(
        counted(),
        [
            r#"policy_user_errors_total{policy="ns.counted",template="invalid",type="format-error"}"#,
            r#"policy_user_errors_total{policy="ns.counted",template="missing",type="crd-error"}"#,
        ]
    );
    delete(&world.on_hub(), "ns.counted").await;
    wait::gone(&world.on_cluster(), "ns.counted").await;
    let is_forgotten = async {
        while !counted().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(wait::PATIENCE, is_forgotten).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn defaults_of_delivered_kinds_make_no_difference() {
    let world = World::start_with_delivered_kinds().await;
    let item = |name: &str| {
        json!({"complianceType": "musthave", "objectDefinition": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        }})
    };
    let configuration = |name: &str, spec: Value| {
        json!({"objectDefinition": {
            "apiVersion": format!("{GROUP}/v1"), "kind": "ConfigurationPolicy", "metadata": {"name": name}, "spec": spec,
        }})
    };
    let kept = configuration(
        "kept",
        json!({"object-templates": [item("x")], "evaluationInterval": {"compliant": "1h"}}),
    );
    let operator = json!({"objectDefinition": {
        "apiVersion": format!("{GROUP}/v1beta1"), "kind": "OperatorPolicy", "metadata": {"name": "operator"},
        "spec": {
            "remediationAction": "inform", "complianceType": "musthave", "upgradeApproval": "None",
            "subscription": {"name": "s"},
        },
    }});
    let both = configuration(
        "both",
        json!({"object-templates": [item("x")], "object-templates-raw": "[]"}),
    );
    world.replicate("ns.p", of(json!([kept, operator, both]))).await;
    let before = world.object("kept", "is made", |_| true).await;
    let operators = world
        .cluster
        .api(&format!("{GROUP}/v1beta1"), "OperatorPolicy", MANAGED)
        .await;
    let operator_before = wait::until_with(&operators, "operator", "is made", |it| it.is_some()).await;
    let told = |it: &_| !messages(it, 2).is_empty();
    let policy = world.policy("ns.p", "says what is wrong", told).await;
    assert_eq!(
        messages(&policy, 2)[0],
        "NonCompliant; template-error; Failed to create policy template: \
         ConfigurationPolicy.policy.open-cluster-management.io \"both\" is invalid: \
         spec may only contain one of object-templates and object-templates-raw"
    );
    let good = configuration("both", json!({"object-templates": [item("y")]}));
    world.change("ns.p", of(json!([kept, operator, good]))).await;
    world.object("both", "is made", |_| true).await;
    let after = world.object("kept", "is there", |_| true).await;
    assert_eq!(after.resource_version(), before.resource_version());
    let operator_after = operators.get("operator").await.unwrap();
    assert_eq!(
        operator_after.resource_version(),
        operator_before.unwrap().resource_version()
    );
    let notes = world.notes("PolicyTemplateSync").await;
    assert!(
        !notes.iter().any(|it| it.ends_with("was updated successfully")),
        "{notes:?}"
    );
}
