//! The heartbeat.
//!
//! Root: our ManagedCluster. Reads: its lease on the hub. Writes: the lease's renewTime. Never: creates the lease,
//! which is the hub's; renews while the cluster is not accepted.
//! Upstream: ocm `pkg/registration/spoke/lease/lease_controller.go`.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::Api;
use ocm_api::{cluster::ManagedCluster, namespaces};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Step, Target, Watches, async_trait, plan, rbac::Right,
};
use parking_lot::Mutex;
use rand::RngExt;

use super::{drive::RegistrationAgent, own_cluster};
use crate::api_reader::ApiReader;

/// How soon to look for a lease that the hub has not created yet.
const MISSING_AGAIN: Duration = Duration::from_millis(500);

/// The reconciler.
pub(super) struct Heartbeat {
    agent: Arc<RegistrationAgent>,
    hub: ApiReader,
    clusters: Cache<ManagedCluster>,
    /// The lease as our last renewal left it, so that the next one needs no look.
    last: Mutex<Option<Lease>>,
}

/// What a plan is made from.
pub(super) struct Seen {
    now: Timestamp,
    /// `None` while the cluster is unknown or not accepted.
    period: Option<Duration>,
    lease: Option<Lease>,
    /// From 0 to 0.25: how much later than the period the next renewal is.
    jitter: f64,
}

impl Heartbeat {
    /// Over the caches of the hub.
    pub fn new(agent: &Arc<RegistrationAgent>, hub: &Caches) -> Self {
        Self {
            agent: agent.clone(),
            hub: ApiReader::of(hub),
            clusters: own_cluster::watch(hub, agent),
            last: Mutex::new(None),
        }
    }
}

fn period(cluster: &ManagedCluster) -> Option<Duration> {
    own_cluster::is_accepted(cluster).then(|| Duration::from_secs(cluster.spec.lease_seconds().max(1) as u64))
}

#[async_trait]
impl Reconciler for Heartbeat {
    const NAME: &'static str = "lease";
    const RIGHTS: &'static [Right] = &[Right::new(
        "coordination.k8s.io",
        "leases",
        "get update",
        "On the hub: the heartbeat.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let waking = watches.wakes(&self.clusters, |old, new| {
            let now = new.map(period);
            (old.map(period) != now).then(|| new.or(old)?.metadata.name.clone())?
        });
        waking.not_awaited();
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let period = self.clusters.named(name).as_deref().and_then(period);
        let last = self.last.lock().clone();
        let lease = match (period, last) {
            (None, _) => None,
            (Some(_), Some(last)) => Some(last),
            (Some(_), None) => {
                let api: Api<Lease> = Api::namespaced(self.hub.client()?.clone(), &self.agent.cluster);
                api.get_opt(namespaces::CLUSTER_LEASE).await?
            }
        };
        Ok(Seen {
            now: Timestamp::now(),
            period,
            lease,
            jitter: rand::rng().random_range(0.0..0.25),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(period) = seen.period else {
            plan.wait("the cluster is not accepted");
            return plan;
        };
        let Some(lease) = &seen.lease else {
            plan.wait("the hub has not created the lease yet")
                .look_again(MISSING_AGAIN);
            return plan;
        };
        let mut renewed = lease.clone();
        renewed.spec.get_or_insert_default().renew_time = Some(MicroTime(seen.now));
        let target = Target::of(Site::Hub, lease);
        let object = plan::typed(&renewed, &target.api_resource);
        plan.push(Step::Replace {
            target,
            subresource: None,
            object,
        });
        plan.look_again(period.mul_f64(1.0 + seen.jitter));
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let written = seen.lease.as_ref().and_then(|it| {
            let namespace = it.metadata.namespace.as_deref();
            outcome.latest::<Lease>(Site::Hub, namespace, namespaces::CLUSTER_LEASE)
        });
        // After a failure the next try begins with a look.
        *self.last.lock() = written;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(period: Option<u64>, lease: bool, printed: &str) {
        let lease = lease.then(|| {
            serde_json::from_value(
                json!({"metadata": {"name": "managed-cluster-lease", "namespace": "cluster1",
                "resourceVersion": "7"}, "spec": {"holderIdentity": "managed-cluster-lease"}}),
            )
            .unwrap()
        });
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let seen = Seen {
            now,
            period: period.map(Duration::from_secs),
            lease,
            jitter: 0.2,
        };
        assert_eq!(format!("{:#}", Heartbeat::plan(&seen)).trim(), printed);
    }

    #[test]
    fn an_accepted_cluster_renews_its_lease_once_per_period() {
        check(
            Some(60),
            true,
            "hub: replace Lease cluster1/managed-cluster-lease {\"spec\":{\"holderIdentity\":\"managed-cluster-lease\",\
             \"renewTime\":\"2026-01-02T03:04:05.000000Z\"}}\nagain in 72s",
        );
    }

    #[test]
    fn without_acceptance_or_lease_nothing_is_renewed() {
        check(None, true, "nothing to do\nwaits: the cluster is not accepted");
        check(
            Some(60),
            false,
            "nothing to do\nwaits: the hub has not created the lease yet\nagain in 500ms",
        );
    }
}
