//! Upstream's events about a Placement are sent a moment after its decisions were written: a decision that changes ten
//! times in that moment is told of once, and nobody's decisions wait for them.
//!
//! Root: Placement. Reads: the events that the reconciler `placement` has left in memory. Writes: Events.
//! Never: anything else.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ocm_api::cluster::Placement;
use ocm_reconcile::{
    EventStep, ObserveError, Plan, Queue, Reconciler, Step, Watches, async_trait, cache::key_of, rbac::Right,
};
use parking_lot::Mutex;

use super::rbac;

/// How long events are gathered.
const GATHER: Duration = Duration::from_millis(250);

/// Events that are to be sent. Cloning shares them.
#[derive(Clone, Default)]
pub struct PendingEvents {
    /// By namespace and name of the placement.
    events: Arc<Mutex<HashMap<String, Vec<EventStep>>>>,
    queue: Queue,
}

impl PendingEvents {
    /// What asks for the events to be sent.
    pub fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Adds events of a placement. The newest of two for one reason and one decision is sent.
    pub fn add(&self, placement: &Placement, events: Vec<EventStep>) {
        if events.is_empty() {
            return;
        }
        let key = key_of(placement);
        {
            let mut pending = self.events.lock();
            let of_it = pending.entry(key.clone()).or_default();
            for event in events {
                of_it.retain(|it| it.reason != event.reason || it.related != event.related);
                of_it.push(event);
            }
        }
        self.queue.add_after(key, GATHER);
    }
}

/// The reconciler.
pub struct PlacementEvents {
    pending: PendingEvents,
}

/// What a plan is made from.
pub struct Seen {
    /// The placement's namespace and name.
    key: String,
    /// What is to be sent.
    events: Vec<EventStep>,
}

impl PlacementEvents {
    /// Of these events.
    pub fn new(pending: PendingEvents) -> Self {
        Self { pending }
    }
}

#[async_trait]
impl Reconciler for PlacementEvents {
    const NAME: &'static str = "placement-events";
    const RIGHTS: &'static [Right] = rbac::EVENTS;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        // The events come with their key into the queue.
        watches.signal("PlacementDecisions that the reconciler placement has written", |_| {});
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            key: key.to_owned(),
            events: self.pending.events.lock().get(key).cloned().unwrap_or_default(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        for it in &seen.events {
            plan.push(Step::Event(it.clone()));
        }
        plan
    }

    /// Each event is sent once: that it could not be sent is no failure.
    fn planned(&self, seen: &Seen, _: &Plan) {
        let mut pending = self.pending.events.lock();
        if let Some(of_it) = pending.get_mut(&seen.key) {
            of_it.retain(|it| !seen.events.contains(it));
            if of_it.is_empty() {
                pending.remove(&seen.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::hub::decision_events::{
        of_changes,
        tests::{placement, written},
    };

    #[tokio::test]
    async fn frequent_changes_raise_one_event() {
        let pending = PendingEvents::default();
        let placement = placement();
        for scores in ["c1:1 ", "c1:2 "] {
            let updated = written(&[], &["p-decision-1", "p-decision-2"], &[]);
            pending.add(
                &placement,
                of_changes(&placement, &updated, None, scores, Timestamp::UNIX_EPOCH),
            );
        }
        let sending = PlacementEvents::new(pending);
        let seen = sending.observe("default/p").await.unwrap();
        let told: Vec<_> = seen.events.iter().map(|it| it.note.as_str()).collect();
        assert_eq!(told.len(), 3);
        assert_eq!(told[2], "c1:2 ");
        // What comes while they are sent is sent the next time.
        let late = of_changes(
            &placement,
            &written(&["p-decision-3"], &[], &[]),
            None,
            "",
            Timestamp::UNIX_EPOCH,
        );
        sending.pending.add(&placement, late);
        sending.planned(&seen, &PlacementEvents::plan(&seen));
        let left = sending.observe("default/p").await.unwrap();
        assert_eq!(left.events.len(), 1);
        sending.planned(&left, &PlacementEvents::plan(&left));
        assert!(sending.pending.events.lock().is_empty());
    }
}
