//! Watches that are kept only while somebody needs them: leases of the namespaces that add-ons live in, certificate
//! requests while one is under way, and namespaces that a Secret waits for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    hash::Hash,
};

use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, coordination::v1::Lease, core::v1::Namespace};
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher};
use ocm_api::labels;
use ocm_reconcile::{Cache, ObserveError, Queue, cache::Watching};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{AddOns, location::location};

/// A cache that ends with this.
struct Watched<K> {
    cache: Cache<K>,
    _guard: DropGuard,
}

/// The watches of one side: the clients, and where to tell of changes.
pub(super) struct TemporaryWatches {
    hub: Client,
    here: Client,
    addons: AddOns,
    queue: Queue,
    stop: CancellationToken,
    leases: Mutex<BTreeMap<String, Watched<Lease>>>,
    namespaces: Mutex<BTreeMap<String, Watched<Namespace>>>,
    requests: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    watched: Option<Watched<CertificateSigningRequest>>,
    /// How many wait for the first list: the watch must not end under them.
    waiting: usize,
}

impl TemporaryWatches {
    pub fn new(hub: Client, here: Client, addons: AddOns, queue: Queue, stop: CancellationToken) -> Self {
        Self {
            hub,
            here,
            addons,
            queue,
            stop,
            leases: Mutex::default(),
            namespaces: Mutex::default(),
            requests: Mutex::default(),
        }
    }

    fn start<K>(&self, api: Api<K>, selection: watcher::Config) -> Watched<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        let stop = self.stop.child_token();
        let watching = Watching {
            selection,
            retry_max: std::time::Duration::from_secs(5),
            ..Watching::default()
        };
        Watched {
            cache: Cache::start_watching(api, watching, stop.clone()),
            _guard: stop.drop_guard(),
        }
    }

    /// The leases of a namespace. Whoever asks before they have arrived is asked again then.
    pub fn leases(&self, namespace: &str) -> Cache<Lease> {
        let mut all = self.leases.lock();
        if let Some(watched) = all.get(namespace) {
            return watched.cache.clone();
        }
        let api = Api::<Lease>::namespaced(self.here.clone(), namespace);
        let watched = self.start(api, watcher::Config::default());
        let cache = watched.cache.clone();
        let (addons, at) = (self.addons.clone(), namespace.to_owned());
        // Other leases of the namespace, such as those of leader elections, change every few seconds
        // and are nobody's here.
        cache.subscribe(&self.queue, move |old, new| {
            let name = new.or(old)?.name_any();
            (location(&*addons.get(&name)?).namespace == at).then_some(name)
        });
        let (arriving, addons, queue) = (cache.clone(), self.addons.clone(), self.queue.clone());
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = arriving.synced() => addons.names().into_iter().for_each(|it| queue.add(it)),
            }
        });
        all.insert(namespace.to_owned(), watched);
        cache
    }

    /// Ends the watches of namespaces in which no add-on lives any more.
    pub fn keep_leases_of(&self, namespaces: &BTreeSet<String>) {
        self.leases.lock().retain(|it, _| namespaces.contains(it));
    }

    /// The certificate requests of the cluster's add-ons, when they have arrived.
    pub async fn requests(&self) -> Result<Cache<CertificateSigningRequest>, ObserveError> {
        self.requests.lock().waiting += 1;
        let cache = self.keep_requests();
        let there = self.arrived(&cache).await;
        self.requests.lock().waiting -= 1;
        there.map(|()| cache)
    }

    /// Makes sure that they are watched.
    pub fn keep_requests(&self) -> Cache<CertificateSigningRequest> {
        let mut slot = self.requests.lock();
        if let Some(watched) = &slot.watched {
            return watched.cache.clone();
        }
        let selection = format!(
            "{}={},{}",
            labels::CLUSTER_NAME,
            self.addons.cluster,
            labels::ADDON_NAME
        );
        let watched = self.start(
            Api::<CertificateSigningRequest>::all(self.hub.clone()),
            watcher::Config::default().labels(&selection),
        );
        let cache = watched.cache.clone();
        cache.subscribe(&self.queue, |old, new| {
            new.or(old)?.labels().get(labels::ADDON_NAME).cloned()
        });
        slot.watched = Some(watched);
        cache
    }

    /// Ends that watch: nothing is under way.
    pub fn drop_requests(&self) {
        let mut slot = self.requests.lock();
        if slot.waiting == 0 {
            slot.watched = None;
        }
    }

    /// Whether a namespace is missing. While it is, it is watched, and the add-ons that live in it are told
    /// when it comes.
    pub async fn is_missing(&self, name: &str) -> Result<bool, ObserveError> {
        let cache = {
            let mut all = self.namespaces.lock();
            let watched = all.entry(name.to_owned()).or_insert_with(|| {
                let selection = watcher::Config::default().fields(&format!("metadata.name={name}"));
                let watched = self.start(Api::<Namespace>::all(self.here.clone()), selection);
                let (addons, at) = (self.addons.clone(), name.to_owned());
                watched.cache.subscribe(&self.queue, move |_, _| addons.living_in(&at));
                watched
            });
            watched.cache.clone()
        };
        self.arrived(&cache).await?;
        // Nothing can be created in one that is on its way out.
        let there = cache
            .named(name)
            .is_some_and(|it| it.metadata.deletion_timestamp.is_none());
        if there {
            self.namespaces.lock().remove(name);
        }
        Ok(!there)
    }

    // Ends with the first list, or with why there is none at present.
    async fn arrived<K>(&self, cache: &Cache<K>) -> Result<(), ObserveError>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut changes = cache.changes();
        loop {
            changes.borrow_and_update();
            if cache.is_synced() {
                return Ok(());
            }
            if let Some(failure) = cache.failure() {
                return Err(failure.text.into());
            }
            tokio::select! {
                () = self.stop.cancelled() => return Err("the session with the hub is over".into()),
                () = cache.synced() => {}
                // The cache lives as long as we hold it.
                _ = changes.changed() => {}
            }
        }
    }
}
