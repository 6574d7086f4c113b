//! Telling the hub how the cluster's API server is reached, when our ManagedCluster was deleted
//! and made anew while we run.
//!
//! Root: our ManagedCluster. Reads: it. Writes: client configs that it lacks.
//! Never: those of a cluster that had joined when we first saw it, where an administrator may have taken them away.
//! Upstream writes them only while a cluster joins, and leaves a cluster that is made anew without.

use std::sync::Arc;

use kube::ResourceExt;
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::{Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Watches, async_trait, rbac::Right};
use parking_lot::Mutex;

use super::{drive::RegistrationAgent, own_cluster, permissions};

/// The reconciler.
pub(super) struct ClientConfigs {
    agent: Arc<RegistrationAgent>,
    clusters: Cache<ManagedCluster>,
    /// The uid of a ManagedCluster that has come without ever having joined.
    new: Arc<Mutex<Option<String>>>,
}

/// What a plan is made from.
pub(super) struct Seen {
    cluster: Option<Arc<ManagedCluster>>,
    /// The uid of the one that has come anew.
    new: Option<String>,
    /// As it would be created.
    desired: ManagedCluster,
}

impl ClientConfigs {
    /// Over the caches of the hub.
    pub fn new(agent: &Arc<RegistrationAgent>, hub: &Caches) -> Self {
        let (clusters, new) = (own_cluster::watch(hub, agent), Arc::new(Mutex::new(None)));
        let of_new = new.clone();
        // Told before the queue is: that it has joined is soon said, by ourselves.
        clusters.listen(move |_, now| {
            if let Some(cluster) = now.filter(|it| !own_cluster::has_joined(it)) {
                *of_new.lock() = cluster.uid();
            }
        });
        Self {
            agent: agent.clone(),
            clusters,
            new,
        }
    }
}

#[async_trait]
impl Reconciler for ClientConfigs {
    const NAME: &'static str = "managed-cluster-client-configs";
    const RIGHTS: &'static [Right] = &[permissions::OWN_CLUSTER];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.clusters).not_awaited();
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            cluster: self.clusters.named(name),
            new: self.new.lock().clone(),
            desired: own_cluster::desired(&self.agent),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        match seen.anew() {
            Some(cluster) => own_cluster::add_client_configs(cluster, &seen.desired),
            None => Plan::new(),
        }
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let mut new = self.new.lock();
        // Another may have come since.
        if outcome.succeeded() && seen.anew().is_some() && *new == seen.new {
            *new = None;
        }
    }
}

impl Seen {
    /// The cluster, if it is one that has come anew and is accepted: before that we have no right to it.
    fn anew(&self) -> Option<&ManagedCluster> {
        let cluster = self.cluster.as_deref()?;
        let is_new = self.new.is_some() && self.new == cluster.uid();
        (is_new && own_cluster::is_accepted(cluster)).then_some(cluster)
    }
}
