//! Clusters that join without a join command: where the hub has a cluster's kubeconfig, an agent is put there.
//!
//! ```text
//! Cluster of Cluster API --phase, Secret <name>-kubeconfig--+--source--> kubeconfig --remote--> klusterlet chart
//! Secret auto-import-secret ---------------------------------+                          ^         on the cluster
//! Secret cluster-import-config, token, kube-public/cluster-info ---values, charts------+
//! ```
//!
//! [`plan`] says what is read and written, and decides; [`lookup`] reads the hub, [`remote`] the cluster;
//! [`verdict`] is what is said of it.

pub mod cluster_api;
mod failure;
pub mod kubeconfig;
mod lookup;
mod options;
mod plan;
mod remote;
mod rights;
pub mod source;
mod values;
mod verdict;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use ocm_api::{cluster::ManagedCluster, conditions::managed_cluster};
use ocm_reconcile::{
    Caches, Clients, Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, StatusField, StepError, Watches,
    async_trait, rbac::Right,
};
use parking_lot::Mutex;

pub use options::{Options, Renderer, namespaced};
pub use plan::Seen;

use self::{
    lookup::Lookup,
    plan::{Attempt, ImportRound},
};

/// How many clusters are worked on at a time. Most of it is waiting, and for clusters that are away it is all of it.
const WORKERS: usize = 16;

/// The reconciler.
pub struct Importer {
    options: Arc<Options>,
    lookup: Lookup,
    failed: Mutex<BTreeMap<String, Attempt>>,
}

impl Importer {
    /// Over these caches.
    pub fn new(caches: &Caches, options: Options) -> Self {
        Self {
            options: Arc::new(options),
            lookup: Lookup::over(caches),
            failed: Mutex::default(),
        }
    }
}

#[async_trait]
impl Reconciler for Importer {
    const NAME: &'static str = "managed-cluster-importer";
    const WORKERS: usize = WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::condition(
        ManagedCluster::KIND,
        managed_cluster::IMPORT_SUCCEEDED,
    )];
    const RIGHTS: &'static [Right] = rights::RIGHTS;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        self.lookup.watches(watches);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.lookup.waiting(name);
        let source = match &cluster {
            Some(cluster) => self.lookup.source(cluster).await,
            None => None,
        };
        Ok(Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            options: self.options.clone(),
            inputs: self.lookup.inputs(name, source.as_ref()),
            last: self.failed.lock().get(name).cloned(),
            cluster,
            source,
            round: ImportRound::First,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        seen.plan()
    }

    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        seen.goes_on(outcome)
    }

    async fn observe_again(&self, _: &str, before: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        Ok(self.lookup.again(before, outcome).await)
    }

    /// The cluster is whichever the kubeconfig leads to.
    fn clients(&self, seen: &Seen) -> Option<Clients> {
        let ImportRound::Cluster(looked) = &seen.round else {
            return None;
        };
        let hub = self.lookup.client()?.clone();
        Some(Clients::both(hub, looked.as_ref().as_ref().ok()?.client.clone()))
    }

    async fn perform(&self, seen: &Seen, own: &OwnStep) -> Result<Done, StepError> {
        let ImportRound::Cluster(looked) = &seen.round else {
            return Err(StepError::NobodyPerforms(own.verb));
        };
        match &**looked {
            Ok(remote) => remote.served(&own.what).await.map_err(StepError::Own)?,
            Err(failure) => return Err(StepError::Own(failure.message.clone())),
        }
        Ok(Done::Performed)
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        if !seen.goes_on(outcome) {
            verdict::remember(&mut self.failed.lock(), seen, outcome);
        }
    }

    /// What fails is said in the condition, and the next try has a time of its own.
    fn failure(_: &Seen, _: &Outcome) -> Option<String> {
        None
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        verdict::of(seen, outcome).map_or_else(Plan::new, |it| verdict::say(seen, &it))
    }
}

#[cfg(test)]
mod tests;
