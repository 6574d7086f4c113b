//! Examples, and thousands of random rollouts against a slow model written from upstream's behaviour.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use ocm_api::cluster::{
    MandatoryDecisionGroup, PlacementDecision, RolloutAll, RolloutProgressive, RolloutProgressivePerGroup,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOON: i64 = 1_767_268_800;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOON + seconds).unwrap()
}

fn strategy(value: serde_json::Value) -> RolloutStrategy {
    serde_json::from_value(value).unwrap()
}

fn names(number: usize) -> Vec<String> {
    (0..number).map(|it| format!("c{it:05}")).collect()
}

fn one_group(names: &[String]) -> Vec<Group<'_>> {
    vec![Group {
        name: "",
        index: 0,
        clusters: names.iter().map(String::as_str).collect(),
    }]
}

fn existing(status: RolloutState, since: i64) -> Existing {
    Existing {
        status,
        since: Some(at(since)),
    }
}

fn started(rollout: &Rollout<'_>) -> Vec<String> {
    rollout.starts().map(|it| it.cluster.to_owned()).collect()
}

#[test]
fn a_quarter_of_two_hundred_is_fifty() {
    let names = names(200);
    let quarter = strategy(json!({"type": "Progressive", "progressive": {"maxConcurrency": "25%"}}));
    let none = admit(&quarter, &one_group(&names), [], at(0)).unwrap();
    assert_eq!(started(&none), names[..50]);
    let known = names.iter().enumerate().map(|(position, name)| match position {
        0..20 => (name.as_str(), existing(RolloutState::Succeeded, -60)),
        20..50 => (name.as_str(), existing(RolloutState::Progressing, -60)),
        _ => (name.as_str(), existing(RolloutState::ToApply, -60)),
    });
    let some = admit(&quarter, &one_group(&names), known, at(0)).unwrap();
    assert_eq!(started(&some), names[50..70]);
    assert_eq!(some.to_rollout().count(), 50);
    assert_eq!(
        some.of("c00199").unwrap().turn.to_string(),
        "waits: 50 clusters may be under way at once, and are"
    );
}

#[test]
fn a_joining_cluster_with_an_early_name_respects_the_concurrency() {
    let names = names(4);
    let two = strategy(json!({"type": "Progressive", "progressive": {"maxConcurrency": 2}}));
    let known = [
        (names[1].as_str(), existing(RolloutState::Progressing, -5)),
        (names[2].as_str(), existing(RolloutState::Progressing, -5)),
    ];
    assert_eq!(
        started(&admit(&two, &one_group(&names), known, at(0)).unwrap()),
        [""; 0]
    );
}

#[test]
fn a_deadline_causes_a_failure_and_a_timely_recheck() {
    let names = names(3);
    let careful = strategy(json!({"type": "Progressive", "progressive": {
        "maxConcurrency": 1, "progressDeadline": "10m", "minSuccessTime": "1m"}}));
    let known = [
        (names[0].as_str(), existing(RolloutState::Succeeded, -30)),
        (names[1].as_str(), existing(RolloutState::Progressing, -30)),
    ];
    let early = admit(&careful, &one_group(&names), known, at(0)).unwrap();
    assert_eq!(early.recheck_after, Some(Duration::from_secs(31)));
    assert!(!early.max_failure_breach);
    let late = admit(&careful, &one_group(&names), known, at(570)).unwrap();
    assert_eq!(late.timed_out().map(|it| it.cluster).collect::<Vec<_>>(), ["c00001"]);
    assert!(late.max_failure_breach);
    assert_eq!(started(&late), [""; 0]);
    assert_eq!(late.of("c00000").unwrap().turn, Turn::Done);
    assert_eq!(
        late.of("c00002").unwrap().turn.to_string(),
        "waits: 1 clusters failed and 0 may; the rollout has stopped"
    );
}

#[test]
fn a_soak_time_is_never_shorter_than_it_says() {
    let names = names(2);
    let careful =
        strategy(json!({"type": "Progressive", "progressive": {"maxConcurrency": 1, "minSuccessTime": "10s"}}));
    let turn = |since: Timestamp, now: Timestamp| {
        let known = [(
            names[0].as_str(),
            Existing {
                status: RolloutState::Succeeded,
                since: Some(since),
            },
        )];
        let rollout = admit(&careful, &one_group(&names), known, now).unwrap();
        rollout.of(&names[0]).unwrap().turn
    };
    // It succeeded at 0.999 s, which its condition has as 0 s.
    let until = Some(at(11));
    assert_eq!(turn(at(0), at(10)), Turn::Soaks { until });
    assert_eq!(turn(at(0), at(11)), Turn::Done);
    // Who knows the time to the millisecond waits no longer.
    let exact = at(0) + Duration::from_millis(250);
    assert_eq!(turn(exact, at(10) + Duration::from_millis(250)), Turn::Done);
}

#[test]
fn mandatory_groups_come_first_and_groups_follow_each_other() {
    let groups = [("rest", 2, vec!["a"]), ("canary", 1, vec!["c"]), ("", 0, vec!["b"])]
        .map(|(name, index, clusters)| Group { name, index, clusters });
    let canary = strategy(json!({"type": "ProgressivePerGroup", "progressivePerGroup": {
        "mandatoryDecisionGroups": [{"groupName": "canary"}]}}));
    assert_eq!(started(&admit(&canary, &groups, [], at(0)).unwrap()), ["c"]);
    let done = existing(RolloutState::Succeeded, -60);
    assert_eq!(started(&admit(&canary, &groups, [("c", done)], at(0)).unwrap()), ["b"]);
    assert_eq!(
        started(&admit(&canary, &groups, [("c", done), ("b", done)], at(0)).unwrap()),
        ["a"]
    );
    let stuck = existing(RolloutState::TimeOut, -60);
    let halted = admit(&canary, &groups, [("c", stuck)], at(0)).unwrap();
    assert!(halted.max_failure_breach && halted.starts().next().is_none());
}

#[test]
fn a_timeout_in_a_group_does_not_start_the_next() {
    let groups =
        [("", 0, vec!["a", "b"]), ("", 1, vec!["c"])].map(|(name, index, clusters)| Group { name, index, clusters });
    let tolerant = strategy(json!({"type": "ProgressivePerGroup", "progressivePerGroup": {
        "maxFailures": 1, "progressDeadline": "1m"}}));
    let known = [
        ("a", existing(RolloutState::Progressing, -120)),
        ("b", existing(RolloutState::Progressing, -10)),
    ];
    let rollout = admit(&tolerant, &groups, known, at(0)).unwrap();
    assert_eq!(rollout.timed_out().map(|it| it.cluster).collect::<Vec<_>>(), ["a"]);
    assert_eq!(rollout.of("c").unwrap().turn, Turn::Wait(Wait::ForGroup { index: 0 }));
}

#[test]
fn invalid_durations_are_refused_and_odd_numbers_become_defaults() {
    let names = names(100);
    let progressive = |field: &str, value: serde_json::Value| {
        let strategy = strategy(json!({"type": "Progressive", "progressive": {field: value}}));
        admit(&strategy, &one_group(&names), [], at(0)).map(|it| it.starts().count())
    };
    assert_eq!(progressive("maxConcurrency", json!(-5)), Ok(100));
    assert_eq!(progressive("maxConcurrency", json!(0)), Ok(100));
    assert_eq!(progressive("maxConcurrency", json!("500%")), Ok(100));
    assert_eq!(progressive("maxConcurrency", json!("7%")), Ok(8));
    assert_eq!(
        progressive("maxConcurrency", json!("7")).unwrap_err().to_string(),
        "'7' is an invalid maximum threshold value: string is not a percentage"
    );
    assert!(progressive("maxFailures", json!("NaN%")).is_err());
    for text in ["5", "5|", "-5m", "1.5h", "never"] {
        assert_eq!(
            progressive("progressDeadline", json!(text)),
            Err(Unusable::Deadline(text.into()))
        );
    }
    assert_eq!(progressive("progressDeadline", json!("None")), Ok(100));
    assert!(progressive("minSuccessTime", json!("soon")).is_err());
}

#[test]
fn groups_are_read_from_the_labels_of_decisions() {
    let decision = |name: &str, index: &str, group: &str, clusters: &[&str]| -> PlacementDecision {
        let decisions: Vec<_> = clusters
            .iter()
            .map(|it| json!({"clusterName": it, "reason": ""}))
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {
                "cluster.open-cluster-management.io/decision-group-index": index,
                "cluster.open-cluster-management.io/decision-group-name": group}},
            "status": {"decisions": decisions},
        }))
        .unwrap()
    };
    let decisions = [
        decision("p-decision-3", "1", "", &["c"]),
        decision("p-decision-1", "0", "canary", &["b"]),
        decision("p-decision-2", "0", "canary", &["a"]),
    ];
    let read = groups(&decisions).unwrap();
    assert_eq!(
        read.iter().map(|it| (it.index, it.name)).collect::<Vec<_>>(),
        [(0, "canary"), (1, "")]
    );
    assert_eq!(read[0].clusters, ["b", "a"]);
    let bad = [decision("p-decision-1", "first", "", &[])];
    assert!(
        groups(&bad)
            .unwrap_err()
            .to_string()
            .contains("\"first\", which is no number")
    );
}

// --- The slow model -------------------------------------------------------------------------------------------------

/// What the model says: who is in the rollout with which status, who timed out, whether too many failed.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    to_rollout: BTreeMap<String, RolloutState>,
    timed_out: Vec<String>,
    breach: bool,
}

/// Upstream's walk, or the walk with our differences 1 to 4.
#[derive(Clone, Copy, PartialEq)]
enum Walk {
    Upstream,
    Ours,
}

struct Model {
    walk: Walk,
    now: i64,
    soak: i64,
    deadline: Option<i64>,
    known: BTreeMap<String, (RolloutState, Option<i64>)>,
}

impl Model {
    fn determine(&self, cluster: &str, answer: &mut Answer) -> RolloutState {
        let (status, since) = self.known[cluster];
        // Conditions keep whole seconds.
        let cut = i64::from(self.soak > 0 && since.is_some());
        let since = since.unwrap_or(self.now);
        match status {
            RolloutState::ToApply => {
                answer.to_rollout.insert(cluster.into(), status);
            }
            RolloutState::Succeeded => {
                if self.now < since + self.soak + cut {
                    answer.to_rollout.insert(cluster.into(), status);
                }
            }
            RolloutState::TimeOut | RolloutState::Skip => {}
            RolloutState::Progressing | RolloutState::Failed => {
                if self.deadline.is_none_or(|it| self.now < since + it) {
                    answer.to_rollout.insert(cluster.into(), status);
                } else {
                    answer.timed_out.push(cluster.into());
                    return RolloutState::TimeOut;
                }
            }
        }
        status
    }

    fn per_cluster(&self, clusters: &[String], size: usize, failures_max: usize) -> Answer {
        let mut answer = Answer::default();
        let mut failures = 0;
        let mut order: Vec<&String> = self.known.keys().collect();
        if self.walk == Walk::Ours {
            order.sort_by_key(|it| self.known[*it].0 == RolloutState::ToApply);
        }
        for cluster in order {
            let to_apply = self.known[cluster].0 == RolloutState::ToApply;
            let full = self.walk == Walk::Ours && to_apply && answer.to_rollout.len() >= size;
            let status = if full || answer.breach && to_apply {
                RolloutState::ToApply
            } else {
                self.determine(cluster, &mut answer)
            };
            if matches!(status, RolloutState::TimeOut | RolloutState::Failed) {
                failures += 1;
                answer.breach = failures > failures_max;
            }
            if self.walk == Walk::Upstream && answer.to_rollout.len() >= size {
                return answer;
            }
        }
        if answer.breach {
            return answer;
        }
        let mut rest: Vec<&String> = clusters.iter().filter(|it| !self.known.contains_key(*it)).collect();
        rest.sort();
        for cluster in rest {
            if answer.to_rollout.len() >= size {
                break;
            }
            answer.to_rollout.insert(cluster.clone(), RolloutState::ToApply);
        }
        answer
    }

    fn per_group(&self, groups: &[(usize, Vec<String>)], limit: impl Fn(usize) -> usize) -> Answer {
        let mut answer = Answer::default();
        let mut settled: BTreeMap<String, RolloutState> = BTreeMap::new();
        for (cluster, (status, _)) in &self.known {
            if *status != RolloutState::ToApply {
                let status = self.determine(cluster, &mut answer);
                settled.insert(cluster.clone(), status);
            }
        }
        let mut all_failures = 0;
        for (_, clusters) in groups {
            let mut failures = 0;
            for cluster in clusters {
                match settled.get(cluster) {
                    Some(RolloutState::Failed) => {
                        failures += 1;
                        all_failures += 1;
                    }
                    Some(RolloutState::TimeOut) => {
                        failures += 1;
                        all_failures += usize::from(self.walk == Walk::Upstream);
                    }
                    Some(_) => {}
                    None => {
                        answer.to_rollout.insert(cluster.clone(), RolloutState::ToApply);
                    }
                }
            }
            let breach = failures > limit(clusters.len());
            if answer.to_rollout.len() as i64 - all_failures as i64 > 0 || breach {
                answer.breach = breach;
                return answer;
            }
        }
        answer
    }
}

fn model_size(text: &Option<IntOrString>, total: usize, default: usize) -> usize {
    let wanted = match text {
        None => 0,
        Some(IntOrString::Int(it)) => *it as i64,
        Some(IntOrString::String(it)) => {
            (it.trim_end_matches('%').parse::<f64>().unwrap() / 100.0 * total as f64).ceil() as i64
        }
    };
    if wanted <= 0 || wanted > total as i64 {
        default
    } else {
        wanted as usize
    }
}

#[derive(Clone, Debug)]
struct SelectionInput {
    kind: u8,
    groups: Vec<Vec<String>>,
    known: BTreeMap<String, (RolloutState, Option<i64>)>,
    soak: i64,
    deadline: Option<i64>,
    max_failures: Option<IntOrString>,
    max_concurrency: Option<IntOrString>,
    mandatory: Vec<usize>,
}

impl SelectionInput {
    fn strategy(&self) -> RolloutStrategy {
        let min_success_time = if self.soak == 0 {
            String::new()
        } else {
            format!("{}s", self.soak)
        };
        let progress_deadline = self.deadline.map_or("None".to_owned(), |it| format!("{it}s"));
        // Even groups have a name.
        let mandatory_decision_groups: Vec<_> = self
            .mandatory
            .iter()
            .map(|it| MandatoryDecisionGroup {
                group_name: if it % 2 == 0 {
                    format!("group{it}")
                } else {
                    String::new()
                },
                group_index: *it as i32,
            })
            .collect();
        let (max_failures, max_concurrency) = (self.max_failures.clone(), self.max_concurrency.clone());
        let mut strategy = RolloutStrategy::default();
        match self.kind {
            0 => {
                strategy.all = Some(RolloutAll {
                    min_success_time,
                    progress_deadline,
                    max_failures,
                })
            }
            1 => {
                strategy.r#type = RolloutType::Progressive;
                strategy.progressive = Some(RolloutProgressive {
                    min_success_time,
                    progress_deadline,
                    max_failures,
                    mandatory_decision_groups,
                    max_concurrency,
                });
            }
            _ => {
                strategy.r#type = RolloutType::ProgressivePerGroup;
                strategy.progressive_per_group = Some(RolloutProgressivePerGroup {
                    min_success_time,
                    progress_deadline,
                    max_failures,
                    mandatory_decision_groups,
                });
            }
        }
        strategy
    }

    fn group_name(position: usize) -> String {
        if position.is_multiple_of(2) {
            format!("group{position}")
        } else {
            String::new()
        }
    }

    fn ask_ours(&self) -> Answer {
        let names: Vec<String> = (0..self.groups.len()).map(Self::group_name).collect();
        let mut groups: Vec<Group<'_>> = self
            .groups
            .iter()
            .enumerate()
            .map(|(position, clusters)| Group {
                name: &names[position],
                index: position as i32,
                clusters: clusters.iter().map(String::as_str).collect(),
            })
            .collect();
        groups.reverse();
        let known = self.known.iter().map(|(name, (status, since))| {
            let since = since.map(at);
            (name.as_str(), Existing { status: *status, since })
        });
        let rollout = admit(&self.strategy(), &groups, known, at(0)).unwrap();
        let chosen: Vec<&String> = self.groups.iter().flatten().collect();
        let removed: Vec<&String> = self.known.keys().filter(|it| !chosen.contains(it)).collect();
        assert_eq!(rollout.removed, removed);
        Answer {
            to_rollout: rollout
                .to_rollout()
                .map(|it| (it.cluster.to_owned(), it.status))
                .collect(),
            timed_out: rollout.timed_out().map(|it| it.cluster.to_owned()).collect(),
            breach: rollout.max_failure_breach,
        }
    }

    fn ask_model(&self, walk: Walk) -> Answer {
        let all: Vec<String> = self.groups.iter().flatten().cloned().collect();
        let mut known = self.known.clone();
        known.retain(|name, _| all.contains(name));
        let soak = if self.kind == 0 { 0 } else { self.soak };
        let model = Model {
            walk,
            now: 0,
            soak,
            deadline: self.deadline,
            known,
        };
        if self.kind == 0 {
            return model.per_cluster(&all, all.len(), all.len());
        }
        let numbered: Vec<(usize, Vec<String>)> = self.groups.iter().cloned().enumerate().collect();
        let (first, rest): (Vec<_>, Vec<_>) = numbered.into_iter().partition(|(it, _)| self.mandatory.contains(it));
        if !first.is_empty() {
            let answer = model.per_group(&first, |_| 0);
            let given_up = walk == Walk::Ours && answer.breach;
            if !answer.to_rollout.is_empty() || !answer.timed_out.is_empty() || given_up {
                return answer;
            }
        }
        if self.kind == 1 {
            let remaining: Vec<String> = rest.iter().flat_map(|(_, it)| it.clone()).collect();
            let size = model_size(&self.max_concurrency, remaining.len(), remaining.len());
            let failures_max = model_size(&self.max_failures, all.len(), 0);
            return model.per_cluster(&remaining, size, failures_max);
        }
        model.per_group(&rest, |total| model_size(&self.max_failures, total, 0))
    }
}

fn any_size() -> impl Strategy<Value = Option<IntOrString>> {
    prop_oneof![
        Just(None),
        (-2..8i32).prop_map(|it| Some(IntOrString::Int(it))),
        (0..130u32).prop_map(|it| Some(IntOrString::String(format!("{it}%")))),
    ]
}

fn any_status() -> impl Strategy<Value = RolloutState> {
    prop_oneof![
        3 => Just(RolloutState::ToApply),
        3 => Just(RolloutState::Progressing),
        3 => Just(RolloutState::Succeeded),
        1 => Just(RolloutState::Failed),
        1 => Just(RolloutState::TimeOut),
        1 => Just(RolloutState::Skip),
    ]
}

fn any_world() -> impl Strategy<Value = SelectionInput> {
    let sizes = prop::collection::vec(0..5usize, 0..5);
    let known = prop::collection::vec(prop::option::of((any_status(), prop::option::of(-100..1i64))), 24);
    let times = (prop_oneof![Just(0), 1..60i64], prop::option::of(0..120i64));
    let limits = (any_size(), any_size(), prop::collection::vec(0..5usize, 0..3));
    (0..3u8, sizes, known, times, limits, any::<u64>()).prop_map(
        |(kind, sizes, known, (soak, deadline), (max_failures, max_concurrency, mandatory), seed)| {
            // Names are dealt to groups in an order of their own.
            let mut names: Vec<String> = (0..24).map(|it| format!("c{it:02}")).collect();
            names.sort_by_key(|it| {
                it.bytes()
                    .fold(seed, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
            });
            let mut dealt = names.iter().cloned();
            let groups = sizes.iter().map(|it| dealt.by_ref().take(*it).collect()).collect();
            let known = known
                .into_iter()
                .enumerate()
                .filter_map(|(position, it)| Some((format!("c{position:02}"), it?)))
                .collect();
            SelectionInput {
                kind,
                groups,
                known,
                soak,
                deadline,
                max_failures,
                max_concurrency,
                mandatory,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rollout_is_what_the_slow_model_says(world in any_world()) {
        prop_assert_eq!(world.ask_ours(), world.ask_model(Walk::Ours));
    }

    /// Where nothing failed and nothing behind the walk is in flight, our differences do not show.
    #[test]
    fn a_rollout_without_mishap_is_upstreams(mut world in any_world()) {
        world.deadline = None;
        let mut order: Vec<_> = world.known.keys().cloned().collect();
        order.sort();
        let mut statuses: Vec<_> = world.known.values().copied()
            .filter(|(status, _)| !matches!(status, RolloutState::Failed | RolloutState::TimeOut)).collect();
        statuses.sort_by_key(|(status, _)| *status == RolloutState::ToApply);
        world.known = order.into_iter().zip(statuses).collect();
        // More in flight than may be: upstream forgets the last of them, we do not.
        let in_flight = world.ask_model(Walk::Ours).to_rollout.values().filter(|it| **it != RolloutState::ToApply).count();
        let all: usize = world.groups.iter().map(Vec::len).sum();
        world.max_concurrency = Some(IntOrString::Int(all.max(in_flight) as i32));
        prop_assert_eq!(world.ask_ours(), world.ask_model(Walk::Upstream));
    }

    #[test]
    fn never_more_start_than_there_is_room_for(world in any_world()) {
        let answer = world.ask_ours();
        let starts = answer.to_rollout.values().filter(|it| **it == RolloutState::ToApply).count();
        if world.kind == 1 && world.mandatory.is_empty() && starts > 0 {
            let total = world.groups.iter().map(Vec::len).sum();
            prop_assert!(answer.to_rollout.len() <= model_size(&world.max_concurrency, total, total));
            prop_assert!(!answer.breach);
        }
    }
}
