//! Noticing that an agent has fallen silent.
//!
//! Root: ManagedCluster. Reads: its lease. Writes: the lease, once; condition `ManagedClusterConditionAvailable`, and of its
//! three answers only Unknown (the agent says True and False).
//! Never: looks before the lease can have run out.
//! Upstream: ocm `pkg/registration/hub/lease/controller.go`.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Client, ResourceExt, api::ObjectMeta};
use ocm_api::{
    cluster::ManagedCluster,
    condition::{self, Status, wanted},
    conditions::managed_cluster::{self, reason},
    labels, namespaces,
};
use ocm_reconcile::{
    Clients, Done, EventKind, EventStep, ObserveError, Outcome, Plan, Queue, Reconciler, Site, Step, async_trait,
    run::RunError,
};

use super::{Caches, caches::find_in, doubts::Doubts};
use crate::status;

/// So many lease durations may pass without a heartbeat.
const GRACE_DURATIONS: u32 = 5;

/// The reconciler.
pub struct Availability {
    client: Client,
    caches: Caches,
    doubts: Doubts,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Its lease.
    pub lease: Option<Arc<Lease>>,
    /// Whether there is a namespace for a lease.
    pub has_namespace: bool,
}

impl Availability {
    /// Over these caches.
    pub fn new(client: Client, caches: &Caches) -> Self {
        Self {
            client,
            caches: caches.clone(),
            doubts: Doubts::default(),
        }
    }
}

/// How long an agent may be silent.
pub fn grace(cluster: &ManagedCluster) -> Duration {
    Duration::from_secs(cluster.spec.lease_seconds().max(1) as u64) * GRACE_DURATIONS
}

/// Clusters, their namespaces when they come, and leases that appear or vanish. A renewal needs no look: the one that is due when
/// the old lease would have run out finds the new one.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.clusters.subscribe_by_name(queue);
    caches.namespaces.subscribe(queue, |old, new| {
        new.filter(|_| old.is_none()).map(ResourceExt::name_any)
    });
    caches.leases.subscribe(queue, |old, new| {
        let lease = new.or(old)?;
        let appeared_or_vanished = old.is_none() || new.is_none();
        (is_heartbeat(lease) && appeared_or_vanished).then(|| lease.metadata.namespace.clone())?
    });
}

/// Whether this lease is a cluster's heartbeat.
pub fn is_heartbeat(lease: &Lease) -> bool {
    lease.metadata.name.as_deref() == Some(namespaces::CLUSTER_LEASE)
}

/// When the agent was last heard of.
pub fn renewed(lease: &Lease) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
}

#[async_trait]
impl Reconciler for Availability {
    const NAME: &'static str = "managed-cluster-lease";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.caches.clusters.named(name);
        let lease = match &cluster {
            Some(_) if self.doubts.has(name) => {
                find_in(&self.caches.leases, &self.client, name, namespaces::CLUSTER_LEASE).await?
            }
            Some(_) => self.caches.leases.get(name, namespaces::CLUSTER_LEASE),
            None => {
                self.doubts.drop(name);
                None
            }
        };
        Ok(Seen {
            now: Timestamp::now(),
            cluster,
            lease,
            has_namespace: self.caches.namespaces.named(name).is_some(),
        })
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        if let Some(cluster) = &seen.cluster {
            self.doubts.note(&cluster.name_any(), outcome);
        }
        // The watch will bring it, too, and the next run may come first.
        for done in outcome.stages.iter().flatten() {
            let Ok(Done::Object(object)) = done else { continue };
            let is_lease = object.types.as_ref().is_some_and(|it| it.kind == "Lease");
            if let (true, Ok(lease)) = (is_lease, (**object).clone().try_parse()) {
                self.caches.leases.put(lease);
            }
        }
    }

    async fn reconcile(&self, clients: &Clients, name: &str) -> Result<Option<Duration>, RunError> {
        self.doubts.reconcile(self, clients, name).await
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
        let leaving = cluster.metadata.deletion_timestamp.is_some();
        let grace = grace(cluster);
        match seen.lease.as_deref() {
            None if leaving => silent(seen, cluster, &mut plan),
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
                    silent(seen, cluster, &mut plan);
                    plan.look_again(grace);
                }
            }
        }
        plan
    }
}

fn silent(seen: &Seen, cluster: &ManagedCluster, plan: &mut Plan) {
    if condition::status(status::conditions(cluster), managed_cluster::AVAILABLE) == Some(Status::Unknown) {
        return;
    }
    let verdict = wanted(
        managed_cluster::AVAILABLE,
        Status::Unknown,
        reason::LEASE_UPDATE_STOPPED,
        "Registration agent stopped updating its lease.",
    );
    plan.status(Site::Hub, cluster, &status::saying(cluster, verdict, seen.now));
    plan.stage();
    let name = cluster.metadata.name.clone().unwrap_or_default();
    plan.push(Step::Event(EventStep {
        site: Site::Hub,
        namespace: name.clone(),
        regarding: status::regarding(cluster),
        related: None,
        kind: EventKind::Warning,
        reason: "AvailableUnknown".to_owned(),
        action: "AvailableUnknown".to_owned(),
        note: format!(
            "The {name} is successfully imported. However, the connection check from the managed cluster to the hub cluster \
             has failed"
        ),
        reporting_controller: "registration-controller".to_owned(),
        at: seen.now,
    }));
}

fn first_lease(cluster: &ManagedCluster, now: Timestamp) -> Lease {
    let name = cluster.metadata.name.clone().unwrap_or_default();
    Lease {
        metadata: ObjectMeta {
            name: Some(namespaces::CLUSTER_LEASE.to_owned()),
            namespace: Some(name.clone()),
            labels: Some([(labels::CLUSTER_NAME.to_owned(), name)].into()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(namespaces::CLUSTER_LEASE.to_owned()),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
#[path = "availability_tests.rs"]
mod tests;
