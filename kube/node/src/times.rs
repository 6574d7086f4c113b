//! Times as Kubernetes writes them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

/// A `meta/v1 Time` holds whole seconds; with more, what is written would differ from what is read back.
pub fn seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// Now, in whole seconds.
pub fn now() -> Time {
    seconds(Timestamp::now())
}

/// The time from `now` until `then`; zero when it has passed.
pub fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

/// So long after a time. Where the calendar ends first, its end: what is due then is not due in any life of ours.
pub fn after(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// A count of seconds from a Kubernetes field.
pub fn of_seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_the_maximum_become_the_maximum() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let table = [
            ("2026-01-01T00:00:00Z", 60, at("2026-01-01T00:01:00Z")),
            ("9999-12-30T21:59:59Z", 3600, Timestamp::MAX),
            ("2026-01-01T00:00:00Z", i64::MAX, Timestamp::MAX),
        ];
        for (from, seconds, want) in table {
            assert_eq!(after(at(from), of_seconds(seconds)), want, "{from} + {seconds} s");
        }
        assert_eq!(after(Timestamp::UNIX_EPOCH, Duration::MAX), Timestamp::MAX);
    }
}
