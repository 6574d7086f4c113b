use serde_json::{Value, json};

use super::*;

fn seen(renewed: Option<&str>, cluster: Value) -> Seen {
    let lease = renewed.map(|at| {
        Arc::new(
            serde_json::from_value(
                json!({"metadata": {"name": "managed-cluster-lease", "namespace": "cluster1"},
            "spec": {"renewTime": at}}),
            )
            .unwrap(),
        )
    });
    Seen {
        now: "2026-01-01T01:00:00Z".parse().unwrap(),
        name: "cluster1".to_owned(),
        cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
        lease,
        asked_api: false,
        has_namespace: true,
    }
}

fn cluster(available: Option<&str>) -> Value {
    let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut conditions = vec![condition("HubAcceptedManagedCluster", "True")];
    conditions.extend(available.map(|it| condition("ManagedClusterConditionAvailable", it)));
    json!({"metadata": {"name": "cluster1"}, "spec": {"leaseDurationSeconds": 60}, "status": {"conditions": conditions}})
}

fn check(seen: &Seen, printed: &str) {
    assert_eq!(Availability::plan(seen).to_string().trim(), printed.trim());
}

#[test]
fn a_cluster_without_a_namespace_waits_without_retrying() {
    let mut seen = seen(None, cluster(None));
    seen.has_namespace = false;
    check(&seen, "nothing to do\nwaits: its namespace is not there yet");
}

#[test]
fn a_fresh_lease_is_rechecked_when_it_would_expire() {
    check(
        &seen(Some("2026-01-01T00:59:00.000000Z"), cluster(Some("True"))),
        "nothing to do\nagain in 240s",
    );
}

#[test]
fn a_lease_at_the_maximum_time_has_not_expired() {
    check(
        &seen(Some("9999-12-30T21:59:59.000000Z"), cluster(Some("True"))),
        "nothing to do\nagain in 251634978000.999999999s",
    );
}

#[test]
fn a_lease_that_ran_out_makes_the_cluster_unknown_once() {
    check(
        &seen(Some("2026-01-01T00:55:00.000000Z"), cluster(Some("True"))),
        "
stage 1
hub: patch ManagedCluster cluster1 status
stage 2
hub: event Warning AvailableUnknown in cluster1
again in 300s",
    );
    check(
        &seen(Some("2026-01-01T00:55:00.000000Z"), cluster(Some("Unknown"))),
        "nothing to do\nagain in 300s",
    );
}

#[test]
fn a_missing_lease_is_created_unless_the_cluster_is_leaving() {
    check(
        &seen(None, cluster(None)),
        "hub: create Lease cluster1/managed-cluster-lease\nagain in 300s",
    );
    let mut leaving = cluster(Some("True"));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let printed = Availability::plan(&seen(None, leaving)).to_string();
    assert!(
        printed.contains("hub: patch ManagedCluster cluster1 status"),
        "{printed}"
    );
}

#[test]
fn a_cluster_nobody_accepted_has_no_lease() {
    let new = json!({"metadata": {"name": "cluster1"}, "spec": {}});
    check(
        &seen(None, new),
        "nothing to do\nwaits: the cluster is not accepted yet",
    );
}
