//! The works of each add-on on each cluster, found without looking at any other work; and whom a change of a work,
//! or of a hosting cluster, wakes.

use std::{collections::BTreeSet, sync::Arc};

use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, cluster::ManagedCluster, labels, work::ManifestWork};
use ocm_reconcile::{Cache, Caches, Index};

use super::names;
use crate::hub::Registry;

/// The works of add-ons, beside the caches of a process.
#[derive(Clone)]
pub struct AddOnWorks(pub Cache<ManifestWork>);

impl AddOnWorks {
    /// Those of these caches: the works with the label of add-ons, unless they [have all](Self::among_all).
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|caches| Self(caches.labelled(labels::ADDON_NAME)))
    }

    /// The same for a process that watches all works anyway, which says so before a manager of add-ons starts.
    pub fn among_all(caches: &Caches) -> Self {
        caches.beside(|caches| Self(caches.of()))
    }
}

/// Which works each add-on has. Cloning shares it.
#[derive(Clone)]
pub struct WorkIndex(Index<ManifestWork>);

impl WorkIndex {
    /// An index of what is in this cache, kept with it. Make it before subscribing to the cache,
    /// so that it is told first.
    pub fn over(works: &Cache<ManifestWork>) -> Self {
        Self(Index::over(works, key_of_addon))
    }

    /// The works of an add-on for a cluster, wherever they are, by namespace and name.
    pub fn of(&self, cluster: &str, addon: &str) -> Vec<Arc<ManifestWork>> {
        self.0.objects(&format!("{cluster}/{addon}"))
    }
}

// `cluster/add-on` of the add-on that a work is for.
fn key_of_addon(work: &ManifestWork) -> Option<String> {
    let names = names::belongs_to(work)?;
    names.part(work.metadata.name.as_deref()?)?;
    Some(format!("{}/{}", names.cluster, names.addon))
}

/// The keys of the registered add-ons that a change of a work concerns: two, when it was given to another add-on.
pub(super) fn keys_of_work(
    registry: &Registry,
) -> impl Fn(Option<&ManifestWork>, Option<&ManifestWork>) -> BTreeSet<String> + Send + Sync + use<> {
    let registry = registry.clone();
    move |old, new| {
        let both = [old, new].into_iter().flatten();
        let keys = both.filter_map(|work| {
            let is_ours = names::belongs_to(work).is_some_and(|it| registry.contains(it.addon));
            key_of_addon(work).filter(|_| is_ours)
        });
        keys.collect()
    }
}

/// The keys of the add-ons that a cluster hosts, when it comes or goes: nothing else of it matters to them.
pub(super) fn keys_on_hosting_cluster(
    hosted: &Index<ManagedClusterAddOn>,
) -> impl Fn(Option<&ManagedCluster>, Option<&ManagedCluster>) -> Vec<String> + Send + Sync + use<> {
    let hosted = hosted.clone();
    move |old, new| {
        let is_leaving = |it: Option<&ManagedCluster>| it.map(|it| it.metadata.deletion_timestamp.is_some());
        let name = new.or(old).and_then(|it| it.metadata.name.as_deref());
        let Some(name) = name.filter(|_| is_leaving(old) != is_leaving(new)) else {
            return Vec::new();
        };
        let names = hosted.names(name).into_iter();
        names.map(|(cluster, addon)| format!("{cluster}/{addon}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(namespace: &str, name: &str, labels: &serde_json::Value) -> ManifestWork {
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}})).unwrap()
    }

    fn found(index: &WorkIndex, cluster: &str, addon: &str) -> Vec<String> {
        let name = |it: &Arc<ManifestWork>| {
            format!(
                "{}/{}",
                it.metadata.namespace.as_deref().unwrap_or_default(),
                it.metadata.name.as_deref().unwrap_or_default()
            )
        };
        index.of(cluster, addon).iter().map(name).collect()
    }

    #[test]
    fn an_add_on_finds_exactly_its_managed_and_hosted_works() {
        let a = json!({"open-cluster-management.io/addon-name": "a"});
        let hosted = json!({
            "open-cluster-management.io/addon-name": "a", "open-cluster-management.io/addon-namespace": "cluster1"
        });
        let works = Cache::holding([
            work("cluster1", "addon-a-deploy-0", &a),
            work("cluster10", "addon-a-deploy-0", &a),
            work("hosting", "addon-a-deploy-hosting-cluster1-0", &hosted),
            work("cluster1", "addon-a-deploy-1", &json!({})),
            work("cluster1", "made-by-hand", &a),
        ]);
        let index = WorkIndex::over(&works);
        assert_eq!(
            found(&index, "cluster1", "a"),
            ["cluster1/addon-a-deploy-0", "hosting/addon-a-deploy-hosting-cluster1-0"]
        );
        assert_eq!(found(&index, "cluster10", "a"), ["cluster10/addon-a-deploy-0"]);
        works.put(work("cluster1", "addon-a-deploy-2", &a));
        works.put(work("cluster1", "addon-a-deploy-0", &json!({})));
        assert_eq!(
            found(&index, "cluster1", "a"),
            ["cluster1/addon-a-deploy-2", "hosting/addon-a-deploy-hosting-cluster1-0"]
        );
    }
}
