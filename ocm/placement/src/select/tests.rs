//! Examples of choices, each with what is said about it.

use serde_json::{Value, json};

use super::*;

pub(crate) fn object<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap_or_else(|error| panic!("a fixture: {error}")))
}

/// Three clusters in set `prod`, two of them on aws; one in `dev`. Both sets are bound.
pub(crate) fn world(spec: Value) -> SelectionInput {
    let cluster = |name: &str, set: &str, platform: &str| {
        object(json!({
            "metadata": {"name": name, "labels": {"cluster.open-cluster-management.io/clusterset": set, "platform": platform}},
            "spec": {},
            "status": {"clusterClaims": [{"name": "platform.open-cluster-management.io", "value": platform}],
                "allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}},
        }))
    };
    let binding = |name: &str| {
        object(
            json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterSet": name},
            "status": {"conditions": [{"type": "Bound", "status": "True", "reason": "ClusterSetBound", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
        )
    };
    SelectionInput {
        now: "2026-01-01T12:00:00Z".parse().unwrap(),
        placement: object(json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec})),
        bindings: vec![binding("prod"), binding("dev")],
        lost_bindings: Vec::new(),
        sets: vec![
            object(json!({"metadata": {"name": "prod"}, "spec": {}})),
            object(
                json!({"metadata": {"name": "dev"}, "spec": {"clusterSelector": {"selectorType": "LabelSelector",
                "labelSelector": {"matchLabels": {"cluster.open-cluster-management.io/clusterset": "dev"}}}}}),
            ),
        ],
        clusters: vec![
            cluster("c1", "prod", "aws"),
            cluster("c2", "prod", "gcp"),
            cluster("c3", "prod", "aws"),
            cluster("c4", "dev", "aws"),
        ],
        has: BTreeSet::new(),
        load: vec![0; 4],
        load_max: 0,
        scores: Arc::default(),
    }
}

pub(crate) fn aws() -> Value {
    json!({"requiredClusterSelector": {"claimSelector": {"matchExpressions": [
        {"key": "platform.open-cluster-management.io", "operator": "In", "values": ["aws"]}]}}})
}

/// `c1,c2 | Reason: message`
fn said(world: &SelectionInput) -> String {
    let selection = select(world);
    let clusters: Vec<&str> = selection
        .groups
        .iter()
        .flat_map(|it| it.clusters.iter().copied())
        .collect();
    let conditions = conditions(&world.placement, &Choice::of(&selection), false);
    let wrong = &conditions[1];
    let shown = if wrong.reason == "Misconfigured" {
        wrong
    } else {
        &conditions[0]
    };
    format!("{} | {}: {}", clusters.join(","), shown.reason, shown.message)
}

#[test]
fn the_walkthrough_placement_selects_the_clusters_on_aws() {
    assert_eq!(
        said(&world(json!({"predicates": [aws()]}))),
        "c1,c3,c4 | AllDecisionsScheduled: All cluster decisions scheduled"
    );
    assert_eq!(
        said(&world(json!({"clusterSets": ["prod"], "predicates": [aws()]}))),
        "c1,c3 | AllDecisionsScheduled: All cluster decisions scheduled"
    );
    assert_eq!(
        said(&world(
            json!({"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": [
            "managedCluster.metadata.labels['platform'] == 'gcp'"]}}}]})
        )),
        "c2 | AllDecisionsScheduled: All cluster decisions scheduled"
    );
}

#[test]
fn each_way_of_choosing_nothing_has_its_reason() {
    let mut unbound = world(json!({}));
    unbound.bindings.clear();
    assert_eq!(
        said(&unbound),
        " | NoManagedClusterSetBindings: No valid ManagedClusterSetBindings found in placement namespace"
    );
    assert_eq!(
        said(&world(json!({"clusterSets": ["a", "b"]}))),
        " | NoIntersection: None of ManagedClusterSets [a,b] is bound to placement namespace"
    );
    let mut empty = world(json!({}));
    empty.clusters.clear();
    assert_eq!(
        said(&empty),
        " | AllManagedClusterSetsEmpty: All ManagedClusterSets [dev,prod] have no member ManagedCluster"
    );
    let nowhere =
        json!({"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"platform": "x"}}}}]});
    assert_eq!(
        said(&world(nowhere)),
        " | NoManagedClusterMatched: No ManagedCluster matches any of the cluster predicate"
    );
    assert_eq!(
        said(&world(json!({"numberOfClusters": 6}))),
        "c1,c2,c3,c4 | NotAllDecisionsScheduled: 2 cluster decisions unscheduled"
    );
    assert_eq!(
        said(&world(json!({"numberOfClusters": 0}))),
        " | NoManagedClusterMatched: No ManagedCluster matches any of the cluster predicate"
    );
}

#[test]
fn an_invalid_placement_reports_its_error_and_selects_nothing() {
    let by_label = |key: &str| json!({"requiredClusterSelector": {"labelSelector": {"matchExpressions": [{"key": key, "operator": "In"}]}}});
    let by_cel = |text: &str| json!({"requiredClusterSelector": {"celSelector": {"celExpressions": [text]}}});
    for (spec, text) in [
        (
            json!({"numberOfClusters": -1}),
            " | Misconfigured: :numberOfClusters should not be negative",
        ),
        (
            json!({"predicates": [by_label("a")]}),
            " | Misconfigured: Predicate:values: Invalid value: []",
        ),
        (
            json!({"predicates": [by_cel("a == 1")]}),
            " | Misconfigured: Predicate:compilation failed: ERROR: <input>:1:1: undeclared reference",
        ),
        (
            json!({"tolerations": [{"value": "x"}]}),
            " | Misconfigured: TaintToleration:If the key is empty",
        ),
        (
            json!({"prioritizerPolicy": {"mode": "Both"}}),
            " | Misconfigured: :incorrect prioritizer policy mode: Both",
        ),
        (
            json!({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "many"}}}),
            " | Misconfigured: :many invalid type: string is not a percentage",
        ),
    ] {
        let said = said(&world(spec.clone()));
        assert!(said.starts_with(text), "{spec}: {said}");
    }
}

#[test]
fn a_placement_keeps_its_clusters_until_others_score_much_better() {
    let mut it = world(json!({"numberOfClusters": 1}));
    it.has = ["c3".to_owned()].into();
    assert!(said(&it).starts_with("c3 |"));
    // The most used cluster of the hub loses 200 to an unused one, and being there is worth 100.
    (it.load, it.load_max) = (vec![0, 0, 5, 0], 5);
    assert!(said(&it).starts_with("c1 |"));
    (it.load, it.load_max) = (vec![0, 0, 2, 0], 5);
    assert!(said(&it).starts_with("c3 |"));
}

#[test]
fn a_recently_missing_set_keeps_its_clusters_for_a_while() {
    let mut it = world(json!({"predicates": [aws()]}));
    it.has = ["c1".to_owned(), "c3".to_owned(), "c2".to_owned()].into();
    it.sets.remove(0);
    let kept = said(&it);
    assert!(kept.starts_with("c1,c3,c4 | AllDecisionsScheduled"), "{kept}");
    assert!(
        kept.ends_with(
            "ManagedClusterSets [prod] or their bindings have just gone missing and their clusters are kept for now"
        ),
        "{kept}"
    );
    assert_eq!(select(&it).recheck_at, None);

    let unbound = |since: &str| {
        object(
            json!({"metadata": {"name": "prod", "namespace": "default"}, "spec": {"clusterSet": "prod"},
            "status": {"conditions": [{"type": "Bound", "status": "False", "reason": "ClusterSetNotFound", "message": "",
                "lastTransitionTime": since}]}}),
        )
    };
    it.bindings[0] = unbound("2026-01-01T11:59:50Z");
    assert!(said(&it).starts_with("c1,c3,c4 |"));
    assert_eq!(select(&it).recheck_at, Some("2026-01-01T12:00:20Z".parse().unwrap()));
    it.bindings[0] = unbound("2026-01-01T11:59:30Z");
    assert_eq!(said(&it), "c4 | AllDecisionsScheduled: All cluster decisions scheduled");
    it.bindings.remove(0);
    assert!(said(&it).starts_with("c4 |"));
}

#[test]
fn scores_count_until_they_are_too_old() {
    let policy = json!({"numberOfClusters": 1, "prioritizerPolicy": {"mode": "Exact", "configurations": [
        {"scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "cpu"}}, "weight": 1}]}});
    let mut it = world(policy);
    let score = |cluster: &str, value: i32| {
        object(json!({"metadata": {"name": "load", "namespace": cluster}, "status": {
            "scores": [{"name": "cpu", "value": value}], "validUntil": "2026-01-01T12:30:00Z"}}))
    };
    it.scores = Arc::new(Scores::of_all([score("c2", 80), score("c3", 20)]));
    let selection = select(&it);
    assert_eq!(selection.groups[0].clusters, ["c2"]);
    assert_eq!(selection.recheck_at, Some("2026-01-01T12:30:00.001Z".parse().unwrap()));
    it.now = selection.recheck_at.unwrap();
    let late = select(&it);
    assert_eq!(late.groups[0].clusters, ["c1"]);
    assert_eq!(
        late.outcome,
        ChoiceOutcome::Warning {
            plugin: "AddOn/load/cpu".into(),
            message: "AddOnPlacementScores c2/load c3/load expired".into()
        }
    );
}

#[test]
fn every_cluster_has_its_reason() {
    let mut it = world(json!({"clusterSets": ["prod"], "numberOfClusters": 1, "predicates": [aws()]}));
    let explained = |it: &SelectionInput| -> Vec<String> {
        let selection = select(it);
        let all = explain::clusters(it, &selection);
        let lines = all.iter().map(|it| format!("{} {}", it.cluster, it.because));
        explain::placement(it, &selection).into_iter().chain(lines).collect()
    };
    assert_eq!(
        explained(&it),
        [
            "3 clusters are in the sets prod; 2 fit, 1 are chosen.",
            "c1 is chosen with score 100 (Balance 100, Steady 0)",
            "c2 does not match: its claims do not satisfy platform.open-cluster-management.io=aws",
            "c3 fits with score 100 (Balance 100, Steady 0), but 1 clusters come before it",
            "c4 is in none of the sets that the placement may choose from",
        ]
    );
    let tainted = Arc::make_mut(&mut it.clusters[0]);
    tainted.spec.taints = serde_json::from_value(json!([{"key": "gpu", "value": "no", "effect": "NoSelect"}])).unwrap();
    assert_eq!(
        explained(&it)[1],
        "c1 has the taint gpu=no:NoSelect, which is not tolerated"
    );
}

#[test]
fn a_placement_says_what_it_looks_at() {
    let spec = json!({
        "predicates": [aws(), {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}}}}],
        "prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "ResourceAllocatableCPU"}, "weight": 1}]},
    });
    let needs = Needs::of(&world(spec).placement);
    assert_eq!(needs.labels, ["env".to_owned()].into());
    assert_eq!(needs.claims, ["platform.open-cluster-management.io".to_owned()].into());
    assert!(needs.load && needs.allocatable && !needs.anything);
    assert!(
        Needs::of(
            &world(
                json!({"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": [
        "managedCluster.scores('a').size() > 0"]}}}]})
            )
            .placement
        )
        .any_score
    );
}

#[test]
fn a_recently_missing_binding_counts_for_a_moment() {
    let mut it = world(json!({}));
    it.has = ["c1", "c4"].map(str::to_owned).into();
    let lost = it.bindings.remove(0);
    assert_eq!(said(&it), "c4 | AllDecisionsScheduled: All cluster decisions scheduled");
    let until = it.now.checked_add(scope::HOLD_BINDING).unwrap();
    it.lost_bindings = vec![(lost, until)];
    assert_eq!(
        said(&it),
        "c1,c4 | AllDecisionsScheduled: All cluster decisions scheduled; ManagedClusterSets [prod] or their bindings have just \
         gone missing and their clusters are kept for now"
    );
    assert_eq!(select(&it).recheck_at, Some(until));
    it.now = until;
    assert!(said(&it).starts_with("c4 | "));
}

#[test]
fn scores_that_have_just_gone_missing_count_for_a_while() {
    let asks = json!({"celSelector": {"celExpressions": ["managedCluster.scores('load').size() > 0"]}});
    let mut it = world(json!({"predicates": [{"requiredClusterSelector": asks}]}));
    let score: Arc<ocm_api::cluster::AddOnPlacementScore> = object(json!({
        "metadata": {"name": "load", "namespace": "c1"}, "status": {"scores": [{"name": "cpu", "value": 66}]},
    }));
    let until = it.now.checked_add(scope::HOLD).unwrap();
    let mut scores = Scores::default();
    scores.hold(score.clone(), until);
    it.scores = Arc::new(scores.clone());
    let kept = said(&it);
    assert!(
        kept.starts_with("c1 | AllDecisionsScheduled")
            && kept.ends_with("c1/load have just gone missing and their last values count for now"),
        "{kept}"
    );
    assert_eq!(select(&it).recheck_at, Some(until));
    // It is there again.
    scores.put(score);
    it.scores = Arc::new(scores);
    assert_eq!(select(&it).recheck_at, None);
}

#[test]
fn failing_expressions_are_reported() {
    let asks = json!({"celSelector": {"celExpressions": ["managedCluster.metadata.labels.zone == 'a'"]}});
    let it = world(json!({"predicates": [{"requiredClusterSelector": asks}, aws()]}));
    let selection = select(&it);
    let conditions = conditions(&it.placement, &Choice::of(&selection), false);
    assert_eq!(conditions[1].reason, "Succeedconfigured");
    assert_eq!(
        conditions[1].message,
        "Placement configurations check pass; CEL expressions fail on cluster c2: no such key: zone"
    );
}
