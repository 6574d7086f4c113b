//! Telling the hub how the cluster is. Upstream: ocm `pkg/registration/spoke/managedcluster/status_controller.go`.
//!
//! Root: our ManagedCluster. Reads: the cluster's health, version, nodes, claims and namespaces. Writes: conditions
//! Joined and Available (True and False; Unknown is the hub's word), ClusterCertificateRotated, version, capacity,
//! allocatable, clusterClaims, and the conditions of managedNamespaces; those namespaces on the cluster. Never:
//! anything while the hub says that our clock is off; anything before it has accepted us.

mod announcement;
mod cluster;
mod summary;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_api::{
    cluster::{ClusterClaim, ManagedCluster},
    condition::ConditionUpdate,
};
use ocm_reconcile::{
    Cache, Caches, Done, Note, ObserveError, Outcome, OwnStep, Plan, Reconciler, StatusField, StepError, Watches,
    async_trait, rbac::Right,
};
use parking_lot::Mutex;

use self::cluster::ClusterWatches;
use super::{
    availability::{self, ApiServerHealth},
    claims::ClaimLimits,
    drive::RegistrationAgent,
    namespaces::{self, Present},
    node::NodeResources,
    own_cluster::{self, is_accepted},
    permissions,
};

/// The reconciler.
pub(super) struct StatusReporter {
    agent: Arc<RegistrationAgent>,
    clusters: Cache<ManagedCluster>,
    cluster: ClusterWatches,
    failing_since: Mutex<Option<Timestamp>>,
}

/// What a plan is made from. What is `None` is not known.
pub(super) struct Seen {
    now: Timestamp,
    cluster: Option<Arc<ManagedCluster>>,
    health: ApiServerHealth,
    failing_since: Option<Timestamp>,
    /// What to say about the last renewal of the certificate.
    rotation: Option<ConditionUpdate>,
    version: Option<String>,
    nodes: Option<Vec<NodeResources>>,
    claims: Option<Vec<ClusterClaim>>,
    claim_limits: ClaimLimits,
    /// The label of namespaces that this hub manages.
    label: String,
    namespaces: Present,
    is_watching_namespaces: bool,
    period: Duration,
}

impl StatusReporter {
    /// Over the caches of the hub at this address, and of our cluster.
    pub fn new(agent: &Arc<RegistrationAgent>, server: &str, hub: &Caches, cluster: &Caches) -> Self {
        Self {
            agent: agent.clone(),
            clusters: own_cluster::watch(hub, agent),
            cluster: ClusterWatches::new(&agent.options, server, cluster),
            failing_since: Mutex::new(None),
        }
    }
}

#[async_trait]
impl Reconciler for StatusReporter {
    const NAME: &'static str = "managed-cluster-status";
    const STATUS: &'static [StatusField] = summary::STATUS;
    const RIGHTS: &'static [Right] = permissions::STATUS;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.clusters).not_awaited();
        self.cluster.watches(watches, &self.agent);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let (options, now) = (&self.agent.options, Timestamp::now());
        let mut seen = Seen {
            now,
            cluster: self.clusters.named(name),
            health: ApiServerHealth::Ok,
            failing_since: None,
            version: None,
            rotation: self.agent.rotation.borrow().clone(),
            nodes: self.cluster.nodes(),
            claims: self.cluster.claims(),
            claim_limits: ClaimLimits::of(options),
            namespaces: Present::default(),
            is_watching_namespaces: self.cluster.is_watching_namespaces(),
            label: self.cluster.label.clone(),
            period: options.healthcheck_period,
        };
        let Some(cluster) = seen.cluster.as_deref().filter(|it| is_accepted(it)) else {
            return Ok(seen);
        };
        let client = &options.cluster;
        seen.health = availability::probe(client).await;
        if seen.health == ApiServerHealth::Ok {
            seen.version = client.apiserver_version().await.ok().map(|it| it.git_version);
            seen.namespaces = namespaces::present(client, &seen.label, &namespaces::wanted(cluster)).await;
        } else {
            seen.failing_since = self.failing_since.lock().or(Some(now));
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let Some(cluster) = seen.cluster.as_deref() else {
            return Plan::only(Note::Wait("the hub has not told us about our cluster".to_owned()));
        };
        if !is_accepted(cluster) {
            return Plan::only(Note::Wait("the cluster is not accepted".to_owned()));
        }
        let mut plan = Plan::new();
        if seen.health == ApiServerHealth::Ok {
            if !seen.is_watching_namespaces && !namespaces::wanted(cluster).is_empty() {
                plan.perform("watch", "the namespaces that this hub manages");
            }
            namespaces::plan(&mut plan, cluster, &seen.label, &seen.namespaces);
        }
        plan
    }

    async fn perform(&self, _: &Seen, _: &OwnStep) -> Result<Done, StepError> {
        self.cluster.watch_namespaces(&self.agent.options);
        Ok(Done::Performed)
    }

    fn remember(&self, seen: &Seen, _: &Outcome) {
        if seen.cluster.as_deref().is_some_and(is_accepted) {
            *self.failing_since.lock() = seen.failing_since;
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        summary::tell(seen, outcome)
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
