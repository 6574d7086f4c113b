//! Conditions as Kubernetes keeps them: one entry per type, and a transition time that moves only with the status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// What a reconciler has to say about one condition type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The condition type.
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: Status,
    /// A CamelCase reason that programs read.
    pub reason: String,
    /// A sentence that people read.
    pub message: String,
    /// The generation of the object this was said about, when that matters.
    pub observed_generation: Option<i64>,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The condition holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can tell.
    Unknown,
}

impl Status {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(holds: bool) -> Self {
        if holds { Status::True } else { Status::False }
    }
}

/// A verdict without a generation.
pub fn verdict(type_: &str, status: impl Into<Status>, reason: &str, message: impl Into<String>) -> Verdict {
    Verdict {
        type_: type_.to_owned(),
        status: status.into(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: None,
    }
}

/// Writes `verdict` into `conditions`; true when something changed. `lastTransitionTime` moves only when the status changes.
pub fn set(conditions: &mut Vec<Condition>, verdict: &Verdict, now: Timestamp) -> bool {
    // Kubernetes keeps whole seconds here; a fraction would come back changed and look like a difference.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let Some(present) = conditions.iter_mut().find(|it| it.type_ == verdict.type_) else {
        conditions.push(Condition {
            type_: verdict.type_.clone(),
            status: verdict.status.as_str().to_owned(),
            reason: verdict.reason.clone(),
            message: verdict.message.clone(),
            observed_generation: verdict.observed_generation,
            last_transition_time: Time(now),
        });
        return true;
    };
    let mut changed = false;
    if present.status != verdict.status.as_str() {
        present.status = verdict.status.as_str().to_owned();
        present.last_transition_time = Time(now);
        changed = true;
    }
    if present.reason != verdict.reason {
        present.reason = verdict.reason.clone();
        changed = true;
    }
    if present.message != verdict.message {
        present.message = verdict.message.clone();
        changed = true;
    }
    if verdict.observed_generation.is_some() && present.observed_generation != verdict.observed_generation {
        present.observed_generation = verdict.observed_generation;
        changed = true;
    }
    changed
}

/// The condition of this type, if it was ever said.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == type_)
}

/// Whether the condition of this type was said and is `status`.
pub fn is(conditions: &[Condition], type_: &str, status: Status) -> bool {
    get(conditions, type_).is_some_and(|it| it.status == status.as_str())
}

/// Whether the condition of this type is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    is(conditions, type_, Status::True)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        let early = Timestamp::from_second(100).unwrap();
        let late = Timestamp::from_second(200).unwrap();
        assert!(set(&mut conditions, &verdict("Joined", true, "Joined", "first"), early));
        assert!(set(&mut conditions, &verdict("Joined", true, "Joined", "second"), late));
        assert_eq!(conditions[0].last_transition_time.0, early);
        assert!(!set(
            &mut conditions,
            &verdict("Joined", true, "Joined", "second"),
            late
        ));
        assert!(set(&mut conditions, &verdict("Joined", false, "Left", "third"), late));
        assert_eq!(conditions[0].last_transition_time.0, late);
    }
}
