//! Configuration objects of whatever kinds add-ons understand: watched on demand, hashed once,
//! and found by who uses them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use kube::{Api, Client, Resource, api::DynamicObject, core::ApiResource};
use ocm_api::addon::{
    ConfigSpecHash,
    v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
};
use ocm_reconcile::{
    Cache, Caches, Watches,
    cache::{self, Watching},
};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use crate::{ConfigKind, spec_hash};

/// Names one configuration object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConfigKey {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name of its resource.
    pub resource: String,
    /// Its namespace; empty when it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ConfigKey {
    /// The object of this group and resource of which this state is meant.
    pub(super) fn of(group: &str, resource: &str, desired: &ConfigSpecHash) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: desired.namespace.clone(),
            name: desired.name.clone(),
        }
    }
}

/// What is known of a configuration object.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// Nothing yet: its kind is not watched, or the first list has not arrived.
    Unknown,
    /// There is none.
    Missing,
    /// It and its hash.
    Found(Arc<DynamicObject>, String),
}

/// What wakes a reconciler when one of them changes.
pub(super) const CONFIGURATIONS: &str = "configurations of add-ons";

/// The configuration objects on the hub. Cloning shares them.
#[derive(Clone)]
pub struct Configs {
    inner: Arc<Inner>,
}

struct Inner {
    client: Option<Client>,
    cancel: CancellationToken,
    kinds: RwLock<BTreeMap<ConfigKind, Arc<Kind>>>,
    listeners: RwLock<Vec<Listener>>,
    used_by_addons: Arc<Users>,
    used_by_management: Arc<Users>,
}

type Listener = Box<dyn Fn(&Change) + Send + Sync>;

enum Change {
    Object(ConfigKey),
    /// The first list of a kind has arrived: what was unknown is known now.
    Kind(String, String),
}

struct Kind {
    cache: Cache<DynamicObject>,
    // By namespace and name.
    hashes: Arc<Mutex<HashMap<Name, Hashed>>>,
    past: Arc<Past>,
}

/// The former states of objects that somebody uses, newest first: clusters whose turn
/// in a rollout has not come still have them.
#[derive(Default)]
struct Past {
    states: Mutex<HashMap<Name, VecDeque<State>>>,
}

/// A hash and what has it.
type State = (String, Arc<DynamicObject>);

/// How many former states of an object are kept. More are on their way to clusters at once only when somebody changes a
/// configuration faster than it is rolled out; the clusters that are so far behind stay as they are.
const PAST_MAX: usize = 4;

impl Past {
    fn push(&self, name: Name, hash: String, object: Arc<DynamicObject>) {
        let mut all = self.states.lock();
        let states = all.entry(name).or_default();
        states.retain(|(it, _)| *it != hash);
        states.truncate(PAST_MAX - 1);
        states.push_front((hash, object));
    }

    fn get(&self, name: &Name, hash: &str) -> Option<Arc<DynamicObject>> {
        let all = self.states.lock();
        let mut states = all.get(name).into_iter().flatten();
        states.find(|(it, _)| it == hash).map(|(_, object)| object.clone())
    }

    fn forget(&self, name: &Name) {
        self.states.lock().remove(name);
    }
}

type Name = (String, String);

struct Hashed {
    resource_version: Option<String>,
    hash: String,
}

impl Hashed {
    fn is_of(&self, object: &DynamicObject) -> bool {
        self.resource_version == object.metadata.resource_version
    }
}

fn name_of(object: &DynamicObject) -> Name {
    (
        object.metadata.namespace.clone().unwrap_or_default(),
        object.metadata.name.clone().unwrap_or_default(),
    )
}

impl Configs {
    /// Those beside these caches. They watch no kind before somebody asks for it.
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|caches| Self {
            inner: Arc::new(Inner {
                client: caches.client().cloned(),
                cancel: caches.cancel_token().clone(),
                kinds: RwLock::default(),
                listeners: RwLock::default(),
                used_by_addons: Users::of(&caches.of(), of_addon),
                used_by_management: Users::of(&caches.of(), of_management),
            }),
        })
    }

    /// Watches a kind from now on, unless it is watched already.
    pub fn watch(&self, kind: &ConfigKind) {
        let (Some(cache), Some(client)) = (self.prepare(kind, Cache::empty()), self.inner.client.clone()) else {
            return;
        };
        let resource = ApiResource {
            group: kind.group.clone(),
            version: kind.version.clone(),
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            plural: kind.resource.clone(),
        };
        let api = Api::all_with(client, &resource);
        let feeding = cache.clone().feed(api, Watching::default(), self.inner.cancel.clone());
        tokio::spawn(feeding.instrument(info_span!("watch", kind = %kind.kind)));
        let (this, of, cancel) = (self.inner.clone(), kind.clone(), self.inner.cancel.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = cache.synced() => this.announce(&Change::Kind(of.group, of.resource)),
                () = cancel.cancelled() => {}
            }
        });
    }

    // These objects of a kind, as if a watch had just listed them.
    #[cfg(test)]
    pub(super) fn hold(&self, kind: &ConfigKind, objects: impl IntoIterator<Item = DynamicObject>) {
        self.prepare(kind, Cache::holding(objects));
        let arrived = Change::Kind(kind.group.clone(), kind.resource.clone());
        self.inner.announce(&arrived);
    }

    // Takes in a kind with the cache of its objects, unless there is one already.
    fn prepare(&self, kind: &ConfigKind, cache: Cache<DynamicObject>) -> Option<Cache<DynamicObject>> {
        if self.inner.kinds.read().contains_key(kind) {
            return None;
        }
        let hashes = Arc::<Mutex<HashMap<Name, Hashed>>>::default();
        let past = Arc::<Past>::default();
        let entry = Arc::new(Kind {
            cache: cache.clone(),
            hashes: hashes.clone(),
            past: past.clone(),
        });
        {
            let mut kinds = self.inner.kinds.write();
            if kinds.contains_key(kind) {
                return None;
            }
            kinds.insert(kind.clone(), entry);
        }
        // Weak, because the cache is one of those that the other end holds.
        let (this, of) = (Arc::downgrade(&self.inner), kind.clone());
        cache.listen(move |old, new| {
            let (Some(object), Some(this)) = (new.or(old), this.upgrade()) else {
                return;
            };
            let (namespace, name) = name_of(object);
            match (old, new) {
                (_, None) => {
                    let key = (namespace.clone(), name.clone());
                    hashes.lock().remove(&key);
                    past.forget(&key);
                }
                (Some(old), Some(new)) if old.data != new.data => {
                    let key = (namespace.clone(), name.clone());
                    // One whose hash was never asked for is nobody's configuration.
                    let known = hashes.lock().get(&key).map(|it| it.is_of(old).then(|| it.hash.clone()));
                    if let Some(hash) = known {
                        let hash = hash.unwrap_or_else(|| spec_hash::of(&old.data));
                        past.push(key, hash, old.clone());
                    }
                }
                _ => {}
            }
            this.announce(&Change::Object(ConfigKey {
                group: of.group.clone(),
                resource: of.resource.clone(),
                namespace,
                name,
            }));
        });
        Some(cache)
    }

    /// The object of a kind by namespace (empty when it has none) and name.
    pub fn find(&self, kind: &ConfigKind, namespace: &str, name: &str) -> Lookup {
        let entry = self.inner.kinds.read().get(kind).cloned();
        let Some(entry) = entry.filter(|it| it.cache.is_synced()) else {
            return Lookup::Unknown;
        };
        match entry.cache.get(namespace, name) {
            Some(object) => {
                let hash = entry.hash(&object);
                Lookup::Found(object, hash)
            }
            None => Lookup::Missing,
        }
    }

    /// The object of a kind that is meant: in the state that is meant if that is still known, else as it is now.
    pub fn state(&self, kind: &ConfigKind, meant: &ConfigSpecHash) -> Lookup {
        let now = self.find(kind, &meant.namespace, &meant.name);
        let Lookup::Found(_, hash) = &now else {
            return now;
        };
        if *hash == meant.spec_hash {
            return now;
        }
        let entry = self.inner.kinds.read().get(kind).cloned();
        let name = (meant.namespace.clone(), meant.name.clone());
        match entry.and_then(|it| it.past.get(&name, &meant.spec_hash)) {
            Some(object) => Lookup::Found(object, meant.spec_hash.clone()),
            None => now,
        }
    }

    /// Calls `listener` with the key (`cluster/add-on`) of every ManagedClusterAddOn that uses an object that changed.
    pub fn listen_for_addons(&self, listener: impl Fn(String) + Send + Sync + 'static) {
        self.listen(self.inner.used_by_addons.clone(), listener);
    }

    /// Calls `listener` with the name of every ClusterManagementAddOn that uses an object that changed.
    pub fn listen_for_management(&self, listener: impl Fn(String) + Send + Sync + 'static) {
        self.listen(self.inner.used_by_management.clone(), listener);
    }

    /// Has a change of an object wake the ManagedClusterAddOns that use it.
    pub(super) fn watches_of_addons(&self, watches: &mut Watches) {
        let this = self.clone();
        watches.signal(CONFIGURATIONS, move |queue| {
            let queue = queue.clone();
            this.listen_for_addons(move |key| queue.add(key));
        });
    }

    /// Has a change of an object wake the ClusterManagementAddOns that use it.
    pub(super) fn watches_of_management(&self, watches: &mut Watches) {
        let this = self.clone();
        watches.signal(CONFIGURATIONS, move |queue| {
            let queue = queue.clone();
            this.listen_for_management(move |name| queue.add(name));
        });
    }

    fn listen(&self, users: Arc<Users>, listener: impl Fn(String) + Send + Sync + 'static) {
        let listener = move |change: &Change| users.of_change(change).into_iter().for_each(&listener);
        self.inner.listeners.write().push(Box::new(listener));
    }
}

impl Inner {
    fn announce(&self, change: &Change) {
        self.listeners.read().iter().for_each(|listener| listener(change));
    }
}

impl Kind {
    fn hash(&self, object: &DynamicObject) -> String {
        let version = &object.metadata.resource_version;
        let mut hashes = self.hashes.lock();
        let name = name_of(object);
        if let Some(known) = hashes.get(&name).filter(|it| it.is_of(object)) {
            return known.hash.clone();
        }
        let hash = spec_hash::of(&object.data);
        let hashed = Hashed {
            resource_version: version.clone(),
            hash: hash.clone(),
        };
        hashes.insert(name, hashed);
        hash
    }
}

/// Who uses which object.
#[derive(Default)]
struct Users {
    by_config: RwLock<BTreeMap<ConfigKey, BTreeSet<String>>>,
}

impl Users {
    fn of<K>(cache: &Cache<K>, uses: fn(&K) -> BTreeSet<ConfigKey>) -> Arc<Self>
    where
        K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    {
        let users = Arc::new(Self::default());
        let kept = users.clone();
        cache.listen(move |old, new| {
            let Some(user) = new.or(old) else { return };
            let set = |it: Option<&Arc<K>>| it.map(|it| uses(it)).unwrap_or_default();
            kept.moved(&cache::key_of(&**user), &set(old), &set(new));
        });
        users
    }

    fn moved(&self, user: &str, old: &BTreeSet<ConfigKey>, new: &BTreeSet<ConfigKey>) {
        if old == new {
            return;
        }
        let mut all = self.by_config.write();
        for gone in old.difference(new) {
            if let Some(users) = all.get_mut(gone) {
                users.remove(user);
                if users.is_empty() {
                    all.remove(gone);
                }
            }
        }
        for added in new.difference(old) {
            all.entry(added.clone()).or_default().insert(user.to_owned());
        }
    }

    fn of_change(&self, change: &Change) -> BTreeSet<String> {
        let all = self.by_config.read();
        match change {
            Change::Object(key) => all.get(key).cloned().unwrap_or_default(),
            Change::Kind(group, resource) => all
                .iter()
                .filter(|(key, _)| key.group == *group && key.resource == *resource)
                .flat_map(|(_, users)| users.iter().cloned())
                .collect(),
        }
    }
}

fn of_addon(addon: &ManagedClusterAddOn) -> BTreeSet<ConfigKey> {
    let own = addon.spec.configs.iter().map(|it| ConfigKey {
        group: it.group.clone(),
        resource: it.resource.clone(),
        namespace: it.namespace.clone(),
        name: it.name.clone(),
    });
    let references = addon.status.iter().flat_map(|it| &it.config_references);
    let given = references.filter_map(|it| {
        let desired = it.desired_config.as_ref()?;
        Some(ConfigKey::of(&it.group, &it.resource, desired))
    });
    own.chain(given).collect()
}

fn of_management(management: &ClusterManagementAddOn) -> BTreeSet<ConfigKey> {
    let status = management.status.iter();
    let defaults = status.clone().flat_map(|it| &it.default_config_references);
    let defaults = defaults.filter_map(|it| Some(ConfigKey::of(&it.group, &it.resource, it.desired_config.as_ref()?)));
    let placements = status.flat_map(|it| &it.install_progressions);
    let placements = placements.flat_map(|it| &it.config_references);
    let placements =
        placements.filter_map(|it| Some(ConfigKey::of(&it.group, &it.resource, it.desired_config.as_ref()?)));
    defaults.chain(placements).collect()
}

#[cfg(test)]
mod tests {
    use ocm_api::addon::{AddOnConfig, v1alpha1::ConfigReference};

    use super::*;

    fn addon(own: &str, given: &str) -> ManagedClusterAddOn {
        let mut addon = ManagedClusterAddOn::new("helloworld", Default::default());
        addon.metadata.namespace = Some("cluster1".to_owned());
        addon.spec.configs.push(AddOnConfig {
            resource: "configmaps".to_owned(),
            namespace: "default".to_owned(),
            name: own.to_owned(),
            ..AddOnConfig::default()
        });
        let status = addon.status.get_or_insert_default();
        status.config_references.push(ConfigReference {
            resource: "configmaps".to_owned(),
            desired_config: Some(ConfigSpecHash {
                namespace: "default".to_owned(),
                name: given.to_owned(),
                spec_hash: String::new(),
            }),
            ..ConfigReference::default()
        });
        addon
    }

    fn of(users: &Users, name: &str) -> Vec<String> {
        let change = Change::Object(ConfigKey {
            group: String::new(),
            resource: "configmaps".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        });
        users.of_change(&change).into_iter().collect()
    }

    #[test]
    fn the_intended_configuration_state_is_found_after_later_changes() {
        let kind = ConfigKind::of::<k8s_openapi::api::core::v1::ConfigMap>();
        let configs = Configs::of(&Caches::unfed());
        let map = |value: &str| -> DynamicObject {
            let version = value.len().to_string();
            let metadata = serde_json::json!({"namespace": "default", "name": "a", "resourceVersion": version});
            serde_json::from_value(serde_json::json!({"metadata": metadata, "data": {"k": value}})).unwrap()
        };
        configs.hold(&kind, [map("x")]);
        let meant = |value: &str| ConfigSpecHash {
            namespace: "default".to_owned(),
            name: "a".to_owned(),
            spec_hash: spec_hash::of(&map(value).data),
        };
        let found = |value: &str| match configs.state(&kind, &meant(value)) {
            Lookup::Found(object, hash) => {
                assert_eq!(hash, spec_hash::of(&object.data));
                object.data["data"]["k"].as_str().unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(found("x"), "x");
        let put = |value: &str| configs.inner.kinds.read()[&kind].cache.put(map(value));
        put("xx");
        assert_eq!((found("x"), found("xx")), ("x".to_owned(), "xx".to_owned()));
        // Who is further behind than anybody remembers is told what there is now, which is not what is meant.
        for length in 3..4 + PAST_MAX {
            put(&"x".repeat(length));
            found(&"x".repeat(length));
        }
        assert_eq!(found("x"), "x".repeat(3 + PAST_MAX));
        assert_eq!(found("xxxx"), "xxxx");
    }

    #[test]
    fn who_uses_an_object_is_known_without_looking_at_everybody() {
        let cache = Cache::holding([addon("a", "b")]);
        let users = Users::of(&cache, of_addon);
        assert_eq!(of(&users, "a"), ["cluster1/helloworld"]);
        assert_eq!(of(&users, "b"), ["cluster1/helloworld"]);
        cache.put(addon("c", "b"));
        assert!(of(&users, "a").is_empty());
        assert_eq!(of(&users, "c"), ["cluster1/helloworld"]);
        let kind = Change::Kind(String::new(), "configmaps".to_owned());
        assert_eq!(users.of_change(&kind).len(), 1);
    }
}
