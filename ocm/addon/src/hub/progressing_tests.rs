use serde_json::{Value, json};

use super::*;

const HASHES: &str = "open-cluster-management.io/config-spec-hash";

fn reference(hash: &str) -> Value {
    json!({"group": "g", "resource": "rs", "name": "x", "desiredConfig": {"namespace": "n", "name": "x", "specHash": hash}})
}

fn condition(r#type: &str, status: &str, generation: i64) -> Value {
    json!({
        "type": r#type, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": generation,
    })
}

fn work(name: &str, hashes: Option<Value>, applied_at: i64) -> Value {
    let mut work = json!({
        "metadata": {"name": name, "namespace": "cluster1", "generation": 2, "labels": {"open-cluster-management.io/addon-name": "a"}},
        "status": {"conditions": [condition("Applied", "True", applied_at), condition("Available", "True", 2)]},
    });
    if let Some(hashes) = hashes {
        work["metadata"]["annotations"] = json!({HASHES: hashes.to_string()});
    }
    work
}

fn check(addon: Value, works: Vec<Value>, expected: (bool, &str, &str)) {
    let addon = json!({
        "metadata": {"name": "a", "namespace": "cluster1", "annotations": addon["annotations"]},
        "spec": {"configs": addon["configs"]},
        "status": {
            "configReferences": addon["references"], "supportedConfigs": addon["supported"],
            "conditions": [condition(addon["has"].as_str().unwrap_or("ManifestApplied"), "True", 1)],
        },
    });
    let addon: ManagedClusterAddOn = serde_json::from_value(addon).unwrap();
    let works: Vec<_> = works
        .into_iter()
        .map(|it| Arc::new(serde_json::from_value(it).unwrap()))
        .collect();
    let (progressing, reason, message) = judge(&addon, &works);
    assert_eq!((progressing, reason, message.as_str()), expected);
}

#[test]
fn an_unsupported_configuration_is_reported_first() {
    check(
        json!({"configs": [{"group": "g", "resource": "rs", "name": "x"}], "has": "Other"}),
        vec![],
        (
            false,
            "ConfigurationUnsupported",
            "Configuration with gvr g/rs is not supported for this addon",
        ),
    );
}

#[test]
fn an_add_on_waits_for_its_manifests() {
    check(
        json!({"has": "Other"}),
        vec![],
        (
            false,
            "WaitingForManifestApplied",
            "Waiting for ManagedClusterAddOn ManifestApplied condition",
        ),
    );
    check(
        json!({"annotations": {"addon.open-cluster-management.io/hosting-cluster-name": "host"}}),
        vec![],
        (
            false,
            "WaitingForHostingManifestApplied",
            "Waiting for ManagedClusterAddOn HostingManifestApplied condition",
        ),
    );
}

#[test]
fn progress_completes_when_all_works_are_configured_and_available() {
    let configured = json!({"references": [reference("h")]});
    let hashes = json!({"rs.g/n/x": "h"});
    check(
        configured.clone(),
        vec![],
        (true, "Progressing", "progressing... no addon works"),
    );
    let old = json!({"rs.g/n/x": "old"});
    let mismatch = (true, "Progressing", "progressing... mca and work configs mismatch");
    check(
        configured.clone(),
        vec![work("addon-a-deploy-0", Some(old), 2)],
        mismatch,
    );
    check(configured.clone(), vec![work("addon-a-deploy-0", None, 2)], mismatch);
    let unhashed = json!({"rs.g/n/x": ""});
    let without_hash = json!({"references": [reference("")]});
    check(
        without_hash,
        vec![work("addon-a-deploy-0", Some(unhashed), 2)],
        mismatch,
    );
    check(
        configured.clone(),
        vec![work("addon-a-deploy-0", Some(hashes.clone()), 1)],
        (true, "Progressing", "progressing... work is not ready"),
    );
    let done = (false, "Completed", "completed with no errors.");
    check(
        configured.clone(),
        vec![work("addon-a-deploy-0", Some(hashes), 2)],
        done,
    );
    check(
        json!({}),
        vec![work("addon-a-deploy-0", None, 2), work("addon-a-pre-delete", None, 1)],
        done,
    );
}

#[test]
fn works_on_a_former_host_do_not_count() {
    let mut hosted = work("addon-a-deploy-hosting-cluster1-0", None, 1);
    hosted["metadata"]["namespace"] = json!("former");
    hosted["metadata"]["labels"]["open-cluster-management.io/addon-namespace"] = json!("cluster1");
    check(
        json!({}),
        vec![work("addon-a-deploy-0", None, 2), hosted],
        (false, "Completed", "completed with no errors."),
    );
}

#[test]
fn arriving_is_written_down_with_the_configuration() {
    let addon = json!({
        "metadata": {"name": "a", "namespace": "cluster1"}, "spec": {},
        "status": {"configReferences": [reference("h")], "conditions": [condition("ManifestApplied", "True", 1)]},
    });
    let hashes = json!({"rs.g/n/x": "h"});
    let mut seen = Seen {
        now: "2026-01-01T12:00:00Z".parse().unwrap(),
        addon: Some(Arc::new(serde_json::from_value(addon).unwrap())),
        cluster_management_addon: Some(Arc::new(
            serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {}})).unwrap(),
        )),
        works: vec![Arc::new(
            serde_json::from_value(work("addon-a-deploy-0", Some(hashes), 2)).unwrap(),
        )],
    };
    let plan = Progressing::plan(&seen);
    assert!(
        format!("{plan:#}").contains(r#""lastAppliedConfig":{"name":"x","namespace":"n","specHash":"h"}"#),
        "{plan:#}"
    );
    seen.cluster_management_addon = None;
    assert!(Progressing::plan(&seen).is_empty());
}
