//! What a reconciler reads and what wakes it, declared once: the runner subscribes and waits by it, and the reference
//! page of the controllers and the rights to read are made of it.

use std::{fmt::Debug, hash::Hash};

use kube::Resource;
use serde::de::DeserializeOwned;

use crate::{Cache, Queue, awaited::Need};

/// What one reconciler watches, in the order in which it was said.
#[derive(Default)]
pub struct Watches {
    pub(crate) all: Vec<Watch>,
}

/// One of them.
pub(crate) struct Watch {
    pub kind: WatchedKind,
    pub need: Option<Need>,
    pub subscribe: Option<Box<dyn FnOnce(&Queue) + Send>>,
}

/// A kind that a reconciler watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedKind {
    /// The API group; empty for the core group, and for what is no kind.
    pub group: String,
    /// The kind, or what else wakes the reconciler.
    pub kind: String,
    /// Its plural; empty for what is no kind.
    pub plural: String,
    /// Whether a change of it wakes the reconciler; otherwise it is only read.
    pub wakes: bool,
}

impl Watches {
    /// The kind of the keys: every change of an object wakes the key of its name (`namespace/name`
    /// where it has a namespace).
    pub fn root<K>(&mut self, cache: &Cache<K>) -> &mut Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        let of = cache.clone();
        self.watch(cache, Some(Box::new(move |queue| of.subscribe_by_name(queue))))
    }

    /// A change of an object (old and new; a new one has no old, a deleted one no new)
    /// wakes the keys that `keys` names.
    pub fn wakes<K, I>(
        &mut self,
        cache: &Cache<K>,
        keys: impl Fn(Option<&K>, Option<&K>) -> I + Send + Sync + 'static,
    ) -> &mut Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
        I: IntoIterator<Item = String>,
    {
        let of = cache.clone();
        self.watch(cache, Some(Box::new(move |queue| of.subscribe(queue, keys))))
    }

    /// What is read, and whose changes wake nobody.
    pub fn reads<K>(&mut self, cache: &Cache<K>) -> &mut Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        self.watch(cache, None)
    }

    /// Something else that wakes the reconciler, such as a clock, or what another reconciler has in memory;
    /// `what` is for the reference.
    pub fn signal(&mut self, what: &str, subscribe: impl FnOnce(&Queue) + Send + 'static) -> &mut Self {
        self.all.push(Watch {
            kind: WatchedKind {
                group: String::new(),
                kind: what.to_owned(),
                plural: String::new(),
                wakes: true,
            },
            need: None,
            subscribe: Some(Box::new(subscribe)),
        });
        self
    }

    fn watch<K>(&mut self, cache: &Cache<K>, subscribe: Option<Box<dyn FnOnce(&Queue) + Send>>) -> &mut Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        let of = K::DynamicType::default();
        self.all.push(Watch {
            kind: WatchedKind {
                group: K::group(&of).into_owned(),
                kind: K::kind(&of).into_owned(),
                plural: K::plural(&of).into_owned(),
                wakes: subscribe.is_some(),
            },
            need: Some(Need::of(cache)),
            subscribe,
        });
        self
    }

    /// Of the last one: that we may not look at it is an answer, too, and the reconciler begins without.
    pub fn if_allowed<K>(&mut self, cache: &Cache<K>) -> &mut Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        if let Some(last) = self.all.last_mut() {
            last.need = Some(Need::if_allowed(cache));
        }
        self
    }

    /// Of the last one: the reconciler begins before it has arrived, and is told when it does.
    pub fn not_awaited(&mut self) -> &mut Self {
        if let Some(last) = self.all.last_mut() {
            last.need = None;
        }
        self
    }
}
