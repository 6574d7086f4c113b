//! When a policy is evaluated.
//! Upstream: config-policy-controller `shouldEvaluatePolicy`.

use std::time::Duration;

use jiff::Timestamp;
use ocm_addon_sdk::{duration, ocm_api::policy::configuration_policy::ConfigurationPolicy};

use crate::evaluate::{COMPLIANT, NON_COMPLIANT, STILL_THERE};

/// When a policy is evaluated whose interval cannot be read.
const UNREADABLE: Duration = Duration::from_secs(10);

/// When a policy is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// After this time.
    After(Duration),
    /// When it is changed.
    OnChange,
}

/// What an interval says.
enum Interval {
    Watch,
    Never,
    Every(Duration),
    Unreadable,
}

fn interval(policy: &ConfigurationPolicy, state: &str) -> Interval {
    let interval = &policy.spec.evaluation_interval;
    let text = match state {
        COMPLIANT => &interval.compliant,
        _ => &interval.noncompliant,
    };
    match text.as_str() {
        "" | "watch" => Interval::Watch,
        "never" => Interval::Never,
        text => match duration::parse(text).and_then(|it| Duration::try_from(it).ok()) {
            Some(every) => Interval::Every(every),
            None => Interval::Unreadable,
        },
    }
}

/// Whether a policy is to be evaluated, which somebody or something has asked for. `namespaces_changed`: other
/// namespaces are selected than the last time.
pub fn due(policy: &ConfigurationPolicy, namespaces_changed: bool, now: Timestamp) -> Due {
    let Some(status) = policy.status.as_ref() else {
        return Due::Now;
    };
    let recreating = status.compliant == NON_COMPLIANT
        && status
            .compliancy_details
            .iter()
            .flat_map(|it| &it.conditions)
            .any(|it| it.message.contains(STILL_THERE));
    if policy.metadata.deletion_timestamp.is_some()
        || status.last_evaluated.is_empty()
        || Some(status.last_evaluated_generation) != policy.metadata.generation
        || !matches!(status.compliant.as_str(), COMPLIANT | NON_COMPLIANT)
        || recreating
        || namespaces_changed
    {
        return Due::Now;
    }
    match interval(policy, &status.compliant) {
        Interval::Watch | Interval::Unreadable => Due::Now,
        Interval::Never => Due::OnChange,
        Interval::Every(every) => {
            let Ok(evaluated) = status.last_evaluated.parse::<Timestamp>() else {
                return Due::Now;
            };
            let since = Duration::try_from(now.duration_since(evaluated)).unwrap_or_default();
            match every.checked_sub(since) {
                Some(left) if !left.is_zero() => Due::After(left),
                _ => Due::Now,
            }
        }
    }
}

/// When a policy that was evaluated is looked at again, if nothing wakes it.
pub fn again(policy: &ConfigurationPolicy) -> Option<Duration> {
    let state = policy.status.as_ref().map_or("", |it| it.compliant.as_str());
    match interval(policy, state) {
        Interval::Watch | Interval::Never => None,
        // As fast as may be, and others get their turn.
        Interval::Every(every) => Some(every.max(Duration::from_millis(1))),
        Interval::Unreadable => Some(UNREADABLE),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(interval: Value, status: Value) -> ConfigurationPolicy {
        let document = json!({
            "metadata": {"name": "p", "namespace": "n", "generation": 2},
            "spec": {"evaluationInterval": interval},
            "status": status,
        });
        serde_json::from_value(document).unwrap()
    }

    fn status(state: &str) -> Value {
        json!({"compliant": state, "lastEvaluated": "2026-01-01T00:00:00Z", "lastEvaluatedGeneration": 2})
    }

    fn at(second: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(second)
    }

    #[test]
    fn an_interval_is_waited_for() {
        let policy = policy(json!({"compliant": "1m", "noncompliant": "10s"}), status("Compliant"));
        assert_eq!(due(&policy, false, at(20)), Due::After(Duration::from_secs(40)));
        assert_eq!(due(&policy, false, at(60)), Due::Now);
        assert_eq!(due(&policy, true, at(20)), Due::Now);
        assert_eq!(again(&policy), Some(Duration::from_secs(60)));
    }

    #[test]
    fn a_policy_that_is_done_is_evaluated_when_it_changes() {
        let mut policy = policy(json!({"compliant": "never"}), status("Compliant"));
        assert_eq!(due(&policy, false, at(1)), Due::OnChange);
        assert_eq!(due(&policy, true, at(1)), Due::Now);
        policy.metadata.generation = Some(3);
        assert_eq!(due(&policy, false, at(1)), Due::Now);
    }

    #[test]
    fn what_is_unknown_or_recreated_is_evaluated_at_once() {
        let never = json!({"compliant": "never", "noncompliant": "never"});
        assert_eq!(due(&policy(never.clone(), status("")), false, at(1)), Due::Now);
        assert_eq!(
            due(&policy(never.clone(), status("Terminating")), false, at(1)),
            Due::Now
        );
        let mut recreated = status("NonCompliant");
        recreated["compliancyDetails"] = json!([{"conditions": [{"type": "violation", "message": STILL_THERE}]}]);
        assert_eq!(due(&policy(never, recreated), false, at(1)), Due::Now);
    }

    #[test]
    fn an_interval_that_cannot_be_read_is_a_watch() {
        let policy = policy(json!({"compliant": "soon"}), status("Compliant"));
        assert_eq!(due(&policy, false, at(1)), Due::Now);
        assert_eq!(again(&policy), Some(Duration::from_secs(10)));
    }
}
