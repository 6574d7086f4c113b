//! What is not wanted goes, as far as the policy says.

use serde_json::{Value, json};

use super::{
    super::{CSV, DEFINITION, OPERATOR_GROUP, OperatorKind, SUBSCRIPTION},
    world::{World, edit, policy, policy_over, related, said, summary, words},
};
use ocm_addon_sdk::ocm_api::policy::operator_policy::OperatorPolicy;

/// An operator that is installed, and the policy that wants it.
async fn installed() -> (World, OperatorPolicy) {
    let (world, mut policy) = (World::default(), policy(json!({})));
    world.evaluate(&mut policy).await.unwrap();
    world.offer("quay", "", "quay.v1", "plan", &["quay.v1"]);
    world.install("quay", "quay.v1", "plan");
    world.evaluate(&mut policy).await.unwrap();
    world.heard();
    (world, policy)
}

async fn unwant(world: &World, policy: &mut OperatorPolicy, removal: Value) {
    edit(policy, "complianceType", json!("mustnothave"));
    edit(policy, "removalBehavior", removal);
    world.evaluate(policy).await.unwrap();
}

#[tokio::test]
async fn what_is_not_wanted_is_removed_and_definitions_stay() {
    let (world, mut policy) = installed().await;
    unwant(&world, &mut policy, json!({})).await;
    for kind in [&OPERATOR_GROUP, &SUBSCRIPTION, &CSV] {
        assert!(world.names(kind).is_empty(), "{}", kind.kind);
    }
    assert_eq!(world.names(&DEFINITION), ["quays.example.com"]);
    assert_eq!(
        summary(&policy),
        "Compliant; the policy spec is valid, the OperatorGroup was deleted, the Subscription was deleted, MustNotHave \
         policies ignore kind InstallPlan, the ClusterServiceVersion (quay.v1) was deleted, the policy specifies to keep the \
         CustomResourceDefinition, MustNotHave policies ignore kind Deployment, MustNotHave policies ignore kind \
         CatalogSource"
    );
    let heard = world.heard();
    assert!(heard[0].contains("the OperatorGroup is present"), "{heard:?}");
    assert!(
        heard
            .iter()
            .any(|it| it.contains("the ClusterServiceVersion (quay.v1) is present"))
    );
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        words(&policy, "SubscriptionCompliant"),
        "the Subscription is not present"
    );
    assert_eq!(
        related(&policy, &SUBSCRIPTION),
        [(
            "quay".to_owned(),
            "Compliant".to_owned(),
            "Resource not found as expected".to_owned()
        )]
    );
}

#[tokio::test]
async fn definitions_go_where_the_policy_says_so() {
    let (world, mut policy) = installed().await;
    unwant(&world, &mut policy, json!({"customResourceDefinitions": "Delete"})).await;
    assert!(world.names(&DEFINITION).is_empty());
    assert_eq!(
        words(&policy, "CustomResourceDefinitionCompliant"),
        "the CustomResourceDefinition was deleted"
    );
}

#[tokio::test]
async fn what_is_kept_or_used_by_others_stays() {
    let (world, mut quay) = installed().await;
    let mut clair = policy_over("clair", json!({}));
    world.evaluate(&mut clair).await.unwrap();
    unwant(
        &world,
        &mut quay,
        json!({"subscriptions": "Keep", "clusterServiceVersions": "Keep"}),
    )
    .await;
    let kept = |kind: &OperatorKind| format!("the policy specifies to keep the {}", kind.kind);
    for kind in [&OPERATOR_GROUP, &SUBSCRIPTION, &CSV] {
        assert_eq!(words(&quay, kind.condition), kept(kind));
        assert_eq!(related(&quay, kind)[0].1, "");
    }
    assert!(summary(&quay).starts_with("Compliant; "));
    assert_eq!(world.names(&SUBSCRIPTION), ["clair", "quay"]);
    // Without the other Subscription nobody uses the OperatorGroup.
    unwant(&world, &mut clair, json!({"operatorGroups": "DeleteIfUnused"})).await;
    assert_eq!(
        world.names(&OPERATOR_GROUP),
        ["ops-abcde"],
        "it is still used by the other operator"
    );
    unwant(&world, &mut quay, json!({})).await;
    assert!(world.names(&OPERATOR_GROUP).is_empty());
}

#[tokio::test]
async fn a_group_that_somebody_owns_stays() {
    let (world, mut policy) = installed().await;
    world.change(&OPERATOR_GROUP, "ops-abcde", |it| {
        it["metadata"]["ownerReferences"] = json!([{"kind": "Something", "name": "x"}]);
    });
    unwant(&world, &mut policy, json!({})).await;
    assert_eq!(
        words(&policy, "OperatorGroupCompliant"),
        "the policy specifies to keep the OperatorGroup"
    );
    assert_eq!(world.names(&OPERATOR_GROUP), ["ops-abcde"]);
}

#[tokio::test]
async fn a_policy_that_looks_tells_what_would_go() {
    let (world, mut policy) = installed().await;
    edit(&mut policy, "remediationAction", json!("inform"));
    unwant(&world, &mut policy, json!({})).await;
    assert_eq!(world.names(&CSV), ["quay.v1"]);
    assert_eq!(
        said(&policy, "ClusterServiceVersionCompliant"),
        (
            "False".to_owned(),
            "ClusterServiceVersionPresent".to_owned(),
            "the ClusterServiceVersion (quay.v1) is present".to_owned()
        )
    );
    assert_eq!(world.heard().len(), 1);
}

#[tokio::test]
async fn what_is_slow_to_go_is_told() {
    let (world, mut policy) = installed().await;
    for (kind, name) in [(&SUBSCRIPTION, "quay"), (&CSV, "quay.v1")] {
        world.change(kind, name, |it| it["metadata"]["finalizers"] = json!(["x"]));
    }
    unwant(&world, &mut policy, json!({})).await;
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        words(&policy, "SubscriptionCompliant"),
        "the Subscription has a deletion timestamp"
    );
    assert_eq!(
        words(&policy, "ClusterServiceVersionCompliant"),
        "the ClusterServiceVersion (quay.v1) has a deletion timestamp"
    );
    world.heard();
    world.evaluate(&mut policy).await.unwrap();
    assert!(world.heard().is_empty(), "the state does not change back and forth");
}
