//! Who is told when something was published: watches per resource, and in-process subscribers of everything.

use kube_store::store::Event;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    watch,
};

/// Wakes watches and feeds subscribers.
#[derive(Default)]
pub struct Wake {
    resources: Mutex<HashMap<Arc<str>, watch::Sender<u64>>>,
    subscribers: Mutex<Vec<UnboundedSender<Arc<Event>>>>,
}

/// Every published event, in order.
pub struct Subscription(UnboundedReceiver<Arc<Event>>);

impl Subscription {
    /// The next event; `None` when the server stops.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        self.0.recv().await
    }
}

impl Wake {
    /// A receiver that changes whenever an event of `resource` is published.
    pub fn watch(&self, resource: &Arc<str>) -> watch::Receiver<u64> {
        let mut resources = self.resources.lock();
        resources
            .entry(resource.clone())
            .or_insert_with(|| watch::channel(0).0)
            .subscribe()
    }

    /// All events from now on. The queue is unbounded: subscribers are the server's own controllers.
    pub fn subscribe(&self) -> Subscription {
        let (sender, receiver) = unbounded_channel();
        self.subscribers.lock().push(sender);
        Subscription(receiver)
    }

    /// Tells everyone about published events.
    pub fn tell(&self, events: &[Arc<Event>]) {
        {
            let resources = self.resources.lock();
            for event in events {
                if let Some(sender) = resources.get(&event.object.resource) {
                    sender.send_replace(event.revision);
                }
            }
        }
        self.subscribers
            .lock()
            .retain(|it| events.iter().all(|event| it.send(event.clone()).is_ok()));
    }

    /// Ends all subscriptions.
    pub fn close(&self) {
        self.subscribers.lock().clear();
    }
}
