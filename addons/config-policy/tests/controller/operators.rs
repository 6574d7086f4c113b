//! OperatorPolicies, with kinds of OLM and nobody behind them but the test.

use addon_config_policy::operator::{MANAGED as MARK, OperatorSettings};
use ocm_addon_sdk::{
    kube::{
        Api, ResourceExt,
        api::{ListParams, Patch, PatchParams, PostParams},
        core::{ApiResource, DynamicObject, GroupVersionKind},
    },
    ocm_api::policy::operator_policy::OperatorPolicy,
    reconcile::install::install_crds,
};
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{MANAGED, World, delete, merge};

const OPS: &str = "ops";

/// A kind of OLM: its group and version, its name, its plural.
type Kind = (&'static str, &'static str, &'static str, &'static str);
const GROUP: Kind = ("operators.coreos.com", "v1", "OperatorGroup", "operatorgroups");
const SUBSCRIPTION: Kind = ("operators.coreos.com", "v1alpha1", "Subscription", "subscriptions");
const PLAN: Kind = ("operators.coreos.com", "v1alpha1", "InstallPlan", "installplans");
const VERSION: Kind = (
    "operators.coreos.com",
    "v1alpha1",
    "ClusterServiceVersion",
    "clusterserviceversions",
);
const CATALOG: Kind = ("operators.coreos.com", "v1alpha1", "CatalogSource", "catalogsources");
const PACKAGE: Kind = (
    "packages.operators.coreos.com",
    "v1",
    "PackageManifest",
    "packagemanifests",
);
const DEPLOYMENT: Kind = ("apps", "v1", "Deployment", "deployments");
const DEFINITION: Kind = (
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);

fn definition((group, version, kind, plural): Kind) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// A cluster with the controller of OperatorPolicies.
async fn start() -> World {
    let mut world = World::prepare().await;
    world.operators = Some(OperatorSettings {
        default_namespace: String::new(),
        history_max: 10,
        denied_functions: Vec::new(),
    });
    world.namespace(OPS, json!({})).await;
    world.run();
    world
}

async fn install_olm(world: &World) {
    let kinds = [GROUP, SUBSCRIPTION, PLAN, VERSION, CATALOG, PACKAGE];
    let definitions = kinds.into_iter().map(definition).collect();
    install_crds(&world.cluster.client(), definitions).await.unwrap();
    make(
        world,
        CATALOG,
        "catalog",
        json!({}),
        json!({"connectionState": {"lastObservedState": "READY"}}),
    )
    .await;
}

fn api(world: &World, (group, version, kind, plural): Kind) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    match kind {
        "CustomResourceDefinition" => Api::all_with(world.cluster.client(), &resource),
        _ => Api::namespaced_with(world.cluster.client(), OPS, &resource),
    }
}

/// Makes an object as OLM would.
async fn make(world: &World, kind: Kind, name: &str, mut object: Value, status: Value) {
    object["metadata"]["name"] = name.into();
    let (group, version, of_kind, _) = kind;
    object["apiVersion"] = format!("{group}/{version}").into();
    object["kind"] = of_kind.into();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api(world, kind).create(&PostParams::default(), &object).await.unwrap();
    tell(world, kind, name, status).await;
}

/// Changes a status as OLM would.
async fn tell(world: &World, kind: Kind, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let patched = api(world, kind)
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
}

async fn found(world: &World, kind: Kind, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let holds = |it: Option<&DynamicObject>| it.is_some_and(|it| holds(&serde_json::to_value(it).unwrap()));
    let found = wait::until_with(&api(world, kind), name, what, holds).await;
    serde_json::to_value(found.unwrap()).unwrap()
}

async fn gone(world: &World, kind: Kind, name: &str) {
    wait::gone(&api(world, kind), name).await;
}

async fn names(world: &World, kind: Kind) -> Vec<String> {
    let all = api(world, kind).list(&ListParams::default()).await.unwrap();
    all.iter().map(ResourceExt::name_any).collect()
}

fn policies(world: &World) -> Api<OperatorPolicy> {
    Api::namespaced(world.cluster.client(), MANAGED)
}

async fn apply(world: &World, name: &str, otherwise: Value) {
    let mut spec = json!({
        "remediationAction": "enforce", "complianceType": "musthave", "upgradeApproval": "None",
        "subscription": {
            "name": "quay", "namespace": OPS, "channel": "stable", "source": "catalog", "sourceNamespace": OPS,
        },
    });
    for (key, value) in otherwise.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let policy: OperatorPolicy = serde_json::from_value(json!({
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy", "name": "ns.owner", "uid": "1-2-3",
        }]},
        "spec": spec,
    }))
    .unwrap();
    policies(world).create(&PostParams::default(), &policy).await.unwrap();
}

/// The policy, once its newest message has this in it.
async fn says(world: &World, name: &str, text: &str) -> OperatorPolicy {
    let holds = |it: &OperatorPolicy| messages(it).first().is_some_and(|it| it.contains(text));
    let policy = wait::until(&policies(world), name, text, |it| it.is_some_and(holds)).await;
    policy.unwrap()
}

fn messages(policy: &OperatorPolicy) -> Vec<String> {
    let history = policy.status.iter().flat_map(|it| &it.history);
    history.map(|it| it.message.clone()).collect()
}

/// OLM has found a version, and needs an approval.
async fn offer(world: &World, installed: Option<&str>, version: &str, plan: &str, generation: i64) {
    tell(
        world,
        SUBSCRIPTION,
        "quay",
        json!({"installedCSV": installed, "currentCSV": version}),
    )
    .await;
    let spec = json!({
        "approval": "Manual", "approved": false, "clusterServiceVersionNames": [version], "generation": generation,
    });
    make(
        world,
        PLAN,
        plan,
        json!({"spec": spec}),
        json!({"phase": "RequiresApproval"}),
    )
    .await;
}

/// OLM has installed it.
async fn install(world: &World, version: &str, plan: &str) {
    let object = json!({
        "metadata": {"labels": {"operators.coreos.com/quay.ops": ""}},
        "spec": {"install": {"spec": {"deployments": [{"name": "quay"}]}}},
    });
    let status = json!({"phase": "Succeeded", "reason": "InstallSucceeded", "message": "all is well"});
    make(world, VERSION, version, object, status).await;
    tell(world, PLAN, plan, json!({"phase": "Complete"})).await;
    tell(world, SUBSCRIPTION, "quay", json!({"installedCSV": version})).await;
}

#[tokio::test]
async fn an_operator_is_installed_upgraded_and_removed() {
    let world = start().await;
    install_olm(&world).await;
    let wanted = json!({"versions": ["quay.v1", "quay.v2"], "upgradeApproval": "Automatic"});
    apply(&world, "install-quay", wanted).await;
    let subscription = found(&world, SUBSCRIPTION, "quay", "it is made", |_| true).await;
    assert_eq!(subscription["spec"]["installPlanApproval"], "Manual");
    assert_eq!(subscription["metadata"]["annotations"][MARK], "managed.install-quay");
    assert!(names(&world, GROUP).await[0].starts_with("ops-"));

    offer(&world, None, "quay.v1", "plan-1", 1).await;
    let approved = |it: &Value| it["spec"]["approved"] == true;
    found(&world, PLAN, "plan-1", "it is approved", approved).await;
    let deployment = json!({"spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    make(&world, DEPLOYMENT, "quay", deployment, json!({})).await;
    let of_operator = ("example.com", "v1", "Quay", "quays");
    let mut of_operator = definition(of_operator);
    of_operator["metadata"]["labels"] = json!({"operators.coreos.com/quay.ops": ""});
    install_crds(&world.cluster.client(), vec![of_operator]).await.unwrap();
    install(&world, "quay.v1", "plan-1").await;
    says(
        &world,
        "install-quay",
        "Compliant; the policy spec is valid, the OperatorGroup matches what is required by the policy, the Subscription \
         matches what is required by the policy, no InstallPlans requiring approval were found, ClusterServiceVersion \
         (quay.v1) - all is well, there are CRDs present for the operator, all operator Deployments have their minimum \
         availability, CatalogSource was found",
    )
    .await;

    offer(&world, Some("quay.v1"), "quay.v2", "plan-2", 2).await;
    found(&world, PLAN, "plan-2", "it is approved", approved).await;
    delete(&api(&world, VERSION), "quay.v1").await;
    install(&world, "quay.v2", "plan-2").await;
    says(&world, "install-quay", "ClusterServiceVersion (quay.v2) - all is well").await;

    let patch = json!({"spec": {"complianceType": "mustnothave"}});
    merge(&policies(&world), "install-quay", patch).await;
    gone(&world, SUBSCRIPTION, "quay").await;
    gone(&world, VERSION, "quay.v2").await;
    says(
        &world,
        "install-quay",
        "Compliant; the policy spec is valid, the OperatorGroup is not present, the Subscription is not present",
    )
    .await;
    assert!(names(&world, GROUP).await.is_empty());
    assert!(
        names(&world, DEFINITION)
            .await
            .contains(&"quays.example.com".to_owned())
    );
    let told = world.told().await;
    assert!(
        told[0].contains("the OperatorGroup required by the policy was not found"),
        "{told:?}"
    );
    assert!(
        told.iter().any(|it| it.contains("the Subscription is present")),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_subscription_changed_by_hand_is_put_back() {
    let world = start().await;
    install_olm(&world).await;
    apply(&world, "install-quay", json!({})).await;
    says(
        &world,
        "install-quay",
        "the Subscription matches what is required by the policy",
    )
    .await;
    let patch = json!({"spec": {"channel": "beta", "startingCSV": "quay.v1"}});
    merge(&api(&world, SUBSCRIPTION), "quay", patch).await;
    let subscription = found(&world, SUBSCRIPTION, "quay", "it is put back", |it| {
        it["spec"]["channel"] == "stable"
    })
    .await;
    assert_eq!(
        subscription["spec"]["startingCSV"], "quay.v1",
        "the policy says nothing about it"
    );
    let policy = says(
        &world,
        "install-quay",
        "the Subscription matches what is required by the policy",
    )
    .await;
    let messages = messages(&policy);
    let said = |text: &str| messages.iter().any(|it| it.contains(text));
    assert!(
        said("the Subscription found on the cluster does not match the policy"),
        "{messages:?}"
    );
    assert!(said("the Subscription was updated to match the policy"), "{messages:?}");
    delete(&api(&world, SUBSCRIPTION), "quay").await;
    found(&world, SUBSCRIPTION, "quay", "it is made anew", |_| true).await;
}

#[tokio::test]
async fn a_policy_that_only_looks_changes_nothing() {
    let world = start().await;
    install_olm(&world).await;
    apply(&world, "install-quay", json!({"remediationAction": "inform"})).await;
    let policy = says(
        &world,
        "install-quay",
        "the Subscription required by the policy was not found",
    )
    .await;
    assert_eq!(policy.status.unwrap().compliant, "NonCompliant");
    assert!(names(&world, GROUP).await.is_empty() && names(&world, SUBSCRIPTION).await.is_empty());
    // What somebody else makes is seen at once.
    make(&world, GROUP, "theirs", json!({"spec": {}}), json!({})).await;
    let spec = json!({"name": "quay", "channel": "beta", "source": "catalog", "sourceNamespace": OPS});
    make(&world, SUBSCRIPTION, "quay", json!({"spec": spec}), json!({})).await;
    says(
        &world,
        "install-quay",
        "the Subscription found on the cluster does not match the policy",
    )
    .await;
    let subscription = found(&world, SUBSCRIPTION, "quay", "it is there", |_| true).await;
    assert_eq!(subscription["spec"], spec);
    offer(&world, None, "quay.v1", "plan-1", 1).await;
    says(
        &world,
        "install-quay",
        "an InstallPlan to update to [quay.v1] is available for approval",
    )
    .await;
    let plan = found(&world, PLAN, "plan-1", "it is there", |_| true).await;
    assert_eq!(plan["spec"]["approved"], false);
}

#[tokio::test]
async fn two_policies_over_one_operator_say_so() {
    let world = start().await;
    install_olm(&world).await;
    apply(&world, "one", json!({})).await;
    says(&world, "one", "the Subscription matches what is required by the policy").await;
    apply(&world, "two", json!({})).await;
    let overlap = "the specified operator is managed by multiple enforced policies (one.managed, two.managed)";
    says(&world, "two", overlap).await;
    says(&world, "one", overlap).await;
    delete(&policies(&world), "two").await;
    says(&world, "one", "the Subscription matches what is required by the policy").await;
}

#[tokio::test]
async fn a_policy_waits_for_olm_to_come() {
    let world = start().await;
    apply(&world, "install-quay", json!({})).await;
    says(&world, "install-quay", "NonCompliant; the policy spec is valid").await;
    install_olm(&world).await;
    found(&world, SUBSCRIPTION, "quay", "it is made", |_| true).await;
}
