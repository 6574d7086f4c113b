use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::ResourceExt;
use ocm_api::{finalizers, labels};
use ocm_reconcile::Done;
use serde_json::{Value, json};

use super::{super::rbac, *};

fn seen(cluster: Option<Value>) -> Seen {
    Seen {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        name: "cluster1".to_owned(),
        cluster: cluster.map(|it| Arc::new(serde_json::from_value(it).unwrap())),
        objects: ClusterObjects::default(),
        asked_api: false,
        works: Vec::new(),
        options: Arc::new(HubOptions::default()),
    }
}

fn accepted() -> Value {
    json!({"metadata": {"name": "cluster1", "uid": "u", "resourceVersion": "5",
            "finalizers": ["cluster.open-cluster-management.io/api-resource-cleanup"]},
        "spec": {"hubAcceptsClient": true}})
}

fn with_condition(mut cluster: Value, status: &str) -> Value {
    cluster["status"] = json!({"conditions": [{"type": "HubAcceptedManagedCluster", "status": status, "reason": "R",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    cluster
}

// Everything an accepted cluster has on the hub.
fn complete(cluster: Value) -> Seen {
    let none = std::collections::BTreeMap::new();
    let namespace = json!({"metadata": {"name": "cluster1", "labels": {labels::CLUSTER_NAME: "cluster1"}}});
    let objects = ClusterObjects {
        namespace: Some(Arc::new(serde_json::from_value(namespace).unwrap())),
        cluster_role: Some(Arc::new(rbac::cluster_role("cluster1", true, &none))),
        cluster_role_binding: Some(Arc::new(rbac::cluster_role_binding("cluster1", &none))),
        registration_binding: Some(Arc::new(rbac::registration_binding("cluster1", &none))),
        work_binding: Some(Arc::new(rbac::work_binding("cluster1", &none))),
    };
    Seen {
        objects,
        ..seen(Some(cluster))
    }
}

fn check(seen: &Seen, printed: &str) {
    assert_eq!(Lifecycle::plan(seen).to_string().trim(), printed.trim());
}

#[test]
fn objects_created_meanwhile_are_checked_again() {
    let mut met = Outcome::default();
    met.stages.push(vec![Ok(Done::AlreadyExists)]);
    assert_eq!(
        Lifecycle::conclude(&seen(Some(accepted())), &met).to_string(),
        "nothing to do\nagain in 1s\n"
    );
}

#[test]
fn an_accepted_cluster_gets_its_namespace_before_its_permissions() {
    check(
        &seen(Some(
            json!({"metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": true}}),
        )),
        "
stage 1
hub: patch ManagedCluster cluster1
hub: create Namespace cluster1
stage 2
hub: create ClusterRole open-cluster-management:managedcluster:cluster1
hub: create ClusterRoleBinding open-cluster-management:managedcluster:cluster1
hub: create RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:registration
hub: create RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:work",
    );
}

#[test]
fn a_cluster_that_comes_is_given_everything_in_one_write() {
    let given = json!({
        "metadata": {"finalizers": [finalizers::CLUSTER_RESOURCE_CLEANUP, finalizers::CLUSTER_API_RESOURCE_CLEANUP]},
        "spec": {"taints": [{"effect": "NoSelect", "key": "cluster.open-cluster-management.io/unreachable", "timeAdded": null}]},
    });
    let accepted = json!({"metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": true}});
    let plan = format!("{:#}", Lifecycle::plan(&seen(Some(accepted.clone()))));
    assert!(
        plan.contains(&format!("hub: patch ManagedCluster cluster1 {given}")),
        "{plan}"
    );
    // Those who own the parts leave it alone until then.
    let accepted: ManagedCluster = serde_json::from_value(accepted).unwrap();
    let options = HubOptions::default();
    assert!(first::is_to_come(&accepted, &options));
    assert!(!first::is_to_come(&first::given(&accepted, &options), &options));
}

#[test]
fn an_accepted_cluster_that_has_everything_needs_nothing() {
    check(&complete(accepted()), "nothing to do");
}

#[test]
fn a_rule_that_grants_more_is_repaired() {
    let mut seen = complete(accepted());
    let mut role = (**seen.objects.cluster_role.as_ref().unwrap()).clone();
    role.rules.as_mut().unwrap()[0].non_resource_urls = Some(vec!["*".to_owned()]);
    seen.objects.cluster_role = Some(Arc::new(role));
    check(
        &seen,
        "hub: patch ClusterRole open-cluster-management:managedcluster:cluster1",
    );
}

#[test]
fn a_binding_to_another_role_is_replaced() {
    let mut seen = complete(accepted());
    let mut binding = (**seen.objects.cluster_role_binding.as_ref().unwrap()).clone();
    binding.role_ref.name = "cluster-admin".to_owned();
    seen.objects.cluster_role_binding = Some(Arc::new(binding));
    check(
        &seen,
        "hub: delete ClusterRoleBinding open-cluster-management:managedcluster:cluster1",
    );
}

#[test]
fn a_cluster_that_was_never_accepted_only_waits() {
    check(
        &seen(Some(json!({"metadata": {"name": "cluster1"}, "spec": {}}))),
        "nothing to do\nwaits: hubAcceptsClient is not set",
    );
}

#[test]
fn a_denied_cluster_can_only_read_itself() {
    let mut denied = with_condition(accepted(), "True");
    denied["spec"]["hubAcceptsClient"] = json!(false);
    let seen = complete(denied);
    check(
        &seen,
        "
hub: patch ClusterRole open-cluster-management:managedcluster:cluster1
hub: delete RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:registration
hub: delete RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:work",
    );
    let said = Lifecycle::conclude(&seen, &Outcome::default());
    assert!(
        format!("{said:#}").contains("\"reason\":\"HubClusterAdminDenied\",\"status\":\"False\""),
        "{said:#}"
    );
}

#[test]
fn a_cluster_denied_before_its_acceptance_keeps_no_permission() {
    let mut denied = accepted();
    denied["spec"]["hubAcceptsClient"] = json!(false);
    check(
        &complete(denied.clone()),
        "
hub: patch ClusterRole open-cluster-management:managedcluster:cluster1
hub: delete RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:registration
hub: delete RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:work
waits: hubAcceptsClient is not set",
    );
    check(&seen(Some(denied)), "nothing to do\nwaits: hubAcceptsClient is not set");
}

/// A binding as upstream's hub has made it.
fn held(binding: &RoleBinding) -> Arc<RoleBinding> {
    let mut held = binding.clone();
    held.metadata.finalizers = Some(vec![finalizers::MANIFEST_WORK.to_owned()]);
    Arc::new(held)
}

#[test]
fn a_finalizer_on_the_binding_does_not_extend_permissions() {
    let mut denied = with_condition(accepted(), "True");
    denied["spec"]["hubAcceptsClient"] = json!(false);
    let mut seen = complete(denied);
    seen.objects.work_binding = Some(held(seen.objects.work_binding.as_ref().unwrap()));
    check(
        &seen,
        "
stage 1
hub: patch ClusterRole open-cluster-management:managedcluster:cluster1
hub: delete RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:registration
hub: delete RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:work
stage 2
hub: patch RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:work",
    );
    let mut kept = complete(accepted());
    kept.objects.work_binding = Some(held(kept.objects.work_binding.as_ref().unwrap()));
    check(
        &kept,
        "hub: patch RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:work",
    );
}

fn work(name: &str, deleted: bool) -> PartialObjectMeta<DynamicObject> {
    let mut work = json!({"metadata": {
        "name": name, "namespace": "cluster1", "uid": name, "finalizers": [finalizers::MANIFEST_WORK, "example.com/mine"],
    }});
    if deleted {
        work["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(work).unwrap()
}

fn leaving() -> Value {
    let mut leaving = accepted();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    leaving
}

#[test]
fn a_deleted_cluster_loses_permissions_and_waits_for_its_works() {
    let with_works = |seen: Seen| Seen {
        works: vec![work("a", false), work("b", true)],
        ..seen
    };
    check(
        &with_works(complete(leaving())),
        "
hub: delete ClusterRole open-cluster-management:managedcluster:cluster1
hub: delete ClusterRoleBinding open-cluster-management:managedcluster:cluster1
hub: delete RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:registration
hub: delete RoleBinding cluster1/open-cluster-management:managedcluster:cluster1:work
waits: 2 manifestworks are left in its namespace
again in 1s",
    );
    let waiting = with_works(seen(Some(leaving())));
    check(
        &waiting,
        "nothing to do\nwaits: 2 manifestworks are left in its namespace\nagain in 1s",
    );
    let gone = Seen {
        cluster: None,
        ..waiting
    };
    check(&gone, "nothing to do");
}

#[test]
fn with_manual_deletion_only_deleted_works_lose_their_finalizers() {
    let by_hand = HubOptions {
        garbage: None,
        ..HubOptions::default()
    };
    let seen = Seen {
        works: vec![work("a", false), work("b", true)],
        options: Arc::new(by_hand),
        ..seen(Some(leaving()))
    };
    let plan = format!("{:#}", Lifecycle::plan(&seen));
    assert!(
        plan.contains(r#"patch ManifestWork cluster1/b {"metadata":{"finalizers":[]}}"#)
            && plan.contains(
                "The finalizers of 1 manifestworks of cluster cluster1, which is deleted, are removed by the hub: b."
            )
            && !plan.contains("cluster1/a"),
        "{plan}"
    );
}

#[test]
fn a_cluster_without_works_is_deleted_after_its_permissions() {
    let mut leaving = accepted();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check(&seen(Some(leaving)), "hub: patch ManagedCluster cluster1");
    check(&seen(None), "nothing to do");
}

#[test]
fn acceptance_is_reported_once() {
    let said = Lifecycle::conclude(&complete(accepted()), &Outcome::default());
    assert!(
        format!("{said:#}").contains("Accepted by hub cluster admin"),
        "{said:#}"
    );
    let mut accepted = with_condition(accepted(), "True");
    accepted["status"]["conditions"][0]["reason"] = json!("HubClusterAdminAccepted");
    accepted["status"]["conditions"][0]["message"] = json!("Accepted by hub cluster admin");
    assert_eq!(
        Lifecycle::conclude(&complete(accepted), &Outcome::default()),
        Plan::new()
    );
}

#[test]
fn a_denied_cluster_is_not_accepted_by_itself_again() {
    let mut cluster: ManagedCluster =
        serde_json::from_value(json!({"metadata": {"name": "cluster1"}, "spec": {}})).unwrap();
    assert_eq!(acceptance(Some(&cluster), true), Acceptance::ToAutoAccept);
    cluster.annotations_mut().insert(
        "open-cluster-management.io/automatically-accepted-on".to_owned(),
        "2026-01-01T00:00:00Z".to_owned(),
    );
    assert_eq!(acceptance(Some(&cluster), true), Acceptance::Waiting);
}
