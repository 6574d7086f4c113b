//! Watches on kinds that are known only at run time, for as long as somebody is interested.
//!
//! A run asks an [`Inquiry`] for objects and lists. Each is watched from then on, and a change wakes the key of the
//! run. What the next run of that key does not ask for again is let go, and with it watches that nobody needs.
//!
//! ```text
//! run of key a --Inquiry--> get ConfigMap x/one ---+--> watch of one object
//! run of key b --Inquiry--> list Pods in y --------+--> watch of a namespace, shared
//!                                 ^                          |
//!                             queue <---- keys that asked ---+
//! ```
//!
//! Objects that are asked for by name have a watch each, until more than [`SINGLE_MAX`] of a kind and namespace are:
//! then one watch serves all. Upstream: stolostron `kubernetes-dependency-watches`, which has one watch for each object
//! and watcher.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, OnceLock},
    time::Duration,
};

use kube::{
    Api, Client, ResourceExt,
    core::{ApiResource, DynamicObject},
    runtime::watcher,
};
use kube_primitives::{
    cache::{Cache, Failure, Watching},
    queue::Queue,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::segment::encoded;

/// So many objects of one kind and namespace have watches of their own.
pub const SINGLE_MAX: usize = 8;

/// How long a run waits for the first list of a kind.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);

/// Why nobody can say whether an object is there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not watch {kind}: {text}")]
pub struct WatchRefused {
    kind: String,
    /// The HTTP status, if there was an answer.
    pub code: Option<u16>,
    text: String,
}

/// What one watch sees.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct View {
    group: String,
    version: String,
    kind: String,
    plural: String,
    /// `None` for all namespaces, and for kinds without.
    namespace: Option<String>,
    /// One object alone.
    only: Option<String>,
}

/// In what of a view somebody is interested: an object by its name, or all.
type Interest = Option<String>;

#[derive(Default)]
struct Interested {
    by_name: HashMap<String, BTreeSet<String>>,
    in_all: BTreeSet<String>,
}

impl Interested {
    fn add(&mut self, interest: &Interest, key: &str) {
        match interest {
            Some(name) => self.by_name.entry(name.clone()).or_default().insert(key.to_owned()),
            None => self.in_all.insert(key.to_owned()),
        };
    }

    fn remove(&mut self, interest: &Interest, key: &str) {
        match interest {
            None => drop(self.in_all.remove(key)),
            Some(name) => {
                if let Some(keys) = self.by_name.get_mut(name) {
                    keys.remove(key);
                    if keys.is_empty() {
                        self.by_name.remove(name);
                    }
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.in_all.is_empty()
    }
}

struct Entry {
    cache: Cache<DynamicObject>,
    interested: Arc<Mutex<Interested>>,
    end: CancellationToken,
}

#[derive(Default)]
struct Held {
    entries: BTreeMap<View, Entry>,
    /// What each key has asked for in its last run.
    asked: HashMap<String, BTreeSet<(View, Interest)>>,
}

struct Inner {
    client: Client,
    cancel: CancellationToken,
    queue: OnceLock<Queue>,
    held: Mutex<Held>,
}

/// The watches of one reconciler on one API server. Cloning shares them.
#[derive(Clone)]
pub struct DynamicWatches {
    inner: Arc<Inner>,
}

impl DynamicWatches {
    /// On the API server of this client, until `cancel`.
    pub fn new(client: Client, cancel: CancellationToken) -> Self {
        let inner = Inner {
            client,
            cancel,
            queue: OnceLock::new(),
            held: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The queue whose keys are woken. The first one stays.
    pub fn wake(&self, queue: &Queue) {
        let _ = self.inner.queue.set(queue.clone());
    }

    /// How many watches there are.
    pub fn count(&self) -> usize {
        self.inner.held.lock().entries.len()
    }

    /// For a run of this key.
    pub fn inquiry(&self, key: &str) -> Inquiry {
        Inquiry {
            watches: self.clone(),
            key: key.to_owned(),
            asked: Mutex::default(),
        }
    }

    /// Ends all interest of a key.
    pub fn forget(&self, key: &str) {
        self.keep_only(key, BTreeSet::new());
    }

    /// Puts in an object as a write has left it: the watch will bring it, too, and the next run may come first.
    pub fn put(&self, resource: &ApiResource, object: &DynamicObject) {
        if object.metadata.resource_version.is_none() {
            return;
        }
        let place = |namespace: Option<String>, only: Option<String>| View {
            namespace,
            only,
            ..view(resource, None, None)
        };
        let namespace = object.metadata.namespace.clone();
        let views = [
            place(namespace.clone(), Some(object.name_any())),
            place(namespace, None),
            place(None, None),
        ];
        let caches: Vec<_> = {
            let held = self.inner.held.lock();
            let known = views.iter().filter_map(|it| held.entries.get(it));
            known.map(|it| it.cache.clone()).collect()
        };
        caches.into_iter().for_each(|it| it.put(object.clone()));
    }

    fn keep_only(&self, key: &str, asked: BTreeSet<(View, Interest)>) {
        let mut held = self.inner.held.lock();
        let held = &mut *held;
        let before = if asked.is_empty() {
            held.asked.remove(key)
        } else {
            held.asked.insert(key.to_owned(), asked.clone())
        };
        for (view, interest) in before.iter().flatten().filter(|it| !asked.contains(it)) {
            let Some(entry) = held.entries.get(view) else { continue };
            let mut interested = entry.interested.lock();
            interested.remove(interest, key);
            let unneeded = interested.is_empty();
            drop(interested);
            if unneeded && let Some(entry) = held.entries.remove(view) {
                entry.end.cancel();
            }
        }
    }

    /// The watch of a view, which is begun if there is none yet.
    fn watched(&self, view: &View, interest: &Interest, key: &str) -> Cache<DynamicObject> {
        let (cache, interested, fresh) = {
            let mut held = self.inner.held.lock();
            let mut fresh = None;
            let entry = held.entries.entry(view.clone()).or_insert_with(|| {
                let end = self.inner.cancel.child_token();
                fresh = Some(end.clone());
                Entry {
                    cache: Cache::empty(),
                    interested: Arc::default(),
                    end,
                }
            });
            entry.interested.lock().add(interest, key);
            let known = (entry.cache.clone(), entry.interested.clone(), fresh);
            let of_key = held.asked.entry(key.to_owned()).or_default();
            of_key.insert((view.clone(), interest.clone()));
            known
        };
        if let Some(end) = fresh {
            let inner = Arc::downgrade(&self.inner);
            // What is there at first was asked for by who waits for it.
            let arrived = cache.clone();
            cache.listen(move |old, new| {
                if old.is_none() && !arrived.is_synced() {
                    return;
                }
                let (Some(inner), Some(object)) = (inner.upgrade(), new.or(old)) else {
                    return;
                };
                let Some(queue) = inner.queue.get() else { return };
                let interested = interested.lock();
                let by_name = interested.by_name.get(&object.name_any());
                let keys = by_name.into_iter().flatten().chain(&interested.in_all);
                keys.for_each(|it| queue.add(it.as_str()));
            });
            let mut watching = Watching {
                forbidden_at_first: true,
                ..Watching::default()
            };
            if let Some(name) = &view.only {
                watching.selection = watcher::Config::default().fields(&format!("metadata.name={name}"));
            }
            tokio::spawn(cache.clone().feed(self.api(view), watching, end));
        }
        cache
    }

    fn api(&self, view: &View) -> Api<DynamicObject> {
        let resource = ApiResource {
            api_version: match view.group.as_str() {
                "" => view.version.clone(),
                group => format!("{group}/{}", view.version),
            },
            group: view.group.clone(),
            version: view.version.clone(),
            kind: view.kind.clone(),
            plural: view.plural.clone(),
        };
        match &view.namespace {
            Some(namespace) => Api::namespaced_with(self.inner.client.clone(), &encoded(namespace), &resource),
            None => Api::all_with(self.inner.client.clone(), &resource),
        }
    }
}

/// What a run asks for. What is not asked for again is let go when it is [finished](Inquiry::finish).
pub struct Inquiry {
    watches: DynamicWatches,
    key: String,
    asked: Mutex<BTreeSet<(View, Interest)>>,
}

impl Inquiry {
    /// An object. Without a namespace the kind has none.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub async fn get(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<DynamicObject>>, WatchRefused> {
        let whole = view(resource, namespace, None);
        let single = view(resource, namespace, Some(name));
        let at = match self.is_shared(&whole, &single) {
            true => whole,
            false => single,
        };
        let cache = self.ask(at, Some(name.to_owned())).await?;
        Ok(cache.get(namespace.unwrap_or_default(), name))
    }

    /// All objects of a namespace, or of all where there is none given.
    ///
    /// # Errors
    /// When they cannot be watched.
    pub async fn list(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<DynamicObject>>, WatchRefused> {
        let cache = self.ask(view(resource, namespace, None), None).await?;
        Ok(cache.list())
    }

    /// Lets go of what the run before has asked for and this one has not.
    pub fn finish(self) {
        self.watches.keep_only(&self.key, self.asked.into_inner());
    }

    /// Whether one watch serves all objects of the place.
    fn is_shared(&self, whole: &View, single: &View) -> bool {
        let held = self.watches.inner.held.lock();
        if held.entries.contains_key(single) {
            return false;
        }
        let first = View {
            only: Some(String::new()),
            ..whole.clone()
        };
        let singles = held.entries.range(first..).take_while(|(it, _)| {
            let place = View {
                only: None,
                ..(*it).clone()
            };
            place == *whole
        });
        held.entries.contains_key(whole) || singles.count() >= SINGLE_MAX
    }

    async fn ask(&self, at: View, interest: Interest) -> Result<Cache<DynamicObject>, WatchRefused> {
        let cache = self.watches.watched(&at, &interest, &self.key);
        let kind = at.kind.clone();
        self.asked.lock().insert((at, interest));
        arrived(&kind, &cache).await?;
        Ok(cache)
    }
}

fn view(resource: &ApiResource, namespace: Option<&str>, only: Option<&str>) -> View {
    View {
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        namespace: namespace.map(str::to_owned),
        only: only.map(str::to_owned),
    }
}

/// Returns when a cache has seen its first list.
///
/// # Errors
/// When that is refused, or does not come for long.
pub async fn arrived(kind: &str, cache: &Cache<DynamicObject>) -> Result<(), WatchRefused> {
    if cache.is_synced() && cache.failure().is_none_or(|it| it.code != Some(404)) {
        return Ok(());
    }
    let refused = |code: Option<u16>, text: &str| WatchRefused {
        kind: kind.to_owned(),
        code,
        text: text.to_owned(),
    };
    let wait = async {
        tokio::select! {
            biased;
            failure = cache.until(Cache::failure) => Some(failure),
            () = cache.synced() => None,
        }
    };
    match tokio::time::timeout(ARRIVAL_MAX, wait).await {
        Ok(None) => Ok(()),
        Ok(Some(Failure { code, text })) => Err(refused(code, &text)),
        Err(_) => Err(refused(None, "the API server has not answered yet")),
    }
}
