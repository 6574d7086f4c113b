//! What agents have outside of their clusters' namespaces: found by add-on and cluster, or by add-on where the agents of all
//! clusters share it, without looking at all.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    sync::Arc,
};

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::{Resource, ResourceExt};
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, labels};
use ocm_reconcile::{
    Cache,
    install::{DROVER, MANAGED_BY},
};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;

use super::{Caches, claims, shared_permissions};

/// Namespaces and names, by what they have in common.
type Index = Arc<RwLock<HashMap<String, BTreeSet<(String, String)>>>>;

/// The bindings that single agents have outside of their clusters' namespaces.
#[derive(Clone)]
pub(super) struct Kept {
    caches: Caches,
    role_bindings: Index,
    cluster_role_bindings: Index,
}

impl Kept {
    pub(super) fn over(caches: &Caches) -> Self {
        Self {
            role_bindings: index(&caches.role_bindings, key),
            cluster_role_bindings: index(&caches.cluster_role_bindings, key),
            caches: caches.clone(),
        }
    }

    pub(super) fn role_bindings(&self, key: &str) -> Vec<Arc<RoleBinding>> {
        found(&self.caches.role_bindings, &self.role_bindings, key)
    }

    pub(super) fn cluster_role_bindings(&self, key: &str) -> Vec<Arc<ClusterRoleBinding>> {
        found(&self.caches.cluster_role_bindings, &self.cluster_role_bindings, key)
    }
}

/// What the agents of an add-on on all clusters share, and where that is.
#[derive(Clone)]
pub(super) struct Shared {
    caches: Caches,
    roles: Index,
    role_bindings: Index,
    cluster_roles: Index,
    cluster_role_bindings: Index,
    addons: Index,
}

impl Shared {
    pub(super) fn over(caches: &Caches) -> Self {
        Self {
            roles: index(&caches.roles, shared),
            role_bindings: index(&caches.role_bindings, shared),
            cluster_roles: index(&caches.cluster_roles, shared),
            cluster_role_bindings: index(&caches.cluster_role_bindings, shared),
            addons: index(&caches.addons, |it: &ManagedClusterAddOn| Some(it.name_any())),
            caches: caches.clone(),
        }
    }

    /// What they share.
    pub(super) fn of(&self, addon: &str) -> shared_permissions::Kept {
        shared_permissions::Kept {
            roles: found(&self.caches.roles, &self.roles, addon),
            role_bindings: found(&self.caches.role_bindings, &self.role_bindings, addon),
            cluster_roles: found(&self.caches.cluster_roles, &self.cluster_roles, addon),
            cluster_role_bindings: found(&self.caches.cluster_role_bindings, &self.cluster_role_bindings, addon),
        }
    }

    /// The clusters that have the add-on.
    pub(super) fn clusters_with(&self, addon: &str) -> Vec<String> {
        let names = self.addons.read();
        let names = names.get(addon).into_iter().flatten();
        names.map(|(cluster, _)| cluster.clone()).collect()
    }
}

fn shared<K: Resource>(object: &K) -> Option<String> {
    claims::shared_by(object).map(str::to_owned)
}

/// The key of an object that this SDK keeps for one agent alone.
fn key<K: Resource>(object: &K) -> Option<String> {
    let labels = object.labels();
    let (cluster, addon) = (labels.get(labels::CLUSTER_NAME)?, labels.get(labels::ADDON_NAME)?);
    (labels.get(MANAGED_BY)? == DROVER).then(|| format!("{cluster}/{addon}"))
}

fn index<K>(cache: &Cache<K>, key: fn(&K) -> Option<String>) -> Index
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let index = Index::default();
    let kept = index.clone();
    cache.listen(move |old, new| {
        let (before, after) = (old.and_then(|it| key(it)), new.and_then(|it| key(it)));
        let Some(object) = new.or(old).filter(|_| before != after) else {
            return;
        };
        let name = (object.namespace().unwrap_or_default(), object.name_any());
        let mut all = kept.write();
        if let Some(before) = before
            && let Some(names) = all.get_mut(&before)
        {
            names.remove(&name);
            if names.is_empty() {
                all.remove(&before);
            }
        }
        if let Some(after) = after {
            all.entry(after).or_default().insert(name);
        }
    });
    index
}

fn found<K>(cache: &Cache<K>, index: &Index, key: &str) -> Vec<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let names = index.read().get(key).cloned().unwrap_or_default();
    let objects = names.iter().map(|(namespace, name)| cache.get(namespace, name));
    objects.flatten().collect()
}
