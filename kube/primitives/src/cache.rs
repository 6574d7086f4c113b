//! One watch per kind, shared: the objects in memory for who reads them, and changes mapped to keys for the queues.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt, pin_mut};
use kube::{
    Api, Resource,
    runtime::{
        WatchStreamExt,
        utils::Backoff,
        watcher::{self, Event},
    },
};
use parking_lot::{Mutex, RwLock};
use rand::RngExt;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info_span, warn};

use crate::queue::Queue;

/// How long a watch waits at first before it tries again. Every wait is jittered, so that a thousand clients do not
/// come back to a restarted server in the same instant.
const RETRY_MIN: Duration = Duration::from_millis(50);
/// How long it waits at most, if it says nothing else.
pub const RETRY_MAX: Duration = Duration::from_secs(30);

/// Below the smallest idle timeout of common load balancers (240 s), so that a quiet watch never goes deaf unnoticed.
const WATCH_SECONDS_MAX: u32 = 200;

/// All objects of one kind that a selector matches, kept current by one watch. Cloning shares it.
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

type Name = (String, String);
type Listener<K> = Box<dyn Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync>;
type Shape<K> = Box<dyn Fn(Option<&K>, &mut K) + Send + Sync>;

struct Inner<K> {
    /// What is done to an object before it is kept.
    shape: Option<Shape<K>>,
    store: RwLock<BTreeMap<Name, Arc<K>>>,
    /// How far the watch has come. Whoever changes the store holds it until everybody was told, so that what is told
    /// comes in the order in which it happened.
    reached: Mutex<u64>,
    listeners: RwLock<Vec<Listener<K>>>,
    synced: watch::Sender<bool>,
    changes: watch::Sender<u64>,
    failure: RwLock<Option<Failure>>,
}

/// Why a watch does not run at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status the API server answered with, if it answered.
    pub code: Option<u16>,
    /// What it said, or what the network said.
    pub text: String,
}

impl Failure {
    fn of(error: &watcher::Error) -> Self {
        let code = match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchFailed(kube::Error::Api(status))
            | watcher::Error::WatchError(status) => Some(status.code),
            _ => None,
        };
        let mut text = error.to_string();
        let mut next = std::error::Error::source(error);
        while let Some(source) = next {
            let more = source.to_string();
            // Many errors print their source themselves.
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            next = source.source();
        }
        Self { code, text }
    }
}

/// How a cache watches.
#[derive(Clone)]
pub struct Watching {
    /// Label and field selectors, page size.
    pub selection: watcher::Config,
    /// The longest wait before a failed watch is tried again.
    pub retry_max: Duration,
    /// Whether being forbidden to look, or that there is no such kind yet, is a matter of time, and not worth a
    /// warning.
    pub forbidden_at_first: bool,
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            selection: watcher::Config::default(),
            retry_max: RETRY_MAX,
            forbidden_at_first: false,
        }
    }
}

/// What a watch shows, for who keeps none of it: it goes on for ever, and waits longer after each failure, at most
/// `retry_max`.
pub fn events<K>(
    api: Api<K>,
    selection: watcher::Config,
    retry_max: Duration,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher::watcher(api, selection.timeout(WATCH_SECONDS_MAX)).backoff(Retry {
        next: RETRY_MIN,
        max: retry_max,
        waited: None,
    })
}

impl<K> Cache<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
{
    /// Starts one watch of everything `api` shows. It ends with `cancel`.
    pub fn start(api: Api<K>, cancel: CancellationToken) -> Self {
        Self::start_with(api, watcher::Config::default(), cancel)
    }

    /// [`start_watching`](Self::start_watching), and `shape` is called with each object, and with the one it replaces,
    /// before it is kept: to let objects share what they have in common, or to leave out what nobody reads.
    pub fn start_shaped(
        api: Api<K>,
        watching: Watching,
        cancel: CancellationToken,
        shape: impl Fn(Option<&K>, &mut K) + Send + Sync + 'static,
    ) -> Self {
        Self::with_shape(Some(Box::new(shape))).run(api, watching, cancel)
    }

    /// Starts one watch with label or field selectors.
    pub fn start_with(api: Api<K>, selection: watcher::Config, cancel: CancellationToken) -> Self {
        Self::start_watching(
            api,
            Watching {
                selection,
                ..Watching::default()
            },
            cancel,
        )
    }

    /// Starts one watch with everything chosen.
    pub fn start_watching(api: Api<K>, watching: Watching, cancel: CancellationToken) -> Self {
        Self::empty().run(api, watching, cancel)
    }

    fn run(self, api: Api<K>, watching: Watching, cancel: CancellationToken) -> Self {
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        let feeding = self.clone().feed(api, watching, cancel);
        tokio::spawn(feeding.instrument(info_span!("watch", %kind)));
        self
    }
}

impl<K> Cache<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// A cache that nothing feeds yet; for tests, or to hand to [`feed`](Self::feed).
    pub fn empty() -> Self {
        Self::with_shape(None)
    }

    fn with_shape(shape: Option<Shape<K>>) -> Self {
        Self {
            inner: Arc::new(Inner {
                shape,
                store: RwLock::new(BTreeMap::new()),
                reached: Mutex::new(0),
                listeners: RwLock::new(Vec::new()),
                synced: watch::Sender::new(false),
                changes: watch::Sender::new(0),
                failure: RwLock::new(None),
            }),
        }
    }

    /// A cache with fixed contents, for tests.
    pub fn holding(objects: impl IntoIterator<Item = K>) -> Self {
        let cache = Self::empty();
        cache.fill(objects);
        cache
    }

    /// Watches until cancelled. [`start`](Self::start) does this in a task. Several may feed one cache, each from
    /// another namespace.
    pub async fn feed(self, api: Api<K>, watching: Watching, cancel: CancellationToken) {
        let namespace = api.namespace().map(str::to_owned);
        let stream = events(api, watching.selection, watching.retry_max);
        pin_mut!(stream);
        let mut arriving: Option<HashMap<Name, K>> = None;
        loop {
            let item = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                item = stream.next() => item,
            };
            match item {
                Some(Ok(Event::Init)) => arriving = Some(HashMap::new()),
                Some(Ok(Event::InitApply(object))) => {
                    if let Some(arriving) = &mut arriving {
                        // Shaped at once: what objects have in common would otherwise be there many times until the
                        // last one.
                        let name = name_of(&object);
                        let object = self.shaped(&name, object);
                        arriving.insert(name, object);
                    }
                }
                Some(Ok(Event::InitDone)) => {
                    self.replace(arriving.take().unwrap_or_default(), namespace.as_deref());
                    *self.inner.failure.write() = None;
                    self.inner.synced.send_replace(true);
                }
                Some(Ok(Event::Apply(object))) => {
                    self.recovered();
                    let mut reached = self.inner.reached.lock();
                    *reached = version(&object).unwrap_or_default().max(*reached);
                    self.apply(object);
                }
                Some(Ok(Event::Delete(object))) => {
                    self.recovered();
                    let mut reached = self.inner.reached.lock();
                    *reached = version(&object).unwrap_or_default().max(*reached);
                    self.apply_delete(&object);
                }
                Some(Err(error)) => {
                    let failure = Failure::of(&error);
                    let text = failure.text.clone();
                    // A server forgets old revisions, and the watch lists again: nobody has to know.
                    let awaited = watching.forbidden_at_first && matches!(failure.code, Some(403 | 404))
                        || failure.code == Some(410);
                    let first = self.inner.failure.write().replace(failure).is_none();
                    self.inner.changes.send_modify(|count| *count += 1);
                    if first && !awaited {
                        warn!(error = %text, "watch failed, will retry");
                    } else {
                        debug!(error = %text, "watch failed, will retry");
                    }
                }
                None => return,
            }
        }
    }

    // A watch that was interrupted and goes on from where it was sends no new list, only the next change.
    fn recovered(&self) {
        if self.inner.failure.read().is_some() {
            *self.inner.failure.write() = None;
        }
    }

    /// Puts an object in, as the watch would. A writer may put back what the server answered, to see its own write at
    /// once, and nobody hears of it twice: neither when the watch brings it, too, nor when the watch has been there
    /// already. Then an object that is gone again stays gone, and another one of its name stays.
    pub fn put(&self, object: K) {
        let reached = self.inner.reached.lock();
        let is_past = version(&object).is_some_and(|it| it <= *reached);
        let present = self.inner.store.read().get(&name_of(&object)).cloned();
        if is_past && present.is_none_or(|it| version(&*it) >= version(&object)) {
            return;
        }
        self.apply(object);
    }

    // What the watch brings. Its writer may have put it in before.
    fn apply(&self, object: K) {
        let present = self.inner.store.read().get(&name_of(&object)).cloned();
        if present.is_none_or(|it| !is_same(&object, &it)) {
            self.put_if_newer(object);
        }
    }

    // What the watch says is gone. It may come late, when the writer of the next object of that name has put it in.
    fn apply_delete(&self, object: &K) {
        let name = name_of(object);
        let present = self.inner.store.read().get(&name).cloned();
        if present.is_some_and(|it| !is_older(object, &it)) {
            self.remove(&name);
        }
    }

    fn put_if_newer(&self, object: K) {
        let name = name_of(&object);
        if self
            .inner
            .store
            .read()
            .get(&name)
            .is_some_and(|present| is_older(&object, present))
        {
            return;
        }
        let object = self.shaped(&name, object);
        self.insert(name, object);
    }

    fn shaped(&self, name: &Name, mut object: K) -> K {
        // managedFields are often half of an object, and nobody here reads them.
        let meta = object.meta_mut();
        meta.managed_fields = None;
        // Lists grow while they are read, and have room for four at least.
        meta.owner_references.iter_mut().for_each(Vec::shrink_to_fit);
        meta.finalizers.iter_mut().for_each(Vec::shrink_to_fit);
        if let Some(shape) = &self.inner.shape {
            let present = self.inner.store.read().get(name).cloned();
            shape(present.as_deref(), &mut object);
        }
        object
    }

    fn insert(&self, name: Name, object: K) {
        let new = Arc::new(object);
        let old = self.inner.store.write().insert(name, new.clone());
        self.announce(old.as_ref(), Some(&new));
    }

    fn remove(&self, name: &Name) {
        let old = self.inner.store.write().remove(name);
        if old.is_some() {
            self.announce(old.as_ref(), None);
        }
    }

    // `within`: the namespace that was listed, when it was not all.
    fn replace(&self, arrived: HashMap<Name, K>, within: Option<&str>) {
        let mut reached = self.inner.reached.lock();
        let listed = arrived.values().filter_map(version).max().unwrap_or_default();
        // An object is older than the watch has shown it: the server was restored, and counts from less.
        let is_restored = {
            let store = self.inner.store.read();
            let shown = |name| store.get(name).filter(|it| version(&***it) <= Some(*reached));
            arrived
                .iter()
                .any(|(name, it)| shown(name).is_some_and(|shown| is_older(it, shown)))
        };
        // Otherwise a list knows less than the watch did: of what is gone it has no version.
        *reached = if is_restored { listed } else { listed.max(*reached) };
        let gone: Vec<Name> = self
            .inner
            .store
            .read()
            .keys()
            .filter(|it| within.is_none_or(|within| it.0 == within) && !arrived.contains_key(*it))
            .cloned()
            .collect();
        gone.iter().for_each(|name| self.remove(name));
        for (name, object) in arrived {
            let present = self.inner.store.read().get(&name).cloned();
            if present.is_none_or(|it| !is_same(&object, &it)) {
                // After a relist the server is right even if its versions went backwards (one that was restored).
                self.insert(name, object);
            }
        }
    }

    fn announce(&self, old: Option<&Arc<K>>, new: Option<&Arc<K>>) {
        self.inner
            .listeners
            .read()
            .iter()
            .for_each(|listener| listener(old, new));
        self.inner.changes.send_modify(|count| *count += 1);
    }

    /// The object by namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.inner
            .store
            .read()
            .get(&(namespace.to_owned(), name.to_owned()))
            .cloned()
    }

    /// The cluster-scoped object by name.
    pub fn named(&self, name: &str) -> Option<Arc<K>> {
        self.get("", name)
    }

    /// All objects, by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.inner.store.read().values().cloned().collect()
    }

    /// The objects of one namespace, by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = (namespace.to_owned(), String::new());
        let store = self.inner.store.read();
        store
            .range(from..)
            .take_while(|((it, _), _)| it == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// How many objects it holds.
    pub fn len(&self) -> usize {
        self.inner.store.read().len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends when the first list has arrived.
    pub async fn synced(&self) {
        // The sender lives as long as self, so waiting cannot fail.
        let _ = self.inner.synced.subscribe().wait_for(|it| *it).await;
    }

    /// Ends when the first list has arrived, or when the API server has said that we may not look; says whether it
    /// arrived. For what one can do without: a watch that becomes allowed later arrives later.
    pub async fn arrived_or_forbidden(&self) -> bool {
        let forbidden = |it: &Self| it.failure().filter(|it| it.code == Some(403));
        tokio::select! {
            biased;
            () = self.synced() => true,
            _ = self.until(forbidden) => false,
        }
    }

    /// Whether the first list has arrived.
    pub fn is_synced(&self) -> bool {
        *self.inner.synced.borrow()
    }

    /// Whether the first list has arrived, to wait on.
    pub fn arrival(&self) -> watch::Receiver<bool> {
        self.inner.synced.subscribe()
    }

    /// Puts these in and says that they are all, as the first list does; for tests.
    pub fn fill(&self, objects: impl IntoIterator<Item = K>) {
        objects.into_iter().for_each(|object| self.put(object));
        self.inner.synced.send_replace(true);
    }

    /// Why the watch does not run at present, if it does not.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.failure.read().clone()
    }

    /// A counter that moves with every change, to wait on a state without sleeping.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Ends when `state` finds what it looks for in the cache.
    pub async fn until<T>(&self, mut state: impl FnMut(&Self) -> Option<T>) -> T {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            if let Some(found) = state(self) {
                return found;
            }
            let _ = changes.changed().await;
        }
    }

    /// Adds to `queue` the keys that `keys` names for each change (old and new object; a new one has no old, a deleted
    /// one no new). May come late: what is already there is announced as new.
    pub fn subscribe<F, I>(&self, queue: &Queue, keys: F)
    where
        F: Fn(Option<&K>, Option<&K>) -> I + Send + Sync + 'static,
        I: IntoIterator<Item = String>,
    {
        let queue = queue.clone();
        self.listen(move |old, new| {
            for key in keys(old.map(|it| &**it), new.map(|it| &**it)) {
                queue.add(key);
            }
        });
    }

    /// [`subscribe`](Self::subscribe) with the name of the object as key (`namespace/name` when it has a namespace).
    pub fn subscribe_by_name(&self, queue: &Queue) {
        self.subscribe(queue, |old, new| old.or(new).map(key_of));
    }

    /// Calls `listener` on every change, in the task of the watch: it must be quick and must not block.
    pub fn listen(&self, listener: impl Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync + 'static) {
        // Under the lock of the listeners no announcement can pass between the replay and the registration.
        let mut listeners = self.inner.listeners.write();
        self.list().iter().for_each(|object| listener(None, Some(object)));
        listeners.push(Box::new(listener));
    }
}

/// `namespace/name`, or the name alone when there is no namespace.
pub fn key_of<K: Resource>(object: &K) -> String {
    let name = object.meta().name.as_deref().unwrap_or_default();
    match object.meta().namespace.as_deref() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// The two halves of a key made by [`key_of`].
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

fn name_of<K: Resource>(object: &K) -> Name {
    (
        object.meta().namespace.clone().unwrap_or_default(),
        object.meta().name.clone().unwrap_or_default(),
    )
}

// The same version of the same object.
fn is_same<K: Resource>(new: &K, present: &K) -> bool {
    let (new, present) = (new.meta(), present.meta());
    new.resource_version.is_some() && new.resource_version == present.resource_version && new.uid == present.uid
}

// Versions are opaque by contract, but every API server we meet counts upwards; only a clear "older" is dropped.
// They count for all objects of a kind, so a predecessor of the same name is older than its successor.
fn is_older<K: Resource>(new: &K, present: &K) -> bool {
    matches!((version(new), version(present)), (Some(new), Some(present)) if new < present)
}

fn version<K: Resource>(it: &K) -> Option<u64> {
    it.meta().resource_version.as_deref()?.parse().ok()
}

/// Doubling, fully jittered waits.
struct Retry {
    next: Duration,
    max: Duration,
    /// When the last wait was over.
    waited: Option<Instant>,
}

/// How long a watch must have gone on to count as well. Every attempt begins with an event that says so, also one that
/// is refused a moment later: were that enough, a watch that is forbidden would be tried without a pause, for ever.
const STEADY: Duration = Duration::from_secs(1);

impl Iterator for Retry {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let delay = self.next.mul_f64(rand::rng().random_range(0.5..1.5));
        self.next = (self.next * 2).min(self.max);
        self.waited = Some(Instant::now() + delay);
        Some(delay)
    }
}

impl Backoff for Retry {
    fn reset(&mut self) {
        if self.waited.is_none_or(|it| it.elapsed() > STEADY) {
            self.next = RETRY_MIN;
            self.waited = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn config_map(namespace: &str, name: &str, version: &str) -> ConfigMap {
        let value = json!({"metadata": {"namespace": namespace, "name": name, "uid": "u", "resourceVersion": version}});
        serde_json::from_value(value).expect("a fixture")
    }

    #[test]
    fn a_watch_refused_at_once_waits_longer_each_time() {
        let mut retry = Retry {
            next: RETRY_MIN,
            max: RETRY_MAX,
            waited: None,
        };
        for _ in 0..20 {
            retry.next();
            retry.reset();
        }
        assert_eq!(retry.next, RETRY_MAX);
        retry.waited = Instant::now().checked_sub(STEADY * 2);
        retry.reset();
        assert_eq!(retry.next, RETRY_MIN);
    }

    #[test]
    fn a_list_of_one_namespace_leaves_others_alone() {
        let cache = Cache::empty();
        let listed = |namespace: &str, names: &[&str]| {
            let objects = names.iter().map(|name| config_map(namespace, name, "1"));
            objects.map(|it| (name_of(&it), it)).collect()
        };
        cache.replace(listed("a", &["one", "two"]), Some("a"));
        cache.replace(listed("b", &[]), Some("b"));
        assert!(cache.get("a", "one").is_some());
        cache.replace(listed("a", &["one"]), Some("a"));
        assert_eq!(cache.list().len(), 1);
    }

    #[test]
    fn a_late_response_does_not_restore_a_deleted_object() {
        let cache = Cache::empty();
        let arrived = |list: &[(&str, &str)]| {
            let objects = list.iter().map(|(name, version)| config_map("ns", name, version));
            objects.map(|it| (name_of(&it), it)).collect()
        };
        cache.replace(arrived(&[("a", "3"), ("b", "5")]), None);
        // Newer than what the watch has seen: it will tell later.
        cache.put(config_map("ns", "new", "6"));
        assert!(cache.get("ns", "new").is_some());
        // The watch has seen more than this, and it is not there any more.
        cache.put(config_map("ns", "gone", "4"));
        assert!(cache.get("ns", "gone").is_none());
        // What is there is as ever: newer wins.
        cache.put(config_map("ns", "a", "4"));
        assert_eq!(cache.get("ns", "a").unwrap().resource_version().as_deref(), Some("4"));
        // A restored server counts from less.
        cache.replace(arrived(&[("a", "2")]), None);
        cache.put(config_map("ns", "gone", "4"));
        assert!(cache.get("ns", "gone").is_some());
    }

    #[test]
    fn an_own_write_and_its_watch_event_notify_once() {
        let cache = Cache::<ConfigMap>::empty();
        let told = Arc::new(RwLock::new(Vec::new()));
        let seen = told.clone();
        cache.listen(move |old, new| {
            let versions = [old, new].map(|it| it.and_then(|it| it.resource_version()).unwrap_or_default());
            seen.write().push(versions.join(">"));
        });
        let watch = |version: &str| {
            let object = config_map("ns", "a", version);
            *cache.inner.reached.lock() = super::version(&object).unwrap();
            cache.apply(object);
        };
        // The answer to the write comes first.
        cache.put(config_map("ns", "a", "5"));
        watch("5");
        // The watch comes first.
        watch("6");
        cache.put(config_map("ns", "a", "6"));
        watch("7");
        // Two who read the answer put it in.
        cache.put(config_map("ns", "a", "8"));
        cache.put(config_map("ns", "a", "8"));
        assert_eq!(*told.read(), [">5", "5>6", "6>7", "7>8"]);
    }

    #[test]
    fn a_late_response_does_not_replace_a_recreated_object() {
        let cache = Cache::empty();
        let mut anew = config_map("ns", "a", "9");
        anew.metadata.uid = Some("another".to_owned());
        cache.replace(HashMap::from([(name_of(&anew), anew)]), None);
        cache.put(config_map("ns", "a", "7"));
        assert_eq!(cache.get("ns", "a").unwrap().uid().as_deref(), Some("another"));
    }

    #[test]
    fn late_events_of_a_predecessor_leave_the_recreated_object() {
        let cache = Cache::empty();
        let mut anew = config_map("ns", "a", "9");
        anew.metadata.uid = Some("another".to_owned());
        cache.replace(HashMap::from([(name_of(&anew), config_map("ns", "a", "5"))]), None);
        cache.put(anew);
        cache.apply(config_map("ns", "a", "7"));
        cache.apply_delete(&config_map("ns", "a", "8"));
        assert_eq!(cache.get("ns", "a").unwrap().uid().as_deref(), Some("another"));
        // Its own end is one.
        cache.apply_delete(&config_map("ns", "a", "10"));
        assert!(cache.is_empty());
    }

    #[test]
    fn a_relist_forgets_no_deletion_that_was_seen() {
        let cache = Cache::empty();
        let listed = || HashMap::from([(name_of(&config_map("ns", "a", "3")), config_map("ns", "a", "3"))]);
        cache.replace(listed(), None);
        *cache.inner.reached.lock() = 6;
        cache.replace(listed(), None);
        cache.put(config_map("ns", "gone", "5"));
        assert!(cache.get("ns", "gone").is_none());
    }

    #[tokio::test]
    async fn a_late_subscriber_receives_existing_objects() {
        let cache = Cache::holding([config_map("a", "x", "1"), config_map("b", "y", "2")]);
        let queue = Queue::new();
        cache.subscribe_by_name(&queue);
        assert_eq!(queue.next().await, "a/x");
        assert_eq!(queue.next().await, "b/y");
        cache.put(config_map("b", "z", "3"));
        assert_eq!(queue.next().await, "b/z");
    }

    #[test]
    fn one_namespace_is_listed_without_its_neighbours() {
        let cache = Cache::holding([config_map("cluster1", "x", "1"), config_map("cluster10", "y", "2")]);
        let names: Vec<_> = cache.list_in("cluster1").iter().map(|it| it.name_any()).collect();
        assert_eq!(names, ["x"]);
    }

    #[test]
    fn an_older_version_does_not_overwrite_a_newer_one() {
        let cache = Cache::holding([config_map("a", "x", "10")]);
        cache.put(config_map("a", "x", "9"));
        assert_eq!(
            cache.get("a", "x").expect("present").resource_version(),
            Some("10".to_owned())
        );
    }

    #[test]
    fn a_relist_announces_what_went_away() {
        let cache = Cache::holding([config_map("a", "x", "1"), config_map("a", "y", "1")]);
        let gone = Arc::new(RwLock::new(Vec::new()));
        let seen = gone.clone();
        cache.listen(move |old, new| {
            if let (Some(old), None) = (old, new) {
                seen.write().push(old.name_any());
            }
        });
        let kept = config_map("a", "y", "1");
        cache.replace(HashMap::from([(name_of(&kept), kept)]), None);
        assert_eq!(*gone.read(), ["x"]);
    }
}
