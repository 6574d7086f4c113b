//! One agent process: joins a cluster to a hub, carries out the hub's works on it, and looks after its add-ons.
//! Upstream runs a registration agent and a work agent, each with connections of its own. Here both share one HTTP/2
//! connection to the hub, the one that registration keeps the right to.

mod workers;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, api::ApiResource};
use ocm_api::{labels, namespaces};
use ocm_reconcile::install::{self, InstallError, Installed};
use registration::agent::{AgentError, AgentOptions};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// An agent that runs.
pub struct Agent {
    registration: JoinHandle<Result<(), AgentError>>,
    workers: JoinHandle<()>,
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
    let sessions = options.sessions.subscribe();
    let ground = workers::Ground {
        cluster: options.cluster.clone(),
        management: options.management.clone(),
        is_hosted: options.is_hosted,
        component_namespace: options.component_namespace.clone(),
        addon_driver: options.addon_driver,
        addon_token_seconds: options.addon_token_seconds,
    };
    let workers = tokio::spawn(workers::follow(sessions, ground, cancel.clone()));
    let registration = tokio::spawn(registration::agent::run(options, cancel));
    Ok(Agent { registration, workers })
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
    }
}
