//! What the hub's controllers for add-ons know: one watch per kind, shared with whoever else runs in the process, and
//! indexes beside them, so that nobody goes through everything to find a little.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    sync::Arc,
};

use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{Role, RoleBinding},
};
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher};
use ocm_api::{
    addon::{
        InstallStrategyType,
        v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    },
    cluster::{ManagedCluster, Placement, PlacementDecision},
    labels,
    work::ManifestWork,
};
use ocm_reconcile::Cache;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// The watches that the controllers share with others.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Shared {
    pub clusters: Cache<ManagedCluster>,
    pub addons: Cache<ManagedClusterAddOn>,
    pub cluster_management_addons: Cache<ClusterManagementAddOn>,
    /// All works, or at least those of add-ons.
    pub works: Cache<ManifestWork>,
    pub placements: Cache<Placement>,
    pub decisions: Cache<PlacementDecision>,
}

impl Shared {
    /// Those that tie add-ons to the state of their clusters.
    pub fn of_clusters(&self) -> OfClusters {
        OfClusters {
            clusters: self.clusters.clone(),
            addons: self.addons.clone(),
        }
    }
}

/// The watches of what ties add-ons to the state of their clusters.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct OfClusters {
    pub clusters: Cache<ManagedCluster>,
    pub addons: Cache<ManagedClusterAddOn>,
}

/// All watches and the indexes.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Caches {
    pub clusters: Cache<ManagedCluster>,
    pub addons: Cache<ManagedClusterAddOn>,
    pub cluster_management_addons: Cache<ClusterManagementAddOn>,
    pub works: Cache<ManifestWork>,
    pub placements: Cache<Placement>,
    pub decisions: Cache<PlacementDecision>,
    /// Of add-ons whose agents come with a token.
    pub service_accounts: Cache<ServiceAccount>,
    /// Of add-ons whose agents come with a token.
    pub roles: Cache<Role>,
    /// Of add-ons whose agents come with a token.
    pub role_bindings: Cache<RoleBinding>,
    addons_by_name: Index,
    works_by_addon: Index,
    decisions_by_placement: Index,
}

impl Caches {
    /// Starts the watches that nobody else has, and the indexes.
    pub fn start(shared: Shared, client: &Client, cancel: &CancellationToken) -> Self {
        let ours = || watcher::Config::default().labels(&format!("{}=true", labels::ADDON_TOKEN_INFRASTRUCTURE));
        Self::over(
            shared,
            Cache::start_with(Api::all(client.clone()), ours(), cancel.clone()),
            Cache::start_with(Api::all(client.clone()), ours(), cancel.clone()),
            Cache::start_with(Api::all(client.clone()), ours(), cancel.clone()),
        )
    }

    /// The same over watches that exist already.
    pub fn over(
        shared: Shared,
        service_accounts: Cache<ServiceAccount>,
        roles: Cache<Role>,
        role_bindings: Cache<RoleBinding>,
    ) -> Self {
        let addons_by_name = Index::over(&shared.addons, |it| it.metadata.name.clone());
        let works_by_addon = Index::over(&shared.works, addon_of);
        let decisions_by_placement = Index::over(&shared.decisions, placement_of);
        Self {
            clusters: shared.clusters,
            addons: shared.addons,
            cluster_management_addons: shared.cluster_management_addons,
            works: shared.works,
            placements: shared.placements,
            decisions: shared.decisions,
            service_accounts,
            roles,
            role_bindings,
            addons_by_name,
            works_by_addon,
            decisions_by_placement,
        }
    }

    /// The add-ons of one name on all clusters, by cluster.
    pub fn addons_named(&self, name: &str) -> Vec<Arc<ManagedClusterAddOn>> {
        self.addons_by_name.objects(&self.addons, name)
    }

    /// The keys of the add-ons of one name on all clusters.
    pub fn addon_keys(&self, name: &str) -> Vec<String> {
        let names = self.addons_by_name.names(name);
        names
            .into_iter()
            .map(|(cluster, name)| format!("{cluster}/{name}"))
            .collect()
    }

    /// The works of an add-on on a cluster, hosted ones included, by namespace and name.
    pub fn works_of(&self, cluster: &str, addon: &str) -> Vec<Arc<ManifestWork>> {
        self.works_by_addon.objects(&self.works, &format!("{cluster}/{addon}"))
    }

    /// The decisions of a placement, by name.
    pub fn decisions_of(&self, namespace: &str, placement: &str) -> Vec<Arc<PlacementDecision>> {
        self.decisions_by_placement
            .objects(&self.decisions, &format!("{namespace}/{placement}"))
    }

    /// The names of the ClusterManagementAddOns that are installed through a placement.
    pub fn installed_through(&self, namespace: &str, placement: &str) -> Vec<String> {
        let all = self.cluster_management_addons.list();
        let named = all.iter().filter(|it| {
            let strategy = &it.spec.install_strategy;
            strategy.r#type == InstallStrategyType::Placements
                && strategy
                    .placements
                    .iter()
                    .any(|it| it.namespace == namespace && it.name == placement)
        });
        named.map(|it| it.name_any()).collect()
    }
}

/// `cluster/add-on` of a work of an add-on.
pub fn addon_of(work: &ManifestWork) -> Option<String> {
    let labels = work.metadata.labels.as_ref()?;
    let addon = labels.get(labels::ADDON_NAME)?;
    let cluster = labels
        .get(labels::ADDON_NAMESPACE)
        .or(work.metadata.namespace.as_ref())?;
    Some(format!("{cluster}/{addon}"))
}

/// `namespace/name` of a decision's placement.
pub fn placement_of(decision: &PlacementDecision) -> Option<String> {
    let placement = decision.metadata.labels.as_ref()?.get(labels::PLACEMENT)?;
    Some(format!("{}/{placement}", decision.metadata.namespace.as_deref()?))
}

type Name = (String, String);

/// Which objects of a cache have something in common, by that. It keeps names only: the cache says what the objects are.
#[derive(Clone, Default)]
struct Index {
    names: Arc<RwLock<HashMap<String, BTreeSet<Name>>>>,
}

impl Index {
    fn over<K>(cache: &Cache<K>, shared: impl Fn(&K) -> Option<String> + Send + Sync + 'static) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let index = Self::default();
        let names = index.names.clone();
        cache.listen(move |old, new| {
            let before = old.and_then(|it| Some((shared(it)?, name(&**it))));
            let after = new.and_then(|it| Some((shared(it)?, name(&**it))));
            if before == after {
                return;
            }
            let mut names = names.write();
            if let Some((key, name)) = before
                && let Some(set) = names.get_mut(&key)
            {
                set.remove(&name);
                if set.is_empty() {
                    names.remove(&key);
                }
            }
            if let Some((key, name)) = after {
                names.entry(key).or_default().insert(name);
            }
        });
        index
    }

    fn names(&self, of: &str) -> Vec<Name> {
        self.names.read().get(of).into_iter().flatten().cloned().collect()
    }

    fn objects<K>(&self, cache: &Cache<K>, of: &str) -> Vec<Arc<K>>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let names = self.names.read();
        let found = names.get(of).into_iter().flatten();
        found
            .filter_map(|(namespace, name)| cache.get(namespace, name))
            .collect()
    }
}

fn name<K: Resource>(object: &K) -> Name {
    let meta = object.meta();
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(namespace: &str, name: &str, labels: serde_json::Value) -> ManifestWork {
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}})).unwrap()
    }

    #[test]
    fn works_are_found_by_cluster_and_add_on_wherever_they_are_hosted() {
        let works = Cache::holding([
            work("cluster1", "addon-a-deploy-0", json!({labels::ADDON_NAME: "a"})),
            work("cluster10", "addon-a-deploy-0", json!({labels::ADDON_NAME: "a"})),
            work(
                "host",
                "hosted",
                json!({labels::ADDON_NAME: "a", labels::ADDON_NAMESPACE: "cluster1"}),
            ),
            work("cluster1", "mine", json!({})),
        ]);
        let index = Index::over(&works, addon_of);
        let found: Vec<_> = index
            .objects(&works, "cluster1/a")
            .iter()
            .map(|it| it.name_any())
            .collect();
        assert_eq!(found, ["addon-a-deploy-0", "hosted"]);
        works.put(work("cluster1", "addon-a-deploy-0", json!({})));
        assert_eq!(index.objects(&works, "cluster1/a").len(), 1);
    }
}
