//! What our types read and write, as a Go client sees it.

use ocm_api::addon::v1beta1::AddOnDeploymentConfig;
use ocm_api::cluster::{ManagedCluster, ManagedClusterSpec};
use ocm_api::work::{ManifestWork, ManifestWorkSpec};
use serde_json::{Value, json};

fn round<T: serde::Serialize + serde::de::DeserializeOwned>(value: Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(value).unwrap()).unwrap()
}

#[test]
fn empty_optional_fields_are_left_out() {
    let cluster = ManagedCluster::new("c", ManagedClusterSpec::default());
    assert_eq!(
        serde_json::to_value(&cluster).unwrap(),
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "c"}, "spec": {"hubAcceptsClient": false}
        })
    );
}

#[test]
fn nulls_and_missing_sections_are_read_as_empty() {
    let bare: ManagedCluster = serde_json::from_value(json!({"metadata": {"name": "c"}})).unwrap();
    assert_eq!(bare.spec, ManagedClusterSpec::default());
    let nulls = json!({"metadata": null, "spec": {"taints": null, "hubAcceptsClient": null}, "status": null});
    assert_eq!(
        serde_json::from_value::<ManagedCluster>(nulls).unwrap(),
        ManagedCluster::default()
    );
}

#[test]
fn a_manifest_keeps_every_field_even_those_nobody_knows() {
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "w", "namespace": "cluster1"},
        "spec": {"workload": {"manifests": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "odd": null}, "data": {}, "x": [1, 1.5, {"y": null}]}
        ]}}
    });
    assert_eq!(round::<ManifestWork>(work.clone()), work);
}

#[test]
fn a_work_of_a_go_agent_survives_a_roundtrip() {
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"},
        "spec": {
            "deleteOption": {"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
                {"group": "", "resource": "configmaps", "name": "a", "namespace": "default"}]}},
            "executor": {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "sa"}}},
            "manifestConfigs": [{
                "resourceIdentifier": {"group": "", "resource": "configmaps", "name": "*"},
                "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "p", "path": ".status.x"}]}],
                "updateStrategy": {"type": "ServerSideApply", "serverSideApply": {"force": false, "fieldManager": "work-agent"}},
                "conditionRules": [{"condition": "Complete", "type": "CEL", "celExpressions": ["true"]}]
            }],
            "workload": {}
        },
        "status": {
            "conditions": [{"type": "Applied", "status": "True", "reason": "AppliedManifestWorkComplete",
                "message": "Apply manifest work complete", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}],
            "resourceStatus": {"manifests": [{
                "conditions": [],
                "resourceMeta": {"ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
                    "name": "a", "namespace": "default"},
                "statusFeedback": {"values": [{"name": "p", "fieldValue": {"type": "Integer", "integer": 3}}]}
            }]}
        }
    });
    assert_eq!(round::<ManifestWork>(work.clone()), work);
    assert_eq!(
        serde_json::from_value::<ManifestWork>(json!({})).unwrap().spec,
        ManifestWorkSpec::default()
    );
}

#[test]
fn an_amount_may_be_a_number_as_in_go() {
    let cluster: ManagedCluster =
        serde_json::from_value(json!({"status": {"capacity": {"cpu": 4, "memory": "8Gi"}, "allocatable": null}}))
            .unwrap();
    let status = cluster.status.unwrap();
    assert_eq!(
        (status.capacity["cpu"].0.as_str(), status.capacity["memory"].0.as_str()),
        ("4", "8Gi")
    );
    assert!(status.allocatable.is_empty());

    let spec = json!({"resourceRequirements": [
        {"containerID": "*:*:*", "resources": {"limits": {"cpu": 1}, "requests": {"cpu": 0.5}}}
    ]});
    let config: AddOnDeploymentConfig = serde_json::from_value(json!({"spec": spec})).unwrap();
    let resources = &config.spec.resource_requirements[0].resources;
    assert_eq!(resources.limits.as_ref().unwrap()["cpu"].0, "1");
    assert_eq!(resources.requests.as_ref().unwrap()["cpu"].0, "0.5");
}
