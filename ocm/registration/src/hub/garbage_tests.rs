use ocm_api::conditions::managed_cluster::reason;
use serde_json::json;

use super::*;

#[test]
fn a_failed_list_is_reported_and_blocks_the_deletion() {
    let cluster = json!({
        "metadata": {
            "name": "cluster1", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [finalizers::CLUSTER_RESOURCE_CLEANUP]
        },
        "spec": {},
        "status": {"conditions": [{
            "type": managed_cluster::DELETING, "status": "True", "reason": reason::NO_RESOURCE, "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        }]}
    });
    let seen = Seen {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        name: "cluster1".to_owned(),
        cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
        is_to_come: false,
        remaining: Err("failed to list resource manifestworks. err:no".to_owned()),
    };
    assert_eq!(
        Garbage::plan(&seen).to_string(),
        "nothing to do\nwaits: failed to list resource manifestworks. err:no\nagain in 1s\n"
    );
    let said = format!("{:#}", Garbage::conclude(&seen, &Outcome::default()));
    assert!(
        said.contains("\"reason\":\"DeletingError\",\"status\":\"False\"") && said.contains("manifestworks. err:no"),
        "{said}"
    );
}

#[test]
fn the_hub_removes_all_work_finalizers_of_a_deleted_cluster() {
    let mut cluster = json!({
        "metadata": {
            "name": "cluster1", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [finalizers::CLUSTER_RESOURCE_CLEANUP]
        },
        "spec": {},
    });
    let object = |finalizers: serde_json::Value| {
        let it = json!({"metadata": {"name": "w", "namespace": "cluster1", "uid": "u", "finalizers": finalizers}});
        serde_json::from_value(it).unwrap()
    };
    let [add_ons, works] = <[GarbageKind; 2]>::try_from(GarbageKind::defaults()).unwrap();
    let planned = |cluster: Option<&serde_json::Value>, kind: &GarbageKind, object| {
        let seen = Seen {
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
            name: "cluster1".to_owned(),
            cluster: cluster.map(|it| Arc::new(serde_json::from_value(it.clone()).unwrap())),
            is_to_come: false,
            remaining: Ok(Some((kind.clone(), vec![object]))),
        };
        format!("{:#}", Garbage::plan(&seen))
    };
    let held = || object(json!([finalizers::MANIFEST_WORK, "example.com/mine"]));
    let expected = r#"patch ManifestWork cluster1/w {"metadata":{"finalizers":[]}}"#;
    let plan = planned(Some(&cluster), &works, held());
    assert!(
        plan.contains("delete ManifestWork cluster1/w") && plan.contains(expected),
        "{plan}"
    );
    assert!(plan.contains("FinalizersRemoved"), "{plan}");
    assert!(planned(None, &works, held()).contains(expected));
    // What is cleaned up elsewhere is somebody else's, whose rights stand.
    let hosted = object(json!([
        finalizers::ADDON_PRE_DELETE,
        finalizers::ADDON_HOSTING_MANIFESTS
    ]));
    let plan = planned(Some(&cluster), &add_ons, hosted);
    let staying = format!(
        r#"{{"metadata":{{"finalizers":["{}"]}}}}"#,
        finalizers::ADDON_HOSTING_MANIFESTS
    );
    assert!(plan.contains(&staying), "{plan}");
    // A cluster that is denied keeps its works.
    cluster["metadata"]["deletionTimestamp"] = serde_json::Value::Null;
    assert!(!planned(Some(&cluster), &works, held()).contains("ManifestWork"));
}
