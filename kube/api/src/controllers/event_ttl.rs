//! Deletes Events some time, by default an hour, after they were last written.
//!
//! root: Event; writes: deletes it; never: anything else.

use super::{
    controller::{ServerController, time, tolerate, until},
    queue::{Key, Queue},
};
use crate::local::Local;
use jiff::Timestamp;
use kube_store::{
    status::Status,
    store::{self, Change},
};
use serde_json::Value;
use std::time::Duration;

const ID: &str = "events";
/// Deletions are gathered: an Event may live this much longer.
const SLACK: Duration = Duration::from_secs(30);

/// See the header of this file.
pub(super) struct EventTtl {
    pub local: Local,
    /// Kubernetes' `--event-ttl`.
    pub ttl: Duration,
}

/// When the Event is too old. The store keeps no time of the last write; the Event tells it itself.
fn expires_at(event: &Value, ttl: Duration) -> Timestamp {
    let metadata = &event["metadata"];
    let managed = metadata["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| &it["time"]);
    let told = [
        &metadata["creationTimestamp"],
        &event["lastTimestamp"],
        &event["deprecatedLastTimestamp"],
        &event["eventTime"],
        &event["series"]["lastObservedTime"],
    ];
    let last = told
        .into_iter()
        .chain(managed)
        .filter_map(time)
        .max()
        .unwrap_or(Timestamp::UNIX_EPOCH);
    last.checked_add(ttl).unwrap_or(last)
}

#[async_trait::async_trait]
impl ServerController for EventTtl {
    fn name(&self) -> &'static str {
        "event-ttl"
    }

    fn notice(&self, event: &store::Event, queue: &Queue) {
        if event.object.resource.as_ref() == ID && event.change == Change::Added {
            queue.add_after(Key::of(&event.object), self.ttl + SLACK);
        }
    }

    fn survey(&self, queue: &Queue) {
        self.local
            .store()
            .list(ID, "")
            .0
            .iter()
            .for_each(|it| queue.add(Key::of(it)));
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let Some(object) = self.local.store().get(ID, &key.namespace, &key.name) else {
            return Ok(None);
        };
        // A time in the future is a clock that is off; it must not keep the Event for ever.
        let wait = until(Timestamp::now(), expires_at(&object.value(), self.ttl)).min(self.ttl);
        if !wait.is_zero() {
            return Ok(Some(wait + SLACK));
        }
        tolerate(
            self.local
                .delete(ID, &key.namespace, &key.name, Some(&object.uid), Some("Background"))
                .await,
        )?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_lives_an_hour_after_it_was_last_seen() {
        let event = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "series": {"lastObservedTime": "2026-01-01T00:30:00.000000Z"}});
        let hour = Duration::from_secs(3600);
        assert_eq!(expires_at(&event, hour), "2026-01-01T01:30:00Z".parse().unwrap());
        assert_eq!(expires_at(&json!({}), hour), "1970-01-01T01:00:00Z".parse().unwrap());
    }
}
