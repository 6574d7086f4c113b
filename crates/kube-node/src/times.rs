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

/// A count of seconds from a Kubernetes field.
pub fn of_seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or_default())
}
