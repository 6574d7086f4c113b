//! The two ClusterRoles that all clusters share: there as long as there is a cluster.
//!
//! Root: all ManagedClusters together. Reads: the two roles. Writes: the two roles. Never: anything else.
//! Upstream: ocm `pkg/registration/hub/managedcluster/clusterrole_controller.go`.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{Client, ResourceExt};
use ocm_api::identity;
use ocm_reconcile::{ObserveError, Plan, Queue, Reconciler, Site, async_trait};

use super::{Caches, HubOptions, caches::find, rbac};

/// There is one pair for all clusters, hence one key.
const KEY: &str = "shared";

/// The reconciler.
pub struct ClusterRoles {
    client: Client,
    caches: Caches,
    options: Arc<HubOptions>,
}

/// What a plan is made from.
pub struct Seen {
    /// How many clusters there are.
    pub clusters: usize,
    /// The registration agents' role and the work agents' role.
    pub roles: [Option<Arc<ClusterRole>>; 2],
    /// The hub's options.
    pub options: Arc<HubOptions>,
}

impl ClusterRoles {
    /// Over these caches.
    pub fn new(client: Client, caches: &Caches, options: Arc<HubOptions>) -> Self {
        Self {
            client,
            caches: caches.clone(),
            options,
        }
    }
}

/// Clusters that come or go, and the two roles themselves.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.clusters.subscribe(queue, |old, new| {
        (old.is_none() || new.is_none()).then(|| KEY.to_owned())
    });
    caches.cluster_roles.subscribe(queue, |old, new| {
        let name = new.or(old)?.name_any();
        [identity::REGISTRATION_CLUSTER_ROLE, identity::WORK_CLUSTER_ROLE]
            .contains(&name.as_str())
            .then(|| KEY.to_owned())
    });
}

#[async_trait]
impl Reconciler for ClusterRoles {
    const NAME: &'static str = "shared-cluster-roles";
    type Seen = Seen;

    async fn observe(&self, _: &str) -> Result<Seen, ObserveError> {
        let registration = find(
            &self.caches.cluster_roles,
            &self.client,
            identity::REGISTRATION_CLUSTER_ROLE,
        )
        .await?;
        let work = find(&self.caches.cluster_roles, &self.client, identity::WORK_CLUSTER_ROLE).await?;
        Ok(Seen {
            clusters: self.caches.clusters.len(),
            roles: [registration, work],
            options: self.options.clone(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        for (current, desired) in seen.roles.iter().zip(rbac::shared_cluster_roles(&seen.options.labels)) {
            if seen.clusters > 0 {
                rbac::keep_role(&mut plan, current.as_deref(), &desired);
            } else if let Some(current) = current {
                plan.delete(Site::Hub, &**current);
            }
        }
        plan
    }
}
