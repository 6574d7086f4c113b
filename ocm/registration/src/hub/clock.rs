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
    condition::{self, Status, wanted},
    conditions::managed_cluster::{self, reason},
    namespaces,
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};

use super::{
    heartbeat::{grace, is_heartbeat, leases, renewed},
    permissions,
};
use crate::status;

/// The reconciler.
pub struct Clock {
    clusters: Cache<ManagedCluster>,
    leases: Cache<Lease>,
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
        Self {
            clusters: caches.of(),
            leases: leases(caches),
        }
    }
}

/// The cluster of which a renewal tells something new.
fn cluster_with_news(clusters: &Cache<ManagedCluster>, old: &Lease, new: &Lease) -> Option<String> {
    let at = renewed(new).filter(|it| is_heartbeat(new) && renewed(old) != Some(*it))?;
    let namespace = new.metadata.namespace.as_ref()?;
    let said = clusters
        .named(namespace)
        .is_some_and(|it| is_said(&it, at, Timestamp::now()));
    (!said).then(|| namespace.clone())
}

/// Whether the condition of a cluster says already what a heartbeat tells.
fn is_said(cluster: &ManagedCluster, renewed: Timestamp, now: Timestamp) -> bool {
    let status = condition::status(status::conditions(cluster), managed_cluster::CLOCK_SYNCED);
    let wanted = match is_synced(cluster, renewed, now) {
        true => Status::True,
        false => Status::False,
    };
    status == Some(wanted)
}

/// Whether the clock of a cluster is to be believed, by a heartbeat that has just come.
fn is_synced(cluster: &ManagedCluster, renewed: Timestamp, now: Timestamp) -> bool {
    let trusted = cluster
        .annotations()
        .get(annotations::SKIP_CLOCK_SYNC_CHECK)
        .is_some_and(|it| it == "true");
    trusted || now.duration_since(renewed).unsigned_abs() < grace(cluster)
}

#[async_trait]
impl Reconciler for Clock {
    const NAME: &'static str = "clock-sync";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::condition(
        ManagedCluster::KIND,
        managed_cluster::CLOCK_SYNCED,
    )];
    const RIGHTS: &'static [Right] = &[permissions::CLUSTER_STATUS];
    type Seen = Seen;

    /// Leases whose renewal we have seen happen, and tells something that is not said of their cluster yet: most of
    /// them tell nothing, and a large fleet has a hundred each second.
    fn watches(&self, watches: &mut Watches) {
        let clusters = self.clusters.clone();
        watches
            .reads(&self.clusters)
            .wakes(&self.leases, move |old, new| cluster_with_news(&clusters, old?, new?));
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            now: Timestamp::now(),
            cluster: self.clusters.named(name),
            lease: self.leases.get(name, namespaces::CLUSTER_LEASE),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let (Some(cluster), Some(renewed)) = (seen.cluster.as_deref(), seen.lease.as_deref().and_then(renewed)) else {
            return plan;
        };
        let update = if is_synced(cluster, renewed, seen.now) {
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
        plan.status(Site::Hub, cluster, &status::saying(cluster, update, seen.now));
        plan
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use ocm_reconcile::Queue;
    use serde_json::{Value, json};

    use super::*;

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn lease(version: u64, renewed: Timestamp) -> Lease {
        object(json!({
            "metadata": {"name": namespaces::CLUSTER_LEASE, "namespace": "cluster1", "resourceVersion": version.to_string()},
            "spec": {"renewTime": renewed},
        }))
    }

    fn cluster(conditions: Value) -> ManagedCluster {
        object(json!({
            "metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 60},
            "status": {"conditions": conditions},
        }))
    }

    /// How many looks two renewals cause, of a cluster of which this is said.
    fn looks(conditions: Value, behind: SignedDuration) -> usize {
        let now = Timestamp::now();
        let (leases, queue) = (Cache::empty(), Queue::new());
        let clusters = Cache::holding([cluster(conditions)]);
        leases.subscribe(&queue, move |old, new| cluster_with_news(&clusters, old?, new?));
        for version in 1..=3 {
            leases.put(lease(version, now - behind + SignedDuration::from_secs(version as i64)));
        }
        queue.len()
    }

    #[test]
    fn a_renewal_without_news_triggers_no_reconcile() {
        let said = |status: &str| {
            json!([{"type": managed_cluster::CLOCK_SYNCED, "status": status, "reason": "r", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        let (here, hour) = (SignedDuration::ZERO, SignedDuration::from_hours(1));
        assert_eq!(looks(json!([]), here), 1);
        assert_eq!(looks(said("True"), here), 0);
        assert_eq!(looks(said("False"), here), 1);
        assert_eq!(looks(said("True"), hour), 1);
        assert_eq!(looks(said("False"), hour), 0);
    }
}
