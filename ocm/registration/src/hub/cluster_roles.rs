//! The two ClusterRoles that all clusters share: there as long as there is a cluster.
//!
//! Root: all ManagedClusters together. Reads: the two roles. Writes: the two roles. Never: anything else.
//! Upstream: ocm `pkg/registration/hub/managedcluster/clusterrole_controller.go`.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt;
use ocm_api::{cluster::ManagedCluster, identity};
use ocm_reconcile::{Cache, Caches, ObserveError, Plan, Reconciler, Site, Watches, async_trait, rbac::Right};

use super::{HubOptions, of_clusters, permissions, rbac};
use crate::api_reader::ApiReader;

/// There is one pair for all clusters, hence one key.
const KEY: &str = "shared";

/// The reconciler.
pub struct ClusterRoles {
    api: ApiReader,
    clusters: Cache<ManagedCluster>,
    roles: Cache<ClusterRole>,
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
    pub fn new(caches: &Caches, options: &Arc<HubOptions>) -> Self {
        Self {
            api: ApiReader::of(caches),
            clusters: caches.of(),
            roles: of_clusters::labelled(caches),
            options: options.clone(),
        }
    }
}

#[async_trait]
impl Reconciler for ClusterRoles {
    const NAME: &'static str = "shared-cluster-roles";
    const WORKERS: usize = super::WORKERS;
    const RIGHTS: &'static [Right] = &[permissions::ROLES, permissions::ESCALATE];
    type Seen = Seen;

    /// Clusters that come or go, and the two roles themselves.
    fn watches(&self, watches: &mut Watches) {
        const NAMES: [&str; 2] = [identity::REGISTRATION_CLUSTER_ROLE, identity::WORK_CLUSTER_ROLE];
        watches
            .wakes(&self.clusters, |old, new| {
                (old.is_none() || new.is_none()).then(|| KEY.to_owned())
            })
            .wakes(&self.roles, |old, new| {
                let name = new.or(old)?.name_any();
                NAMES.contains(&name.as_str()).then(|| KEY.to_owned())
            });
    }

    async fn observe(&self, _: &str) -> Result<Seen, ObserveError> {
        let read = async |name| self.api.named(&self.roles, name).await;
        let registration = read(identity::REGISTRATION_CLUSTER_ROLE).await?;
        let work = read(identity::WORK_CLUSTER_ROLE).await?;
        Ok(Seen {
            clusters: self.clusters.len(),
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
