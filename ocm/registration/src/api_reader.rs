//! Looking at the API for what no cache shows: it lacks a cluster's label, the watch has not brought it yet, or nobody
//! watches it.

use std::sync::Arc;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta},
};
use ocm_reconcile::{Cache, Caches, ObserveError, caches::Watchable};

/// The API behind the caches.
#[derive(Clone)]
pub struct ApiReader {
    client: Option<Client>,
}

impl ApiReader {
    /// The API behind these.
    pub fn of(caches: &Caches) -> Self {
        Self {
            client: caches.client().cloned(),
        }
    }

    /// Its client.
    ///
    /// # Errors
    /// When nothing feeds the caches, so that there is none.
    pub fn client(&self) -> Result<&Client, ObserveError> {
        self.client
            .as_ref()
            .ok_or_else(|| "there is no API server behind the caches".into())
    }

    /// The cluster-scoped object from the cache, or from the API when the cache has none.
    pub async fn named<K>(&self, cache: &Cache<K>, name: &str) -> Result<Option<Arc<K>>, ObserveError>
    where
        K: Watchable + Resource<Scope = ClusterResourceScope>,
    {
        match cache.named(name) {
            Some(found) => Ok(Some(found)),
            None => {
                let api: Api<K> = Api::all(self.client()?.clone());
                Ok(api.get_opt(name).await?.map(Arc::new))
            }
        }
    }

    /// [`named`](Self::named) for namespaced objects.
    pub async fn namespaced<K>(
        &self,
        cache: &Cache<K>,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<K>>, ObserveError>
    where
        K: Watchable + Resource<Scope = NamespaceResourceScope>,
    {
        match cache.get(namespace, name) {
            Some(found) => Ok(Some(found)),
            None => {
                let api: Api<K> = Api::namespaced(self.client()?.clone(), namespace);
                Ok(api.get_opt(name).await?.map(Arc::new))
            }
        }
    }
}

/// The metadata of all objects of a kind in a namespace. A hub without the kind has none of it.
pub async fn list_metadata(
    client: &Client,
    namespace: &str,
    kind: &ApiResource,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, kind);
    match api.list_metadata(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
