//! Which namespaces a cluster's sets want on it.
//!
//! Root: ManagedCluster. Reads: all ManagedClusterSets. Writes: `status.managedNamespaces`, the list and not its conditions,
//! which the agent writes. Never: a namespace.
//! Upstream: ocm `pkg/registration/hub/managedcluster/managednamespace_controller.go`, which drops the agent's conditions
//! with each write; we keep those of the entries that stay.

use std::sync::Arc;

use kube::ResourceExt;
use ocm_api::cluster::{ClusterSetManagedNamespace, ManagedCluster, ManagedClusterSet};
use ocm_reconcile::{ObserveError, Plan, Queue, Reconciler, Site, async_trait};

use super::{Caches, cluster_sets::is_member};

/// The reconciler.
pub struct ManagedNamespaces {
    caches: Caches,
}

/// What a plan is made from.
pub struct Seen {
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// The sets it is in.
    pub sets: Vec<Arc<ManagedClusterSet>>,
}

impl ManagedNamespaces {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self { caches: caches.clone() }
    }
}

/// Clusters whose labels change, and sets whose namespaces or members change.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.clusters.subscribe(queue, |old, new| {
        let new = new?;
        let same = old.is_some_and(|it| it.metadata.labels == new.metadata.labels);
        (!same).then(|| new.name_any())
    });
    let clusters = caches.clusters.clone();
    caches.sets.subscribe(queue, move |old, new| {
        let wants = |set: Option<&ManagedClusterSet>| set.is_some_and(|it| !it.spec.managed_namespaces.is_empty());
        if !wants(old) && !wants(new) {
            return Vec::new();
        }
        let either = |it: &ManagedCluster| [old, new].into_iter().flatten().any(|set| is_member(set, it));
        clusters
            .list()
            .iter()
            .filter(|it| either(it))
            .map(|it| it.name_any())
            .collect()
    });
}

#[async_trait]
impl Reconciler for ManagedNamespaces {
    const NAME: &'static str = "managed-namespace";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.caches.clusters.named(name);
        let mut sets = self.caches.sets.list();
        sets.retain(|set| cluster.as_deref().is_some_and(|it| is_member(set, it)));
        Ok(Seen { cluster, sets })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen
            .cluster
            .as_deref()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
        else {
            return plan;
        };
        let present = cluster.status.as_ref().map_or(&[][..], |it| &it.managed_namespaces);
        let mut wanted = Vec::new();
        for set in seen.sets.iter().filter(|it| it.metadata.deletion_timestamp.is_none()) {
            for namespace in &set.spec.managed_namespaces {
                let cluster_set = set.name_any();
                let before = present
                    .iter()
                    .find(|it| it.name == namespace.name && it.cluster_set == cluster_set);
                wanted.push(ClusterSetManagedNamespace {
                    name: namespace.name.clone(),
                    cluster_set,
                    conditions: before.map(|it| it.conditions.clone()).unwrap_or_default(),
                });
            }
        }
        wanted.sort_by(|a, b| (&a.cluster_set, &a.name).cmp(&(&b.cluster_set, &b.name)));
        if present != wanted {
            let mut new = cluster.clone();
            new.status.get_or_insert_default().managed_namespaces = wanted;
            plan.status(Site::Hub, cluster, &new);
        }
        plan
    }
}
