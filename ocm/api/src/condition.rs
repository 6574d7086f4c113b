//! Reading and setting conditions. Pure: the caller says what time it is.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The three answers a condition can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody can say.
    Unknown,
}

impl Status {
    /// As written in `status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(value: bool) -> Self {
        if value { Status::True } else { Status::False }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition as its author wants it; the transition time follows from what was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// Which condition.
    pub r#type: String,
    /// Whether it holds.
    pub status: Status,
    /// Why, as one word for programs.
    pub reason: String,
    /// Why, for people.
    pub message: String,
    /// The generation the author looked at, where the condition says so.
    pub observed_generation: Option<i64>,
}

/// A wanted condition that does not name a generation.
///
/// ```
/// use ocm_api::condition::{self, Status, wanted};
///
/// let mut conditions = vec![];
/// let noon = "2026-01-01T12:00:00Z".parse().unwrap();
/// assert!(condition::set(&mut conditions, wanted("Bound", Status::True, "ClusterSetBound", ""), noon));
/// assert!(condition::is_true(&conditions, "Bound"));
/// ```
pub fn wanted(r#type: &str, status: impl Into<Status>, reason: &str, message: impl Into<String>) -> ConditionUpdate {
    ConditionUpdate {
        r#type: r#type.to_owned(),
        status: status.into(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: None,
    }
}

impl ConditionUpdate {
    /// The same condition, observed at this generation.
    pub fn at_generation(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self
    }

    /// The condition as if nothing had been there before.
    pub fn since(self, now: Timestamp) -> Condition {
        // The wire carries whole seconds. Keeping more in memory would make what we wrote differ
        // from what we read back.
        let seconds = Timestamp::from_second(now.as_second()).expect("a timestamp's own seconds are in range");
        Condition {
            last_transition_time: Time(seconds),
            message: self.message,
            observed_generation: self.observed_generation,
            reason: self.reason,
            status: self.status.as_str().to_owned(),
            type_: self.r#type,
        }
    }
}

/// Sets a condition and says whether anything changed. The transition time moves only when the status does.
pub fn set(conditions: &mut Vec<Condition>, wanted: ConditionUpdate, now: Timestamp) -> bool {
    let Some(current) = conditions.iter_mut().find(|it| it.type_ == wanted.r#type) else {
        conditions.push(wanted.since(now));
        return true;
    };
    let mut next = wanted.since(now);
    if next.status == current.status {
        next.last_transition_time = current.last_transition_time.clone();
    }
    let changed = *current != next;
    *current = next;
    changed
}

/// Removes a condition and says whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, r#type: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|it| it.type_ != r#type);
    before != conditions.len()
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|it| it.type_ == r#type)
}

/// What the condition says, or nothing when it is absent or says something else than the three answers.
pub fn status(conditions: &[Condition], r#type: &str) -> Option<Status> {
    match find(conditions, r#type)?.status.as_str() {
        "True" => Some(Status::True),
        "False" => Some(Status::False),
        "Unknown" => Some(Status::Unknown),
        _ => None,
    }
}

/// Whether the condition is there and True.
pub fn is_true(conditions: &[Condition], r#type: &str) -> bool {
    status(conditions, r#type) == Some(Status::True)
}

/// Whether the condition is there and False.
pub fn is_false(conditions: &[Condition], r#type: &str) -> bool {
    status(conditions, r#type) == Some(Status::False)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_does() {
        let (noon, one) = (at("2026-01-01T12:00:00Z"), at("2026-01-01T13:00:00Z"));
        let mut conditions = vec![];
        assert!(set(&mut conditions, wanted("Joined", true, "A", "a"), noon));
        assert!(set(
            &mut conditions,
            wanted("Joined", true, "B", "b").at_generation(Some(2)),
            one
        ));
        assert_eq!(conditions[0].last_transition_time, Time(noon));
        assert_eq!(
            (conditions[0].reason.as_str(), conditions[0].observed_generation),
            ("B", Some(2))
        );
        assert!(set(
            &mut conditions,
            wanted("Joined", false, "B", "b").at_generation(Some(2)),
            one
        ));
        assert_eq!(conditions[0].last_transition_time, Time(one));
    }

    #[test]
    fn a_condition_equals_itself_after_a_trip_over_the_wire() {
        let condition = wanted("Joined", true, "A", "a").since(at("2026-01-01T12:00:00.123456Z"));
        let json = serde_json::to_value(&condition).unwrap();
        assert_eq!(serde_json::from_value::<Condition>(json).unwrap(), condition);
    }

    #[test]
    fn setting_what_is_there_changes_nothing() {
        let noon = at("2026-01-01T12:00:00Z");
        let mut conditions = vec![wanted("Joined", true, "A", "a").since(noon)];
        assert!(!set(
            &mut conditions,
            wanted("Joined", true, "A", "a"),
            at("2026-01-02T00:00:00Z")
        ));
        assert!(remove(&mut conditions, "Joined"));
        assert!(!remove(&mut conditions, "Joined"));
    }
}
