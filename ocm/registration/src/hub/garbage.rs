//! Deleting what is in a cluster's namespace when the cluster is deleted. Upstream: ocm
//! `pkg/registration/hub/gc/controller.go`, which waits for the agent. Here the agent has no rights any more.
//!
//! Root: ManagedCluster. Reads: the listed kinds in its namespace, when it has to go. Writes: deletes them, lowest
//! `cleanup-priority` first, kind after kind; the finalizers in them that the cluster's agent would remove; the
//! finalizer `resource-cleanup`; condition `Deleting`. Never: the namespace, its Secrets or its lease.

mod kind;
mod remaining;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_api::{cluster::ManagedCluster, condition, conditions::managed_cluster, finalizers};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};

pub use self::kind::GarbageKind;
use self::remaining::Remaining;
use super::{HubOptions, first, permissions};
use crate::{api_reader::ApiReader, status};

/// How long to wait before looking whether something is gone. Upstream waits 5 s.
const AGAIN: Duration = Duration::from_secs(1);

/// The reconciler.
pub struct Garbage {
    api: ApiReader,
    clusters: Cache<ManagedCluster>,
    options: Arc<HubOptions>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster's name.
    pub name: String,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Whether the cluster is given its finalizers in a moment, with everything else.
    pub is_to_come: bool,
    /// What is left of the first kind of which something is; looked at only when the cluster has to go.
    /// Or why that is not known.
    pub remaining: Result<Option<Remaining>, String>,
}

impl Garbage {
    /// Over these caches.
    pub fn new(caches: &Caches, options: &Arc<HubOptions>) -> Self {
        Self {
            api: ApiReader::of(caches),
            clusters: caches.of(),
            options: options.clone(),
        }
    }
}

fn is_told(cluster: &ManagedCluster) -> bool {
    condition::is_true(status::conditions(cluster), managed_cluster::DELETING)
}

#[async_trait]
impl Reconciler for Garbage {
    const NAME: &'static str = "resource-cleanup";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::condition(ManagedCluster::KIND, managed_cluster::DELETING)];
    const RIGHTS: &'static [Right] = permissions::GARBAGE;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.clusters);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.clusters.named(name);
        let going = cluster
            .as_deref()
            .is_none_or(|it| it.metadata.deletion_timestamp.is_some());
        let remaining = match &self.options.garbage {
            Some(kinds) if going => remaining::find(self.api.client()?, name, kinds).await,
            _ => Ok(None),
        };
        Ok(Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            is_to_come: cluster
                .as_deref()
                .is_some_and(|it| first::is_to_come(it, &self.options)),
            cluster,
            remaining,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let cluster = seen.cluster.as_deref();
        if let Some(cluster) = cluster.filter(|it| it.metadata.deletion_timestamp.is_none()) {
            if !seen.is_to_come {
                plan.add_finalizer(Site::Hub, cluster, finalizers::CLUSTER_RESOURCE_CLEANUP);
            }
            return plan;
        }
        match &seen.remaining {
            Err(why) => {
                plan.wait(why).look_again(AGAIN);
            }
            Ok(Some(remaining)) => {
                remaining::delete(&mut plan, seen, remaining);
                plan.look_again(AGAIN);
            }
            Ok(None) => {
                if let Some(cluster) = cluster.filter(|it| is_told(it)) {
                    plan.remove_finalizer(Site::Hub, cluster, finalizers::CLUSTER_RESOURCE_CLEANUP);
                }
            }
        }
        plan
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen.cluster.as_deref() else {
            return plan;
        };
        let held = first::holds(cluster, finalizers::CLUSTER_RESOURCE_CLEANUP);
        if cluster.metadata.deletion_timestamp.is_none() || !held {
            return plan;
        }
        if let Some(update) = remaining::deleting(seen, is_told(cluster), outcome) {
            plan.status(Site::Hub, cluster, &status::saying(cluster, update, seen.now));
        }
        plan
    }
}

#[cfg(test)]
#[path = "garbage_tests.rs"]
mod tests;
