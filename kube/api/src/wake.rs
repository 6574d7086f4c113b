//! Who is told when something was published: the watches that an event can concern,
//! and in-process subscribers of everything.
//!
//! A watch that asks for one namespace, one name or one value of a label is found by it, so that a write costs the
//! watches that it concerns and not all there are: an agent's own watches are a handful of thousands.

use kube_store::{
    selector::{LabelSelector, Operator},
    store::Event,
};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{
    Notify,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// Events, and bytes of them, that wait for one watch. One that is further behind reads the store's log instead, so
/// that a slow reader keeps nothing alive.
const WAITING_MAX: usize = 256;
const WAITING_BYTES_MAX: usize = 1 << 20;

/// What a watch can be found by. Whatever it wants beyond that, it looks at itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WatchScope {
    Everything,
    Namespace(Box<str>),
    /// Namespace (empty for a cluster-scoped object) and name.
    Object(Box<str>, Box<str>),
    /// Key and value of a label.
    Label(Box<str>, Box<str>),
}

impl WatchScope {
    /// The narrowest scope of a watch: `namespace` is empty for all, `name` what a field selector asks for.
    pub fn of(namespaced: bool, namespace: &str, name: Option<&str>, labels: &LabelSelector) -> Self {
        if let Some(name) = name.filter(|_| !namespaced || !namespace.is_empty()) {
            return Self::Object(namespace.into(), name.into());
        }
        if !namespace.is_empty() {
            return Self::Namespace(namespace.into());
        }
        let equal = labels.requirements().iter().find_map(|it| match &it.operator {
            Operator::In(values) if values.len() == 1 => Some((it.key.as_str(), values[0].as_str())),
            _ => None,
        });
        equal.map_or(Self::Everything, |(key, value)| Self::Label(key.into(), value.into()))
    }
}

/// What waits for one watch.
#[derive(Default)]
struct Waiting {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The revision of the first event that found no room. The ones before it are in `events`.
    lost_from: Option<u64>,
}

#[derive(Default)]
struct Mailbox {
    waiting: Mutex<Waiting>,
    notify: Notify,
}

impl Mailbox {
    fn put(&self, event: &Arc<Event>) {
        let mut waiting = self.waiting.lock();
        if waiting.lost_from.is_none() {
            if waiting.events.len() < WAITING_MAX && waiting.bytes < WAITING_BYTES_MAX {
                waiting.bytes += event.object.json.len();
                waiting.events.push_back(event.clone());
            } else {
                waiting.lost_from = Some(event.revision);
            }
        }
        drop(waiting);
        self.notify.notify_one();
    }
}

/// The watches of one resource.
#[derive(Default)]
struct Watchers {
    everything: Vec<Arc<Mailbox>>,
    namespaces: HashMap<Box<str>, Vec<Arc<Mailbox>>>,
    objects: HashMap<(Box<str>, Box<str>), Vec<Arc<Mailbox>>>,
    /// By key, then by value: most labels of an object are nobody's.
    labels: HashMap<Box<str>, HashMap<Box<str>, Vec<Arc<Mailbox>>>>,
}

impl Watchers {
    fn add(&mut self, scope: &WatchScope, mailbox: Arc<Mailbox>) {
        let among = match scope {
            WatchScope::Everything => &mut self.everything,
            WatchScope::Namespace(it) => self.namespaces.entry(it.clone()).or_default(),
            WatchScope::Object(namespace, name) => self.objects.entry((namespace.clone(), name.clone())).or_default(),
            WatchScope::Label(key, value) => self
                .labels
                .entry(key.clone())
                .or_default()
                .entry(value.clone())
                .or_default(),
        };
        among.push(mailbox);
    }

    fn remove(&mut self, scope: &WatchScope, mailbox: &Arc<Mailbox>) {
        let without = |among: &mut Vec<Arc<Mailbox>>| {
            among.retain(|it| !Arc::ptr_eq(it, mailbox));
            among.is_empty()
        };
        match scope {
            WatchScope::Everything => {
                without(&mut self.everything);
            }
            WatchScope::Namespace(it) => {
                if self.namespaces.get_mut(it).is_some_and(without) {
                    self.namespaces.remove(it);
                }
            }
            WatchScope::Object(namespace, name) => {
                let key = (namespace.clone(), name.clone());
                if self.objects.get_mut(&key).is_some_and(without) {
                    self.objects.remove(&key);
                }
            }
            WatchScope::Label(key, value) => {
                let Some(values) = self.labels.get_mut(key) else {
                    return;
                };
                if values.get_mut(value).is_some_and(without) {
                    values.remove(value);
                }
                if values.is_empty() {
                    self.labels.remove(key);
                }
            }
        }
    }

    fn each(&self, visit: impl Fn(&Mailbox)) {
        let named = self.namespaces.values().chain(self.objects.values());
        let labelled = self.labels.values().flat_map(HashMap::values);
        let all = named.chain(labelled).chain([&self.everything]);
        all.flatten().for_each(|it| visit(it));
    }

    fn tell(&self, event: &Arc<Event>) {
        let object = &event.object;
        let named = || {
            let key = (object.namespace.clone(), object.name.clone());
            self.objects.get(&key)
        };
        let of_name = (!self.objects.is_empty()).then(named).flatten();
        let of_namespace = self.namespaces.get(&object.namespace);
        let found = [Some(&self.everything), of_namespace, of_name];
        found.into_iter().flatten().flatten().for_each(|it| it.put(event));
        for (key, values) in &self.labels {
            let now = object.label(key);
            // One that ceases to match is told too.
            let before = event.previous.as_ref().and_then(|it| it.label(key));
            let before = before.filter(|it| now != Some(it));
            let found = [now, before].into_iter().flatten().filter_map(|it| values.get(it));
            found.flatten().for_each(|it| it.put(event));
        }
    }
}

/// Wakes watches and feeds subscribers.
#[derive(Default)]
pub struct Wake {
    watchers: Mutex<HashMap<Arc<str>, Watchers>>,
    subscribers: Mutex<Vec<UnboundedSender<Arc<Event>>>>,
    told: AtomicU64,
}

/// Every published event, in order.
pub struct Subscription(UnboundedReceiver<Arc<Event>>);

impl Subscription {
    /// The next event; `None` when the server stops.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        self.0.recv().await
    }
}

/// One watch's place in the index. Dropping it gives the place up.
pub struct WatchRegistration {
    wake: Arc<Wake>,
    resource: Arc<str>,
    scope: WatchScope,
    mailbox: Arc<Mailbox>,
}

/// What has come since the last time.
pub struct Taken {
    /// Events of the scope, in order. Some may be older than where the watch began.
    pub events: VecDeque<Arc<Event>>,
    /// Everything up to this revision that concerns the scope is in `events` or was taken earlier,
    /// unless `lost_from` is set.
    pub told: u64,
    /// The first event for which there was no room; it and what follows is only in the store's log.
    pub lost_from: Option<u64>,
}

impl WatchRegistration {
    /// What has come since the last time.
    pub fn take(&self) -> Taken {
        // Read first: an event that is told in between is in the mailbox and above this.
        let told = self.wake.told.load(Ordering::Acquire);
        let waiting = std::mem::take(&mut *self.mailbox.waiting.lock());
        Taken {
            events: waiting.events,
            told,
            lost_from: waiting.lost_from,
        }
    }

    /// Waits until something has come since the last [`take`](Self::take).
    pub async fn come(&self) {
        self.mailbox.notify.notified().await;
    }
}

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        let mut watchers = self.wake.watchers.lock();
        if let Some(of_resource) = watchers.get_mut(&self.resource) {
            of_resource.remove(&self.scope, &self.mailbox);
        }
    }
}

impl Wake {
    /// Everything of `resource` within `scope` that is published from now on.
    pub fn watch(self: &Arc<Self>, resource: &Arc<str>, scope: WatchScope) -> WatchRegistration {
        let mailbox = Arc::<Mailbox>::default();
        let mut watchers = self.watchers.lock();
        watchers
            .entry(resource.clone())
            .or_default()
            .add(&scope, mailbox.clone());
        drop(watchers);
        WatchRegistration {
            wake: self.clone(),
            resource: resource.clone(),
            scope,
            mailbox,
        }
    }

    /// Has the watches of a resource look around, because its definition was written.
    pub fn touch(&self, resource: &str) {
        if let Some(watchers) = self.watchers.lock().get(resource) {
            watchers.each(|it| it.notify.notify_one());
        }
    }

    /// All events from now on. The queue is unbounded: subscribers are the server's own controllers.
    pub fn subscribe(&self) -> Subscription {
        let (sender, receiver) = unbounded_channel();
        self.subscribers.lock().push(sender);
        Subscription(receiver)
    }

    /// Tells everyone about published events. Called with all of them, in order, by one thread at a time.
    pub fn tell(&self, events: &[Arc<Event>]) {
        {
            let watchers = self.watchers.lock();
            for event in events {
                if let Some(of_resource) = watchers.get(&event.object.resource) {
                    of_resource.tell(event);
                }
            }
            if let Some(last) = events.last() {
                self.told.store(last.revision, Ordering::Release);
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

#[cfg(test)]
mod tests {
    use super::*;
    use kube_store::{object::Object, store::Change};
    use serde_json::{Value, json};

    fn object(namespace: &str, name: &str, labels: Value, revision: u64) -> Arc<Object> {
        let resource: Arc<str> = "things".into();
        let metadata = json!({"namespace": namespace, "name": name, "labels": labels});
        let value = json!({"kind": "Thing", "apiVersion": "v1", "metadata": metadata});
        Arc::new(Object::encode(&resource, value, revision))
    }

    fn event(object: Arc<Object>, previous: Option<Arc<Object>>) -> Arc<Event> {
        Arc::new(Event {
            revision: object.revision,
            change: if previous.is_some() {
                Change::Modified
            } else {
                Change::Added
            },
            object,
            previous,
        })
    }

    fn revisions(of: &WatchRegistration) -> Vec<u64> {
        of.take().events.iter().map(|it| it.revision).collect()
    }

    fn selector(text: &str) -> LabelSelector {
        LabelSelector::parse(text).unwrap()
    }

    #[test]
    fn a_watch_receives_exactly_the_events_in_its_scope() {
        let wake = Arc::new(Wake::default());
        let resource: Arc<str> = "things".into();
        let watch = |scope| wake.watch(&resource, scope);
        let all = watch(WatchScope::Everything);
        let in_namespace = watch(WatchScope::of(true, "n", None, &selector("a=1")));
        let named = watch(WatchScope::of(true, "n", Some("x"), &selector("")));
        let labelled = watch(WatchScope::of(true, "", None, &selector("b,a in (1)")));
        let other = wake.watch(&"others".into(), WatchScope::Everything);
        let first = object("n", "x", json!({"a": "1"}), 1);
        let second = object("n", "y", json!({}), 2);
        let third = object("m", "x", json!({"a": "1"}), 3);
        // Its label changes: the watch of the old value must hear that it matches no more.
        let fourth = object("m", "x", json!({"a": "2"}), 4);
        wake.tell(&[
            event(first, None),
            event(second, None),
            event(third.clone(), None),
            event(fourth, Some(third)),
        ]);
        assert_eq!(revisions(&all), [1, 2, 3, 4]);
        assert_eq!(revisions(&in_namespace), [1, 2]);
        assert_eq!(revisions(&named), [1]);
        assert_eq!(revisions(&labelled), [1, 3, 4]);
        assert_eq!(revisions(&other), [] as [u64; 0]);
        assert_eq!(other.take().told, 4, "a quiet watch knows how far it has come");
    }

    #[test]
    fn a_name_in_all_namespaces_is_no_object() {
        let scope = WatchScope::of(true, "", Some("x"), &selector("a=1"));
        assert_eq!(scope, WatchScope::Label("a".into(), "1".into()));
        let scope = WatchScope::of(false, "", Some("x"), &selector("a=1"));
        assert_eq!(scope, WatchScope::Object("".into(), "x".into()));
        assert_eq!(
            WatchScope::of(true, "", None, &selector("a!=1")),
            WatchScope::Everything
        );
        assert_eq!(
            WatchScope::of(true, "", None, &selector("a in (1,2)")),
            WatchScope::Everything
        );
    }

    #[test]
    fn slow_watches_learn_their_gap_and_ended_ones_are_removed() {
        let wake = Arc::new(Wake::default());
        let slow = wake.watch(&"things".into(), WatchScope::Namespace("n".into()));
        for revision in 1..=WAITING_MAX as u64 + 9 {
            wake.tell(&[event(object("n", "x", json!({}), revision), None)]);
        }
        let taken = slow.take();
        assert_eq!(taken.events.len(), WAITING_MAX);
        assert_eq!(taken.lost_from, Some(WAITING_MAX as u64 + 1));
        assert_eq!(slow.take().lost_from, None);
        let labelled = wake.watch(&"things".into(), WatchScope::Label("a".into(), "1".into()));
        drop((slow, labelled));
        let watchers = wake.watchers.lock();
        let of_things = &watchers["things"];
        assert!(of_things.namespaces.is_empty() && of_things.labels.is_empty());
    }
}
