//! The objects of templates and dependencies: kinds that are known only when a Policy names them, each watched once,
//! for as long as a Policy is interested.
//!
//! ```text
//! template-sync --+                     +-- one watch for each kind and namespace
//! status-sync ----+--> Watched objects -+   (template kinds), or for one object (dependencies elsewhere)
//! gatekeeper-sync +          |
//!        ^                   | an object has changed: the Policies that are interested in its name
//!        +---- queues <------+
//! ```
//! Upstream: stolostron `kubernetes-dependency-watches`, which has one watch for each object of each Policy; here all
//! objects of a kind share one.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use ocm_addon_sdk::{
    kube::{
        Api, Client, ResourceExt,
        core::{ApiResource, DynamicObject},
        runtime::watcher,
    },
    ocm_api::policy,
    reconcile::{
        Cache, Clients, Done, Outcome, Queue, Site,
        cache::Watching,
        dynamic::{WatchRefused, arrived},
        segment::encoded,
    },
};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

/// Who is interested under this name is woken by every object: no object has it.
pub const ANY: &str = "*";

/// Where objects of a kind are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whereabouts {
    group: String,
    version: String,
    kind: String,
    plural: String,
    /// `None` for a kind without namespaces.
    pub namespace: Option<String>,
    /// Only the object of this name is watched: we may see no others there.
    only: Option<String>,
}

impl Whereabouts {
    /// All objects of a kind in this namespace.
    pub fn all(resource: &ApiResource, namespace: Option<&str>) -> Self {
        Self {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
            namespace: namespace.map(str::to_owned),
            only: None,
        }
    }

    /// One object alone.
    pub fn only(resource: &ApiResource, namespace: Option<&str>, name: &str) -> Self {
        Self {
            only: Some(name.to_owned()),
            ..Self::all(resource, namespace)
        }
    }

    fn resource(&self) -> ApiResource {
        ApiResource {
            api_version: match self.group.as_str() {
                "" => self.version.clone(),
                group => format!("{group}/{}", self.version),
            },
            group: self.group.clone(),
            version: self.version.clone(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }
}

/// Who is interested: a reconciler, and its key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interested {
    /// The reconciler.
    pub who: &'static str,
    /// The name of its Policy.
    pub policy: String,
}

/// What a run has asked for.
pub type ObjectsAsked = BTreeSet<(Whereabouts, String)>;

type ByPolicy = Mutex<HashMap<String, BTreeSet<(String, String)>>>;
type Names = Mutex<HashMap<String, BTreeSet<Interested>>>;
type Relevant = fn(Option<&DynamicObject>, Option<&DynamicObject>) -> bool;

/// Which of the reconcilers is woken, and by which changes.
struct Listener {
    who: &'static str,
    queue: Queue,
    relevant: Relevant,
}

struct Entry {
    cache: Cache<DynamicObject>,
    names: Arc<Names>,
    /// Of which Policy each object has the label.
    by_policy: Arc<ByPolicy>,
    cancel: CancellationToken,
}

/// The watched objects of one cluster. Cloning shares them.
#[derive(Clone)]
pub struct WatchedObjects {
    client: Client,
    cancel: CancellationToken,
    entries: Arc<Mutex<BTreeMap<Whereabouts, Entry>>>,
    listeners: Arc<RwLock<Vec<Listener>>>,
}

impl WatchedObjects {
    /// Of the cluster behind this client; the watches end with `cancel`.
    pub fn new(client: Client, cancel: CancellationToken) -> Self {
        Self {
            client,
            cancel,
            entries: Arc::default(),
            listeners: Arc::default(),
        }
    }

    /// Wakes the keys of a reconciler by relevant changes of objects that they are interested in, and of objects that
    /// have the label of a Policy.
    pub fn subscribe(&self, who: &'static str, queue: Queue, relevant: Relevant) {
        let listener = Listener { who, queue, relevant };
        self.listeners.write().push(listener);
    }

    /// The object; from now on its changes wake whoever is interested.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub async fn get(
        &self,
        at: &Whereabouts,
        name: &str,
        by: &Interested,
    ) -> Result<Option<Arc<DynamicObject>>, WatchRefused> {
        let cache = self.watched(at, Some((name, by)));
        arrived(&at.kind, &cache).await?;
        Ok(cache.get(at.namespace.as_deref().unwrap_or_default(), name))
    }

    /// All objects of a place.
    ///
    /// # Errors
    /// When they cannot be watched.
    pub async fn list(&self, at: &Whereabouts, by: &Interested) -> Result<Vec<Arc<DynamicObject>>, WatchRefused> {
        // No object has an empty name: this interest only keeps the watch.
        let cache = self.watched(at, Some(("", by)));
        arrived(&at.kind, &cache).await?;
        Ok(cache.list())
    }

    /// All objects of a place; from now on a change of any of them wakes whoever has asked.
    ///
    /// # Errors
    /// When they cannot be watched.
    pub async fn list_watched(
        &self,
        at: &Whereabouts,
        by: &Interested,
    ) -> Result<Vec<Arc<DynamicObject>>, WatchRefused> {
        let cache = self.watched(at, Some((ANY, by)));
        arrived(&at.kind, &cache).await?;
        Ok(cache.list())
    }

    /// The client that they are watched with.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// How many watches there are.
    pub fn count(&self) -> usize {
        self.entries.lock().len()
    }

    /// The objects of a place that have the label of the Policy.
    ///
    /// # Errors
    /// When they cannot be watched.
    pub async fn labelled(&self, at: &Whereabouts, by: &Interested) -> Result<Vec<Arc<DynamicObject>>, WatchRefused> {
        let cache = self.watched(at, Some(("", by)));
        arrived(&at.kind, &cache).await?;
        let entries = self.entries.lock();
        let Some(entry) = entries.get(at) else {
            return Ok(Vec::new());
        };
        let by_policy = entry.by_policy.lock();
        let names = by_policy.get(&by.policy).into_iter().flatten();
        Ok(names
            .filter_map(|(namespace, name)| cache.get(namespace, name))
            .collect())
    }

    /// Ends the interest in everything that was not asked for this time, and watches that nobody needs any more.
    pub fn keep_only(&self, by: &Interested, asked: &ObjectsAsked) {
        let mut entries = self.entries.lock();
        entries.retain(|at, entry| {
            let mut names = entry.names.lock();
            names.retain(|name, interested| {
                if interested.contains(by) && !asked.contains(&(at.clone(), name.clone())) {
                    interested.remove(by);
                }
                !interested.is_empty()
            });
            if names.is_empty() {
                entry.cancel.cancel();
            }
            !names.is_empty()
        });
    }

    /// The cluster that they are on, for who writes to it.
    pub fn clients(&self) -> Clients {
        Clients::cluster(self.client.clone())
    }

    /// Puts in what was written: the watch will bring it, too, and the next run may come first.
    pub fn put_written(&self, outcome: &Outcome) {
        for (step, result) in outcome.results() {
            let (Some(target), Ok(Done::Object(object))) = (step.target(), result) else {
                continue;
            };
            if target.site != Site::Cluster || object.metadata.resource_version.is_none() {
                continue;
            }
            let resource = &target.api_resource;
            let namespace = target.namespace.as_deref();
            for at in [
                Whereabouts::all(resource, namespace),
                Whereabouts::only(resource, namespace, &target.name),
            ] {
                let cache = self.entries.lock().get(&at).map(|it| it.cache.clone());
                if let Some(cache) = cache {
                    cache.put((**object).clone());
                }
            }
        }
    }

    fn watched(&self, at: &Whereabouts, interest: Option<(&str, &Interested)>) -> Cache<DynamicObject> {
        let mut fresh = None;
        let (cache, names, by_policy) = {
            let mut entries = self.entries.lock();
            let entry = entries.entry(at.clone()).or_insert_with(|| {
                let cancel = self.cancel.child_token();
                let entry = Entry {
                    cache: Cache::empty(),
                    names: Arc::default(),
                    by_policy: Arc::default(),
                    cancel: cancel.clone(),
                };
                fresh = Some(cancel);
                entry
            });
            if let Some((name, by)) = interest {
                entry
                    .names
                    .lock()
                    .entry(name.to_owned())
                    .or_default()
                    .insert(by.clone());
            }
            (entry.cache.clone(), entry.names.clone(), entry.by_policy.clone())
        };
        // Without the lock: who listens is told at once of what is there.
        if let Some(cancel) = fresh {
            let listeners = self.listeners.clone();
            cache.listen(move |old, new| {
                keep_by_policy(&by_policy, old, new);
                tell(&listeners, &names, old, new);
            });
            let api = self.api(at);
            let mut watching = Watching::default();
            if let Some(name) = &at.only {
                let field = format!("metadata.name={name}");
                watching.selection = watcher::Config::default().fields(&field);
            }
            watching.forbidden_at_first = true;
            tokio::spawn(cache.clone().feed(api, watching, cancel));
        }
        cache
    }

    fn api(&self, at: &Whereabouts) -> Api<DynamicObject> {
        let resource = at.resource();
        match &at.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), &encoded(namespace), &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

fn policy_of(object: &DynamicObject) -> Option<&str> {
    Some(object.metadata.labels.as_ref()?.get(policy::labels::POLICY)?.as_str())
}

fn keep_by_policy(by_policy: &ByPolicy, old: Option<&Arc<DynamicObject>>, new: Option<&Arc<DynamicObject>>) {
    let (before, after) = (old.and_then(|it| policy_of(it)), new.and_then(|it| policy_of(it)));
    let Some(object) = new.or(old).filter(|_| before != after) else {
        return;
    };
    let name = (object.namespace().unwrap_or_default(), object.name_any());
    let mut by_policy = by_policy.lock();
    if let Some(before) = before
        && let Some(names) = by_policy.get_mut(before)
    {
        names.remove(&name);
        if names.is_empty() {
            by_policy.remove(before);
        }
    }
    if let Some(after) = after {
        by_policy.entry(after.to_owned()).or_default().insert(name);
    }
}

fn tell(
    listeners: &RwLock<Vec<Listener>>,
    names: &Names,
    old: Option<&Arc<DynamicObject>>,
    new: Option<&Arc<DynamicObject>>,
) {
    let (old, new) = (old.map(|it| &**it), new.map(|it| &**it));
    let Some(object) = new.or(old) else { return };
    let mut interested = names.lock().get(&object.name_any()).cloned().unwrap_or_default();
    interested.extend(names.lock().get(ANY).into_iter().flatten().cloned());
    let labelled: BTreeSet<&str> = [old, new].into_iter().flatten().filter_map(policy_of).collect();
    for Listener { who, queue, relevant } in listeners.read().iter() {
        if !relevant(old, new) {
            continue;
        }
        let of_interest = interested.iter().filter(|it| it.who == *who);
        let keys: BTreeSet<&str> = of_interest
            .map(|it| it.policy.as_str())
            .chain(labelled.iter().copied())
            .collect();
        keys.into_iter().for_each(|key| queue.add(key));
    }
}
