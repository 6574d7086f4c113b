use serde_json::{Value, json};

use super::*;

struct World {
    strategy: &'static str,
    /// Placements of the spec: name, whether it exists, how many clusters it counts, the clusters its decisions name.
    placements: Vec<(&'static str, bool, i32, Vec<&'static str>)>,
    addons: Vec<&'static str>,
    clusters: Vec<Value>,
}

fn check(world: World, printed: &str) {
    let references: Vec<Value> = world
        .placements
        .iter()
        .map(|it| json!({"namespace": "default", "name": it.0}))
        .collect();
    let offer = json!({
        "metadata": {"name": "a", "uid": "u1"},
        "spec": {"installStrategy": {"type": world.strategy, "placements": references}},
    });
    let choice = |(name, exists, counted, clusters): &(&str, bool, i32, Vec<&str>)| {
        let metadata = json!({"name": name, "namespace": "default"});
        let placement = exists.then(|| {
            let it = json!({"metadata": metadata, "spec": {}, "status": {"numberOfSelectedClusters": counted}});
            Arc::new(serde_json::from_value(it).unwrap())
        });
        let named: Vec<_> = clusters
            .iter()
            .map(|it| json!({"clusterName": it, "reason": ""}))
            .collect();
        let decision = json!({"metadata": metadata, "status": {"decisions": named}});
        InstallPlacement {
            name: format!("default/{name}"),
            placement,
            decisions: vec![Arc::new(serde_json::from_value(decision).unwrap())],
        }
    };
    let addon = |it: &&str| {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": "a", "namespace": it}, "spec": {}})).unwrap())
    };
    let clusters = world.clusters.into_iter().map(|it| {
        let cluster: ManagedCluster = serde_json::from_value(it).unwrap();
        (cluster.name_any(), Arc::new(cluster))
    });
    let seen = Seen {
        now: "2026-01-01T12:00:00Z".parse().unwrap(),
        cluster_management_addon: Some(Arc::new(serde_json::from_value(offer).unwrap())),
        placements: world.placements.iter().map(choice).collect(),
        addons: world.addons.iter().map(addon).collect(),
        newcomers: clusters.collect(),
    };
    assert_eq!(Install::plan(&seen).to_string().trim(), printed);
}

fn cluster(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[test]
fn an_add_on_is_installed_exactly_on_its_placements_clusters() {
    check(
        World {
            strategy: "Placements",
            placements: vec![("p1", true, 2, vec!["c1", "c2"]), ("p2", true, 1, vec!["c3"])],
            addons: vec!["c2", "c9"],
            clusters: vec![cluster("c1"), cluster("c3")],
        },
        "hub: create ManagedClusterAddOn c1/a\nhub: create ManagedClusterAddOn c3/a\nhub: delete ManagedClusterAddOn c9/a",
    );
}

#[test]
fn a_new_add_on_gets_owner_and_cluster_annotations() {
    let offer: ClusterManagementAddOn =
        serde_json::from_value(json!({"metadata": {"name": "a", "uid": "u1"}, "spec": {}})).unwrap();
    let cluster: ManagedCluster = serde_json::from_value(json!({"metadata": {
        "name": "c1", "annotations": {"addon.open-cluster-management.io/hosting-cluster-name": "host", "x": "y"}
    }}))
    .unwrap();
    assert_eq!(
        serde_json::to_value(new_add_on::new_add_on(&offer, &cluster)).unwrap(),
        json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1",
            "kind": "ManagedClusterAddOn",
            "metadata": {
                "name": "a", "namespace": "c1",
                "annotations": {
                    "addon.open-cluster-management.io/hosting-cluster-name": "host",
                    "cluster.open-cluster-management.io/annotations-from-cluster": "addon.open-cluster-management.io/hosting-cluster-name",
                },
                "ownerReferences": [{
                    "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ClusterManagementAddOn", "name": "a",
                    "uid": "u1", "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {},
        })
    );
}

#[test]
fn a_manually_installed_add_on_stays_installed() {
    check(
        World {
            strategy: "Manual",
            placements: vec![],
            addons: vec!["c1"],
            clusters: vec![],
        },
        "nothing to do",
    );
}

#[test]
fn a_missing_placement_selects_nothing_and_raises_an_event() {
    check(
        World {
            strategy: "Placements",
            placements: vec![("p1", false, 0, vec!["c1"]), ("p2", true, 1, vec!["c2"])],
            addons: vec!["c1", "c2"],
            clusters: vec![],
        },
        "hub: delete ManagedClusterAddOn c1/a\nhub: event Warning PlacementNotFound in default\nrefuses: there is no placement default/p1",
    );
}

#[test]
fn nothing_is_removed_while_decisions_are_missing() {
    check(
        World {
            strategy: "Placements",
            placements: vec![("p1", true, 2, vec!["c1"])],
            addons: vec!["c1", "c2"],
            clusters: vec![],
        },
        "nothing to do\nwaits: decisions of default/p1 are missing; nothing is removed",
    );
}

#[test]
fn clusters_that_are_not_there_or_are_leaving_get_nothing() {
    check(
        World {
            strategy: "Placements",
            placements: vec![("p1", true, 2, vec!["c1", "c2"])],
            addons: vec![],
            clusters: vec![json!({"metadata": {"name": "c2", "deletionTimestamp": "2026-01-01T00:00:00Z"}})],
        },
        "nothing to do\nwaits: there is no cluster c1\nwaits: cluster c2 is being deleted",
    );
}
