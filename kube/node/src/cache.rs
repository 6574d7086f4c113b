//! All objects of one kind that a selector matches, kept current by one watch.

use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Event},
    },
};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a watch waits before it tries again, at first and at most.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Below the smallest idle timeout of common load balancers, so that a quiet watch never goes deaf unnoticed.
const WATCH_SECONDS_MAX: u32 = 200;

type Key = (String, String);
type Listener<K> = Box<dyn Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync>;

/// See the header of this file. Cloning shares it.
pub struct Cache<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

struct Inner<K> {
    objects: RwLock<BTreeMap<Key, Arc<K>>>,
    /// The highest revision that the watch has shown.
    shown: RwLock<u64>,
    listener: Listener<K>,
    synced: watch::Sender<bool>,
}

/// The pauses between attempts, doubling; jittered, so that many nodes do not come back in the same instant.
pub struct Retry {
    next: Duration,
    /// When the last pause was over.
    waited: Option<Instant>,
}

/// How long a watch must have gone on to count as well: each attempt begins with an event, also one that fails a moment later.
const STEADY: Duration = Duration::from_secs(1);

impl Default for Retry {
    fn default() -> Self {
        Self {
            next: RETRY_MIN,
            waited: None,
        }
    }
}

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.next.mul_f64(rand::random_range(0.5..1.0));
        self.next = (self.next * 2).min(RETRY_MAX);
        self.waited = Some(Instant::now() + delay);
        Some(delay)
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        if self.waited.is_none_or(|it| it.elapsed() > STEADY) {
            *self = Self::default();
        }
    }
}

/// The watch of a selection, which retries for ever.
pub fn stream<K>(
    api: Api<K>,
    selection: watcher::Config,
) -> impl futures::Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher::watcher(api, selection.timeout(WATCH_SECONDS_MAX)).backoff(Retry::default())
}

fn revision<K: Resource>(object: &K) -> u64 {
    let text = object.meta().resource_version.as_deref();
    text.and_then(|it| it.parse().ok()).unwrap_or_default()
}

fn key_of<K: Resource>(object: &K) -> Key {
    let meta = object.meta();
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

impl<K> Cache<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Default,
{
    /// Starts the watch as soon as `open` holds. The listener hears every change as (old, new), from the first one on; it
    /// must be quick.
    pub fn start(
        api: Api<K>,
        selection: watcher::Config,
        cancel: CancellationToken,
        mut open: watch::Receiver<bool>,
        listener: impl Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync + 'static,
    ) -> Self {
        let cache = Self {
            inner: Arc::new(Inner {
                objects: RwLock::default(),
                shown: RwLock::default(),
                listener: Box::new(listener),
                synced: watch::Sender::new(false),
            }),
        };
        let feed = cache.clone().feed(api, selection, cancel);
        tokio::spawn(async move {
            // Without a sender nobody wants it any more.
            if open.wait_for(|it| *it).await.is_ok() {
                feed.await;
            }
        });
        cache
    }

    async fn feed(self, api: Api<K>, selection: watcher::Config, cancel: CancellationToken) {
        let mut events = std::pin::pin!(stream(api, selection));
        let mut arriving = HashMap::new();
        loop {
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                event = events.next() => event,
            };
            match event {
                Some(Ok(Event::Init)) => arriving = HashMap::new(),
                Some(Ok(Event::InitApply(object))) => {
                    arriving.insert(key_of(&object), object);
                }
                Some(Ok(Event::InitDone)) => {
                    self.replace(std::mem::take(&mut arriving));
                    self.inner.synced.send_replace(true);
                }
                Some(Ok(Event::Apply(object))) => {
                    self.show(&object);
                    let known = self
                        .inner
                        .objects
                        .read()
                        .get(&key_of(&object))
                        .map(|it| revision(&**it));
                    if known.is_none_or(|it| it < revision(&object)) {
                        self.insert(object);
                    }
                }
                Some(Ok(Event::Delete(object))) => {
                    self.show(&object);
                    self.remove(&key_of(&object));
                }
                Some(Err(error)) => {
                    let kind = K::kind(&K::DynamicType::default()).into_owned();
                    tracing::debug!(%kind, %error, "watch failed, will retry");
                }
                None => return,
            }
        }
    }

    fn show(&self, object: &K) {
        let mut shown = self.inner.shown.write();
        *shown = (*shown).max(revision(object));
    }

    /// Puts in what the server answered to a write, so that its writer sees it at once. What the watch has passed already
    /// is not put back.
    pub fn put(&self, object: K) {
        let known = self
            .inner
            .objects
            .read()
            .get(&key_of(&object))
            .map(|it| revision(&**it));
        let newer = revision(&object) > known.unwrap_or_default().max(*self.inner.shown.read());
        if newer {
            self.insert(object);
        }
    }

    fn insert(&self, mut object: K) {
        // managedFields are often half of an object, and nobody here reads them.
        object.meta_mut().managed_fields = None;
        let new = Arc::new(object);
        let old = self.inner.objects.write().insert(key_of(&*new), new.clone());
        (self.inner.listener)(old.as_ref(), Some(&new));
    }

    fn remove(&self, key: &Key) {
        let old = self.inner.objects.write().remove(key);
        if old.is_some() {
            (self.inner.listener)(old.as_ref(), None);
        }
    }

    fn replace(&self, arrived: HashMap<Key, K>) {
        let gone: Vec<Key> = self
            .inner
            .objects
            .read()
            .keys()
            .filter(|it| !arrived.contains_key(*it))
            .cloned()
            .collect();
        gone.iter().for_each(|key| self.remove(key));
        for (key, object) in arrived {
            self.show(&object);
            let same = self.inner.objects.read().get(&key).is_some_and(|it| {
                it.meta().resource_version == object.meta().resource_version && it.meta().uid == object.meta().uid
            });
            if !same {
                self.insert(object);
            }
        }
    }

    /// Waits until the first list has arrived.
    pub async fn synced(&self) {
        // The sender lives as long as this cache.
        let _ = self.inner.synced.subscribe().wait_for(|it| *it).await;
    }

    /// The object by namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.inner.objects.read().get(&key).cloned()
    }

    /// All objects, by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.inner.objects.read().values().cloned().collect()
    }

    /// The objects of one namespace, by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = (namespace.to_owned(), String::new());
        let objects = self.inner.objects.read();
        objects
            .range(from..)
            .take_while(|((it, _), _)| it == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }
}
