//! Comparing an agent's clock with ours, at each heartbeat.
//!
//! Root: ManagedCluster. Reads: its lease. Writes: condition `ManagedClusterConditionClockSynced`.
//! Never: judges an old heartbeat: only one that has just come tells the agent's time.
//! Upstream: ocm `pkg/registration/hub/lease/clocksynccontroller.go`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use ocm_api::{
    annotations,
    cluster::ManagedCluster,
    condition::wanted,
    conditions::managed_cluster::{self, reason},
    namespaces,
};
use ocm_reconcile::{ObserveError, Plan, Queue, Reconciler, Site, async_trait};

use super::{
    Caches,
    availability::{grace, is_heartbeat, renewed},
};
use crate::status;

/// The reconciler.
pub struct Clock {
    caches: Caches,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Its lease, just renewed.
    pub lease: Option<Arc<Lease>>,
}

impl Clock {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self { caches: caches.clone() }
    }
}

/// Leases whose renewal we have seen happen.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.leases.subscribe(queue, |old, new| {
        let (old, new) = (old?, new?);
        (is_heartbeat(new) && renewed(old) != renewed(new)).then(|| new.metadata.namespace.clone())?
    });
}

#[async_trait]
impl Reconciler for Clock {
    const NAME: &'static str = "clock-sync";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            now: Timestamp::now(),
            cluster: self.caches.clusters.named(name),
            lease: self.caches.leases.get(name, namespaces::CLUSTER_LEASE),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let (Some(cluster), Some(renewed)) = (seen.cluster.as_deref(), seen.lease.as_deref().and_then(renewed)) else {
            return plan;
        };
        let trusted = cluster
            .annotations()
            .get(annotations::SKIP_CLOCK_SYNC_CHECK)
            .is_some_and(|it| it == "true");
        let apart = seen.now.duration_since(renewed).unsigned_abs();
        let verdict = if trusted || apart < grace(cluster) {
            wanted(
                managed_cluster::CLOCK_SYNCED,
                true,
                reason::CLOCK_SYNCED,
                "The clock of the managed cluster is synced with the hub.",
            )
        } else {
            wanted(
                managed_cluster::CLOCK_SYNCED,
                false,
                reason::CLOCK_OUT_OF_SYNC,
                "The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities.",
            )
        };
        plan.status(Site::Hub, cluster, &status::saying(cluster, verdict, seen.now));
        plan
    }
}
