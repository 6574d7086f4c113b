//! Taints and tolerations.
//! Upstream: ocm `pkg/placement/plugins/tainttoleration`.

use jiff::{SignedDuration, Timestamp};
use ocm_api::cluster::{Taint, TaintEffect, Toleration};

/// What a placement makes of a cluster's taints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerated<'a> {
    /// The cluster may be chosen, until then if a toleration ends.
    Until(Option<Timestamp>),
    /// This taint keeps the placement away.
    Not(&'a Taint),
}

/// What is wrong with a placement's tolerations, if anything is.
pub fn check(tolerations: &[Toleration]) -> Result<(), String> {
    for it in tolerations {
        if it.key.is_empty() && it.operator != "Exists" {
            return Err("If the key is empty, operator must be Exists.".to_owned());
        }
        if it.operator == "Exists" && !it.value.is_empty() {
            return Err("If the operator is Exists, the value should be empty.".to_owned());
        }
    }
    Ok(())
}

/// Whether the taints leave the cluster to the placement, which `has` it already or not.
pub fn tolerates<'a>(taints: &'a [Taint], tolerations: &[Toleration], has: bool, now: Timestamp) -> Tolerated<'a> {
    let mut ends: Option<Timestamp> = None;
    for taint in taints {
        let free = match taint.effect {
            // A wish that nobody acts on, upstream neither.
            TaintEffect::PreferNoSelect => true,
            TaintEffect::NoSelectIfNew => has,
            TaintEffect::NoSelect => false,
        };
        if free {
            continue;
        }
        // The longest of the tolerations counts; none is longer than one without an end.
        let mut best: Option<Option<Timestamp>> = None;
        for end in tolerations
            .iter()
            .filter(|it| matches(it, taint))
            .map(|it| end(it, taint))
        {
            if end.is_none_or(|end| now < end) {
                best = Some(match best {
                    None => end,
                    Some(other) => other.zip(end).map(|(a, b)| a.max(b)),
                });
            }
        }
        match best {
            None => return Tolerated::Not(taint),
            Some(end) => ends = [ends, end].into_iter().flatten().min(),
        }
    }
    Tolerated::Until(ends)
}

fn matches(toleration: &Toleration, taint: &Taint) -> bool {
    toleration.effect.is_none_or(|it| it == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            _ => false,
        }
}

/// When the toleration of this taint ends; never when it does not say for how long.
/// A taint of unknown age is as old as time.
fn end(toleration: &Toleration, taint: &Taint) -> Option<Timestamp> {
    let seconds = SignedDuration::from_secs(toleration.toleration_seconds?);
    let since = taint.time_added.as_ref().map_or(Timestamp::MIN, |it| it.0);
    let end = since.checked_add(seconds);
    Some(end.unwrap_or(if seconds.is_negative() {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(taint: serde_json::Value, tolerations: serde_json::Value, has: bool) -> Option<Option<String>> {
        let taints: Vec<Taint> = serde_json::from_value(json!([taint])).unwrap();
        let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
        match tolerates(&taints, &tolerations, has, "2026-01-01T00:00:30Z".parse().unwrap()) {
            Tolerated::Until(end) => Some(end.map(|it| it.to_string())),
            Tolerated::Not(_) => None,
        }
    }

    fn taint(effect: &str) -> serde_json::Value {
        json!({"key": "gpu", "value": "no", "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn taints_keep_away_unless_tolerated() {
        for (toleration, tolerated) in [
            (json!([]), false),
            (json!([{"key": "gpu", "value": "no"}]), true),
            (json!([{"key": "gpu", "operator": "Equal", "value": "yes"}]), false),
            (json!([{"key": "gpu", "operator": "Exists"}]), true),
            (json!([{"operator": "Exists"}]), true),
            (
                json!([{"key": "gpu", "operator": "Exists", "effect": "NoSelectIfNew"}]),
                false,
            ),
            (json!([{"key": "gpu", "operator": "Like"}]), false),
        ] {
            assert_eq!(
                ask(taint("NoSelect"), toleration.clone(), true).is_some(),
                tolerated,
                "{toleration}"
            );
        }
    }

    #[test]
    fn some_effects_are_free() {
        assert!(ask(taint("PreferNoSelect"), json!([]), false).is_some());
        assert!(ask(taint("NoSelectIfNew"), json!([]), true).is_some());
        assert!(ask(taint("NoSelectIfNew"), json!([]), false).is_none());
    }

    #[test]
    fn a_toleration_ends_and_the_longest_counts() {
        let seconds = |it: i64| json!({"key": "gpu", "operator": "Exists", "tolerationSeconds": it});
        assert_eq!(ask(taint("NoSelect"), json!([seconds(30)]), true), None);
        assert_eq!(
            ask(taint("NoSelect"), json!([seconds(31)]), true),
            Some(Some("2026-01-01T00:00:31Z".into()))
        );
        assert_eq!(
            ask(taint("NoSelect"), json!([seconds(5), seconds(60), seconds(45)]), true),
            Some(Some("2026-01-01T00:01:00Z".into()))
        );
        assert_eq!(
            ask(taint("NoSelect"), json!([seconds(60), {"operator": "Exists"}]), true),
            Some(None)
        );
        assert_eq!(ask(taint("NoSelect"), json!([seconds(i64::MIN)]), true), None);
        assert_eq!(
            ask(json!({"key": "gpu", "effect": "NoSelect"}), json!([seconds(60)]), true),
            None
        );
    }
}
