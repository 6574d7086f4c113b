//! What is wrong with a policy, and what goes wrong in an evaluation.

use serde_json::{Value, json};

use super::{
    super::{CATALOG_SOURCE, OPERATOR_GROUP, PACKAGE_MANIFEST, SUBSCRIPTION, refuse_operator},
    world::{World, edit, policy, said, summary, words},
};
use crate::evaluate::Remedy;

/// What a policy with this Subscription says is wrong.
async fn wrong(world: &World, otherwise: Value) -> String {
    let mut policy = policy(otherwise);
    let _ = world.evaluate(&mut policy).await;
    let summary = summary(&policy);
    assert_eq!(summary, format!("NonCompliant; {}", words(&policy, "ValidPolicySpec")));
    words(&policy, "ValidPolicySpec")
}

#[tokio::test]
async fn what_is_wrong_with_a_policy_is_all_it_says() {
    let world = World::default();
    let full = json!({"name": "quay", "channel": "c", "source": "catalog", "sourceNamespace": "olm"});
    assert_eq!(
        wrong(&world, json!({"subscription": {"channel": "c"}})).await,
        "name is required in spec.subscription"
    );
    assert_eq!(
        wrong(
            &world,
            json!({"subscription": {"name": "quay", "installPlanApproval": "Manual"}})
        )
        .await,
        "installPlanApproval is prohibited in spec.subscription"
    );
    assert_eq!(
        wrong(&world, json!({"subscription": {"name": "quay", "namespace": "ops"}})).await,
        "the subscription defaults could not be determined because the PackageManifest was not found"
    );
    let package = |status: Value| json!({"metadata": {"name": "quay", "namespace": "default"}, "status": status});
    world.put(&PACKAGE_MANIFEST, package(json!({})));
    assert_eq!(
        wrong(&world, json!({"subscription": {"name": "quay", "namespace": "ops"}})).await,
        "the subscription defaults could not be determined because the PackageManifest didn't specify a catalog"
    );
    world.put(
        &PACKAGE_MANIFEST,
        package(json!({"catalogSource": "catalog", "catalogSourceNamespace": "olm"})),
    );
    assert_eq!(
        wrong(&world, json!({"subscription": {"name": "quay", "namespace": "ops"}})).await,
        "the default channel could not be determined because the PackageManifest didn't specify one"
    );
    assert_eq!(
        wrong(
            &world,
            json!({"subscription": {"name": "quay", "namespace": "ops", "source": "other"}})
        )
        .await,
        "the subscription defaults could not be determined because the catalog specified in the policy does not match what \
         was found in the PackageManifest on the cluster"
    );
    assert_eq!(
        wrong(&world, json!({"subscription": full})).await,
        "namespace is required in spec.subscription"
    );
    assert_eq!(
        wrong(&world, json!({"operatorGroup": {"name": "g", "namespace": "other"}})).await,
        "the namespace specified in spec.operatorGroup ('other') must match the namespace used for the subscription ('ops')"
    );
    assert_eq!(
        wrong(&world, json!({"operatorGroup": {}})).await,
        "name is required in spec.operatorGroup"
    );
    let error = wrong(&world, json!({"versions": ["{{ fail \"no\" }}"]})).await;
    assert!(error.starts_with("unable to create template resolver: could not resolve the version template: "));
    let hub = wrong(&world, json!({"versions": ["{{hub .ManagedClusterName hub}}"]})).await;
    assert!(hub.starts_with("the governance-standalone-hub-templating addon must be enabled"));
    assert!(world.names(&SUBSCRIPTION).is_empty());
}

#[tokio::test]
async fn an_invalid_policy_knows_nothing_of_its_kinds() {
    let (world, mut policy) = (World::default(), policy(json!({"subscription": {"name": "A"}})));
    world.evaluate(&mut policy).await.unwrap();
    for kind in [&OPERATOR_GROUP, &SUBSCRIPTION, &CATALOG_SOURCE] {
        let (status, reason, message) = said(&policy, kind.condition);
        assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "InvalidPolicySpec"));
        let kind = kind.kind;
        let unknown = format!("the status of the {kind} could not be determined because the policy is invalid");
        assert_eq!(message, unknown);
    }
}

#[tokio::test]
async fn a_default_namespace_is_for_policies_that_name_none() {
    let mut world = World::default();
    world.settings.default_namespace = "ops".to_owned();
    let described = json!({"name": "quay", "channel": "c", "source": "catalog", "sourceNamespace": "olm"});
    let mut policy = policy(json!({"subscription": described}));
    let failure = world.evaluate(&mut policy).await.unwrap_err();
    assert_eq!(
        failure.remedy,
        Remedy::Again,
        "the package may suggest another one: {failure:?}"
    );
    let package = json!({"metadata": {"name": "quay", "namespace": "default"}, "status": {
        "packageName": "quay", "catalogSource": "catalog", "catalogSourceNamespace": "olm",
    }});
    world.put(&PACKAGE_MANIFEST, package);
    world.evaluate(&mut policy).await.unwrap();
    assert!(world.get(&SUBSCRIPTION, "quay").is_some());
}

#[tokio::test]
async fn policies_over_one_subscription_do_nothing() {
    let world = World::default();
    let (mut one, mut other) = (policy(json!({})), policy(json!({})));
    other.metadata.name = Some("other".to_owned());
    world.evaluate(&mut one).await.unwrap();
    world.evaluate_among(&mut other, &[&one]).await.unwrap();
    assert_eq!(
        words(&other, "ValidPolicySpec"),
        "the specified operator is managed by multiple enforced policies (other.managed, quay.managed)"
    );
    let overlapping = |it: &Option<ocm_addon_sdk::ocm_api::policy::operator_policy::OperatorPolicyStatus>| {
        it.as_ref().unwrap().overlapping_policies.clone()
    };
    assert_eq!(overlapping(&other.status), ["other.managed", "quay.managed"]);
    let before = one.clone();
    world.evaluate_among(&mut one, &[&before, &other]).await.unwrap();
    assert_eq!(overlapping(&one.status), ["other.managed", "quay.managed"]);
    // One that only looks is in nobody's way.
    edit(&mut other, "remediationAction", json!("inform"));
    world.evaluate_among(&mut other, &[&one]).await.unwrap();
    world.evaluate_among(&mut one, &[&other]).await.unwrap();
    assert!(overlapping(&one.status).is_empty() && overlapping(&other.status).is_empty());
    // Nor is one for another cluster.
    edit(&mut other, "remediationAction", json!("enforce"));
    let label = "policy.open-cluster-management.io/cluster-name".to_owned();
    other.metadata.labels = Some([(label, "c2".to_owned())].into());
    world.evaluate_among(&mut one, &[&other]).await.unwrap();
    assert!(overlapping(&one.status).is_empty());
}

#[tokio::test]
async fn a_cluster_without_olm_is_asked_again_when_it_comes() {
    let (world, mut policy) = (World::default(), policy(json!({})));
    world.forget_kind(&OPERATOR_GROUP);
    let failure = world.evaluate(&mut policy).await.unwrap_err();
    assert_eq!(failure.remedy, Remedy::Kind);
    assert_eq!(summary(&policy), "NonCompliant; the policy spec is valid");
}

#[tokio::test]
async fn the_status_waits_until_its_message_is_told() {
    let (world, mut policy) = (World::default(), policy(json!({"remediationAction": "inform"})));
    *world.deaf.lock() = Some("no events today".to_owned());
    let failure = world.evaluate(&mut policy).await.unwrap_err();
    assert_eq!(
        (failure.remedy, failure.message.as_str()),
        (Remedy::Again, "no events today")
    );
    assert_eq!(*world.written.lock(), 0);
}

#[tokio::test]
async fn so_many_messages_are_remembered() {
    let mut world = World::default();
    world.settings.history_max = 2;
    let mut policy = policy(json!({}));
    world.evaluate(&mut policy).await.unwrap();
    let heard = world.heard();
    let history = policy.status.as_ref().unwrap().history.clone();
    let messages: Vec<_> = history.iter().map(|it| it.message.clone()).collect();
    assert_eq!(messages, [heard[2].clone(), heard[1].clone()]);
    // A status that somebody has emptied is told again, and is not remembered twice.
    policy.status.as_mut().unwrap().compliant = String::new();
    world.evaluate(&mut policy).await.unwrap();
    world.heard();
    policy.status.as_mut().unwrap().compliant = String::new();
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(world.heard().len(), 1);
    assert_ne!(policy.status.unwrap().history[0].message, heard[2]);
}

#[tokio::test]
async fn hub_templates_that_fail_are_told() {
    let (world, mut policy) = (World::default(), policy(json!({})));
    let failure = refuse_operator(&mut policy, &world, &world.settings, "the hub is away")
        .await
        .unwrap_err();
    assert_eq!(failure.remedy, Remedy::Again);
    assert_eq!(world.heard(), ["NonCompliant; the hub is away"]);
}
