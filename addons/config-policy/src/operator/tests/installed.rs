//! What OLM does is watched and approved.

use serde_json::{Value, json};

use super::{
    super::{CATALOG_SOURCE, CSV, DEPLOYMENT, OPERATOR_GROUP, PACKAGE_MANIFEST, SUBSCRIPTION},
    world::{World, edit, policy, policy_over, related, said, summary, words},
};

#[tokio::test]
async fn only_the_listed_versions_are_approved() {
    let world = World::default();
    let mut policy = policy(json!({"versions": ["quay.v1, quay.v2", " "], "upgradeApproval": "Automatic"}));
    world.evaluate(&mut policy).await.unwrap();
    world.offer("quay", "", "quay.v3", "plan-1", &["quay.v3"]);
    world.evaluate(&mut policy).await.unwrap();
    assert!(!world.is_approved("plan-1"));
    assert_eq!(
        words(&policy, "InstallPlanCompliant"),
        "an InstallPlan to update to [quay.v3] is available for approval but approval for [quay.v3] is required"
    );
    world.offer("quay", "", "quay.v2", "plan-2", &["quay.v2"]);
    world.evaluate(&mut policy).await.unwrap();
    assert!(world.is_approved("plan-2"));
    assert_eq!(
        said(&policy, "InstallPlanCompliant"),
        (
            "True".to_owned(),
            "InstallPlanApproved".to_owned(),
            "the InstallPlan for quay.v2 was approved".to_owned()
        )
    );
    world.install("quay", "quay.v2", "plan-2");
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        summary(&policy),
        "Compliant; the policy spec is valid, the OperatorGroup matches what is required by the policy, the Subscription \
         matches what is required by the policy, no InstallPlans requiring approval were found, ClusterServiceVersion \
         (quay.v2) - install strategy completed with no errors, there are CRDs present for the operator, all operator \
         Deployments have their minimum availability, CatalogSource was found"
    );
    edit(&mut policy, "versions", json!(["quay.v1"]));
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        words(&policy, "ClusterServiceVersionCompliant"),
        "ClusterServiceVersion (quay.v2) is not an approved version"
    );
}

#[tokio::test]
async fn versions_may_come_from_a_template() {
    let world = World::default();
    let template = r#"{{ (lookup "v1" "Namespace" "" "ops").metadata.name }}.v1"#;
    let mut policy = policy(json!({"versions": [template]}));
    world.evaluate(&mut policy).await.unwrap();
    world.offer("quay", "", "ops.v1", "plan-1", &["ops.v1"]);
    world.evaluate(&mut policy).await.unwrap();
    assert!(world.is_approved("plan-1"));
}

#[tokio::test]
async fn upgrades_wait_unless_they_are_automatic() {
    let (world, mut policy) = (World::default(), policy(json!({"versions": ["quay.v1", "quay.v2"]})));
    world.evaluate(&mut policy).await.unwrap();
    world.offer("quay", "", "quay.v1", "plan-1", &["quay.v1"]);
    world.evaluate(&mut policy).await.unwrap();
    assert!(world.is_approved("plan-1"), "the first one is always approved");
    world.install("quay", "quay.v1", "plan-1");
    world.offer("quay", "quay.v1", "quay.v2", "plan-2", &["quay.v2"]);
    world.evaluate(&mut policy).await.unwrap();
    assert!(!world.is_approved("plan-2"));
    let available = "an InstallPlan to update to [quay.v2] is available for approval";
    assert_eq!(words(&policy, "InstallPlanCompliant"), available);
    assert!(summary(&policy).starts_with("Compliant; "), "nobody minds");
    edit(
        &mut policy,
        "complianceConfig",
        json!({"upgradesAvailable": "NonCompliant"}),
    );
    world.evaluate(&mut policy).await.unwrap();
    assert!(summary(&policy).starts_with("NonCompliant; "));
    edit(&mut policy, "upgradeApproval", json!("Automatic"));
    world.evaluate(&mut policy).await.unwrap();
    assert!(world.is_approved("plan-2"));
}

#[tokio::test]
async fn a_policy_that_looks_approves_nothing() {
    let (world, mut policy) = (World::default(), policy(json!({})));
    world.evaluate(&mut policy).await.unwrap();
    edit(&mut policy, "remediationAction", json!("inform"));
    world.offer("quay", "", "quay.v1", "plan-1", &["quay.v1"]);
    world.evaluate(&mut policy).await.unwrap();
    assert!(!world.is_approved("plan-1"));
}

#[tokio::test]
async fn a_shared_plan_needs_every_policy_to_approve() {
    let world = World::default();
    let mut quay = policy(json!({}));
    let mut clair = policy_over("clair", json!({"versions": ["clair.v1"]}));
    world.evaluate(&mut quay).await.unwrap();
    world.evaluate(&mut clair).await.unwrap();
    world.offer("clair", "", "clair.v2", "plan", &["quay.v1", "clair.v2"]);
    world.offer("quay", "", "quay.v1", "plan", &["quay.v1", "clair.v2"]);
    world.evaluate_among(&mut quay, &[&clair]).await.unwrap();
    assert!(!world.is_approved("plan"));
    assert_eq!(
        words(&quay, "InstallPlanCompliant"),
        "an InstallPlan to update to [clair.v2, quay.v1] is available for approval but approval for [clair.v2] is required"
    );
    edit(&mut clair, "versions", json!(["clair.v1,clair.v2"]));
    world.evaluate_among(&mut quay, &[&clair]).await.unwrap();
    assert!(world.is_approved("plan"));
}

#[tokio::test]
async fn an_install_plan_is_told_by_its_phase() {
    let (world, mut policy) = (World::default(), policy(json!({})));
    world.evaluate(&mut policy).await.unwrap();
    world.offer("quay", "", "quay.v1", "plan", &["quay.v1"]);
    for (phase, says) in [
        ("Installing", "a relevant InstallPlan is actively installing"),
        ("Failed", "the current InstallPlan has failed"),
        ("Complete", "no InstallPlans requiring approval were found"),
    ] {
        let plan = super::super::INSTALL_PLAN;
        world.change(&plan, "plan", |it| it["status"]["phase"] = phase.into());
        world.evaluate(&mut policy).await.unwrap();
        assert_eq!(words(&policy, "InstallPlanCompliant"), says);
        assert_eq!(related(&policy, &plan)[0].2, format!("The InstallPlan is {phase}"));
    }
}

async fn installed(otherwise: Value) -> (World, ocm_addon_sdk::ocm_api::policy::operator_policy::OperatorPolicy) {
    let (world, mut policy) = (World::default(), policy(otherwise));
    world.evaluate(&mut policy).await.unwrap();
    world.offer("quay", "", "quay.v1", "plan", &["quay.v1"]);
    world.install("quay", "quay.v1", "plan");
    world.evaluate(&mut policy).await.unwrap();
    assert!(summary(&policy).starts_with("Compliant; "), "{}", summary(&policy));
    (world, policy)
}

#[tokio::test]
async fn deployments_and_catalogs_count_as_the_policy_says() {
    let (world, mut policy) = installed(json!({})).await;
    world.change(&DEPLOYMENT, "quay", |it| it["status"]["unavailableReplicas"] = 1.into());
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        words(&policy, "DeploymentCompliant"),
        "the deployments quay do not have their minimum availability"
    );
    assert!(summary(&policy).starts_with("NonCompliant; "));
    edit(
        &mut policy,
        "complianceConfig",
        json!({"deploymentsUnavailable": "Compliant"}),
    );
    let catalog = json!({
        "metadata": {"name": "catalog", "namespace": "olm"},
        "status": {"connectionState": {"lastObservedState": "TRANSIENT_FAILURE"}},
    });
    world.put(&CATALOG_SOURCE, catalog);
    world.evaluate(&mut policy).await.unwrap();
    assert!(summary(&policy).starts_with("Compliant; "));
    assert_eq!(
        said(&policy, "CatalogSourcesUnhealthy"),
        (
            "False".to_owned(),
            "CatalogSourcesFoundUnhealthy".to_owned(),
            "CatalogSource was found but is unhealthy".to_owned()
        )
    );
    edit(
        &mut policy,
        "complianceConfig",
        json!({"catalogSourceUnhealthy": "NonCompliant"}),
    );
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(said(&policy, "CatalogSourcesUnhealthy").0, "True");
    world.put(
        &CATALOG_SOURCE,
        json!({"metadata": {"name": "catalog", "namespace": "olm"}}),
    );
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(said(&policy, "CatalogSourcesUnknownState").1, "LastObservedUnknown");
}

#[tokio::test]
async fn deprecations_are_told_where_they_matter() {
    let (world, mut policy) = installed(json!({})).await;
    let package = json!({"metadata": {"name": "quay", "namespace": "default"}, "status": {
        "packageName": "quay", "deprecation": {"message": "Use another one."}, "channels": [],
    }});
    world.put(&PACKAGE_MANIFEST, package);
    world.evaluate(&mut policy).await.unwrap();
    let deprecated = "the requested quay Package was deprecated. Use another one.";
    assert_eq!(words(&policy, "NoDeprecations"), deprecated);
    assert!(!summary(&policy).contains(deprecated));
    edit(
        &mut policy,
        "complianceConfig",
        json!({"deprecationsPresent": "NonCompliant"}),
    );
    world.evaluate(&mut policy).await.unwrap();
    let summary = summary(&policy);
    assert!(
        summary.starts_with("NonCompliant; ") && summary.ends_with(deprecated),
        "{summary}"
    );
}

#[tokio::test]
async fn an_operator_from_elsewhere_is_taken_as_installed() {
    let (world, mut policy) = (World::default(), policy(json!({})));
    world.evaluate(&mut policy).await.unwrap();
    let properties = json!({"properties": [{"type": "olm.package", "value": {"packageName": "quay", "version": "1"}}]});
    let copied = json!({
        "metadata": {
            "name": "quay.v1", "namespace": "ops", "labels": {"olm.copiedFrom": "global"},
            "annotations": {"operatorframework.io/properties": properties.to_string()},
        },
        "status": {"phase": "Succeeded", "reason": "Copied", "message": "it is a copy"},
    });
    world.put(&CSV, copied);
    world.evaluate(&mut policy).await.unwrap();
    let elsewhere = "the operator is installed in namespace global and is available via AllNamespaces mode";
    assert_eq!(words(&policy, "SubscriptionCompliant"), elsewhere);
    assert!(summary(&policy).starts_with(&format!("Compliant; the policy spec is valid, {elsewhere}")));
    assert!(world.names(&SUBSCRIPTION).is_empty(), "its own is taken back");
    assert_eq!(world.names(&OPERATOR_GROUP), ["ops-abcde"]);
}

#[tokio::test]
async fn a_version_without_subscription_is_adopted_after_a_while() {
    let (world, mut policy) = (World::default(), policy(json!({})));
    world.evaluate(&mut policy).await.unwrap();
    world.put(&CSV, json!({"metadata": {"name": "quay.v1", "namespace": "ops"}}));
    let message = "constraints not satisfiable: subscription quay requires it, clusterserviceversion quay.v1 exists and is \
                   not referenced by a subscription";
    world.change(&SUBSCRIPTION, "quay", |it| {
        let failed = json!({
            "type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable", "message": message,
        });
        it["status"]["conditions"] = json!([failed]);
    });
    let wait = world.evaluate(&mut policy).await.unwrap();
    assert!(wait.is_some(), "OLM may still find a way");
    assert_eq!(
        words(&policy, "SubscriptionCompliant"),
        "constraints not satisfiable: refer to the Subscription for more details"
    );
    let current = || world.get(&SUBSCRIPTION, "quay").unwrap()["status"]["currentCSV"].clone();
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(current(), Value::Null);
    let status = policy.status.as_mut().unwrap();
    let begun = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(1);
    status.subscription_intervention_time = Some(ocm_addon_sdk::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        begun,
    ));
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(current(), "quay.v1");
}
