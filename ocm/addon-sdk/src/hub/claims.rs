//! Which of the RBAC objects that the agents of all clusters share is asked for by which cluster.
//!
//! Who registers an add-on on a cluster says here what that cluster asks for, before it makes it. What nobody asks for
//! any more is then known without going through the answers of an add-on for all its clusters again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use ocm_api::{
    addon::{GROUP, v1alpha1::ClusterManagementAddOn},
    labels,
};
use ocm_reconcile::{
    Queue,
    cache::split_key,
    install::{DROVER, MANAGED_BY},
};
use parking_lot::{Mutex, RwLock};

use super::{
    Look,
    rbac::RbacObjects,
    registration::{Permissions, Seen},
};

/// Names one object that clusters share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty when it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a cluster asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// That cannot be told at present; it may ask for anything.
    Unknown,
    /// These.
    Known(Arc<BTreeSet<Name>>),
}

/// The claims of all clusters. Cloning shares them.
#[derive(Clone, Default)]
pub struct Claims {
    // By add-on and cluster.
    all: Arc<Mutex<HashMap<String, BTreeMap<String, Claim>>>>,
    // Add-ons that somebody answered for once.
    retired: Arc<Mutex<BTreeSet<String>>>,
    // Queues whose keys are names of add-ons.
    listeners: Arc<RwLock<Vec<Queue>>>,
}

impl Name {
    /// The name of an object.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self {
            kind: K::kind(&()).into_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }
}

/// The add-on whose clusters share this object, which this SDK has made: one that somebody else has made, and one that
/// a single cluster has, is none of those.
pub fn shared_by<K: Resource>(object: &K) -> Option<&str> {
    let labels = object.labels();
    let addon = labels.get(labels::ADDON_NAME)?;
    let is_ours = labels.get(MANAGED_BY).is_some_and(|it| it == DROVER);
    let of_cluster = labels.contains_key(labels::CLUSTER_NAME);
    let is_owner = |it: &OwnerReference| {
        it.kind == ClusterManagementAddOn::KIND && it.api_version.split('/').next() == Some(GROUP) && it.name == *addon
    };
    (is_ours && !of_cluster && object.owner_references().iter().any(is_owner)).then_some(addon)
}

/// Those of an agent's objects that it shares with the agents of other clusters.
pub fn shared(objects: &RbacObjects) -> BTreeSet<Name> {
    fn of<K: Resource<DynamicType = ()>>(all: &[K]) -> impl Iterator<Item = Name> + '_ {
        all.iter().filter(|it| shared_by(*it).is_some()).map(Name::of)
    }
    of(&objects.roles)
        .chain(of(&objects.role_bindings))
        .chain(of(&objects.cluster_roles))
        .chain(of(&objects.cluster_role_bindings))
        .collect()
}

impl Claims {
    /// Adds to `queue` the name of every add-on of which a cluster asks for something else than before.
    pub fn subscribe(&self, queue: &Queue) {
        self.listeners.write().push(queue.clone());
    }

    /// The cluster of a key asks for what its registration comes to. `asks_for_nothing` is what is known where the
    /// add-on is none of this process.
    pub(super) fn follow(&self, seen: &Seen, asks_for_nothing: Option<bool>) {
        let key = &seen.key;
        match (&seen.look, seen.decision().map(|it| &it.permissions)) {
            (Look::Gone, _) => self.drop(key),
            (Look::NotOurs, _) => match asks_for_nothing {
                Some(true) => self.say(key, BTreeSet::new()),
                Some(false) => self.doubt(key),
                None => {}
            },
            (Look::Here(_), Some(Permissions::None)) => self.say(key, BTreeSet::new()),
            (Look::Here(_), Some(Permissions::Granted(objects) | Permissions::Pending(objects))) => {
                self.say(key, shared(objects));
            }
            (Look::Here(_), Some(Permissions::Refused(_) | Permissions::Held(_)) | None) | (Look::Waits(_), _) => {
                self.doubt(key);
            }
        }
    }

    /// Nobody knows what the cluster of this key `cluster/add-on` asks for.
    pub fn doubt(&self, key: &str) {
        self.set(key, Claim::Unknown);
    }

    /// The cluster of this key asks for these and nothing else.
    pub fn say(&self, key: &str, names: BTreeSet<Name>) {
        let (_, addon) = split_key(key);
        let known = {
            let all = self.all.lock();
            let others = all.get(addon).into_iter().flat_map(BTreeMap::values);
            // Mostly all clusters ask for the same, and one set serves them all.
            let mut same = others.filter_map(|it| match it {
                Claim::Known(other) if **other == names => Some(other.clone()),
                _ => None,
            });
            same.next()
        };
        self.set(key, Claim::Known(known.unwrap_or_else(|| Arc::new(names))));
    }

    fn set(&self, key: &str, claim: Claim) {
        let (cluster, addon) = split_key(key);
        let before = {
            let mut all = self.all.lock();
            let clusters = all.entry(addon.to_owned()).or_default();
            clusters.insert(cluster.to_owned(), claim.clone())
        };
        if before.as_ref() != Some(&claim) {
            self.tell(addon);
        }
    }

    /// The cluster of this key has the add-on no more.
    pub fn drop(&self, key: &str) {
        let (cluster, addon) = split_key(key);
        let dropped = {
            let mut all = self.all.lock();
            let clusters = all.get_mut(addon);
            let dropped = clusters.and_then(|it| it.remove(cluster));
            if all.get(addon).is_some_and(BTreeMap::is_empty) {
                all.remove(addon);
            }
            dropped
        };
        if dropped.is_some() {
            self.tell(addon);
        }
    }

    /// Nobody answers for this add-on any more.
    pub fn retire(&self, addon: &str) {
        self.all.lock().remove(addon);
        self.retired.lock().insert(addon.to_owned());
        self.tell(addon);
    }

    /// Whether somebody answered for this add-on once. What its last cluster shared with others may still be there.
    pub fn is_retired(&self, addon: &str) -> bool {
        self.retired.lock().contains(addon)
    }

    /// What each cluster asks for of an add-on.
    pub fn of(&self, addon: &str) -> BTreeMap<String, Claim> {
        self.all.lock().get(addon).cloned().unwrap_or_default()
    }

    /// A cluster that asks for this object of an add-on.
    pub fn claimant(&self, addon: &str, name: &Name) -> Option<String> {
        let all = self.all.lock();
        let mut clusters = all.get(addon).into_iter().flatten();
        let found = clusters.find(|(_, it)| matches!(it, Claim::Known(names) if names.contains(name)));
        found.map(|(cluster, _)| cluster.clone())
    }

    fn tell(&self, addon: &str) {
        self.listeners.read().iter().for_each(|queue| queue.add(addon));
    }
}
