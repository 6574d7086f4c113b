use kube::{Api, Client, client::Body};
use ocm_api::{
    condition::wanted,
    conditions::managed_cluster::{self, reason},
};
use ocm_reconcile::{Clients, execute};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{cluster::arrived, *};
use crate::status;

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
        health: ApiServerHealth::Ok,
        failing_since: None,
        rotation: None,
        version: Some("v1.37.0".to_owned()),
        nodes: Some(Vec::new()),
        claims: Some(Vec::new()),
        claim_limits: ClaimLimits {
            custom_max: 20,
            reserved_suffixes: Vec::new(),
        },
        label: namespaces::label("https://hub"),
        namespaces: Present::default(),
        is_watching_namespaces: true,
        period: Duration::from_secs(60),
    }
}

const ACCEPTED: (&str, &str) = ("HubAcceptedManagedCluster", "True");

fn concluded(seen: &Seen) -> String {
    StatusReporter::conclude(seen, &Outcome::default()).to_string()
}

#[test]
fn an_accepted_cluster_reports_availability_with_one_patch_and_event() {
    let seen = seen(cluster(&[ACCEPTED]));
    assert_eq!(
        concluded(&seen),
        "stage 1\nhub: patch ManagedCluster cluster1 status\nstage 2\nhub: event Normal Available in cluster1\nagain in 60s\n"
    );
    let whole = format!("{:#}", StatusReporter::conclude(&seen, &Outcome::default()));
    for part in [
        "\"type\":\"ManagedClusterJoined\"",
        "\"kubernetes\":\"v1.37.0\"",
        "Managed cluster is available",
    ] {
        assert!(whole.contains(part), "{part} in {whole}");
    }
}

#[test]
fn an_unchanged_status_is_not_written_again() {
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
        StatusReporter::plan(&seen).to_string(),
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
fn only_a_lasting_failure_is_reported() {
    let said = [
        ACCEPTED,
        ("ManagedClusterJoined", "True"),
        ("ManagedClusterConditionAvailable", "True"),
    ];
    let mut seen = seen(cluster(&said));
    seen.health = ApiServerHealth::Failed {
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
        .found
        .insert("old".to_owned(), Arc::new(serde_json::from_value(old).unwrap()));
    assert_eq!(
        StatusReporter::plan(&seen).to_string(),
        "cluster: create Namespace team\ncluster: patch Namespace old\n"
    );
}

#[tokio::test]
async fn a_namespace_that_fails_says_nothing_about_the_others() {
    let mut wanting = cluster(&[ACCEPTED]);
    wanting["status"]["managedNamespaces"] = json!([
        {"name": "fails", "clusterSet": "blue"}, {"name": "fine", "clusterSet": "blue"}, {"name": "hidden", "clusterSet": "blue"}
    ]);
    let mut seen = seen(wanting);
    let old = json!({"metadata": {"name": "old", "labels": {seen.label.clone(): "true"}}});
    seen.namespaces
        .found
        .insert("old".to_owned(), Arc::new(serde_json::from_value(old).unwrap()));
    seen.namespaces
        .unread
        .insert("hidden".to_owned(), "not yours".to_owned());
    assert_eq!(
        StatusReporter::plan(&seen).to_string(),
        "cluster: create Namespace fails\ncluster: create Namespace fine\ncluster: patch Namespace old\n"
    );
    let outcome = execute(&Clients::cluster(without_room()), &StatusReporter::plan(&seen)).await;
    let mut told = (**seen.cluster.as_ref().unwrap()).clone();
    summary::fill(&seen, &outcome, &mut told);
    let said: Vec<_> = told.status.unwrap().managed_namespaces;
    let said: Vec<_> = said
        .iter()
        .map(|it| format!("{} {} {}", it.name, it.conditions[0].status, it.conditions[0].message))
        .collect();
    assert_eq!(
        said,
        [
            "fails False Failed to apply namespace: no room",
            "fine True Namespace successfully applied and managed",
            "hidden False Failed to apply namespace: not yours"
        ]
    );
    // The rest of the status is told all the same, and what could not be read is soon looked at again.
    assert!(concluded(&seen).ends_with("again in 5s\n"), "{}", concluded(&seen));
}

/// An API that makes the namespace `fine` and no other.
fn without_room() -> Client {
    let answer = |request: http::Request<Body>| async move {
        let asked = request.into_body().collect_bytes().await.unwrap();
        let object: Value = serde_json::from_slice(&asked).unwrap_or_default();
        let (code, answer) = match object["metadata"]["name"].as_str() {
            Some("fine") => (201, object),
            _ => (
                403,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no room", "code": 403}),
            ),
        };
        let response = http::Response::builder().status(code);
        response.body(Body::from(answer.to_string().into_bytes()))
    };
    Client::new(tower::service_fn(answer), "default")
}

#[test]
fn namespaces_are_watched_from_when_the_hub_wants_the_first() {
    let mut wanting = cluster(&[ACCEPTED]);
    let planned = |cluster: &Value| {
        let seen = Seen {
            is_watching_namespaces: false,
            ..seen(cluster.clone())
        };
        StatusReporter::plan(&seen).to_string()
    };
    assert_eq!(planned(&wanting), "nothing to do\n");
    wanting["status"]["managedNamespaces"] = json!([{"name": "team", "clusterSet": "blue"}]);
    assert_eq!(
        planned(&wanting),
        "watch the namespaces that this hub manages\ncluster: create Namespace team\n"
    );
}

/// An API that answers every list with this code.
async fn answering(code: u16) -> Cache<ClusterClaim> {
    let answer = move |_: http::Request<Body>| async move {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code});
        let answer = http::Response::builder().status(code);
        answer.body(Body::from(status.to_string().into_bytes()))
    };
    let client = Client::new(tower::service_fn(answer), "default");
    let cache = Cache::start(Api::all(client), CancellationToken::new());
    cache.until(Cache::failure).await;
    cache
}

#[tokio::test]
async fn claims_that_cannot_be_listed_stay_unchanged() {
    assert_eq!(arrived(&answering(500).await).map(|it| it.len()), None);
    assert_eq!(arrived(&answering(403).await).map(|it| it.len()), None);
    // Where the kind is not served, there are none.
    assert_eq!(arrived(&answering(404).await).map(|it| it.len()), Some(0));
}
