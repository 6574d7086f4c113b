//! One agent process: joins a cluster to a hub, carries out the hub's works on it, and looks after its add-ons.
//! Upstream runs a registration agent and a work agent, each with connections of its own. Here both share one HTTP/2
//! connection to the hub, the one that registration keeps the right to.
//!
//! ```text
//! hub                           agent                                   managed cluster
//! ManagedCluster, Lease    <--> registration::agent  ----------------> Secret of the credential, ClusterClaims, Nodes, Namespaces
//! ManifestWork             <--> work::agent (workers)  --------------> AppliedManifestWork, and whatever works contain
//! ManagedClusterAddOn      <--> addon::agent (workers)  -------------> Leases and Secrets of add-ons
//!                               pull_secret  ------------------------> Secrets that images are pulled with, Namespaces of add-ons
//! ```

pub mod pull_secret;
pub mod rbac;
mod workers;

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, api::ApiResource};
use ocm_api::{labels, namespaces};
use ocm_reconcile::install::{self, InstallError, Installed};
use registration::agent::{AgentError, AgentOptions};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use work::agent::{EVICTION_GRACE, feedback::RawJson};

/// What an agent does on its cluster for the hub, beside keeping the right to speak to it. Upstream has a program for
/// each of the two halves; ours may run as one or the other, too: `work::agent::run` is the whole of the work agent.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Carry out works (upstream: `work agent`).
    pub works: Option<Works>,
    /// Look after add-ons (upstream: gate AddonManagement of `registration agent`).
    pub addons: bool,
}

/// How works are carried out.
#[derive(Clone, Debug)]
pub struct Works {
    /// Tells this agent's traces from those of others.
    pub agent_id: AgentId,
    /// How long the objects of a work that vanished from the hub stay.
    pub eviction_grace: Duration,
    /// What to do with feedback that is neither text, whole number nor boolean.
    pub raw_feedback: RawJson,
    /// How many works are looked at at the same time; `None` for our own number.
    pub workers: Option<usize>,
}

/// By what an agent knows the traces of works as its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentId {
    /// The uid of the namespace in which it keeps its credential: it outlives the credential and the hub's address.
    OfNamespace,
    /// The id that is part of its name on the hub.
    OfRegistration,
    /// This one.
    Given(String),
}

impl Default for Works {
    fn default() -> Self {
        Self {
            agent_id: AgentId::OfNamespace,
            eviction_grace: EVICTION_GRACE,
            raw_feedback: RawJson::Refused,
            workers: None,
        }
    }
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            works: Some(Works::default()),
            addons: true,
        }
    }
}

/// An agent that runs.
pub struct Agent {
    registration: JoinHandle<Result<(), AgentError>>,
    workers: JoinHandle<()>,
    // Of the whole agent only: where a part runs alone, upstream's operator looks after this.
    pull_secret: Option<JoinHandle<()>>,
}

/// Why an agent is not running.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Its own kinds could not be put on the cluster.
    #[error("the cluster does not take the agent's kinds")]
    Install(#[from] InstallError),
    /// It could not join.
    #[error(transparent)]
    Registration(#[from] AgentError),
    /// It crashed.
    #[error("the agent crashed: {0}")]
    Crashed(#[source] tokio::task::JoinError),
    /// It has stopped, as it was told to.
    #[error("the agent has stopped")]
    Stopped,
}

/// Puts on the cluster what the agent needs there, and starts it. It ends with `cancel`.
pub async fn start(options: AgentOptions, cancel: CancellationToken) -> Result<Agent, InstallError> {
    install(&options.cluster).await?;
    let copies = pull_secret::Options {
        cluster: options.cluster.clone(),
        management: options.management.clone(),
        component_namespace: options.component_namespace.clone(),
        is_hosted: options.is_hosted,
    };
    let mut agent = start_parts(options, Parts::default(), cancel.clone());
    agent.pull_secret = Some(tokio::spawn(pull_secret::run(copies, cancel)));
    Ok(agent)
}

/// Starts an agent that does so much, on a cluster that has what the agent needs there. It ends with `cancel`.
pub fn start_parts(options: AgentOptions, parts: Parts, cancel: CancellationToken) -> Agent {
    let sessions = options.sessions.subscribe();
    let of_workers = workers::WorkerOptions {
        cluster: options.cluster.clone(),
        management: options.management.clone(),
        is_hosted: options.is_hosted,
        component_namespace: options.component_namespace.clone(),
        addon_driver: options.addon_driver,
        addon_token_seconds: options.addon_token_seconds,
        addon_lease_grace: options.addon_lease_grace,
        parts,
    };
    let workers = tokio::spawn(workers::follow(sessions, of_workers, cancel.clone()));
    let registration = tokio::spawn(registration::agent::run(options, cancel));
    Agent {
        registration,
        workers,
        pull_secret: None,
    }
}

async fn install(cluster: &Client) -> Result<(), InstallError> {
    install::install_crds(cluster, ocm_api::crds::managed_cluster()).await?;
    // Most add-ons take it for granted that the namespace they are installed in by default is there.
    let namespace = Installed::new(
        ApiResource::erase::<Namespace>(&()),
        json!({"metadata": {"name": namespaces::AGENT_ADDON, "labels": {(labels::ADDON_WANTS_COPIES): "true"}}}),
    );
    install::install(cluster, &[namespace]).await
}

impl Agent {
    /// Ends when the agent has ended, and says why. To be awaited once.
    pub async fn ended(&mut self) -> Ended {
        match (&mut self.registration).await {
            Ok(Ok(())) => Ended::Stopped,
            Ok(Err(error)) => error.into(),
            Err(error) => Ended::Crashed(error),
        }
    }

    /// Ends when everything has ended, which it does after it was cancelled.
    pub async fn finished(self) {
        // A task that crashed has ended too, and there is nobody left to tell.
        if !self.registration.is_finished() {
            let _ = self.registration.await;
        }
        let _ = self.workers.await;
        if let Some(pull_secret) = self.pull_secret {
            let _ = pull_secret.await;
        }
    }
}
