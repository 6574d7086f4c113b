use serde_json::{Value, json};

use super::*;
use crate::Probe;

fn addon(status: Value) -> ManagedClusterAddOn {
    serde_json::from_value(json!({
        "metadata": {"name": "helloworld", "namespace": "cluster1", "uid": "u1"}, "spec": {}, "status": status
    }))
    .unwrap()
}

fn manifests(list: Value) -> Shares {
    manifest::share(list.as_array().unwrap().clone(), true).unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}})
}

fn job(name: &str) -> Value {
    let marks = json!({"addon.open-cluster-management.io/addon-pre-delete": ""});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "n", "annotations": marks}})
}

fn at(mut manifest: Value, place: &str) -> Value {
    manifest["metadata"]["annotations"]["addon.open-cluster-management.io/hosted-manifest-location"] = place.into();
    manifest
}

fn made(addon: &ManagedClusterAddOn, hosting: Option<&str>, shares: Shares) -> Vec<ManifestWork> {
    let from = Ingredients {
        addon,
        hosting,
        health: &Health::Lease,
        manifest_configs: &[],
        present: &[],
    };
    wanted(&from, shares).into_iter().map(|it| it.work).collect()
}

#[test]
fn the_work_of_an_add_on_equals_upstreams_work() {
    let status = json!({"configReferences": [{
        "group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs", "name": "global",
        "desiredConfig": {"namespace": "open-cluster-management", "name": "global", "specHash": "613d"}
    }]});
    let works = made(&addon(status), None, manifests(json!([config_map("a")])));
    let hashes = r#"{"addondeploymentconfigs.addon.open-cluster-management.io/open-cluster-management/global":"613d"}"#;
    assert_eq!(
        serde_json::to_value(&works).unwrap(),
        json!([{
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {
                "name": "addon-helloworld-deploy-0", "namespace": "cluster1",
                "labels": {"open-cluster-management.io/addon-name": "helloworld"},
                "annotations": {"open-cluster-management.io/config-spec-hash": hashes},
                "ownerReferences": [{
                    "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn",
                    "name": "helloworld", "uid": "u1", "controller": true, "blockOwnerDeletion": true
                }]
            },
            "spec": {"workload": {"manifests": [config_map("a")]}}
        }])
    );
}

#[test]
fn hosting_works_have_an_owner_only_on_their_own_cluster() {
    let both = || {
        manifests(json!([
            config_map("here"),
            at(config_map("there"), "hosting"),
            at(job("last"), "hosting")
        ]))
    };
    let works = made(&addon(json!({})), Some("hosting"), both());
    let summary = |work: &ManifestWork| {
        format!(
            "{}/{} {:?} {}",
            work.namespace().unwrap(),
            work.name_any(),
            work.labels().get(labels::ADDON_NAMESPACE),
            work.owner_references().len()
        )
    };
    assert_eq!(
        works.iter().map(summary).collect::<Vec<_>>(),
        [
            "cluster1/addon-helloworld-deploy-0 None 1",
            "hosting/addon-helloworld-deploy-hosting-cluster1-0 Some(\"cluster1\") 0",
            "hosting/addon-helloworld-pre-delete-hosting-cluster1 Some(\"cluster1\") 0",
        ]
    );
    let works = made(&addon(json!({})), Some("cluster1"), both());
    assert_eq!(
        summary(&works[1]),
        "cluster1/addon-helloworld-deploy-hosting-cluster1-0 None 1"
    );
}

#[test]
fn a_work_of_hooks_reports_whether_they_are_complete() {
    let works = made(
        &addon(json!({})),
        None,
        manifests(json!([job("last"), config_map("a")])),
    );
    assert_eq!(works[1].name_any(), "addon-helloworld-pre-delete");
    assert_eq!(
        serde_json::to_value(&works[1].spec.manifest_configs).unwrap(),
        json!([{
            "resourceIdentifier": {"group": "batch", "resource": "jobs", "name": "last", "namespace": "n"},
            "feedbackRules": [{"type": "WellKnownStatus"}]
        }])
    );
}

#[test]
fn server_defaults_and_foreign_additions_are_not_differences() {
    let addon = addon(json!({}));
    let own = options::manifest_configs(&[Probe::deployment("n", "a")], Vec::new());
    let from = Ingredients {
        addon: &addon,
        hosting: None,
        health: &Health::Lease,
        manifest_configs: &own,
        present: &[],
    };
    let wanted = wanted(&from, manifests(json!([config_map("a")]))).remove(0).work;
    let mut stored = serde_json::to_value(&wanted).unwrap();
    stored["metadata"]["labels"]["theirs"] = "x".into();
    stored["metadata"]["annotations"] = json!({"open-cluster-management.io/cleanup-priority": "10"});
    stored["metadata"]["finalizers"] = json!(["cluster.open-cluster-management.io/manifest-work-cleanup"]);
    stored["spec"]["manifestConfigs"][0]["feedbackScrapeType"] = "Poll".into();
    let stored: ManifestWork = serde_json::from_value(stored).unwrap();
    assert_eq!(changed(&stored, &wanted), None);
}

#[test]
fn modified_fields_of_a_work_are_restored() {
    let addon = addon(json!({}));
    let wanted = made(&addon, None, manifests(json!([config_map("a")]))).remove(0);
    let tampered: [fn(&mut ManifestWork); 5] = [
        |it| it.metadata.labels = None,
        |it| {
            it.annotations_mut()
                .insert(annotations::CONFIG_SPEC_HASH.to_owned(), "{}".to_owned());
        },
        |it| it.owner_references_mut()[0].uid = "of an add-on that is gone".to_owned(),
        |it| it.spec.workload.manifests = vec![RawObject(json!({"kind": "ConfigMap", "data": {"k": "v"}}))].into(),
        |it| it.spec.executor = Some(Default::default()),
    ];
    for tamper in tampered {
        let mut stored = wanted.clone();
        tamper(&mut stored);
        let mut repaired = changed(&stored, &wanted).unwrap();
        normalize(&mut repaired.metadata);
        assert_eq!(repaired, wanted);
    }
}
