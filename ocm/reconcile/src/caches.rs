//! The watches of a process on one API server: one for each kind and selection,
//! started when somebody first asks for it.
//!
//! ```text
//! API server --list, watch--> Cache<K> --+--> observe of every reconciler that asked for it
//!                                        +--> queues, as `Reconciler::watches` says
//! ```

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt::Debug,
    hash::Hash,
    sync::Arc,
};

use futures::future::{BoxFuture, join_all};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, runtime::watcher};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::{
    Done, Outcome,
    cache::{Cache, Watching},
};

/// A kind whose objects a [`Caches`] can hold: any typed kind of `k8s-openapi`, `kube` or `ocm-api`.
pub trait Watchable: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static {}

impl<K> Watchable for K where K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static {}

/// Puts what was written of a kind into its cache: the watch will bring it, too, and the next run may come first.
pub fn put_written<K: Watchable>(cache: &Cache<K>, outcome: &Outcome) {
    for done in outcome.stages.iter().flatten() {
        let Ok(Done::Object(object)) = done else { continue };
        if object.types.as_ref().is_none_or(|it| it.kind != K::kind(&())) {
            continue;
        }
        // What cannot be read comes by the watch.
        if let Ok(object) = (**object).clone().try_parse() {
            cache.put(object);
        }
    }
}

/// The caches of one process for one API server. Cloning shares them.
#[derive(Clone)]
pub struct Caches {
    inner: Arc<Inner>,
}

struct Inner {
    source: Source,
    cancel: CancellationToken,
    held: Mutex<Held>,
}

/// Where the objects come from.
enum Source {
    /// One watch per cache.
    Watch(Client),
    /// Nothing: a test fills the caches.
    Nothing,
}

#[derive(Default)]
struct Held {
    /// `Cache<K>` by kind and selection.
    caches: HashMap<(TypeId, Selection), Entry>,
    /// What is done to objects of a kind before they are kept, as `Shape<K>`.
    shapes: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    /// What stands beside the caches, by its type.
    beside: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

struct Entry {
    cache: Box<dyn Any + Send + Sync>,
    synced: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Selection {
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
}

type Shape<K> = Arc<dyn Fn(Option<&K>, &mut K) + Send + Sync>;

impl Caches {
    /// Caches that are fed by watches until `cancel`.
    pub fn new(client: Client, cancel: CancellationToken) -> Self {
        Self::from(Source::Watch(client), cancel)
    }

    /// Caches that nothing feeds: a test fills them, and a list of controllers can be made without an API server.
    pub fn unfed() -> Self {
        Self::from(Source::Nothing, CancellationToken::new())
    }

    fn from(source: Source, cancel: CancellationToken) -> Self {
        let inner = Inner {
            source,
            cancel,
            held: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Has `shape` called with each object of a kind, and with the one that it replaces, before it is kept: to let
    /// objects share what they have in common, or to leave out what nobody reads. Before the kind is first asked for.
    pub fn shaped<K: Watchable>(self, shape: impl Fn(Option<&K>, &mut K) + Send + Sync + 'static) -> Self {
        let shape: Shape<K> = Arc::new(shape);
        self.inner.held.lock().shapes.insert(TypeId::of::<K>(), Box::new(shape));
        self
    }

    /// All objects of a kind.
    pub fn of<K: Watchable>(&self) -> Cache<K> {
        self.select(Selection::default(), Watching::default(), Api::all)
    }

    /// The objects of a kind that a label selector matches, such as `open-cluster-management.io/cluster-name`.
    pub fn labelled<K: Watchable>(&self, selector: &str) -> Cache<K> {
        self.watching(Watching {
            selection: watcher::Config::default().labels(selector),
            ..Watching::default()
        })
    }

    /// The objects of a kind, watched with everything chosen. Who asks for the same selection shares the watch
    /// of who came first.
    pub fn watching<K: Watchable>(&self, watching: Watching) -> Cache<K> {
        self.select(Selection::of(None, &watching), watching, Api::all)
    }

    /// The objects of a kind in one namespace.
    pub fn in_namespace<K>(&self, namespace: &str, watching: Watching) -> Cache<K>
    where
        K: Watchable + Resource<Scope = NamespaceResourceScope>,
    {
        let selection = Selection::of(Some(namespace), &watching);
        self.select(selection, watching, |client| Api::namespaced(client, namespace))
    }

    fn select<K: Watchable>(
        &self,
        selection: Selection,
        watching: Watching,
        api: impl FnOnce(Client) -> Api<K>,
    ) -> Cache<K> {
        let mut held = self.inner.held.lock();
        let key = (TypeId::of::<K>(), selection);
        if let Some(entry) = held.caches.get(&key) {
            let cache = entry.cache.downcast_ref::<Cache<K>>();
            return cache.expect("a cache is kept under the type of its kind").clone();
        }
        let shape = held.shapes.get(&TypeId::of::<K>());
        let shape = shape.and_then(|it| it.downcast_ref::<Shape<K>>()).cloned();
        let cache = self.feed(shape, watching, api);
        let of = cache.clone();
        let synced = move || -> BoxFuture<'static, ()> {
            let of = of.clone();
            Box::pin(async move { of.synced().await })
        };
        let entry = Entry {
            cache: Box::new(cache.clone()),
            synced: Box::new(synced),
        };
        held.caches.insert(key, entry);
        cache
    }

    fn feed<K: Watchable>(
        &self,
        shape: Option<Shape<K>>,
        watching: Watching,
        api: impl FnOnce(Client) -> Api<K>,
    ) -> Cache<K> {
        let cancel = self.inner.cancel.clone();
        match &self.inner.source {
            Source::Watch(client) => {
                let api = api(client.clone());
                match shape {
                    Some(shape) => Cache::start_shaped(api, watching, cancel, move |old, new| shape(old, new)),
                    None => Cache::start_watching(api, watching, cancel),
                }
            }
            Source::Nothing => Cache::empty(),
        }
    }

    /// What stands beside the caches once in a process, such as an index over one of them:
    /// made when somebody first asks for its type.
    pub fn beside<T: Clone + Send + Sync + 'static>(&self, make: impl FnOnce(&Self) -> T) -> T {
        let found = |held: &Held| {
            held.beside
                .get(&TypeId::of::<T>())
                .and_then(|it| it.downcast_ref::<T>())
                .cloned()
        };
        if let Some(it) = found(&self.inner.held.lock()) {
            return it;
        }
        // Made without the lock: it asks for caches. Who comes second takes what the first has made.
        let made = make(self);
        let mut held = self.inner.held.lock();
        if let Some(it) = found(&held) {
            return it;
        }
        held.beside.insert(TypeId::of::<T>(), Box::new(made.clone()));
        made
    }

    /// The client behind the caches; `None` where nothing feeds them.
    pub fn client(&self) -> Option<&Client> {
        match &self.inner.source {
            Source::Watch(client) => Some(client),
            Source::Nothing => None,
        }
    }

    /// Ends the watches.
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.inner.cancel
    }

    /// Ends when all caches that were asked for so far have arrived.
    pub async fn synced(&self) {
        let waiting: Vec<_> = self.inner.held.lock().caches.values().map(|it| (it.synced)()).collect();
        join_all(waiting).await;
    }
}

impl Selection {
    fn of(namespace: Option<&str>, watching: &Watching) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            labels: watching.selection.label_selector.clone(),
            fields: watching.selection.field_selector.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn equal_selections_share_a_cache() {
        let caches = Caches::unfed();
        caches.of::<ConfigMap>().fill([ConfigMap::default()]);
        assert_eq!(caches.of::<ConfigMap>().len(), 1);
        assert_eq!(caches.labelled::<ConfigMap>("a=b").len(), 0);
        let selected = || caches.in_namespace::<ConfigMap>("ns", Watching::default());
        selected().fill([ConfigMap::default()]);
        assert_eq!(selected().len(), 1);
    }

    #[test]
    fn what_stands_beside_is_made_once() {
        #[derive(Clone)]
        struct Count(Arc<Mutex<u32>>);
        let caches = Caches::unfed();
        let make = |caches: &Caches| {
            caches.of::<ConfigMap>();
            Count(Arc::default())
        };
        *caches.beside(make).0.lock() += 1;
        assert_eq!(*caches.beside(make).0.lock(), 1);
    }
}
