//! How far a work is with what it says: the status that a rollout goes by, and what the summary counts.
//!
//! Upstream: ocm `manifestWorkToClusterRolloutStatus` and the status reconciler. Its rules are kept where the template
//! has a condition rule named `Progressing`, as upstream's documentation wants it. We differ where upstream waits for
//! ever:
//!
//! 1. Without such a rule a work has succeeded when it is applied and available at its generation. Upstream waits for a
//!    condition that nobody sets, so that a progressive rollout never gets past its first clusters.
//! 2. A work that its agent has not answered yet, or cannot apply, is under way since it was written, and so times out
//!    when there is a deadline. Upstream counts it as not begun, for which there is none.
//! 3. A success counts from the moment the work was changed at the earliest, so that a condition which was True before
//!    does not shorten the soak time.
//! 4. The summary counts what agents say of the present generation only.

use jiff::Timestamp;
use ocm_api::{
    condition::{self, Condition, Status},
    conditions::manifest_work as types,
    work::{ManifestWork, ManifestWorkSpec},
};
use placement::rollout::{self, Existing};

/// What the summary counts of a work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct WorkConditions {
    pub applied: bool,
    pub available: bool,
    pub progressing: bool,
    pub degraded: bool,
}

/// Whether the template says itself when a work is done.
pub fn has_progressing_rule(spec: &ManifestWorkSpec) -> bool {
    let mut rules = spec.manifest_configs.iter().flat_map(|it| &it.condition_rules);
    rules.any(|it| it.condition == types::PROGRESSING)
}

/// What the agent says of this generation.
fn fresh<'a>(work: &'a ManifestWork, r#type: &str) -> Option<&'a Condition> {
    let conditions = &work.status.as_ref()?.conditions;
    condition::find(conditions, r#type).filter(|it| it.observed_generation == work.metadata.generation)
}

fn is(condition: Option<&Condition>, status: Status) -> bool {
    condition.is_some_and(|it| it.status == status.as_str())
}

/// What the summary counts.
pub fn flags(work: &ManifestWork) -> WorkConditions {
    let is_true = |r#type: &str| is(fresh(work, r#type), Status::True);
    WorkConditions {
        applied: is_true(types::APPLIED),
        available: is_true(types::AVAILABLE),
        progressing: is_true(types::PROGRESSING),
        degraded: is_true(types::DEGRADED),
    }
}

/// How far the work is. `written` is when it got what it says, as far as anybody knows.
pub fn existing(work: &ManifestWork, written: Timestamp) -> Existing {
    let at = |status, since: Option<&Condition>| Existing {
        status,
        since: Some(since.map_or(written, |it| it.last_transition_time.0.max(written))),
    };
    let under_way = rollout::RolloutState::Progressing;
    let Some(applied) = fresh(work, types::APPLIED).filter(|it| it.status == "True") else {
        return at(under_way, None);
    };
    let degraded = fresh(work, types::DEGRADED);
    let conditions = work.status.iter().flat_map(|it| &it.conditions);
    if degraded.is_none() && conditions.into_iter().any(|it| it.type_ == types::DEGRADED) {
        // What was said of an earlier generation may hold still.
        return at(under_way, Some(applied));
    }
    let failed = is(degraded, Status::True);
    if !has_progressing_rule(&work.spec) && fresh(work, types::PROGRESSING).is_none() {
        let available = fresh(work, types::AVAILABLE);
        return match () {
            () if failed => at(rollout::RolloutState::Failed, degraded),
            () if is(available, Status::True) => at(rollout::RolloutState::Succeeded, available),
            // What was well for long and is no more has its time anew.
            () => at(under_way, available.or(Some(applied))),
        };
    }
    let progressing = fresh(work, types::PROGRESSING);
    match () {
        () if is(progressing, Status::False) => at(rollout::RolloutState::Succeeded, progressing),
        () if is(progressing, Status::True) && failed => at(rollout::RolloutState::Failed, degraded),
        () => at(under_way, progressing.or(Some(applied))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const WRITTEN: &str = "2026-01-01T12:00:00Z";

    fn work(conditions: &[(&str, &str, i64, &str)], rule: bool) -> ManifestWork {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(r#type, status, generation, at)| {
                json!({"type": r#type, "status": status, "reason": "R", "message": "",
                       "observedGeneration": generation, "lastTransitionTime": format!("2026-01-01T{at}:00Z")})
            })
            .collect();
        let mut work = json!({"metadata": {"generation": 2}, "status": {"conditions": conditions}});
        if rule {
            work["spec"] = json!({"manifestConfigs": [{
                "resourceIdentifier": {"resource": "jobs", "name": "a"},
                "conditionRules": [{"type": "CEL", "condition": "Progressing", "celExpressions": ["true"]}]
            }]});
        }
        serde_json::from_value(work).unwrap()
    }

    fn show(conditions: &[(&str, &str, i64, &str)], rule: bool) -> String {
        let it = existing(&work(conditions, rule), WRITTEN.parse().unwrap());
        format!("{:?} {}", it.status, &it.since.unwrap().to_string()[11..16])
    }

    #[test]
    fn a_rule_named_progressing_says_how_far_the_work_is() {
        let (applied, stale) = (("Applied", "True", 2, "12:05"), ("Applied", "True", 1, "12:05"));
        let table: &[(&[_], &str)] = &[
            (&[], "Progressing 12:00"),
            (&[stale], "Progressing 12:00"),
            (&[("Applied", "False", 2, "12:05")], "Progressing 12:00"),
            (&[applied], "Progressing 12:05"),
            (&[applied, ("Available", "True", 2, "12:06")], "Progressing 12:05"),
            (&[applied, ("Progressing", "True", 2, "12:07")], "Progressing 12:07"),
            (&[applied, ("Progressing", "Unknown", 2, "12:07")], "Progressing 12:07"),
            (&[applied, ("Progressing", "False", 1, "12:07")], "Progressing 12:05"),
            (&[applied, ("Progressing", "False", 2, "12:07")], "Succeeded 12:07"),
            // True since before the work was changed: it soaks from the change.
            (&[applied, ("Progressing", "False", 2, "11:00")], "Succeeded 12:00"),
            (
                &[
                    applied,
                    ("Progressing", "True", 2, "12:07"),
                    ("Degraded", "True", 2, "12:08"),
                ],
                "Failed 12:08",
            ),
            (
                &[
                    applied,
                    ("Progressing", "False", 2, "12:07"),
                    ("Degraded", "True", 2, "12:08"),
                ],
                "Succeeded 12:07",
            ),
            (
                &[
                    applied,
                    ("Progressing", "False", 2, "12:07"),
                    ("Degraded", "True", 1, "12:08"),
                ],
                "Progressing 12:05",
            ),
        ];
        for (conditions, expected) in table {
            assert_eq!(show(conditions, true), *expected, "{conditions:?}");
        }
    }

    #[test]
    fn without_such_a_rule_being_available_is_success() {
        let applied = ("Applied", "True", 2, "12:05");
        let table: &[(&[_], &str)] = &[
            (&[applied], "Progressing 12:05"),
            (&[applied, ("Available", "False", 2, "12:06")], "Progressing 12:06"),
            (&[applied, ("Available", "True", 1, "12:06")], "Progressing 12:05"),
            (&[applied, ("Available", "True", 2, "12:06")], "Succeeded 12:06"),
            (
                &[
                    applied,
                    ("Available", "True", 2, "12:06"),
                    ("Degraded", "True", 2, "12:08"),
                ],
                "Failed 12:08",
            ),
            // Somebody sets Progressing without our template asking for it.
            (
                &[
                    applied,
                    ("Available", "True", 2, "12:06"),
                    ("Progressing", "True", 2, "12:07"),
                ],
                "Progressing 12:07",
            ),
        ];
        for (conditions, expected) in table {
            assert_eq!(show(conditions, false), *expected, "{conditions:?}");
        }
    }

    #[test]
    fn conditions_of_an_older_generation_are_not_counted() {
        let it = flags(&work(
            &[("Applied", "True", 1, "12:00"), ("Available", "True", 2, "12:00")],
            false,
        ));
        assert_eq!((it.applied, it.available), (false, true));
    }
}
