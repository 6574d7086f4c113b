//! What a cluster has on the hub: its namespace, its roles and who has them.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding},
};
use kube::{
    ResourceExt,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
};
use ocm_api::{identity, labels, work::ManifestWork};
use ocm_reconcile::{Cache, Caches, ObserveError, Outcome, Watches};

use crate::{
    api_reader::{ApiReader, list_metadata},
    hub::{of_clusters, uncached::put_written},
};

/// What a cluster has on the hub, as far as it was looked at.
#[derive(Default)]
pub struct ClusterObjects {
    /// Its namespace.
    pub namespace: Option<Arc<Namespace>>,
    /// Its ClusterRole.
    pub cluster_role: Option<Arc<ClusterRole>>,
    /// Its ClusterRoleBinding.
    pub cluster_role_binding: Option<Arc<ClusterRoleBinding>>,
    /// The registration agent's RoleBinding.
    pub registration_binding: Option<Arc<RoleBinding>>,
    /// The work agent's RoleBinding.
    pub work_binding: Option<Arc<RoleBinding>>,
}

/// Looks at it.
pub struct ObjectReader {
    api: ApiReader,
    namespaces: Cache<Namespace>,
    cluster_roles: Cache<ClusterRole>,
    cluster_role_bindings: Cache<ClusterRoleBinding>,
    role_bindings: Cache<RoleBinding>,
}

impl ObjectReader {
    /// Over these caches, and the API behind them.
    pub fn new(caches: &Caches) -> Self {
        Self {
            api: ApiReader::of(caches),
            namespaces: of_clusters::labelled(caches),
            cluster_roles: of_clusters::labelled(caches),
            cluster_role_bindings: of_clusters::labelled(caches),
            role_bindings: of_clusters::labelled(caches),
        }
    }

    /// All of it, waking the cluster whose label it carries.
    pub fn watches(&self, watches: &mut Watches) {
        watches
            .wakes(&self.namespaces, changed)
            .wakes(&self.cluster_roles, changed)
            .wakes(&self.cluster_role_bindings, changed)
            .wakes(&self.role_bindings, changed);
    }

    /// What the caches show.
    pub fn cached(&self, cluster: &str) -> ClusterObjects {
        let role = identity::cluster_role(cluster);
        let binding = |name: String| self.role_bindings.get(cluster, &name);
        ClusterObjects {
            namespace: self.namespaces.named(cluster),
            cluster_role: self.cluster_roles.named(&role),
            cluster_role_binding: self.cluster_role_bindings.named(&role),
            registration_binding: binding(identity::registration_role_binding(cluster)),
            work_binding: binding(identity::work_role_binding(cluster)),
        }
    }

    /// The same, where the API is asked for what the caches do not show.
    pub async fn read(&self, cluster: &str) -> Result<ClusterObjects, ObserveError> {
        Ok(ClusterObjects {
            namespace: self.api.named(&self.namespaces, cluster).await?,
            ..self.read_rbac(cluster).await?
        })
    }

    /// The same without the namespace.
    pub async fn read_rbac(&self, cluster: &str) -> Result<ClusterObjects, ObserveError> {
        let (api, bindings) = (&self.api, &self.role_bindings);
        let role = identity::cluster_role(cluster);
        let registration = identity::registration_role_binding(cluster);
        let work = identity::work_role_binding(cluster);
        Ok(ClusterObjects {
            namespace: None,
            cluster_role: api.named(&self.cluster_roles, &role).await?,
            cluster_role_binding: api.named(&self.cluster_role_bindings, &role).await?,
            registration_binding: api.namespaced(bindings, cluster, &registration).await?,
            work_binding: api.namespaced(bindings, cluster, &work).await?,
        })
    }

    /// The works in the cluster's namespace, which nobody watches here.
    pub async fn works(&self, cluster: &str) -> Result<Vec<PartialObjectMeta<DynamicObject>>, ObserveError> {
        let kind = ApiResource::erase::<ManifestWork>(&());
        Ok(list_metadata(self.api.client()?, cluster, &kind).await?)
    }

    /// Keeps what was written of it.
    pub fn put_written(&self, outcome: &Outcome) {
        put_written(&self.namespaces, outcome);
        put_written(&self.cluster_roles, outcome);
        put_written(&self.cluster_role_bindings, outcome);
        put_written(&self.role_bindings, outcome);
    }
}

// What appears is mostly our own doing; what changes or goes may be tampering.
fn changed<K: ResourceExt>(old: Option<&K>, new: Option<&K>) -> Option<String> {
    let cluster = new.or(old)?.labels().get(labels::CLUSTER_NAME)?;
    (!cluster.is_empty() && old.is_some()).then(|| cluster.clone())
}
