use serde_json::{Value, json};

use super::*;

fn cluster(conditions: &[(&str, &str)]) -> Value {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|(type_, status)| {
            json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect();
    json!({"metadata": {"name": "cluster1"}, "spec": {}, "status": {"conditions": conditions}})
}

fn seen(cluster: Value) -> Seen {
    Seen {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
        health: Health::Ok,
        failing_since: None,
        rotation: None,
        version: Some("v1.37.0".to_owned()),
        nodes: Some(Vec::new()),
        claims: Some(Vec::new()),
        custom_claims_max: 20,
        reserved_claim_suffixes: Vec::new(),
        label: namespaces::label("https://hub"),
        namespaces: BTreeMap::new(),
        period: Duration::from_secs(60),
    }
}

const ACCEPTED: (&str, &str) = ("HubAcceptedManagedCluster", "True");

fn concluded(seen: &Seen) -> String {
    State::conclude(seen, &Outcome::default()).to_string()
}

#[test]
fn an_accepted_cluster_says_that_it_joined_and_is_available_with_one_patch_and_one_event() {
    let seen = seen(cluster(&[ACCEPTED]));
    assert_eq!(
        concluded(&seen),
        "stage 1\nhub: patch ManagedCluster cluster1 status\nstage 2\nhub: event Normal Available in cluster1\nagain in 60s\n"
    );
    let whole = format!("{:#}", State::conclude(&seen, &Outcome::default()));
    for part in [
        "\"type\":\"ManagedClusterJoined\"",
        "\"kubernetes\":\"v1.37.0\"",
        "Managed cluster is available",
    ] {
        assert!(whole.contains(part), "{part} in {whole}");
    }
}

#[test]
fn what_was_said_is_not_said_again() {
    let first = seen(cluster(&[ACCEPTED]));
    let mut told = (**first.cluster.as_ref().unwrap()).clone();
    for (type_, reason, message) in [
        (managed_cluster::JOINED, reason::JOINED, "Managed cluster joined"),
        (
            managed_cluster::AVAILABLE,
            reason::AVAILABLE,
            "Managed cluster is available",
        ),
    ] {
        told = status::saying(&told, wanted(type_, true, reason, message), first.now);
    }
    told.status.as_mut().unwrap().version.kubernetes = "v1.37.0".to_owned();
    let again = Seen {
        cluster: Some(Arc::new(told)),
        ..first
    };
    assert_eq!(concluded(&again), "nothing to do\nagain in 60s\n");
}

#[test]
fn a_cluster_that_is_not_accepted_says_nothing() {
    let seen = seen(cluster(&[("HubAcceptedManagedCluster", "False")]));
    assert_eq!(
        State::plan(&seen).to_string(),
        "nothing to do\nwaits: the cluster is not accepted\n"
    );
    assert_eq!(concluded(&seen), "nothing to do\n");
}

#[test]
fn a_clock_that_is_off_silences_the_agent() {
    let seen = seen(cluster(&[ACCEPTED, ("ManagedClusterConditionClockSynced", "False")]));
    assert_eq!(
        concluded(&seen),
        "nothing to do\nrefuses: the hub says that this cluster's clock is off: set it\nagain in 60s\n"
    );
}

#[test]
fn a_failure_is_told_only_when_it_lasts() {
    let said = [
        ACCEPTED,
        ("ManagedClusterJoined", "True"),
        ("ManagedClusterConditionAvailable", "True"),
    ];
    let mut seen = seen(cluster(&said));
    seen.health = Health::Failed {
        code: 500,
        text: "no".to_owned(),
    };
    seen.failing_since = Some(seen.now);
    assert!(!concluded(&seen).contains("event"), "{}", concluded(&seen));
    assert!(concluded(&seen).ends_with("again in 5s\n"), "{}", concluded(&seen));
    seen.failing_since = Some(seen.now - Duration::from_secs(21));
    assert!(
        concluded(&seen).contains("event Warning Unavailable"),
        "{}",
        concluded(&seen)
    );
}

#[test]
fn wanted_namespaces_are_made_and_unwanted_ones_are_only_marked() {
    let mut wanting = cluster(&[ACCEPTED]);
    wanting["status"]["managedNamespaces"] = json!([{"name": "team", "clusterSet": "blue"}]);
    let mut seen = seen(wanting);
    let old = json!({"metadata": {"name": "old", "labels": {seen.label.clone(): "true"}}});
    seen.namespaces
        .insert("old".to_owned(), Arc::new(serde_json::from_value(old).unwrap()));
    assert_eq!(
        State::plan(&seen).to_string(),
        "cluster: create Namespace team\ncluster: patch Namespace old\n"
    );
}
