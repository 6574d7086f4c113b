//! Watches of the Secrets with authorities of custom signers: each only while an approved request waits for it, each of one
//! Secret by its name, and of its metadata alone. So who signs needs to see no other Secret, and keeps no key.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, core::PartialObjectMeta, runtime::watcher};
use ocm_reconcile::{Cache, Queue, cache::Watching, segment::encoded};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Namespace and name of a Secret.
type Name = (String, String);

/// The watches, and who waits for what.
pub(super) struct Authorities {
    client: Client,
    queue: Queue,
    cancel: CancellationToken,
    watched: Mutex<BTreeMap<Name, Watched>>,
}

struct Watched {
    /// The names of the requests that wait for it.
    requests: Arc<Mutex<BTreeSet<String>>>,
    _cache: Cache<PartialObjectMeta<Secret>>,
    _guard: DropGuard,
}

impl Authorities {
    /// Adds to `queue` the names of requests when what they wait for has changed. Watches nothing yet.
    pub(super) fn new(client: Client, queue: Queue, cancel: CancellationToken) -> Self {
        Self {
            client,
            queue,
            cancel,
            watched: Mutex::default(),
        }
    }

    /// A request waits for this Secret, and for no other.
    pub(super) fn wait(&self, request: &str, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut watched = self.watched.lock();
        release(&mut watched, request, Some(&key));
        if let Some(it) = watched.get(&key) {
            it.requests.lock().insert(request.to_owned());
            return;
        }
        let requests = Arc::new(Mutex::new(BTreeSet::from([request.to_owned()])));
        let stop = self.cancel.child_token();
        let watching = Watching {
            selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
            // Who may only read it looks again from time to time.
            forbidden_at_first: true,
            ..Watching::default()
        };
        let api = Api::namespaced(self.client.clone(), &encoded(namespace));
        let cache = Cache::start_watching(api, watching, stop.clone());
        let waiting = requests.clone();
        // One that came between the look at it and the watch is the watch's first word.
        cache.subscribe(&self.queue, move |_, _| {
            waiting.lock().iter().cloned().collect::<Vec<_>>()
        });
        let watch = Watched {
            requests,
            _cache: cache,
            _guard: stop.drop_guard(),
        };
        watched.insert(key, watch);
    }

    /// A request waits for none any more.
    pub(super) fn done(&self, request: &str) {
        release(&mut self.watched.lock(), request, None);
    }

    /// How many Secrets are watched.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.watched.lock().len()
    }
}

fn release(watched: &mut BTreeMap<Name, Watched>, request: &str, but: Option<&Name>) {
    watched.retain(|key, it| {
        if Some(key) == but {
            return true;
        }
        let mut requests = it.requests.lock();
        requests.remove(request);
        !requests.is_empty()
    });
}
