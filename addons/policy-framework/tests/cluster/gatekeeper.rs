//! Kinds of Gatekeeper, which is played here.

use ocm_addon_sdk::kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{World, definition, delete, messages, of};

const TEMPLATES: &str = "templates.gatekeeper.sh";
const CONSTRAINTS: &str = "constraints.gatekeeper.sh";

fn constraint_template() -> Value {
    json!({"objectDefinition": {
        "apiVersion": format!("{TEMPLATES}/v1"), "kind": "ConstraintTemplate", "metadata": {"name": "needlabel"},
        "spec": {"crd": {"spec": {"names": {"kind": "NeedLabel"}}}},
    }})
}

fn constraint() -> Value {
    json!({"objectDefinition": {
        "apiVersion": format!("{CONSTRAINTS}/v1beta1"), "kind": "NeedLabel", "metadata": {"name": "all"}, "spec": {},
    }})
}

async fn says(api: &Api<DynamicObject>, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn violations_of_a_constraint_are_the_state_of_its_template() {
    let world = World::start().await;
    let mut spec = of(json!([constraint_template(), constraint()]));
    spec["remediationAction"] = "inform".into();
    world.replicate("ns.p", spec.clone()).await;
    let error = "NonCompliant; template-error; Mapping not found, check if";
    let missing = "the resource version was not found:";
    world
        .reported(
            "ns.p",
            &format!("{error} Gatekeeper is installed: {missing} {TEMPLATES}/v1, Kind=ConstraintTemplate"),
        )
        .await;
    let told = format!(
        "{error} the required ConstraintTemplate has been deployed: {missing} {CONSTRAINTS}/v1beta1, Kind=NeedLabel"
    );
    world
        .policy("ns.p", "says what is missing", |it| {
            messages(it, 1).first() == Some(&told)
        })
        .await;
    // Gatekeeper comes, takes the template and makes its kind.
    world
        .define(definition(
            "constrainttemplates",
            "ConstraintTemplate",
            TEMPLATES,
            "v1",
            "Cluster",
            json!({}),
        ))
        .await;
    let templates = wait_for_kind(&world, &format!("{TEMPLATES}/v1"), "ConstraintTemplate").await;
    wait::until_with(&templates, "needlabel", "is made", |it| it.is_some()).await;
    world
        .define(definition(
            "needlabel",
            "NeedLabel",
            CONSTRAINTS,
            "v1beta1",
            "Cluster",
            json!({}),
        ))
        .await;
    says(&templates, "needlabel", json!({"created": true})).await;
    let constraints = wait_for_kind(&world, &format!("{CONSTRAINTS}/v1beta1"), "NeedLabel").await;
    let made = wait::until_with(&constraints, "all", "is made", |it| it.is_some())
        .await
        .unwrap();
    assert_eq!(made.data["spec"]["enforcementAction"], "warn");
    world
        .reported(
            "ns.p",
            "Compliant; ConstraintTemplate needlabel was created successfully",
        )
        .await;
    let violations = json!([
        {"enforcementAction": "warn", "message": "no label", "kind": "Pod", "namespace": "a", "name": "b"},
    ]);
    says(
        &constraints,
        "all",
        json!({"totalViolations": 1, "violations": violations}),
    )
    .await;
    let told = |text: &'static str| move |it: &_| messages(it, 1).first().is_some_and(|it| it == text);
    world
        .policy(
            "ns.p",
            "is violated",
            told("NonCompliant; warn - no label (on Pod a/b)"),
        )
        .await;
    says(&constraints, "all", json!({"totalViolations": 0, "violations": null})).await;
    let policy = world
        .policy("ns.p", "complies", told("Compliant; The constraint has no violations"))
        .await;
    assert!(
        policy
            .finalizers()
            .iter()
            .any(|it| it.ends_with("/cleanup-cluster-scoped-policies"))
    );
    // Nothing is left when it goes.
    delete(&world.on_hub(), "ns.p").await;
    wait::gone(&world.on_cluster(), "ns.p").await;
    assert!(constraints.get_opt("all").await.unwrap().is_none());
    assert!(templates.get_opt("needlabel").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_that_gatekeeper_refuses_is_an_error() {
    let world = World::start().await;
    world
        .define(definition(
            "constrainttemplates",
            "ConstraintTemplate",
            TEMPLATES,
            "v1",
            "Cluster",
            json!({}),
        ))
        .await;
    world.replicate("ns.p", of(json!([constraint_template()]))).await;
    let templates = wait_for_kind(&world, &format!("{TEMPLATES}/v1"), "ConstraintTemplate").await;
    wait::until_with(&templates, "needlabel", "is made", |it| it.is_some()).await;
    says(&templates, "needlabel", json!({"created": false})).await;
    let text = "Failed to create Gatekeeper ConstraintTemplate. Check the status of needlabel.";
    world
        .reported("ns.p", &format!("NonCompliant; template-error; {text}"))
        .await;
}

async fn wait_for_kind(world: &World, api_version: &str, kind: &str) -> Api<DynamicObject> {
    for _ in 0..1000 {
        let found = world.cluster.client().list_api_group_resources(api_version).await;
        if found.is_ok_and(|it| it.resources.iter().any(|it| it.kind == kind)) {
            break;
        }
        tokio::task::yield_now().await;
    }
    world.cluster.api(api_version, kind, "").await
}
