//! Ages of what has a time, and of what has none.

use jiff::Timestamp;
use kube_primitives::duration::human;

/// The age of a timestamp; `<unknown>` if there is none, `<invalid>` if it is no timestamp.
pub fn since(time: Option<&str>, now: Timestamp) -> String {
    let Some(time) = time.filter(|it| !it.is_empty()) else {
        return "<unknown>".to_owned();
    };
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.duration_since(time).as_secs()),
        Err(_) => "<invalid>".to_owned(),
    }
}
