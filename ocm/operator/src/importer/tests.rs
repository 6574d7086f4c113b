//! Runs from what was seen to what is written and said.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use ocm_reconcile::Reconciler;
use serde_json::{Value, json};

use super::{
    failure::Failure,
    lookup::Inputs,
    plan::{Decision, ImportRound},
    source::{DELETE_AFTER_IMPORT, ImportSource, Looked, Provider},
    values::Materials,
    verdict::{self, Verdict},
    *,
};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn secret(metadata: &Value) -> Looked<Secret> {
    let mut object = json!({"metadata": metadata, "data": {"value": "a2luZA==", "kubeconfig": "a2luZA=="}});
    object["metadata"]["namespace"] = "c1".into();
    Ok(Some(serde_json::from_value(object).unwrap()))
}

fn of_cluster_api(phase: &str, rival: Option<&str>) -> Provider {
    Provider::ClusterApi {
        key: ("c1".to_owned(), "c1".to_owned()),
        phase: phase.to_owned(),
        rival: rival.map(str::to_owned),
    }
}

fn seen(provider: Provider, secret: Looked<Secret>, round: ImportRound) -> Seen {
    let cluster = json!({"metadata": {"name": "c1", "resourceVersion": "7"}, "spec": {}, "status": {}});
    Seen {
        now: now(),
        name: "c1".to_owned(),
        options: Arc::new(Options::default()),
        cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
        source: Some(ImportSource { provider, secret }),
        inputs: Inputs::default(),
        last: None,
        round,
    }
}

/// What is said when a round was the last one, and nothing was written in it.
fn said(seen: &Seen) -> String {
    format!("{:#}", Importer::conclude(seen, &Outcome::default()))
        .trim()
        .to_owned()
}

fn condition(status: &str, reason: &str, message: &str) -> String {
    format!(
        r#"hub: patch ManagedCluster c1 status {{"status":{{"conditions":[{{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"{message}","reason":"{reason}","status":"{status}","type":"ManagedClusterImportSucceeded"}}]}}}}"#
    )
}

#[test]
fn a_cluster_not_provisioned_yet_is_waited_for() {
    let it = seen(of_cluster_api("Provisioning", None), Ok(None), ImportRound::First);
    let message = "Secret for kubeconfig is not found.";
    let event =
        format!("hub: event Warning KubeConfigNotFound in default \"managed cluster c1 is not imported: {message}\"");
    assert_eq!(
        said(&it),
        format!(
            "stage 1\n{}\nstage 2\n{event}",
            condition("False", "KubeConfigNotFound", message)
        )
    );
    assert!(!it.goes_on(&Outcome::default()));
}

#[test]
fn a_missing_secret_is_named_and_looked_for_again() {
    let it = seen(of_cluster_api("Provisioned", None), Ok(None), ImportRound::First);
    let said = said(&it);
    assert!(said.contains("\"Secret c1/c1-kubeconfig is not there\""), "{said}");
    assert!(
        said.contains("KubeConfigGetFailed") && said.ends_with("again in 60s"),
        "{said}"
    );
    let mut empty = secret(&json!({"name": "c1-kubeconfig"}));
    if let Ok(Some(secret)) = &mut empty {
        secret.data = None;
    }
    let it = seen(of_cluster_api("Provisioned", None), empty, ImportRound::First);
    assert!(super::tests::said(&it).contains("has no key value"));
    let it = seen(Provider::Secret, Err("forbidden".to_owned()), ImportRound::First);
    assert!(super::tests::said(&it).contains("Secret c1/auto-import-secret cannot be read: forbidden"));
}

#[test]
fn a_cluster_that_is_another_already_is_refused() {
    let it = seen(
        of_cluster_api("Provisioned", Some("c0")),
        secret(&json!({"name": "c1-kubeconfig"})),
        ImportRound::First,
    );
    assert!(said(&it).contains("is ManagedCluster c0: correct annotation cluster.x-k8s.io/cluster"));
}

#[test]
fn an_import_that_failed_is_not_tried_at_once() {
    let provisioned = || of_cluster_api("Provisioned", None);
    let mut it = seen(
        provisioned(),
        secret(&json!({"name": "c1-kubeconfig"})),
        ImportRound::First,
    );
    assert_eq!(it.decide(), Decision::Go("kind".to_owned()));
    let failure = Failure::not_applied("no".to_owned());
    let first = it.attempt(&failure);
    it.last = Some(first.clone());
    it.now = now() + SignedDuration::from_secs(2);
    assert_eq!(it.decide(), Decision::Later(std::time::Duration::from_secs(3)));
    assert_eq!(
        Importer::plan(&it).to_string(),
        "nothing to do\nwaits: it was tried a moment ago\nagain in 3s\n"
    );
    it.now = now() + SignedDuration::from_secs(5);
    assert_eq!(it.decide(), Decision::Go("kind".to_owned()));
    assert_eq!(it.attempt(&failure).failures, 2);
    it.now = now();
    it.inputs = lookup::tests::other();
    assert_eq!((it.decide(), it.failures()), (Decision::Go("kind".to_owned()), 0));
}

#[test]
fn missing_values_are_said_before_a_token_is_asked_for() {
    let materials = Materials {
        config: Ok(None),
        cluster_info: Ok(None),
        root_ca: Ok(None),
        pull_secret: Ok(None),
    };
    let round = ImportRound::Materials(Box::new(materials));
    let it = seen(
        of_cluster_api("Provisioned", None),
        secret(&json!({"name": "c1-kubeconfig"})),
        round,
    );
    assert!(Importer::plan(&it).is_empty() && !it.goes_on(&Outcome::default()));
    let said = said(&it);
    assert!(
        said.contains("ConfigRendererFailed") && said.contains("c1/cluster-import-config is not there"),
        "{said}"
    );
    assert!(said.ends_with("again in 5s"), "{said}");
}

#[test]
fn a_cluster_that_is_away_is_said_to_be() {
    let round = ImportRound::Cluster(Box::new(Err(Failure::not_applied("it does not answer".to_owned()))));
    let mut it = seen(
        of_cluster_api("Provisioned", None),
        secret(&json!({"name": "c1-kubeconfig"})),
        round,
    );
    assert!(said(&it).contains(&condition("False", "ImportFailed", "it does not answer")));
    // Once it is said, it is not said again.
    let Some(Verdict::Failed(failure)) = verdict::of(&it, &Outcome::default()) else {
        panic!("it failed")
    };
    let update = ocm_api::condition::wanted("ManagedClusterImportSucceeded", false, failure.reason, failure.message);
    let mut cluster = (**it.cluster.as_ref().unwrap()).clone();
    cluster.status.get_or_insert_default().conditions = vec![update.since(now())];
    it.cluster = Some(Arc::new(cluster));
    assert_eq!(said(&it), "nothing to do\nagain in 5s");
}

#[test]
fn success_is_said_and_a_secret_deleted_where_wanted() {
    let imported = |provider: Provider, annotations: Value| {
        let metadata = json!({"name": "auto-import-secret", "uid": "u", "annotations": annotations});
        let it = seen(provider, secret(&metadata), ImportRound::First);
        format!("{}", verdict::say(&it, &Verdict::Imported))
    };
    let kept =
        "stage 1\nhub: patch ManagedCluster c1 status\nstage 2\nhub: event Normal ManagedClusterImported in default\n";
    assert_eq!(imported(Provider::Secret, json!({})), kept);
    let wanted = json!({DELETE_AFTER_IMPORT: "true"});
    assert_eq!(imported(of_cluster_api("Provisioned", None), wanted.clone()), kept);
    let deleted = imported(Provider::Secret, wanted);
    assert!(
        deleted.ends_with("stage 3\nhub: delete Secret c1/auto-import-secret\n"),
        "{deleted}"
    );
}

#[test]
fn nobody_asks_about_an_imported_cluster() {
    let mut it = seen(of_cluster_api("Provisioned", None), Ok(None), ImportRound::First);
    it.cluster = None;
    assert_eq!((it.decide(), said(&it)), (Decision::Leave, "nothing to do".to_owned()));
    assert!(Importer::plan(&it).is_empty());
}
