use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

fn condition(type_: &str, status: &str, since: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": since})
}

pub(super) fn cluster() -> Value {
    json!({
        "metadata": {"name": "cluster1", "labels": {"cluster.open-cluster-management.io/clusterset": "prod"}},
        "spec": {},
        "status": {
            "version": {"kubernetes": "v1.34.1"},
            "clusterClaims": [{"name": "region", "value": "eu"}, {"name": "empty", "value": ""}],
            "conditions": [
                condition("ManagedClusterConditionAvailable", "Unknown", NOW),
                condition("ManagedClusterJoined", "True", NOW),
                condition("HubAcceptedManagedCluster", "True", NOW),
            ],
        },
    })
}

fn binding(set: &str, bound: &str, since: &str) -> Value {
    json!({
        "metadata": {"name": set, "namespace": "kueue"}, "spec": {"clusterSet": set},
        "status": {"conditions": [condition("Bound", bound, since)]},
    })
}

fn profile(labels: Value) -> Value {
    json!({
        "metadata": {"name": "cluster1", "namespace": "kueue", "labels": labels},
        "spec": {"displayName": "cluster1", "clusterManager": {"name": "open-cluster-management"}},
    })
}

fn our_labels() -> Value {
    json!({
        "x-k8s.io/cluster-manager": "open-cluster-management", "open-cluster-management.io/cluster-name": "cluster1",
        "multicluster.x-k8s.io/clusterset": "prod",
    })
}

struct World {
    profile: Option<Value>,
    cluster: Option<Value>,
    bindings: Vec<Value>,
    sets: Vec<&'static str>,
    open: bool,
}

impl Default for World {
    /// A cluster in a set that is bound, without a profile.
    fn default() -> Self {
        Self {
            profile: None,
            cluster: Some(cluster()),
            bindings: vec![binding("prod", "True", NOW)],
            sets: vec!["prod"],
            open: true,
        }
    }
}

pub(super) fn read<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn plan(world: World) -> String {
    let set = |name: &str| read(json!({"metadata": {"name": name}, "spec": {}}));
    let plan = ClusterProfiles::plan(&Seen {
        now: NOW.parse().unwrap(),
        namespace: "kueue".into(),
        profile: world.profile.map(read),
        cluster: world.cluster.map(read),
        bindings: world.bindings.into_iter().map(read).collect(),
        sets: world.sets.into_iter().map(set).collect(),
        open: world.open,
    });
    format!("{plan:#}").trim().to_owned()
}

#[test]
fn a_cluster_of_a_bound_set_gets_a_labelled_profile() {
    assert_eq!(
        plan(World::default()),
        r#"hub: create ClusterProfile kueue/cluster1 {"metadata":{"labels":{"multicluster.x-k8s.io/clusterset":"prod","open-cluster-management.io/cluster-name":"cluster1","x-k8s.io/cluster-manager":"open-cluster-management"}},"spec":{"clusterManager":{"name":"open-cluster-management"},"displayName":"cluster1"}}"#
    );
}

#[test]
fn a_profile_mirrors_its_cluster_and_keeps_access_providers() {
    let mut it = profile(our_labels());
    it["status"] =
        json!({"accessProviders": [{"name": "open-cluster-management", "cluster": {"server": "https://a"}}]});
    let world = World {
        profile: Some(it),
        ..World::default()
    };
    assert_eq!(
        plan(world),
        r#"hub: patch ClusterProfile kueue/cluster1 status {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T01:00:00Z","message":"m","reason":"R","status":"Unknown","type":"ControlPlaneHealthy"},{"lastTransitionTime":"2026-01-01T01:00:00Z","message":"m","reason":"R","status":"True","type":"Joined"}],"properties":[{"name":"region","value":"eu"}],"version":{"kubernetes":"v1.34.1"}}}"#
    );
}

#[test]
fn a_profile_whose_labels_are_wrong_gets_them_first() {
    let mut labels = our_labels();
    labels["multicluster.x-k8s.io/clusterset"] = json!("default");
    labels["mine"] = json!("stays");
    let world = World {
        profile: Some(profile(labels)),
        ..World::default()
    };
    assert_eq!(
        plan(world),
        r#"hub: patch ClusterProfile kueue/cluster1 {"metadata":{"labels":{"multicluster.x-k8s.io/clusterset":"prod"}}}"#
    );
}

#[test]
fn a_cluster_leaving_the_set_or_hub_loses_its_profile() {
    let there = || Some(profile(our_labels()));
    let removed = "hub: delete ClusterProfile kueue/cluster1";
    let mut elsewhere = cluster();
    elsewhere["metadata"]["labels"] = json!({"cluster.open-cluster-management.io/clusterset": "default"});
    let mut leaving = cluster();
    leaving["metadata"]["deletionTimestamp"] = json!(NOW);
    for cluster in [Some(elsewhere), Some(leaving), None] {
        assert_eq!(
            plan(World {
                profile: there(),
                cluster,
                ..World::default()
            }),
            removed
        );
    }
    let unbound = World {
        profile: there(),
        bindings: vec![],
        ..World::default()
    };
    assert_eq!(plan(unbound), removed);
    // The set is gone, and nobody makes it anew.
    let bindings = vec![binding("prod", "True", NOW)];
    assert_eq!(
        plan(World {
            profile: there(),
            bindings,
            sets: vec![],
            ..World::default()
        }),
        removed
    );
}

#[test]
fn profiles_of_a_recreated_set_stay_for_half_a_minute() {
    let with = |bound: &str, since: &str| {
        let mut cluster = cluster();
        cluster["metadata"]["labels"] = json!({"cluster.open-cluster-management.io/clusterset": "default"});
        plan(World {
            profile: Some(profile(our_labels())),
            cluster: Some(cluster),
            bindings: vec![binding("default", bound, since)],
            sets: vec![],
            ..World::default()
        })
    };
    let waits = "nothing to do\nwaits: a set that the hub makes anew is missing";
    assert_eq!(with("True", "2025-01-01T00:00:00Z"), waits);
    assert_eq!(with("False", "2026-01-01T00:59:50Z"), format!("{waits}\nagain in 20s"));
    assert_eq!(
        with("False", "2026-01-01T00:59:30Z"),
        "hub: delete ClusterProfile kueue/cluster1"
    );
}

#[test]
fn what_others_manage_is_left_alone() {
    let mut foreign = profile(json!({"x-k8s.io/cluster-manager": "other"}));
    foreign["spec"]["clusterManager"]["name"] = json!("other");
    let not_ours = "nothing to do\nnote: a profile of the cluster manager \"other\" is not ours";
    assert_eq!(
        plan(World {
            profile: Some(foreign.clone()),
            ..World::default()
        }),
        not_ours
    );
    assert_eq!(
        plan(World {
            profile: Some(foreign),
            cluster: None,
            ..World::default()
        }),
        not_ours
    );
    // In our name, of a cluster that is none of ours: it never had our label.
    assert_eq!(
        plan(World {
            profile: Some(profile(json!({}))),
            cluster: None,
            ..World::default()
        }),
        "nothing to do"
    );
}

#[test]
fn no_profile_is_created_without_binding_or_in_terminating_namespaces() {
    let unbound = World {
        bindings: vec![binding("prod", "False", NOW)],
        ..World::default()
    };
    assert_eq!(plan(unbound), "nothing to do");
    let closing = World {
        open: false,
        ..World::default()
    };
    assert_eq!(
        plan(closing),
        "nothing to do\nwaits: namespace kueue takes no new objects"
    );
}
