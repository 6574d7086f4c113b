//! Ages as kubectl writes them (`17s`, `3m4s`, `5h`, `2d`), so that our tables and kubectl's show the same age.

use jiff::Timestamp;
use kube_primitives::duration;

/// How long ago `then` was, seen at `now`.
pub fn since(then: Timestamp, now: Timestamp) -> String {
    duration::human(now.as_second() - then.as_second())
}
