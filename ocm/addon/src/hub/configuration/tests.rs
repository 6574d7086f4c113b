use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

/// A small world in few words; everything else follows from it.
struct World {
    spec: Value,
    status: Value,
    /// By position in the spec: whether the placement exists, and its decisions' clusters, group by group.
    chosen: Vec<Option<Vec<Vec<String>>>>,
    addons: Vec<Value>,
}

fn config(name: &str, hash: &str) -> Value {
    json!({"namespace": "n", "name": name, "specHash": hash})
}

fn told(name: &str, desired: &str, applied: Option<&str>) -> Value {
    let mut it =
        json!({"group": "g", "resource": "rs", "namespace": "n", "name": name, "desiredConfig": config(name, desired)});
    if let Some(applied) = applied {
        it["lastAppliedConfig"] = config(name, applied);
    }
    it
}

fn condition(r#type: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": r#type, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T12:00:00Z"})
}

fn is_configured() -> Value {
    condition(
        "Configured",
        "True",
        "ConfigurationsConfigured",
        "Configurations configured",
    )
}

fn addon(cluster: &str, references: Vec<Value>, progressing: Option<(&str, &str)>) -> Value {
    let mut conditions = vec![];
    conditions.extend(progressing.map(|(status, reason)| condition("Progressing", status, reason, "")));
    if !references.is_empty() {
        conditions.push(is_configured());
    }
    json!({
        "metadata": {"name": "a", "namespace": cluster, "uid": format!("u-{cluster}"), "resourceVersion": "1"}, "spec": {},
        "status": {"configReferences": references, "conditions": conditions},
    })
}

fn fresh(cluster: &str) -> Value {
    addon(cluster, vec![], None)
}

/// It has the configuration `hash` and is done with it.
fn done(cluster: &str, name: &str, hash: &str) -> Value {
    addon(
        cluster,
        vec![told(name, hash, Some(hash))],
        Some(("False", "Completed")),
    )
}

fn under_way(cluster: &str, name: &str, hash: &str) -> Value {
    addon(cluster, vec![told(name, hash, None)], Some(("True", "Progressing")))
}

/// One placement `p` with one configuration `x` at `hash`.
fn one_placement(strategy: Value, hash: &str, clusters: &[&str], addons: Vec<Value>) -> World {
    World {
        spec: json!({
            "supportedConfigs": [{"group": "g", "resource": "rs", "defaultConfig": {"namespace": "n", "name": "x"}}],
            "installStrategy": {"type": "Placements", "placements": [{"namespace": "default", "name": "p", "rolloutStrategy": strategy}]},
        }),
        status: json!({
            "defaultconfigReferences": [{"group": "g", "resource": "rs", "desiredConfig": config("x", hash)}],
            "installProgressions": [{
                "namespace": "default", "name": "p",
                "configReferences": [{"group": "g", "resource": "rs", "desiredConfig": config("x", hash)}],
            }],
        }),
        chosen: vec![Some(vec![clusters.iter().map(|it| (*it).to_owned()).collect()])],
        addons,
    }
}

impl World {
    fn seen(&self, now: &str) -> Seen {
        let offer = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "spec": self.spec, "status": self.status});
        let chosen = self
            .chosen
            .iter()
            .enumerate()
            .map(|(position, groups)| InstallPlacement {
                name: format!(
                    "default/{}",
                    self.spec["installStrategy"]["placements"][position]["name"]
                        .as_str()
                        .unwrap()
                ),
                placement: groups.as_ref().map(|_| {
                    let it = json!({
                        "metadata": {"name": format!("p{position}"), "namespace": "default"},
                        "spec": {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 2}}},
                    });
                    Arc::new(serde_json::from_value(it).unwrap())
                }),
                decisions: groups
                    .iter()
                    .flatten()
                    .enumerate()
                    .map(|(index, clusters)| {
                        let clusters: Vec<_> = clusters
                            .iter()
                            .map(|it| json!({"clusterName": it, "reason": ""}))
                            .collect();
                        let it = json!({
                            "metadata": {"name": format!("p{position}-{index}"), "namespace": "default", "labels": {
                                "cluster.open-cluster-management.io/placement": "p",
                                "cluster.open-cluster-management.io/decision-group-index": index.to_string(),
                            }},
                            "status": {"decisions": clusters},
                        });
                        Arc::new(serde_json::from_value(it).unwrap())
                    })
                    .collect(),
            });
        Seen {
            now: now.parse().unwrap(),
            cluster_management_addon: Some(Arc::new(serde_json::from_value(offer).unwrap())),
            name: "a".to_owned(),
            placements: chosen.collect(),
            addons: self
                .addons
                .iter()
                .map(|it| Arc::new(serde_json::from_value(it.clone()).unwrap()))
                .collect(),
        }
    }

    fn plan(&self) -> Plan {
        Configuration::plan(&self.seen("2026-01-01T12:00:00Z"))
    }

    /// `cluster: what it is told, and whether Configured where that changes`, and what is said about the placements.
    fn outcome(&self) -> String {
        let plan = self.plan();
        let mut lines = vec![];
        for step in plan.stages.iter().flatten() {
            let ocm_reconcile::Step::MergePatch { target, patch, .. } = step else {
                panic!("{step}");
            };
            let status = &patch["status"];
            match &target.namespace {
                Some(cluster) => {
                    let all = status["configReferences"].as_array();
                    let names = all.into_iter().flatten().map(|it| {
                        let to = &it["desiredConfig"];
                        format!(
                            "{}@{}",
                            to["name"].as_str().unwrap(),
                            to["specHash"].as_str().unwrap_or_default()
                        )
                    });
                    let conditions = status["conditions"].as_array().into_iter().flatten();
                    let configured = conditions
                        .filter(|it| it["type"] == "Configured")
                        .map(|it| it["status"].as_str().unwrap());
                    let words: Vec<String> = names.chain(configured.map(str::to_owned)).collect();
                    lines.push(format!("{cluster}: {}", words.join(" ")));
                }
                None => {
                    for it in status["installProgressions"].as_array().into_iter().flatten() {
                        let said = &it["conditions"][0];
                        lines.push(format!(
                            "{} {}",
                            said["reason"].as_str().unwrap(),
                            said["message"].as_str().unwrap()
                        ));
                    }
                }
            }
        }
        lines.extend(plan.notes.iter().map(ToString::to_string));
        lines.join("\n")
    }
}

fn check(world: &World, outcome: &str) {
    assert_eq!(world.outcome(), outcome);
}

#[test]
fn own_configurations_precede_those_of_placements_and_defaults() {
    let kinds = |name: &str, hash: &str, resource: &str| json!({"group": "g", "resource": resource, "desiredConfig": config(name, hash)});
    let mut own = fresh("c3");
    own["spec"]["configs"] = json!([
        {"group": "g", "resource": "rs", "namespace": "n", "name": "own2"}, {"group": "g", "resource": "rs", "namespace": "n", "name": "own1"},
    ]);
    let world = World {
        spec: json!({
            "supportedConfigs": [
                {"group": "g", "resource": "rs", "defaultConfig": {"namespace": "n", "name": "d1"}},
                {"group": "g", "resource": "as", "defaultConfig": {"namespace": "n", "name": "d2"}},
            ],
            "installStrategy": {"type": "Placements", "placements": [{"namespace": "default", "name": "p", "configs": [
                {"group": "g", "resource": "rs", "namespace": "n", "name": "p1"}
            ]}]},
        }),
        status: json!({
            "defaultconfigReferences": [kinds("d1", "h1", "rs"), kinds("d2", "h2", "as")],
            "installProgressions": [{
                "namespace": "default", "name": "p", "configReferences": [kinds("d2", "h2", "as"), kinds("p1", "h3", "rs")],
            }],
        }),
        chosen: vec![Some(vec![vec!["c2".to_owned(), "c3".to_owned()]])],
        addons: vec![fresh("c1"), fresh("c2"), own],
    };
    check(
        &world,
        "c1: d2@h2 d1@h1 True\nc2: d2@h2 p1@h3 True\nc3: d2@h2 own2@ own1@ True\n\
         Progressing selected clusters 2. configured addons 2/2 progressing..., 0 failed 0 timeout.",
    );
}

#[test]
fn the_last_placement_that_chose_a_cluster_has_it() {
    let reference = |name: &str| json!({"group": "g", "resource": "rs", "desiredConfig": config(name, name)});
    let placement = |placement: &str, name: &str| json!({"namespace": "default", "name": placement, "configs": [{"group": "g", "resource": "rs", "namespace": "n", "name": name}]});
    let world = World {
        spec: json!({"installStrategy": {"type": "Placements", "placements": [placement("p1", "x"), placement("p2", "y")]}}),
        status: json!({"installProgressions": [
            {"namespace": "default", "name": "p1", "configReferences": [reference("x")]},
            {"namespace": "default", "name": "p2", "configReferences": [reference("y")]},
        ]}),
        chosen: vec![
            Some(vec![vec!["c1".to_owned(), "c2".to_owned()]]),
            Some(vec![vec!["c2".to_owned(), "c3".to_owned()]]),
        ],
        addons: vec![fresh("c1"), fresh("c2"), fresh("c3")],
    };
    check(
        &world,
        "c1: x@x True\nc2: y@y True\nc3: y@y True\n\
         Progressing selected clusters 2. configured addons 1/1 progressing..., 0 failed 0 timeout.\n\
         Progressing selected clusters 2. configured addons 2/2 progressing..., 0 failed 0 timeout.",
    );
}

#[test]
fn no_more_clusters_are_under_way_than_the_strategy_allows() {
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": "50%"}});
    let clusters = ["c1", "c2", "c3", "c4"];
    let all = |it: fn(&str) -> Value| clusters.iter().map(|cluster| it(cluster)).collect::<Vec<_>>();
    let old = all(|it| done(it, "x", "h1"));
    check(
        &one_placement(strategy.clone(), "h2", &clusters, old.clone()),
        "c3: False\nc4: False\nc1: x@h2\nc2: x@h2\n\
         Progressing selected clusters 4. configured addons 2/4 progressing..., 0 failed 0 timeout.",
    );
    let mut waiting = done("c4", "x", "h1");
    waiting["status"]["conditions"][1] = condition(
        "Configured",
        "False",
        "ConfigurationsNotConfigured",
        "Configurations updated and not configured yet",
    );
    let half = vec![
        done("c1", "x", "h2"),
        under_way("c2", "x", "h2"),
        old[2].clone(),
        waiting,
    ];
    check(
        &one_placement(strategy.clone(), "h2", &clusters, half),
        "c3: x@h2\nProgressing selected clusters 4. configured addons 3/4 progressing..., 0 failed 0 timeout.",
    );
    check(
        &one_placement(strategy, "h2", &clusters, all(|it| done(it, "x", "h2"))),
        "Completed selected clusters 4. configured addons 4/4 completed with no errors, 0 failed 0 timeout.",
    );
}

#[test]
fn the_default_concurrency_is_the_placements_decision_group_size() {
    let clusters = ["c1", "c2", "c3"];
    let old = clusters.iter().map(|it| done(it, "x", "h1")).collect();
    check(
        &one_placement(json!({"type": "Progressive"}), "h2", &clusters, old),
        "c3: False\nc1: x@h2\nc2: x@h2\n\
         Progressing selected clusters 3. configured addons 2/3 progressing..., 0 failed 0 timeout.",
    );
}

#[test]
fn a_timed_out_cluster_counts_and_stops_the_rollout() {
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1, "progressDeadline": "5m"}});
    let world = one_placement(
        strategy,
        "h2",
        &["c1", "c2"],
        vec![under_way("c1", "x", "h2"), done("c2", "x", "h1")],
    );
    let plan = Configuration::plan(&world.seen("2026-01-01T12:04:00Z"));
    assert_eq!(plan.again, Some(std::time::Duration::from_secs(60)));
    let late = World {
        addons: vec![
            {
                let mut it = under_way("c1", "x", "h2");
                it["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T11:00:00Z");
                it
            },
            done("c2", "x", "h1"),
        ],
        ..world
    };
    check(
        &late,
        "c2: False\nProgressing selected clusters 2. configured addons 0/2 progressing..., 0 failed 1 timeout.",
    );
}

#[test]
fn a_missing_or_invalid_placement_does_not_stop_others() {
    let mut world = one_placement(json!({"type": "All"}), "h2", &["c1"], vec![fresh("c1"), fresh("c2")]);
    world.chosen = vec![None];
    check(
        &world,
        "c1: x@h2 True\nc2: x@h2 True\n\
         Progressing selected clusters 0. configured addons 0/0 progressing..., 0 failed 0 timeout.",
    );
    let wrong = json!({"type": "All", "all": {"progressDeadline": "5x"}});
    let world = one_placement(wrong, "h2", &["c1"], vec![fresh("c1"), fresh("c2")]);
    check(
        &world,
        "c1: False\nc2: x@h2 True\n\
         Progressing selected clusters 1. configured addons 0/1 progressing..., 0 failed 0 timeout. progressDeadline \"5x\": invalid timeout format.\n\
         refuses: placement default/p: progressDeadline \"5x\": invalid timeout format",
    );
}

#[test]
fn nothing_is_reported_before_the_placements_configurations_are_known() {
    let mut world = one_placement(json!({"type": "All"}), "h2", &["c1"], vec![fresh("c1")]);
    world.status = json!({});
    check(
        &world,
        "waits: the configurations of its placements are not in its status yet",
    );
}

#[test]
fn a_completed_rollout_is_reported_once() {
    let mut world = one_placement(
        json!({"type": "All"}),
        "h2",
        &["c1", "c2"],
        vec![done("c1", "x", "h2"), done("c2", "x", "h2")],
    );
    world.status["installProgressions"][0]["configReferences"][0]["lastAppliedConfig"] = config("x", "h2");
    world.status["installProgressions"][0]["configReferences"][0]["lastKnownGoodConfig"] = config("x", "h2");
    world.status["installProgressions"][0]["conditions"] = json!([condition(
        "Progressing",
        "False",
        "Completed",
        "selected clusters 2. configured addons 2/2 completed with no errors, 0 failed 0 timeout."
    )]);
    assert_eq!(world.plan().to_string().trim(), "nothing to do");
}

#[test]
fn an_add_on_without_configurations_is_configured() {
    let world = World {
        spec: json!({}),
        status: json!({}),
        chosen: vec![],
        addons: vec![fresh("c1")],
    };
    check(&world, "c1: True");
}

#[test]
fn what_is_known_of_a_configuration_that_stays_is_kept() {
    let mut addon = done("c1", "x", "h1");
    addon["status"]["configReferences"][0]["lastObservedGeneration"] = json!(7);
    let world = one_placement(json!({"type": "All"}), "h2", &["c1"], vec![addon]);
    let plan = world.plan();
    let page = format!("{plan:#}");
    assert!(
        page.contains(
            r#"[{"desiredConfig":{"name":"x","namespace":"n","specHash":"h2"},"group":"g","lastAppliedConfig":{"name":"x","namespace":"n","specHash":"h1"},"lastObservedGeneration":7,"name":"x","namespace":"n","resource":"rs"}]"#
        ),
        "{page}"
    );
}

#[test]
fn two_hundred_clusters_take_the_configuration_fifty_at_a_time() {
    let names: Vec<String> = (0..200).map(|it| format!("c{it:03}")).collect();
    let clusters: Vec<&str> = names.iter().map(String::as_str).collect();
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": "25%"}});
    let addons = clusters.iter().map(|it| done(it, "x", "h1")).collect();
    let world = one_placement(strategy, "h2", &clusters, addons);
    let outcome = world.outcome();
    let taking: BTreeSet<&str> = outcome.lines().filter(|it| it.ends_with("x@h2")).collect();
    assert_eq!((taking.len(), taking.first().copied()), (50, Some("c000: x@h2")));
}
