//! How many of its pods a PodDisruptionBudget lets go: the arithmetic of its status.
//! Upstream: kubernetes pkg/controller/disruption, `disruption.go`, and component-helpers apps/poddisruptionbudget.
//! The eviction handler of the API server reads this status, takes one off `disruptionsAllowed` for each eviction, and
//! notes the pod in `disruptedPods`, so that nobody counts it before its deletion shows.

use super::{Again, pods, rollout};
use crate::times;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, LabelSelector, Time},
        util::intstr::IntOrString,
    },
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long an eviction may take to show as the deletion of its pod. After that it is taken to have failed, and the pod
/// counts again. Shorter would count pods that a slow API server is about to delete; longer holds up the next eviction.
const NOTICED_WITHIN: Duration = Duration::from_secs(2 * 60);

const CONDITION: &str = "DisruptionAllowed";

/// Where the number of pods comes from that a budget is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// As many as there are: a number of them has to stay.
    Pods,
    /// As many as their controllers want: a part of them has to stay, or a number or part of them may be missing.
    Controllers,
    /// The budget says nothing, and expects nothing.
    Nothing,
}

/// Tells where a budget takes the number of its pods from.
pub fn expects(spec: &PodDisruptionBudgetSpec) -> Expects {
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(_), _) | (None, Some(IntOrString::String(_))) => Expects::Controllers,
        (None, Some(IntOrString::Int(_))) => Expects::Pods,
        (None, None) => Expects::Nothing,
    }
}

/// Whether a budget is about a pod of its namespace. In `policy/v1` no selector means no pod
/// and an empty one every pod.
pub fn selects(spec: &PodDisruptionBudgetSpec, pod: &Pod) -> bool {
    let selector = spec.selector.as_ref();
    selector.is_some_and(|it| pods::selects(it, pod.metadata.labels.as_ref()))
}

/// How a budget stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    pub status: PodDisruptionBudgetStatus,
    /// Pods that were to be gone by now, and are not.
    pub overdue: Vec<Arc<Pod>>,
    /// When that changes by the mere passing of time.
    pub next: Again,
}

/// Works out how a budget stands with the pods that it selects, of which `expected` are to be there.
///
/// # Errors
/// When its bound is a text and no percentage.
pub fn standing(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    expected: i32,
    now: Timestamp,
) -> Result<Standing, &'static str> {
    let spec = budget.spec.clone().unwrap_or_default();
    let before = budget.status.clone().unwrap_or_default();
    let desired = desired(&spec, expected)?;
    let noted = before.disrupted_pods.unwrap_or_default();
    let mut disrupted = BTreeMap::new();
    let (mut overdue, mut next) = (Vec::new(), None);
    for pod in pods.iter().filter(|it| stays(it)) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let Some(at) = noted.get(&name) else { continue };
        let left = times::until(now, times::after(at.0, NOTICED_WITHIN));
        if left.is_zero() {
            overdue.push(pod.clone());
        } else {
            next = pods::sooner(next, Some(left));
            disrupted.insert(name, at.clone());
        }
    }
    let healthy = healthy(pods, &disrupted);
    // Without a pod that is expected nothing is allowed: the first ones may be there before this is written again.
    let allowed = if expected > 0 {
        healthy.saturating_sub(desired).max(0)
    } else {
        0
    };
    let (holds, reason) = if allowed > 0 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let observed = budget.metadata.generation;
    let status = PodDisruptionBudgetStatus {
        conditions: with_condition(before.conditions, condition(holds, reason, "", observed, now)),
        current_healthy: Some(healthy),
        desired_healthy: Some(desired),
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected),
        observed_generation: observed,
    };
    Ok(Standing { status, overdue, next })
}

/// The status of a budget that cannot be worked out: nothing may go, and the rest stays as it was.
pub fn failed(budget: &PodDisruptionBudget, why: &str, now: Timestamp) -> PodDisruptionBudgetStatus {
    let before = budget.status.clone().unwrap_or_default();
    let observed = before.observed_generation;
    PodDisruptionBudgetStatus {
        conditions: with_condition(
            before.conditions.clone(),
            condition("False", "SyncFailed", why, observed, now),
        ),
        disruptions_allowed: Some(0),
        ..filled(&before)
    }
}

/// Whether a budget says this already.
pub fn says(budget: &PodDisruptionBudget, status: &PodDisruptionBudgetStatus) -> bool {
    budget.status.as_ref().map(filled) == Some(filled(status))
}

/// The status in one form: a count that is missing is zero, and no pods are none.
fn filled(status: &PodDisruptionBudgetStatus) -> PodDisruptionBudgetStatus {
    let count = |it: Option<i32>| Some(it.unwrap_or_default());
    PodDisruptionBudgetStatus {
        conditions: status.conditions.clone(),
        current_healthy: count(status.current_healthy),
        desired_healthy: count(status.desired_healthy),
        disrupted_pods: status.disrupted_pods.clone().filter(|it| !it.is_empty()),
        disruptions_allowed: count(status.disruptions_allowed),
        expected_pods: count(status.expected_pods),
        observed_generation: status.observed_generation,
    }
}

/// How many of the expected pods have to be healthy.
fn desired(spec: &PodDisruptionBudgetSpec, expected: i32) -> Result<i32, &'static str> {
    let part = |bound: &IntOrString| match bound {
        IntOrString::String(text) if !is_percentage(text) => {
            Err("invalid value for IntOrString: invalid type: string is not a percentage")
        }
        bound => Ok(rollout::amount(bound, expected, true)),
    };
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => Ok(expected.saturating_sub(part(most)?).max(0)),
        (None, Some(least)) => part(least),
        (None, None) => Ok(0),
    }
}

fn is_percentage(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|it| it.parse::<i32>().is_ok())
}

fn stays(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|it| it.type_ == "Ready" && it.status == "True")
}

fn healthy(pods: &[Arc<Pod>], disrupted: &BTreeMap<String, Time>) -> i32 {
    let goes = |it: &Pod| it.metadata.name.as_ref().is_some_and(|it| disrupted.contains_key(it));
    let count = pods.iter().filter(|it| stays(it) && is_ready(it) && !goes(it)).count();
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn condition(status: &str, reason: &str, message: &str, observed: Option<i64>, now: Timestamp) -> Condition {
    Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: observed,
        last_transition_time: times::seconds(now),
    }
}

/// The conditions with this one among them, which has its time from the last change of its status.
fn with_condition(conditions: Option<Vec<Condition>>, mut new: Condition) -> Option<Vec<Condition>> {
    let mut all = conditions.unwrap_or_default();
    match all.iter_mut().find(|it| it.type_ == new.type_) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            *old = new;
        }
        None => all.push(new),
    }
    Some(all)
}

/// A selector as Go prints it, which is how events show it.
pub fn in_go(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions = selector.match_expressions.iter().flatten().map(|it| {
        let values = it.values.as_deref().unwrap_or_default().join(" ");
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
            it.key, it.operator
        )
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        let object =
            json!({"metadata": {"name": "b", "namespace": "n", "generation": 2}, "spec": spec, "status": status});
        serde_json::from_value(object).unwrap()
    }

    fn fresh(spec: Value) -> PodDisruptionBudget {
        budget(spec, json!({}))
    }

    fn pod(name: &str, ready: &str) -> Arc<Pod> {
        let object =
            json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn going(name: &str) -> Arc<Pod> {
        let mut pod = Arc::unwrap_or_clone(pod(name, "True"));
        pod.metadata.deletion_timestamp = Some(times::seconds(now()));
        Arc::new(pod)
    }

    fn ready(count: usize) -> Vec<Arc<Pod>> {
        (0..count).map(|it| pod(&format!("p-{it}"), "True")).collect()
    }

    /// The counts as expected, desired, healthy and allowed.
    fn counts(it: &PodDisruptionBudgetStatus) -> [i32; 4] {
        [
            it.expected_pods,
            it.desired_healthy,
            it.current_healthy,
            it.disruptions_allowed,
        ]
        .map(|it| it.expect("every count is written"))
    }

    /// The condition as status/reason/message, its time and its generation.
    fn said(it: &PodDisruptionBudgetStatus) -> (String, String, Option<i64>) {
        let all = it.conditions.clone().unwrap_or_default();
        let [one] = all.try_into().unwrap_or_else(|all| panic!("one condition: {all:?}"));
        assert_eq!(one.type_, "DisruptionAllowed");
        let text = format!("{}/{}/{}", one.status, one.reason, one.message);
        (text, one.last_transition_time.0.to_string(), one.observed_generation)
    }

    #[test]
    fn a_number_counts_the_pods_and_everything_else_their_controllers() {
        let of = |spec: Value| expects(&serde_json::from_value(spec).unwrap());
        let table = [
            (json!({"minAvailable": 2}), Expects::Pods),
            (json!({"minAvailable": "50%"}), Expects::Controllers),
            (json!({"maxUnavailable": 1}), Expects::Controllers),
            (json!({"maxUnavailable": "50%"}), Expects::Controllers),
            (json!({}), Expects::Nothing),
        ];
        for (spec, want) in table {
            assert_eq!(of(spec.clone()), want, "{spec}");
        }
    }

    #[test]
    fn allowed_disruptions_are_healthy_pods_above_the_desired_number() {
        let most = i32::MAX;
        // The bound, the pods that are expected and those that are ready; expected, desired, healthy, allowed.
        let table = [
            (json!({"minAvailable": 2}), 3, 3, [3, 2, 3, 1]),
            (json!({"minAvailable": 2}), 3, 2, [3, 2, 2, 0]),
            (json!({"minAvailable": 2}), 1, 1, [1, 2, 1, 0]),
            (json!({"minAvailable": 0}), 3, 3, [3, 0, 3, 3]),
            (json!({"minAvailable": most}), 3, 3, [3, most, 3, 0]),
            // 1.5 and 3.5 and 2.97 of the pods are two, four and three.
            (json!({"minAvailable": "50%"}), 3, 3, [3, 2, 3, 1]),
            (json!({"minAvailable": "50%"}), 7, 7, [7, 4, 7, 3]),
            (json!({"minAvailable": "99%"}), 3, 3, [3, 3, 3, 0]),
            (json!({"minAvailable": "0%"}), 3, 2, [3, 0, 2, 2]),
            (json!({"minAvailable": "100%"}), 3, 3, [3, 3, 3, 0]),
            (json!({"maxUnavailable": 1}), 3, 3, [3, 2, 3, 1]),
            (json!({"maxUnavailable": 1}), 5, 3, [5, 4, 3, 0]),
            (json!({"maxUnavailable": 0}), 3, 3, [3, 3, 3, 0]),
            (json!({"maxUnavailable": 9}), 3, 3, [3, 0, 3, 3]),
            // 0.9 of a pod that may be missing is one.
            (json!({"maxUnavailable": "30%"}), 3, 3, [3, 2, 3, 1]),
            (json!({"maxUnavailable": "50%"}), most, 3, [most, most / 2, 3, 0]),
            // More pods than wanted, as in a rollout.
            (json!({"maxUnavailable": 1}), 3, 5, [3, 2, 5, 3]),
            // Nothing is expected, or nothing is said.
            (json!({"minAvailable": 0}), 0, 0, [0, 0, 0, 0]),
            (json!({"maxUnavailable": 1}), 0, 2, [0, 0, 2, 0]),
            (json!({}), 0, 3, [0, 0, 3, 0]),
        ];
        for (spec, expected, healthy, want) in table {
            let standing = standing(&fresh(spec.clone()), &ready(healthy), expected, now()).unwrap();
            assert_eq!(counts(&standing.status), want, "{spec} of {expected}, {healthy} ready");
            let reason = match want[3] {
                0 => "False/InsufficientPods/",
                _ => "True/SufficientPods/",
            };
            assert_eq!(said(&standing.status), (reason.to_owned(), NOW.to_owned(), Some(2)));
            assert_eq!(standing.status.observed_generation, Some(2));
        }
        for text in ["2", "x%", "%", ""] {
            assert!(standing(&fresh(json!({"minAvailable": text})), &[], 3, now()).is_err());
        }
    }

    #[test]
    fn unready_and_terminating_pods_are_not_healthy() {
        let mut pods = ready(2);
        pods.extend([pod("unready", "False"), going("going"), Arc::default()]);
        let standing = standing(&fresh(json!({"minAvailable": 1})), &pods, 5, now()).unwrap();
        assert_eq!(counts(&standing.status), [5, 1, 2, 1]);
    }

    #[test]
    fn an_eviction_counts_until_its_pod_goes_or_it_expires() {
        let noted = json!({
            "p-0": "2026-01-01T00:09:30Z", "p-1": "2026-01-01T00:08:01Z", "p-2": "2026-01-01T00:08:00Z",
            "going": NOW, "gone": NOW,
        });
        let status = json!({"currentHealthy": 4, "desiredHealthy": 1, "disruptionsAllowed": 3, "expectedPods": 5,
            "disruptedPods": noted});
        let budget = budget(json!({"minAvailable": 1}), status);
        let mut pods = ready(4);
        pods.push(going("going"));
        let standing = standing(&budget, &pods, 5, now()).unwrap();
        let names: Vec<_> = standing.status.disrupted_pods.iter().flatten().map(|it| it.0).collect();
        assert_eq!(names, ["p-0", "p-1"]);
        let overdue: Vec<_> = standing.overdue.iter().map(|it| it.metadata.name.clone()).collect();
        assert_eq!(overdue, [Some("p-2".to_owned())]);
        assert_eq!(standing.next, Some(Duration::from_secs(1)));
        // p-2, which has not gone, and p-3.
        assert_eq!(counts(&standing.status), [5, 1, 2, 1]);
    }

    #[test]
    fn the_time_of_the_condition_moves_when_its_status_does() {
        let spec = json!({"minAvailable": 2});
        let first = standing(&fresh(spec.clone()), &ready(3), 3, now()).unwrap().status;
        let mut budget = fresh(spec);
        assert!(!says(&budget, &first));
        budget.status = Some(first.clone());
        let later: Timestamp = "2026-01-01T00:11:00Z".parse().unwrap();
        let same = standing(&budget, &ready(3), 3, later).unwrap().status;
        assert!(says(&budget, &same));
        budget.status.as_mut().unwrap().disrupted_pods = Some(BTreeMap::new());
        assert!(says(&budget, &same));
        budget.metadata.generation = Some(3);
        let newer = standing(&budget, &ready(3), 3, later).unwrap().status;
        assert!(!says(&budget, &newer));
        assert_eq!(said(&newer), ("True/SufficientPods/".into(), NOW.into(), Some(3)));
        let fewer = standing(&budget, &ready(2), 2, later).unwrap().status;
        assert_eq!(
            said(&fewer),
            ("False/InsufficientPods/".into(), later.to_string(), Some(3))
        );
        // A failure leaves all but what is allowed, and says which state that was worked out for.
        let failure = failed(&budget, "no idea", later);
        assert_eq!(counts(&failure), [3, 2, 3, 0]);
        assert_eq!(
            said(&failure),
            ("False/SyncFailed/no idea".into(), later.to_string(), Some(2))
        );
        assert_eq!(failure.observed_generation, Some(2));
        budget.status = Some(failure);
        assert!(says(&budget, &failed(&budget, "no idea", later)));
        assert!(!says(&budget, &failed(&budget, "another", later)));
    }

    #[test]
    fn a_missing_selector_selects_nothing_and_an_empty_one_everything() {
        let object = json!({"metadata": {"labels": {"app": "x"}}});
        let labelled: Pod = serde_json::from_value(object).unwrap();
        let table = [
            (json!({}), [false, false]),
            (json!({"selector": null}), [false, false]),
            (json!({"selector": {}}), [true, true]),
            (json!({"selector": {"matchLabels": {"app": "x"}}}), [true, false]),
            (
                json!({"selector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}),
                [false, true],
            ),
        ];
        for (spec, want) in table {
            let read: PodDisruptionBudgetSpec = serde_json::from_value(spec.clone()).unwrap();
            let found = [&labelled, &Pod::default()].map(|it| selects(&read, it));
            assert_eq!(found, want, "{spec}");
        }
    }

    #[test]
    fn a_selector_is_shown_as_go_does() {
        let selector = json!({"matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}, {"key": "l", "operator": "Exists"}]});
        let want = "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{\
                    LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},\
                    LabelSelectorRequirement{Key:l,Operator:Exists,Values:[],},},}";
        assert_eq!(in_go(&serde_json::from_value(selector).unwrap()), want);
    }
}
