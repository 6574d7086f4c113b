//! ConfigMaps, Secrets and ServiceAccounts that pods name: each is watched by itself and only while a pod needs it.

use bytes::Bytes;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::{
    Api, Client, Resource,
    runtime::watcher::{Config, Event},
};
use kube_primitives::cache;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, HashMap},
    fmt::{self, Debug},
    sync::{Arc, Weak},
};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What pods refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    ConfigMap,
    Secret,
    ServiceAccount,
}

/// The object that is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub kind: ReferenceKind,
    pub namespace: String,
    pub name: String,
}

/// As a kubelet writes it: `secret "x" not found`.
impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ReferenceKind::ConfigMap => "configmap",
            ReferenceKind::Secret => "secret",
            ReferenceKind::ServiceAccount => "serviceaccount",
        };
        write!(out, "{kind} {:?}", self.name)
    }
}

/// What pods want of the object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub data: BTreeMap<String, Bytes>,
    /// `automountServiceAccountToken` of a ServiceAccount.
    pub automount: Option<bool>,
}

/// One object as far as it is known.
#[derive(Clone, Debug)]
pub enum Known {
    /// The first answer is under way.
    NotYet,
    Missing,
    Here(Arc<Content>),
}

/// Keeps the watch of one object alive.
pub struct Held {
    state: watch::Receiver<Known>,
    _watching: DropGuard,
}

impl Held {
    /// The object as it is now.
    pub fn now(&self) -> Known {
        self.state.borrow().clone()
    }
}

/// All that is watched for pods now.
pub struct References {
    client: Client,
    held: Mutex<HashMap<Reference, Weak<Held>>>,
    changes: watch::Sender<u64>,
}

impl References {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            held: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Tells whenever any of them has changed. There are few, and a look costs little.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Something else has changed that is shown together with them.
    pub fn changed(&self) {
        self.changes.send_modify(|it| *it += 1);
    }

    /// Watches the object as long as somebody has the answer.
    pub fn hold(&self, reference: &Reference) -> Arc<Held> {
        let mut all = self.held.lock();
        if let Some(held) = all.get(reference).and_then(Weak::upgrade) {
            return held;
        }
        all.retain(|_, it| it.strong_count() > 0);
        let cancel = CancellationToken::new();
        let (tell, state) = watch::channel(Known::NotYet);
        let changes = self.changes.clone();
        let client = self.client.clone();
        match reference.kind {
            ReferenceKind::ConfigMap => {
                let content = |it: ConfigMap| {
                    let text = it.data.into_iter().flatten().map(|(key, it)| (key, Bytes::from(it)));
                    let binary = it.binary_data.into_iter().flatten();
                    let data = text.chain(binary.map(|(key, it)| (key, Bytes::from(it.0)))).collect();
                    Content { data, automount: None }
                };
                tokio::spawn(follow(
                    client,
                    reference.clone(),
                    content,
                    tell,
                    changes,
                    cancel.clone(),
                ));
            }
            ReferenceKind::Secret => {
                let content = |it: Secret| {
                    let data = it.data.into_iter().flatten().map(|(key, it)| (key, Bytes::from(it.0)));
                    Content {
                        data: data.collect(),
                        automount: None,
                    }
                };
                tokio::spawn(follow(
                    client,
                    reference.clone(),
                    content,
                    tell,
                    changes,
                    cancel.clone(),
                ));
            }
            ReferenceKind::ServiceAccount => {
                let content = |it: ServiceAccount| Content {
                    data: BTreeMap::new(),
                    automount: it.automount_service_account_token,
                };
                tokio::spawn(follow(
                    client,
                    reference.clone(),
                    content,
                    tell,
                    changes,
                    cancel.clone(),
                ));
            }
        }
        let held = Arc::new(Held {
            state,
            _watching: cancel.drop_guard(),
        });
        all.insert(reference.clone(), Arc::downgrade(&held));
        held
    }
}

async fn follow<K>(
    client: Client,
    reference: Reference,
    content: impl Fn(K) -> Content,
    tell: watch::Sender<Known>,
    changes: watch::Sender<u64>,
    cancel: CancellationToken,
) where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + 'static,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::namespaced(client, &reference.namespace);
    let selection = Config::default().fields(&format!("metadata.name={}", reference.name));
    let mut events = std::pin::pin!(cache::events(api, selection, cache::RETRY_MAX));
    let say = |known: Known| {
        let changed = tell.send_if_modified(|state| {
            let same = match (&*state, &known) {
                (Known::Missing, Known::Missing) => true,
                (Known::Here(old), Known::Here(new)) => old == new,
                _ => false,
            };
            if !same {
                *state = known;
            }
            !same
        });
        if changed {
            changes.send_modify(|it| *it += 1);
        }
    };
    let mut arriving = None;
    loop {
        let event = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            event = events.next() => event,
        };
        match event {
            Some(Ok(Event::Init)) => arriving = None,
            Some(Ok(Event::InitApply(object))) => arriving = Some(object),
            Some(Ok(Event::InitDone)) => say(match arriving.take() {
                Some(object) => Known::Here(Arc::new(content(object))),
                None => Known::Missing,
            }),
            Some(Ok(Event::Apply(object))) => say(Known::Here(Arc::new(content(object)))),
            Some(Ok(Event::Delete(_))) => say(Known::Missing),
            Some(Err(error)) => tracing::debug!(%reference, %error, "watch failed, will retry"),
            None => return,
        }
    }
}
