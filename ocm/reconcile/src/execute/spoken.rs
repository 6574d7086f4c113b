//! How many Events one object gets: as many as client-go's recorders write of one source about one object, which are 25
//! at once and then one in five minutes. A Policy that goes to hundreds of clusters would otherwise have an Event for
//! each of them, and they would be half of all writes. What has become of the object is in its status.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::plan::{EventStep, Site};

/// So many Events at once.
const BURST: u32 = 25;
/// One more after this time.
const REFILL: SignedDuration = SignedDuration::from_mins(5);
/// So many objects are remembered; client-go's cache has this size.
const OBJECTS: usize = 4096;

/// What was said about which object. Clones share it.
#[derive(Clone, Default)]
pub struct Spoken(Arc<Mutex<HashMap<Key, Bucket>>>);

#[derive(PartialEq, Eq, Hash)]
struct Key {
    site: Site,
    controller: String,
    regarding: [String; 4],
}

struct Bucket {
    /// How many may be said now.
    left: u32,
    /// Since when this is counted: the time of the last Event that was let through or refilled.
    since: Timestamp,
}

impl Spoken {
    /// Whether the Event is one of those that are sent; it counts as sent then.
    pub fn allows(&self, event: &EventStep) -> bool {
        let field = |name: &str| {
            let text = event.regarding.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let key = Key {
            site: event.site,
            controller: event.reporting_controller.clone(),
            regarding: ["kind", "namespace", "name", "uid"].map(field),
        };
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if objects.len() >= OBJECTS && !objects.contains_key(&key) {
            let oldest = objects.values().map(|it| it.since).min();
            objects.retain(|_, it| Some(it.since) != oldest);
        }
        let bucket = objects.entry(key).or_insert(Bucket {
            left: BURST,
            since: event.at,
        });
        let passed = event.at.duration_since(bucket.since);
        let more = u32::try_from(passed.as_secs() / REFILL.as_secs()).unwrap_or_default();
        if more > 0 {
            bucket.left = bucket.left.saturating_add(more).min(BURST);
            bucket.since = event.at;
        }
        let allowed = bucket.left > 0;
        bucket.left = bucket.left.saturating_sub(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::EventKind;

    fn event(name: &str, seconds: i64) -> EventStep {
        EventStep {
            site: Site::Hub,
            namespace: "default".to_owned(),
            regarding: json!({"kind": "Policy", "namespace": "default", "name": name, "uid": "1"}),
            related: None,
            kind: EventKind::Normal,
            reason: "PolicyPropagation".to_owned(),
            action: "PolicyPropagation".to_owned(),
            note: "it went".to_owned(),
            reporting_controller: "policy-propagator".to_owned(),
            at: Timestamp::from_second(1_000_000 + seconds).unwrap(),
        }
    }

    #[test]
    fn an_object_has_a_burst_of_events_and_then_few() {
        let spoken = Spoken::default();
        let sent = |at: i64, count: usize| (0..count).filter(|_| spoken.allows(&event("one", at))).count();
        assert_eq!(sent(0, 200), 25);
        assert_eq!(sent(299, 10), 0);
        assert_eq!(sent(301, 10), 1);
        assert_eq!(sent(100_000, 200), 25);
        assert!(spoken.allows(&event("other", 0)), "another object has its own");
    }

    #[test]
    fn no_more_objects_are_remembered_than_promised() {
        let spoken = Spoken::default();
        for number in 0..2 * OBJECTS {
            let at = i64::try_from(number).unwrap();
            assert!(spoken.allows(&event(&number.to_string(), at)));
        }
        assert!(spoken.0.lock().unwrap().len() <= OBJECTS);
    }
}
