//! What is done about a cluster that waits for an import. A run has up to three rounds: whether there is something to
//! do, what manifests are made of, and the cluster.
//!
//! Root: ManagedCluster. Reads: the Cluster of Cluster API that it is; the Secret with its kubeconfig, and the one with
//! values for the klusterlet chart; where the hub is; what the cluster has of the agent's manifests. Writes: the
//! manifests, on the cluster; on the hub condition `ManagedClusterImportSucceeded`, an Event, a token, and the end of a
//! Secret whose owner wants that. Never: a cluster that was imported, or one that is another ManagedCluster already.
//! Upstream: ocm `pkg/registration/hub/importer`. Ours has Secrets beside Cluster API, takes any version of Cluster
//! API, and neither starts programs nor opens files for a kubeconfig.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::{Outcome, Plan};

use super::{
    failure::Failure,
    lookup::Inputs,
    options::Options,
    remote::Remote,
    source::ImportSource,
    values::{self, Materials},
};

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster's name.
    pub name: String,
    /// What an administrator has chosen.
    pub options: Arc<Options>,
    /// The cluster, as long as it waits for an import.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Who knows the way to it.
    pub source: Option<ImportSource>,
    /// What the result depends on, as far as it is watched.
    pub inputs: Inputs,
    /// The last try, if it failed.
    pub last: Option<Attempt>,
    /// What else was looked at.
    pub round: ImportRound,
}

/// What was looked at besides, round by round.
pub enum ImportRound {
    /// Nothing.
    First,
    /// What the agent's manifests are made of.
    Materials(Box<Materials>),
    /// The cluster, or why it cannot be looked at.
    Cluster(Box<Result<Remote, Failure>>),
}

/// A try that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// With which inputs.
    pub inputs: Inputs,
    /// How often, with these.
    pub failures: u32,
    /// When the next one is due; `None` when a watch tells.
    pub again: Option<Timestamp>,
}

/// What is to be done about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It does not wait, or nobody knows the way to it.
    Leave,
    /// It was tried with the same inputs a moment ago.
    Later(Duration),
    /// It cannot be tried.
    Failed(Failure),
    /// This is its kubeconfig.
    Go(String),
}

impl Seen {
    /// What is to be done, from what the first round has seen.
    pub fn decide(&self) -> Decision {
        let (Some(_), Some(source)) = (&self.cluster, &self.source) else {
            return Decision::Leave;
        };
        let kubeconfig = match source.kubeconfig(&self.name) {
            Ok(kubeconfig) => kubeconfig,
            Err(failure) => return Decision::Failed(failure),
        };
        let again = self.same_as_last().and_then(|it| it.again);
        match again.map(|it| it.duration_since(self.now)).map(Duration::try_from) {
            Some(Ok(rest)) if !rest.is_zero() => Decision::Later(rest),
            _ => Decision::Go(kubeconfig),
        }
    }

    /// How often it was tried in vain with the same inputs.
    pub fn failures(&self) -> u32 {
        self.same_as_last().map_or(0, |it| it.failures)
    }

    fn same_as_last(&self) -> Option<&Attempt> {
        self.last.as_ref().filter(|it| it.inputs == self.inputs)
    }

    /// What is written in this round.
    pub fn plan(&self) -> Plan {
        let mut plan = Plan::new();
        match &self.round {
            ImportRound::First => match self.decide() {
                Decision::Later(rest) => {
                    plan.wait("it was tried a moment ago").look_again(rest);
                }
                Decision::Failed(failure) => {
                    plan.wait(failure.message);
                }
                Decision::Leave | Decision::Go(_) => {}
            },
            // A token is asked for when everything else is there.
            ImportRound::Materials(materials) => match values::values(&self.options, &self.name, materials, "") {
                Ok(_) => return values::request_token(&self.options),
                Err(why) => {
                    plan.refuse(why);
                }
            },
            ImportRound::Cluster(looked) => match &**looked {
                Err(failure) => {
                    plan.wait(&failure.message);
                }
                Ok(remote) => match remote.plan() {
                    Ok(writes) => return writes,
                    Err(failure) => {
                        plan.refuse(failure.message);
                    }
                },
            },
        }
        plan
    }

    /// Whether there is another round.
    pub fn goes_on(&self, outcome: &Outcome) -> bool {
        match &self.round {
            ImportRound::First => matches!(self.decide(), Decision::Go(_)),
            ImportRound::Materials(materials) => {
                outcome.succeeded() && values::values(&self.options, &self.name, materials, "").is_ok()
            }
            ImportRound::Cluster(_) => false,
        }
    }

    /// The try that has failed now.
    pub fn attempt(&self, failure: &Failure) -> Attempt {
        let delay = failure.delay(self.failures());
        Attempt {
            inputs: self.inputs.clone(),
            failures: self.failures().saturating_add(1),
            again: delay.and_then(|it| self.now.checked_add(it).ok()),
        }
    }
}
