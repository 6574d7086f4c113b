//! One watch per kind, shared by all hub controllers of registration and by whoever else runs in the process.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        certificates::v1::CertificateSigningRequest,
        coordination::v1::Lease,
        core::v1::Namespace,
        rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding},
    },
};
use kube::{Api, Client, Resource, ResourceExt, runtime::watcher};
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding},
    labels,
};
use ocm_reconcile::Cache;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

/// The caches. Everything but clusters and sets is watched by the cluster-name label only, so that the hub does not hold
/// what other people keep on it.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Caches {
    pub clusters: Cache<ManagedCluster>,
    pub sets: Cache<ManagedClusterSet>,
    pub set_bindings: Cache<ManagedClusterSetBinding>,
    /// Requests for clusters, not for add-ons.
    pub requests: Cache<CertificateSigningRequest>,
    pub leases: Cache<Lease>,
    pub namespaces: Cache<Namespace>,
    pub cluster_roles: Cache<ClusterRole>,
    pub cluster_role_bindings: Cache<ClusterRoleBinding>,
    pub role_bindings: Cache<RoleBinding>,
    requests_by_cluster: RequestsByCluster,
}

/// The names of a cluster's requests: of thousands it has a few.
type RequestsByCluster = Arc<RwLock<HashMap<String, BTreeSet<String>>>>;

/// Watches that others in the process read too.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Shared {
    pub clusters: Cache<ManagedCluster>,
    pub sets: Cache<ManagedClusterSet>,
    pub set_bindings: Cache<ManagedClusterSetBinding>,
}

impl Caches {
    /// Starts all watches.
    pub fn start(client: &Client, cancel: &CancellationToken) -> Self {
        let shared = Shared {
            clusters: Cache::start(Api::all(client.clone()), cancel.clone()),
            sets: Cache::start(Api::all(client.clone()), cancel.clone()),
            set_bindings: Cache::start(Api::all(client.clone()), cancel.clone()),
        };
        Self::start_with(shared, client, cancel)
    }

    /// Takes what is shared, and starts the watches that nobody else needs.
    pub fn start_with(shared: Shared, client: &Client, cancel: &CancellationToken) -> Self {
        let labelled = || watcher::Config::default().labels(labels::CLUSTER_NAME);
        let of_clusters =
            watcher::Config::default().labels(&format!("{},!{}", labels::CLUSTER_NAME, labels::ADDON_NAME));
        let requests = Cache::start_with(Api::all(client.clone()), of_clusters, cancel.clone());
        Self {
            clusters: shared.clusters,
            sets: shared.sets,
            set_bindings: shared.set_bindings,
            requests_by_cluster: by_cluster(&requests),
            requests,
            leases: Cache::start_with(Api::all(client.clone()), labelled(), cancel.clone()),
            namespaces: Cache::start_with(Api::all(client.clone()), labelled(), cancel.clone()),
            cluster_roles: Cache::start_with(Api::all(client.clone()), labelled(), cancel.clone()),
            cluster_role_bindings: Cache::start_with(Api::all(client.clone()), labelled(), cancel.clone()),
            role_bindings: Cache::start_with(Api::all(client.clone()), labelled(), cancel.clone()),
        }
    }

    /// The requests of a cluster, as far as their labels tell.
    pub(super) fn requests_of(&self, cluster: &str) -> Vec<Arc<CertificateSigningRequest>> {
        let by_cluster = self.requests_by_cluster.read();
        let names = by_cluster.get(cluster).into_iter().flatten();
        names.filter_map(|it| self.requests.named(it)).collect()
    }

    /// Ends when all of them have arrived.
    pub async fn synced(&self) {
        self.clusters.synced().await;
        self.sets.synced().await;
        self.set_bindings.synced().await;
        self.requests.synced().await;
        self.leases.synced().await;
        self.namespaces.synced().await;
        self.cluster_roles.synced().await;
        self.cluster_role_bindings.synced().await;
        self.role_bindings.synced().await;
    }
}

fn by_cluster(requests: &Cache<CertificateSigningRequest>) -> RequestsByCluster {
    let index = RequestsByCluster::default();
    let kept = index.clone();
    requests.listen(move |old, new| {
        let of = |it: &Arc<CertificateSigningRequest>| {
            let cluster = it.labels().get(labels::CLUSTER_NAME)?.clone();
            Some((cluster, it.name_any()))
        };
        let (before, after) = (old.and_then(of), new.and_then(of));
        if before == after {
            return;
        }
        let mut kept = kept.write();
        if let Some((cluster, name)) = before
            && let Some(names) = kept.get_mut(&cluster)
        {
            names.remove(&name);
            if names.is_empty() {
                kept.remove(&cluster);
            }
        }
        if let Some((cluster, name)) = after {
            kept.entry(cluster).or_default().insert(name);
        }
    });
    index
}

/// The cluster-scoped object from the cache, or from the API when the cache has none: it may lack our label, or the watch
/// may not have brought it yet.
pub(super) async fn find<K>(cache: &Cache<K>, client: &Client, name: &str) -> Result<Option<Arc<K>>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    match cache.named(name) {
        Some(found) => Ok(Some(found)),
        None => Ok(Api::<K>::all(client.clone()).get_opt(name).await?.map(Arc::new)),
    }
}

/// [`find`] for namespaced objects.
pub(super) async fn find_in<K>(
    cache: &Cache<K>,
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<K>>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    match cache.get(namespace, name) {
        Some(found) => Ok(Some(found)),
        None => Ok(Api::<K>::namespaced(client.clone(), namespace)
            .get_opt(name)
            .await?
            .map(Arc::new)),
    }
}
