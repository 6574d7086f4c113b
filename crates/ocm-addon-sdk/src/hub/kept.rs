//! The bindings that an agent has outside of its cluster's namespace: found by add-on and cluster, without looking at all.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    sync::Arc,
};

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::{Resource, ResourceExt};
use ocm_api::labels;
use ocm_reconcile::{
    Cache,
    install::{DROVER, MANAGED_BY},
};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;

use super::Caches;

/// Namespaces and names, by `cluster/add-on`.
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
            role_bindings: index(&caches.role_bindings),
            cluster_role_bindings: index(&caches.cluster_role_bindings),
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

/// The key of an object that this SDK keeps for one agent alone.
fn key<K: Resource>(object: &K) -> Option<String> {
    let labels = object.labels();
    let (cluster, addon) = (labels.get(labels::CLUSTER_NAME)?, labels.get(labels::ADDON_NAME)?);
    (labels.get(MANAGED_BY)? == DROVER).then(|| format!("{cluster}/{addon}"))
}

fn index<K>(cache: &Cache<K>) -> Index
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let index = Index::default();
    let kept = index.clone();
    cache.listen(move |old, new| {
        let (before, after) = (old.and_then(|it| key(&**it)), new.and_then(|it| key(&**it)));
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
