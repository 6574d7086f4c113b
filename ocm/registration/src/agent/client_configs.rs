//! Telling the hub how the cluster's API server is reached, when our ManagedCluster was deleted and made anew while we run.
//!
//! Root: our ManagedCluster. Reads: it. Writes: client configs that it lacks.
//! Never: those of a cluster that had joined when we first saw it, where an administrator may have taken them away.
//! Upstream writes them only while a cluster joins, and leaves a cluster that is made anew without.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::{Client, ResourceExt};
use ocm_api::{cluster::ManagedCluster, condition, conditions::managed_cluster};
use ocm_reconcile::{Cache, Clients, ObserveError, Outcome, Plan, Queue, Reconciler, Running, async_trait};
use tokio_util::sync::CancellationToken;

use super::{drive::Agent, joining};
use crate::status;

/// The uid of a ManagedCluster that has come without ever having joined.
#[derive(Clone, Default)]
struct New(Arc<Mutex<Option<String>>>);

impl New {
    fn uid(&self) -> MutexGuard<'_, Option<String>> {
        // What is behind a poisoned lock is a uid, whole or absent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct ClientConfigs {
    agent: Arc<Agent>,
    clusters: Cache<ManagedCluster>,
    new: New,
}

/// What a plan is made from.
pub(super) struct Seen {
    /// The cluster, if it is one that has come anew and is accepted: before that we have no right to it.
    cluster: Option<Arc<ManagedCluster>>,
    /// As it would be created.
    wanted: ManagedCluster,
}

/// Starts it.
pub(super) fn start(
    agent: &Arc<Agent>,
    hub: Client,
    clusters: &Cache<ManagedCluster>,
    stop: &CancellationToken,
) -> Running {
    let new = New::default();
    let seen = new.clone();
    // Told before the queue is: that it has joined is soon said, by ourselves.
    clusters.listen(move |_, now| {
        if let Some(cluster) = now.filter(|it| !holds(it, managed_cluster::JOINED)) {
            *seen.uid() = cluster.uid();
        }
    });
    let queue = Queue::new();
    clusters.subscribe_by_name(&queue);
    let reconciler = ClientConfigs {
        agent: agent.clone(),
        clusters: clusters.clone(),
        new,
    };
    ocm_reconcile::spawn(reconciler, Clients::hub(hub), queue, 1, stop.clone())
}

fn holds(cluster: &ManagedCluster, condition: &str) -> bool {
    condition::is_true(status::conditions(cluster), condition)
}

#[async_trait]
impl Reconciler for ClientConfigs {
    const NAME: &'static str = "managed-cluster-client-configs";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let is_new = |it: &Arc<ManagedCluster>| {
            it.uid().is_some() && it.uid() == *self.new.uid() && holds(it, managed_cluster::HUB_ACCEPTED)
        };
        Ok(Seen {
            cluster: self.clusters.named(name).filter(is_new),
            wanted: joining::wanted(&self.agent),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        match &seen.cluster {
            Some(cluster) => joining::add_client_configs(cluster, &seen.wanted),
            None => Plan::new(),
        }
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let Some(cluster) = seen.cluster.as_ref().filter(|_| outcome.succeeded()) else {
            return;
        };
        let mut new = self.new.uid();
        if *new == cluster.uid() {
            *new = None;
        }
    }
}
