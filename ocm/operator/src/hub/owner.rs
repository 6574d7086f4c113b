//! Which ClusterManager an object in a namespace belongs to, and which of two has a namespace.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use kube::{Resource, ResourceExt};
use ocm_api::operator::ClusterManager;
use ocm_reconcile::{Cache, Watches};
use serde::de::DeserializeOwned;

use super::wanted;

/// The older ClusterManager that has the same namespace, if there is one: two hubs in one namespace would take each
/// other's objects for their own.
pub fn elder(manager: &ClusterManager, all: &[Arc<ClusterManager>]) -> Option<String> {
    let age = |it: &ClusterManager| (it.metadata.creation_timestamp.clone().map(|it| it.0), it.name_any());
    let namespace = wanted::namespace(manager);
    let others = all
        .iter()
        .filter(|it| wanted::namespace(it) == namespace && age(it) < age(manager));
    others.min_by_key(|it| age(it)).map(|it| it.name_any())
}

/// Has changes of objects wake the ClusterManagers that have their namespace.
pub fn wakes<K>(watches: &mut Watches, cache: &Cache<K>, managers: &Cache<ClusterManager>)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
{
    let managers = managers.clone();
    watches.wakes(cache, move |old, new| {
        let namespace = new.or(old).and_then(|it| it.meta().namespace.clone());
        let all = managers.list();
        let of_namespace = all.iter().filter(|it| Some(wanted::namespace(it)) == namespace);
        of_namespace.map(|it| it.name_any()).collect::<Vec<_>>()
    });
}

/// Has changes of objects wake all ClusterManagers.
pub fn wakes_all<K>(watches: &mut Watches, cache: &Cache<K>, managers: &Cache<ClusterManager>)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
{
    let managers = managers.clone();
    watches.wakes(cache, move |_, _| {
        managers.list().iter().map(|it| it.name_any()).collect::<Vec<_>>()
    });
}
