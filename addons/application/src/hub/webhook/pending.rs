//! Counts events in the Subscriptions that they concern, by which hub and clusters see that there was one.
//!
//! Root: Subscription. Reads: the events that came. Writes: its annotation `webhook-event-count`. Never: anything else.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::apps::{Subscription, annotations},
    reconcile::{
        Cache, ObserveError, Outcome, Plan, Queue, Reconciler, Site, Watches, async_trait,
        cache::{key_of, split_key},
        caches::put_written,
        rbac::Right,
    },
};
use parking_lot::Mutex;

use super::super::world::SubscriptionWorld;

/// Events that are not counted yet, by Subscription. Cloning shares them.
#[derive(Clone, Default)]
pub struct PendingEvents {
    counts: Arc<Mutex<HashMap<String, u64>>>,
    queue: Arc<OnceLock<Queue>>,
}

impl PendingEvents {
    /// An event for a Subscription.
    pub fn add(&self, key: &str) {
        *self.counts.lock().entry(key.to_owned()).or_default() += 1;
        if let Some(queue) = self.queue.get() {
            queue.add(key);
        }
    }

    fn of(&self, key: &str) -> u64 {
        self.counts.lock().get(key).copied().unwrap_or_default()
    }

    fn counted(&self, key: &str, count: u64) {
        let mut counts = self.counts.lock();
        if let Some(pending) = counts.get_mut(key) {
            *pending = pending.saturating_sub(count);
            if *pending == 0 {
                counts.remove(key);
            }
        }
    }

    fn wake(&self, queue: &Queue) {
        let _ = self.queue.set(queue.clone());
        // Those that came before anybody counted.
        self.counts.lock().keys().for_each(|it| queue.add(it.as_str()));
    }
}

/// The reconciler.
pub struct WebhookEventCount {
    subscriptions: Cache<Subscription>,
    events: PendingEvents,
}

/// What a plan is made from.
pub struct Seen {
    /// The Subscription, `NAMESPACE/NAME`.
    pub key: String,
    /// The object; `None` when it is gone.
    pub subscription: Option<Arc<Subscription>>,
    /// How many events are not counted.
    pub count: u64,
}

impl WebhookEventCount {
    /// Over these caches.
    pub fn new(world: &SubscriptionWorld, events: PendingEvents) -> Self {
        Self {
            subscriptions: world.subscriptions.clone(),
            events,
        }
    }
}

#[async_trait]
impl Reconciler for WebhookEventCount {
    const NAME: &'static str = "subscription-webhook-events";
    const RIGHTS: &'static [Right] = &[Right::new(
        Subscription::GROUP,
        "subscriptions",
        "patch",
        "Events of Git servers are counted.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let events = self.events.clone();
        watches
            .reads(&self.subscriptions)
            .signal("events of Git servers", move |queue| events.wake(queue));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        Ok(Seen {
            key: key.to_owned(),
            subscription: self.subscriptions.get(namespace, name),
            count: self.events.of(key),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(subscription) = seen.subscription.as_deref().filter(|_| seen.count > 0) else {
            return plan;
        };
        let hosting = subscription.annotation(annotations::HOSTING_SUBSCRIPTION);
        if hosting.is_some() && subscription.is_local() {
            plan.remark("it is a copy, and has the count of the Subscription that it is one of");
            return plan;
        }
        let before = subscription.annotations().get(annotations::WEBHOOK_EVENT_COUNT);
        // As upstream: the first event counts as 0, and so does one after what is no number.
        let after = match before.and_then(|it| it.parse::<u64>().ok()) {
            Some(before) => before.saturating_add(seen.count),
            None => seen.count - 1,
        };
        let mut new = subscription.clone();
        let all = new.metadata.annotations.get_or_insert_default();
        all.insert(annotations::WEBHOOK_EVENT_COUNT.to_owned(), after.to_string());
        plan.change(Site::Hub, subscription, &new);
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        put_written(&self.subscriptions, outcome);
        if outcome.succeeded() {
            let key = seen.subscription.as_deref().map_or_else(|| seen.key.clone(), key_of);
            self.events.counted(&key, seen.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn printed(before: Option<&str>, count: u64) -> String {
        printed_of(
            json!(before.map(|it| json!({annotations::WEBHOOK_EVENT_COUNT: it}))),
            count,
        )
    }

    fn printed_of(annotations: serde_json::Value, count: u64) -> String {
        let metadata = json!({"name": "s", "namespace": "ns", "annotations": annotations});
        let subscription = json!({"metadata": metadata, "spec": {"channel": "ch/c", "placement": {"local": true}}});
        let plan = WebhookEventCount::plan(&Seen {
            key: "ns/s".to_owned(),
            subscription: Some(Arc::new(serde_json::from_value(subscription).unwrap())),
            count,
        });
        format!("{plan:#}").trim().to_owned()
    }

    #[test]
    fn events_are_counted_from_nought() {
        let patch = |count: &str| {
            let annotations = json!({annotations::WEBHOOK_EVENT_COUNT: count});
            format!(r#"hub: patch Subscription ns/s {{"metadata":{{"annotations":{annotations}}}}}"#)
        };
        assert_eq!(printed(None, 1), patch("0"));
        assert_eq!(printed(Some("x"), 1), patch("0"));
        assert_eq!(printed(Some("4"), 2), patch("6"));
        assert_eq!(printed(Some("4"), 0), "nothing to do");
        let copy = printed_of(json!({annotations::HOSTING_SUBSCRIPTION: "ns/s"}), 1);
        assert!(copy.starts_with("nothing to do\nnote: it is a copy"), "{copy}");
    }

    #[test]
    fn an_event_that_comes_meanwhile_is_not_lost() {
        let events = PendingEvents::default();
        events.add("ns/s");
        let seen = events.of("ns/s");
        events.add("ns/s");
        events.counted("ns/s", seen);
        assert_eq!(events.of("ns/s"), 1);
    }
}
