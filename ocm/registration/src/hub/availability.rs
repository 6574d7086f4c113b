//! Noticing that an agent has fallen silent. Upstream: ocm `pkg/registration/hub/lease/controller.go`.
//!
//! Root: ManagedCluster. Reads: its lease. Writes: the lease, once; condition `ManagedClusterConditionAvailable`, and
//! of its three answers only Unknown (the agent says True and False). Never: looks before the lease can have run out.

mod unknown;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace};
use kube::ResourceExt;
use ocm_api::{cluster::ManagedCluster, condition, conditions::managed_cluster, namespaces};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};

use super::{
    heartbeat::{first_lease, grace, is_heartbeat, leases, renewed},
    of_clusters, permissions, uncached,
    uncached::Uncached,
};
use crate::{api_reader::ApiReader, status};

/// The reconciler.
pub struct Availability {
    api: ApiReader,
    clusters: Cache<ManagedCluster>,
    leases: Cache<Lease>,
    namespaces: Cache<Namespace>,
    uncached: Uncached,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster's name.
    pub name: String,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Its lease.
    pub lease: Option<Arc<Lease>>,
    /// Whether the API was asked for a lease that the cache does not show.
    pub asked_api: bool,
    /// Whether there is a namespace for a lease.
    pub has_namespace: bool,
}

impl Availability {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            api: ApiReader::of(caches),
            clusters: caches.of(),
            leases: leases(caches),
            namespaces: of_clusters::labelled(caches),
            uncached: Uncached::default(),
        }
    }
}

#[async_trait]
impl Reconciler for Availability {
    const NAME: &'static str = "managed-cluster-lease";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::condition(ManagedCluster::KIND, managed_cluster::AVAILABLE)
        .shared("the hub says Unknown when heartbeats stop; the agent says everything else")];
    const RIGHTS: &'static [Right] = &[permissions::LEASES, permissions::CLUSTER_STATUS, permissions::EVENTS];
    type Seen = Seen;

    /// Clusters, their namespaces when they come, and leases that appear or vanish. A renewal needs no look: the one
    /// that is due when the old lease would have run out finds the new one.
    fn watches(&self, watches: &mut Watches) {
        watches
            .root(&self.clusters)
            .wakes(&self.namespaces, |old, new| {
                new.filter(|_| old.is_none()).map(ResourceExt::name_any)
            })
            .wakes(&self.leases, |old, new| {
                let lease = new.or(old)?;
                let appeared_or_vanished = old.is_none() || new.is_none();
                (is_heartbeat(lease) && appeared_or_vanished).then(|| lease.metadata.namespace.clone())?
            });
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.clusters.named(name);
        // Nobody has to be asked about a cluster that is gone.
        let asked_api = cluster.is_some() && self.uncached.has(name);
        let lease = match asked_api {
            true => {
                self.api
                    .namespaced(&self.leases, name, namespaces::CLUSTER_LEASE)
                    .await?
            }
            false => self.leases.get(name, namespaces::CLUSTER_LEASE),
        };
        Ok(Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            cluster,
            lease,
            asked_api,
            has_namespace: self.namespaces.named(name).is_some(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen.cluster.as_deref() else {
            return plan;
        };
        if condition::find(status::conditions(cluster), managed_cluster::HUB_ACCEPTED).is_none() {
            plan.wait("the cluster is not accepted yet");
            return plan;
        }
        let (leaving, grace) = (cluster.metadata.deletion_timestamp.is_some(), grace(cluster));
        match seen.lease.as_deref() {
            None if leaving => unknown::say(&mut plan, cluster, seen.now),
            None if !seen.has_namespace => {
                plan.wait("its namespace is not there yet");
            }
            None => {
                plan.create(Site::Hub, &first_lease(cluster, seen.now));
                plan.look_again(grace);
            }
            Some(lease) => {
                let renewed = renewed(lease).unwrap_or(Timestamp::UNIX_EPOCH);
                // The clock of an agent may show any time, the last one included.
                let expires = renewed.checked_add(grace).unwrap_or(Timestamp::MAX);
                if seen.now < expires {
                    plan.look_again(expires.duration_since(seen.now).unsigned_abs());
                } else {
                    unknown::say(&mut plan, cluster, seen.now);
                    plan.look_again(grace);
                }
            }
        }
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        self.uncached.remember(&seen.name, seen.cluster.is_some(), outcome);
        uncached::put_written(&self.leases, outcome);
    }

    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        uncached::is_found_out(seen.asked_api, outcome)
    }
}

#[cfg(test)]
#[path = "availability_tests.rs"]
mod tests;
