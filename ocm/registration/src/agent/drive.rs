//! Drives an agent through its phases: looks at the credential, joins without one, keeps a session with one.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use credential::{
    Connection, KubeconfigProblem, Loaded,
    hub_secret::{self, Data, TLS_CRT, Validity},
    kubeconfig,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, api::ObjectMeta, runtime::watcher};
use ocm_api::{cluster::ManagedCluster, condition::ConditionUpdate};
use ocm_reconcile::{Cache, Caches, Clients, Controller, Plan, Queue, Site, StepError, cache::Watching, execute};
use rand::RngExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    AgentError, AgentOptions, Phase, PhaseSeen,
    enrolment::{self, JoinProgress, ReportProgress},
    joining::Joining,
    phase,
    session::{self, Ended},
};
use crate::admission::check_name;

/// The letters of random agent ids: those Kubernetes generates names from, without vowels.
const ID_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// The shortest and the longest wait before joining is tried again.
const JOIN_AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(15));

/// Runs an agent until it is cancelled.
///
/// # Errors
/// When it cannot begin: the name is none, the bootstrap kubeconfig cannot be read, or, with `fail_fast`,
/// does not work.
pub async fn run(options: AgentOptions, cancel: CancellationToken) -> Result<(), AgentError> {
    let agent = RegistrationAgent::prepare(options, &cancel).await?;
    let result = agent.drive(&cancel).await;
    agent.options.sessions.send_replace(None);
    if result.is_ok() {
        agent.say(&PhaseSeen {
            leaving: true,
            ..PhaseSeen::default()
        });
    }
    result
}

/// One agent: what it is, and what it has on its own cluster.
pub(super) struct RegistrationAgent {
    pub options: AgentOptions,
    pub cluster: String,
    pub id: String,
    /// The credential's Secret, if it exists.
    pub secrets: Cache<Secret>,
    /// What the ManagedCluster is to say about the last renewal of the certificate.
    pub rotation: watch::Sender<Option<ConditionUpdate>>,
    said: Mutex<Option<Phase>>,
}

impl RegistrationAgent {
    async fn prepare(options: AgentOptions, cancel: &CancellationToken) -> Result<Arc<Self>, AgentError> {
        // A name that can never work is told before anything is touched.
        if let Some(name) = &options.cluster_name {
            check_name(name).map_err(|_| AgentError::ClusterName(name.clone()))?;
        }
        if let Some(id) = options.agent_id.as_ref().filter(|it| it.is_empty() || it.contains(':')) {
            return Err(AgentError::AgentId(id.clone()));
        }
        options.bootstrap.read().await?;
        keep_namespace(&options).await.map_err(AgentError::Management)?;
        let api: Api<Secret> = Api::namespaced(options.management.clone(), &options.component_namespace);
        let secret = api
            .get_opt(&options.hub_kubeconfig_secret)
            .await
            .map_err(AgentError::Management)?;
        let data = secret.as_ref().map(hub_secret::data).unwrap_or_default();
        let earlier = |key| hub_secret::text(&data, key).map(str::to_owned);
        let cluster = options
            .cluster_name
            .clone()
            .or_else(|| earlier(hub_secret::CLUSTER_NAME));
        let id = options.agent_id.clone().or_else(|| earlier(hub_secret::AGENT_NAME));
        let only = watcher::Config::default().fields(&format!("metadata.name={}", options.hub_kubeconfig_secret));
        let watching = Watching {
            selection: only,
            ..Watching::default()
        };
        let caches = Caches::new(options.management.clone(), cancel.clone());
        let secrets = caches.in_namespace(&options.component_namespace, watching);
        tokio::select! {
            () = cancel.cancelled() => {}
            () = secrets.synced() => {}
        }
        Ok(Arc::new(Self {
            cluster: cluster.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            id: id.unwrap_or_else(random_id),
            secrets,
            rotation: watch::Sender::new(None),
            said: Mutex::new(None),
            options,
        }))
    }

    async fn drive(self: &Arc<Self>, cancel: &CancellationToken) -> Result<(), AgentError> {
        let mut bootstrap = self.options.bootstrap.read().await?;
        // A certificate that the hub has refused is not tried again, however long it would be valid.
        let mut refused: Option<Vec<u8>> = None;
        let mut failures = 0;
        while !cancel.is_cancelled() {
            match self.options.bootstrap.read().await {
                Ok(now) => bootstrap = now,
                Err(problem) => warn!(%problem, "the bootstrap kubeconfig cannot be read, using what was read before"),
            }
            let data = self.data(refused.as_deref());
            match hub_secret::validity(&data, &bootstrap, &self.cluster, &self.id, Timestamp::now()) {
                Validity::Valid(chain) => {
                    info!(cluster = %self.cluster, agent = %self.id, until = %chain.not_after, "credential is valid");
                    match session::keep(self, &bootstrap, &data, cancel).await {
                        Ended::Refused(why) => {
                            self.say(&PhaseSeen {
                                refused: Some(why),
                                ..PhaseSeen::default()
                            });
                            refused = data.get(TLS_CRT).cloned();
                        }
                        Ended::Changed(why) => info!(%why, "the session with the hub is over"),
                        Ended::Cancelled => return Ok(()),
                    }
                }
                Validity::Invalid(why) => {
                    let had_credential = refused.is_some() || data.contains_key(TLS_CRT);
                    let seen = PhaseSeen {
                        invalid: Some(why),
                        had_credential,
                        ..PhaseSeen::default()
                    };
                    self.say(&seen);
                    match self.join(&bootstrap, &seen, refused.as_deref(), cancel).await {
                        Ok(()) => failures = 0,
                        Err(problem) if self.options.fail_fast && failures == 0 && !seen.had_credential => {
                            return Err(problem.into());
                        }
                        Err(problem) => {
                            self.say(&PhaseSeen {
                                hindrance: Some(problem.to_string()),
                                ..seen
                            });
                            self.pause(&bootstrap, failures, cancel).await;
                            failures += 1;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    // Asks the hub to let us in, until we have a credential, the bootstrap kubeconfig changes, or we are told to stop.
    async fn join(
        self: &Arc<Self>,
        bootstrap: &Loaded,
        seen: &PhaseSeen,
        refused: Option<&[u8]>,
        cancel: &CancellationToken,
    ) -> Result<(), KubeconfigProblem> {
        bootstrap.check(Timestamp::now())?;
        let bad = |why: String| KubeconfigProblem::BadMaterial {
            path: bootstrap.path.clone(),
            why,
        };
        let connection = Connection::new(&bootstrap.config).map_err(|error| bad(error.to_string()))?;
        let hub = self.options.guard.over(connection.client());
        // One question first, so that whatever is wrong with the way to the hub is told in a sentence.
        match Api::<ManagedCluster>::all(hub.clone()).get_opt(&self.cluster).await {
            Ok(_) => {}
            // A credential that may not even look may still ask for a certificate.
            Err(kube::Error::Api(status)) if status.code == 403 => {}
            Err(error) => return Err(kubeconfig::explain(&bootstrap.server, &error)),
        }
        let stop = cancel.child_token();
        let (speaker, before) = (self.clone(), seen.clone());
        let report: ReportProgress = Arc::new(move |progress| {
            let seen = before.clone();
            speaker.say(&match progress {
                JoinProgress::Request(it) => PhaseSeen {
                    request: Some(it),
                    ..seen
                },
                JoinProgress::Hindrance(it) => PhaseSeen {
                    hindrance: Some(it),
                    ..seen
                },
            });
        });
        let joining = Joining::new(self, &Caches::new(hub.clone(), stop.clone()), report.clone());
        let creating = Controller::new(joining).start_on_hub(hub.clone(), stop.clone());
        let enrolled = enrolment::obtain(self, bootstrap, hub, false, refused, report, &stop);
        tokio::select! {
            () = cancel.cancelled() => {}
            () = enrolled => {}
            () = self.options.bootstrap.changed(bootstrap) => {}
        }
        stop.cancel();
        // The task only ends early when it panicked, and then it has nothing left to stop.
        let _ = creating.finished.await;
        Ok(())
    }

    async fn pause(&self, bootstrap: &Loaded, failures: u32, cancel: &CancellationToken) {
        let delay = (JOIN_AGAIN.0 * 2u32.saturating_pow(failures.min(10))).min(JOIN_AGAIN.1);
        let delay = delay.mul_f64(rand::rng().random_range(0.5..1.5));
        tokio::select! {
            () = cancel.cancelled() => {}
            () = tokio::time::sleep(delay) => {}
            () = self.options.bootstrap.changed(bootstrap) => {}
        }
    }

    /// The credential's data, without a certificate that the hub has refused.
    pub fn data(&self, refused: Option<&[u8]>) -> Data {
        let secret = self
            .secrets
            .get(&self.options.component_namespace, &self.options.hub_kubeconfig_secret);
        let mut data = secret.map(|it| hub_secret::data(&it)).unwrap_or_default();
        if refused.is_some() && data.get(TLS_CRT).map(Vec::as_slice) == refused {
            data.remove(TLS_CRT);
        }
        data
    }

    /// Has our cluster looked at whenever the certificate was renewed, or could not be.
    pub async fn wake_after_rotation(self: Arc<Self>, queue: Queue, stop: CancellationToken) {
        let mut rotation = self.rotation.subscribe();
        // The sender lives in the agent that we hold.
        while let Some(Ok(())) = stop.run_until_cancelled(rotation.changed()).await {
            queue.add(&self.cluster);
        }
    }

    /// Tells the phase that follows from this, if it is another than the last.
    pub fn say(&self, seen: &PhaseSeen) {
        let phase = phase(seen);
        // A poisoned lock only means that a listener panicked.
        let mut said = self.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if said.as_ref() == Some(&phase) {
            return;
        }
        info!(cluster = %self.cluster, %phase, "phase");
        (self.options.on_phase)(&phase);
        *said = Some(phase);
    }
}

async fn keep_namespace(options: &AgentOptions) -> Result<(), kube::Error> {
    let name = &options.component_namespace;
    match Api::<Namespace>::all(options.management.clone()).get_opt(name).await {
        Ok(None) => {}
        Ok(Some(_)) => return Ok(()),
        // Where somebody else deploys agents, it is theirs, and an agent need not be able to look.
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(()),
        Err(error) => return Err(error),
    }
    let mut plan = Plan::new();
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        ..ObjectMeta::default()
    };
    plan.create(
        Site::Cluster,
        &Namespace {
            metadata,
            ..Namespace::default()
        },
    );
    let outcome = execute(&Clients::cluster(options.management.clone()), &plan).await;
    match outcome.stages.into_iter().flatten().next() {
        Some(Err(StepError::Kube(error))) => Err(error),
        _ => Ok(()),
    }
}

fn random_id() -> String {
    let mut rng = rand::rng();
    (0..5)
        .map(|_| char::from(ID_LETTERS[rng.random_range(0..ID_LETTERS.len())]))
        .collect()
}
