//! OperatorGroup and Subscription are made and kept as they are wanted.

use serde_json::json;

use super::{
    super::{MANAGED, NAMESPACE, OPERATOR_GROUP, SUBSCRIPTION},
    world::{World, edit, policy, related, said, summary, words},
};

const REST: &str = "there are no relevant InstallPlans in the namespace, the ClusterServiceVersion required by the policy \
     was not found, no CRDs were found for the operator, there are no relevant deployments because the \
     ClusterServiceVersion is missing, CatalogSource was found";

#[tokio::test]
async fn an_enforced_policy_makes_group_and_subscription() {
    let (world, mut policy) = (World::default(), policy(json!({})));
    assert_eq!(world.evaluate(&mut policy).await, Ok(None));
    let group = world.get(&OPERATOR_GROUP, "ops-abcde").unwrap();
    assert_eq!(group["metadata"]["generateName"], "ops-");
    let subscription = world.get(&SUBSCRIPTION, "quay").unwrap();
    assert_eq!(
        subscription["spec"],
        json!({
            "name": "quay", "channel": "stable", "source": "catalog", "sourceNamespace": "olm",
            "installPlanApproval": "Manual",
        })
    );
    assert_eq!(subscription["metadata"]["labels"][MANAGED], "");
    assert_eq!(subscription["metadata"]["annotations"][MANAGED], "managed.quay");
    assert_eq!(
        said(&policy, "OperatorGroupCompliant"),
        (
            "True".to_owned(),
            "OperatorGroupCreated".to_owned(),
            "the OperatorGroup required by the policy was created".to_owned()
        )
    );
    assert_eq!(
        summary(&policy),
        format!(
            "NonCompliant; the policy spec is valid, the OperatorGroup required by the policy was created, the Subscription \
             required by the policy was created, {REST}"
        )
    );
    let created = ("K8s creation success".to_owned(), "Compliant".to_owned());
    let [(name, compliant, reason)] = related(&policy, &SUBSCRIPTION).try_into().unwrap();
    assert_eq!((name, (reason, compliant)), ("quay".to_owned(), created));
    let heard = world.heard();
    assert_eq!(
        heard.len(),
        3,
        "what was missing was told before it was made: {heard:?}"
    );
    assert!(heard[0].ends_with("the OperatorGroup required by the policy was not found"));
    assert!(heard[1].ends_with("was created, the Subscription required by the policy was not found"));
    // Nothing else is to be done.
    assert_eq!(world.evaluate(&mut policy).await, Ok(None));
    assert_eq!(
        words(&policy, "SubscriptionCompliant"),
        "the Subscription matches what is required by the policy"
    );
    let status = policy.status.as_ref().unwrap();
    let of_policy = status.related_objects.iter().filter_map(|it| it.properties.as_ref());
    assert_eq!(of_policy.filter(|it| it.created_by_policy == Some(true)).count(), 2);
    assert_eq!(status.resolved_subscription_label, "quay.ops");
    world.heard();
    let written = *world.written.lock();
    assert_eq!(world.evaluate(&mut policy).await, Ok(None));
    assert!(world.heard().is_empty() && *world.written.lock() == written);
}

#[tokio::test]
async fn an_inform_policy_tells_what_is_missing() {
    let (world, mut policy) = (World::default(), policy(json!({"remediationAction": "inform"})));
    assert_eq!(world.evaluate(&mut policy).await, Ok(None));
    assert!(world.names(&OPERATOR_GROUP).is_empty() && world.names(&SUBSCRIPTION).is_empty());
    assert_eq!(
        world.heard(),
        [format!(
            "NonCompliant; the policy spec is valid, the OperatorGroup required by the policy was not found, the \
             Subscription required by the policy was not found, {REST}"
        )]
    );
    let missing = |name: &str| {
        let reason = "Resource not found but should exist";
        vec![(name.to_owned(), "NonCompliant".to_owned(), reason.to_owned())]
    };
    assert_eq!(related(&policy, &OPERATOR_GROUP), missing("-"));
    assert_eq!(related(&policy, &SUBSCRIPTION), missing("quay"));
    let types: Vec<_> = policy
        .status
        .unwrap()
        .conditions
        .into_iter()
        .map(|it| it.type_)
        .collect();
    assert!(types.is_sorted(), "{types:?}");
}

#[tokio::test]
async fn a_missing_namespace_is_told_and_made() {
    let world = World::default();
    let described =
        json!({"name": "quay", "namespace": "new", "channel": "c", "source": "catalog", "sourceNamespace": "olm"});
    let mut policy = policy(json!({"subscription": described}));
    assert_eq!(world.evaluate(&mut policy).await, Ok(None));
    let heard = world.heard();
    assert_eq!(
        heard[0],
        "NonCompliant; the operator namespace ('new') does not exist, the OperatorGroup required by the policy was not found"
    );
    assert!(world.names(&NAMESPACE).contains(&"new".to_owned()));
    assert_eq!(world.names(&SUBSCRIPTION), ["quay"]);
    // The namespace wakes the policy.
    world.evaluate(&mut policy).await.unwrap();
    assert!(summary(&policy).starts_with("NonCompliant; the policy spec is valid, the OperatorGroup matches"));
}

#[tokio::test]
async fn a_subscription_is_put_back_and_its_config_replaced() {
    let world = World::default();
    let described = json!({
        "name": "quay", "namespace": "ops", "channel": "stable", "source": "catalog", "sourceNamespace": "olm",
        "config": {"env": [{"name": "A", "value": "1"}]},
    });
    let mut policy = policy(json!({"subscription": described}));
    world.evaluate(&mut policy).await.unwrap();
    world.evaluate(&mut policy).await.unwrap();
    world.heard();
    world.change(&SUBSCRIPTION, "quay", |it| {
        it["spec"]["channel"] = "beta".into();
        it["spec"]["config"]["env"] = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]);
        it["metadata"]["labels"]["of"] = "somebody".into();
    });
    edit(&mut policy, "remediationAction", json!("inform"));
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        words(&policy, "SubscriptionCompliant"),
        "the Subscription found on the cluster does not match the policy"
    );
    assert_eq!(world.get(&SUBSCRIPTION, "quay").unwrap()["spec"]["channel"], "beta");
    edit(&mut policy, "remediationAction", json!("enforce"));
    *world.forbids.lock() = true;
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        words(&policy, "SubscriptionCompliant"),
        "the Subscription found on the cluster does not match the policy and can't be enforced"
    );
    *world.forbids.lock() = false;
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        words(&policy, "SubscriptionCompliant"),
        "the Subscription was updated to match the policy"
    );
    let subscription = world.get(&SUBSCRIPTION, "quay").unwrap();
    assert_eq!(subscription["spec"]["channel"], "stable");
    assert_eq!(
        subscription["spec"]["config"]["env"],
        json!([{"name": "A", "value": "1"}])
    );
    assert_eq!(subscription["metadata"]["labels"]["of"], "somebody");
}

#[tokio::test]
async fn a_group_of_somebody_is_taken_as_right() {
    let (world, mut policy) = (World::default(), policy(json!({})));
    let theirs = json!({"metadata": {"name": "theirs", "namespace": "ops"}, "spec": {"targetNamespaces": ["a"]}});
    world.put(&OPERATOR_GROUP, theirs);
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        words(&policy, "OperatorGroupCompliant"),
        "the policy does not specify an OperatorGroup but one already exists in the namespace - assuming that \
         OperatorGroup is correct"
    );
    assert_eq!(world.names(&SUBSCRIPTION), ["quay"]);
}

#[tokio::test]
async fn groups_that_do_not_fit_stop_the_subscription() {
    let world = World::default();
    let mut policy = policy(json!({"operatorGroup": {"name": "mine", "targetNamespaces": ["ops"]}}));
    world.put(
        &OPERATOR_GROUP,
        json!({"metadata": {"name": "theirs", "namespace": "ops"}}),
    );
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(said(&policy, "OperatorGroupCompliant").1, "OperatorGroupMismatch");
    assert_eq!(related(&policy, &OPERATOR_GROUP).len(), 2);
    assert!(world.names(&SUBSCRIPTION).is_empty());
    let mine = json!({"metadata": {"name": "mine", "namespace": "ops"}, "spec": {"targetNamespaces": ["ops", "more"]}});
    world.put(&OPERATOR_GROUP, mine);
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        words(&policy, "OperatorGroupCompliant"),
        "there is more than one OperatorGroup in the namespace"
    );
    let world = World::default();
    let mine = json!({"metadata": {"name": "mine", "namespace": "ops"}, "spec": {"targetNamespaces": ["ops", "more"]}});
    world.put(&OPERATOR_GROUP, mine);
    world.evaluate(&mut policy).await.unwrap();
    let group = world.get(&OPERATOR_GROUP, "mine").unwrap();
    assert_eq!(group["spec"]["targetNamespaces"], json!(["ops"]));
    assert_eq!(world.names(&SUBSCRIPTION), ["quay"]);
}

#[tokio::test]
async fn defaults_come_from_the_package() {
    let world = World::default();
    let package = json!({"metadata": {"name": "quay", "namespace": "default"}, "status": {
        "packageName": "quay", "catalogSource": "catalog", "catalogSourceNamespace": "olm", "defaultChannel": "stable-3.9",
        "channels": [
            {"name": "stable-3.9", "currentCSVDesc": {"annotations": {"operatorframework.io/suggested-namespace": "ops"}}},
            {"name": "stable-3.10"},
        ],
    }});
    world.put(&super::super::PACKAGE_MANIFEST, package);
    let mut policy = policy(json!({"subscription": {"name": "quay"}, "upgradeApproval": "Automatic"}));
    world.evaluate(&mut policy).await.unwrap();
    assert_eq!(
        world.get(&SUBSCRIPTION, "quay").unwrap()["spec"],
        json!({
            "name": "quay", "channel": "stable-3.9", "source": "catalog", "sourceNamespace": "olm",
            "installPlanApproval": "Automatic",
        })
    );
    assert_eq!(
        words(&policy, "MinorChannelUpgradeAvailable"),
        "a newer version of the operator is available in channel(s): stable-3.10"
    );
    assert_eq!(said(&policy, "NoDeprecations").1, "Recommended");
}
