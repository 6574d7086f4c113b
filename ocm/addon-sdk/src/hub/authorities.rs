//! The Secrets with authorities of custom signers: read when a request is signed, and watched only while an approved
//! request waits for one, each by its name, and of its metadata alone. So who signs needs to see no other Secret,
//! and keeps no key.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, core::PartialObjectMeta, runtime::watcher};
use ocm_reconcile::{Cache, Caches, Queue, StepError, cache::Watching, segment::encoded};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    authority::Authority,
    custom_signer::{DueCertificate, LastWarning, NoAuthority},
};

/// Namespace and name of a Secret.
type Name = (String, String);

/// The authorities, and who waits for which. Cloning shares them.
#[derive(Clone)]
pub(super) struct Authorities {
    client: Option<Client>,
    cancel: CancellationToken,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    // Of whom looks at requests.
    queue: Queue,
    watched: BTreeMap<Name, Watched>,
    // What was told of which request.
    told: HashMap<String, LastWarning>,
}

struct Watched {
    /// The names of the requests that wait for it.
    requests: Arc<Mutex<BTreeSet<String>>>,
    _cache: Cache<PartialObjectMeta<Secret>>,
    _guard: DropGuard,
}

impl Authorities {
    /// On the hub that these caches are of. Watches nothing yet.
    pub(super) fn of(caches: &Caches) -> Self {
        Self {
            client: caches.client().cloned(),
            cancel: caches.cancel_token().clone(),
            waiting: Arc::default(),
        }
    }

    /// From now on `queue` gets the names of requests when what they wait for has changed.
    pub(super) fn wakes(&self, queue: &Queue) {
        self.waiting.lock().queue = queue.clone();
    }

    /// Makes a certificate, as PEM. An error of our [own](StepError::Own) says what is wrong with the authority.
    pub(super) async fn sign(&self, due: &DueCertificate) -> Result<String, StepError> {
        let DueCertificate {
            namespace,
            secret: name,
            signer,
            ..
        } = due;
        let no_authority = |why: String| Err(StepError::Own(why));
        let what = format!("Secret {namespace}/{name}, the authority of signer {signer}");
        let client = self
            .client
            .clone()
            .ok_or(StepError::NoClient(ocm_reconcile::Site::Hub))?;
        let api = Api::<Secret>::namespaced(client, &encoded(namespace));
        let secret = match api.get_opt(&encoded(name)).await {
            Ok(Some(secret)) => secret,
            Ok(None) => return no_authority(format!("there is no {what}")),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                return no_authority(format!("the manager of add-ons may not read {what}"));
            }
            Err(error) => return Err(unread(error, &what).into()),
        };
        let data = secret.data.unwrap_or_default();
        let value = |keys: [&str; 2]| {
            let found = keys.iter().find_map(|key| data.get(*key));
            found.map(|it| it.0.as_slice()).unwrap_or_default()
        };
        let authority = match Authority::read(value(["tls.crt", "ca.crt"]), value(["tls.key", "ca.key"])) {
            Ok(authority) => authority,
            Err(error) => return no_authority(format!("{what}, is none: {error}")),
        };
        // One that has expired, for example, may be replaced.
        let signed = authority.sign(&due.asked, due.lifetime, Timestamp::now());
        signed.or_else(|error| no_authority(format!("Secret {namespace}/{name} cannot sign for {signer}: {error}")))
    }

    /// A request waits for this Secret, and for no other.
    pub(super) fn wait(&self, it: &NoAuthority) {
        let NoAuthority {
            request,
            secret: key,
            told,
        } = it;
        let mut waiting = self.waiting.lock();
        waiting.told.insert(request.clone(), told.clone());
        release(&mut waiting.watched, request, Some(key));
        if let Some(it) = waiting.watched.get(key) {
            it.requests.lock().insert(request.clone());
            return;
        }
        let requests = Arc::new(Mutex::new(BTreeSet::from([request.clone()])));
        let (namespace, name) = key;
        let stop = self.cancel.child_token();
        let watching = Watching {
            selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
            // Who may only read it looks again from time to time.
            forbidden_at_first: true,
            ..Watching::default()
        };
        let cache = match &self.client {
            Some(client) => {
                let api = Api::namespaced(client.clone(), &encoded(namespace));
                Cache::start_watching(api, watching, stop.clone())
            }
            None => Cache::empty(),
        };
        let names = requests.clone();
        // One that came between the look at it and the watch is the watch's first word.
        cache.subscribe(&waiting.queue, move |_, _| {
            names.lock().iter().cloned().collect::<Vec<_>>()
        });
        let watch = Watched {
            requests,
            _cache: cache,
            _guard: stop.drop_guard(),
        };
        waiting.watched.insert(key.clone(), watch);
    }

    /// A request waits for none any more.
    pub(super) fn done(&self, request: &str) {
        let mut waiting = self.waiting.lock();
        waiting.told.remove(request);
        release(&mut waiting.watched, request, None);
    }

    /// What was told last of a request that waits for an authority.
    pub(super) fn told(&self, request: &str) -> Option<LastWarning> {
        self.waiting.lock().told.get(request).cloned()
    }

    /// How many Secrets are watched.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().watched.len()
    }
}

/// The error with what could not be read. It is none of our own, so that it is tried again and nobody is told that
/// there is no authority.
fn unread(error: kube::Error, what: &str) -> kube::Error {
    let said = |why: &dyn std::fmt::Display| format!("could not read {what}: {why}");
    match error {
        kube::Error::Api(mut status) => {
            status.message = said(&status.message);
            kube::Error::Api(status)
        }
        other => kube::Error::Service(said(&other).into()),
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
