//! The one list of what an agent does for the hub while it has a session with it.

use addon::agent::AddOnAgentOptions;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use ocm_api::addon::KubeClientDriver;
use registration::agent::HubSession;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use work::agent::{WorkAgentOptions, hub_hash};

use crate::{AgentId, Parts, Works};

const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(30);

/// Where the agent lives, and where it works.
pub struct WorkerOptions {
    /// The managed cluster.
    pub cluster: Client,
    /// The cluster that holds the agent's own objects.
    pub management: Client,
    /// Whether that is another cluster than the managed one.
    pub is_hosted: bool,
    /// The namespace of those objects.
    pub component_namespace: String,
    /// How the agents of add-ons prove to the hub who they are, if the cluster is to decide that.
    pub addon_driver: Option<KubeClientDriver>,
    /// How long their tokens live, if the cluster is to decide that.
    pub addon_token_seconds: Option<i64>,
    /// How long after its last word the agent of an add-on counts as alive, if the cluster is to decide that.
    pub addon_lease_grace: Option<Duration>,
    /// What to do there.
    pub parts: Parts,
}

/// Starts the workers with each session, and stops them with it.
pub async fn follow(
    mut sessions: watch::Receiver<Option<HubSession>>,
    options: WorkerOptions,
    cancel: CancellationToken,
) {
    loop {
        let session = sessions.borrow_and_update().clone();
        if let Some(session) = session {
            let stop = cancel.child_token();
            // On the heap while there is a session: as a part of this future it would take its room twice.
            let mut workers = Box::pin(async {
                let works = async {
                    if let Some(works) = &options.parts.works {
                        work(&session, &options, works, stop.clone()).await;
                    }
                };
                let addons = async {
                    if options.parts.addons {
                        addons(&session, &options, stop.clone()).await;
                    }
                };
                tokio::join!(works, addons)
            });
            tokio::select! {
                _ = &mut workers => {}
                () = session.ended.cancelled() => {
                    stop.cancel();
                    // What is under way is finished, not torn: half an apply would be repaired only
                    // by the next session.
                    workers.await;
                }
            }
            if cancel.is_cancelled() {
                return;
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            changed = sessions.changed() => if changed.is_err() { return },
        }
    }
}

async fn work(session: &HubSession, agent: &WorkerOptions, works: &Works, stop: CancellationToken) {
    let hash = hub_hash(&session.server);
    let mut options = WorkAgentOptions {
        eviction_grace: works.eviction_grace,
        raw_feedback: works.raw_feedback,
        leaving: session.leaving.clone(),
        ..WorkAgentOptions::new(session.client.clone(), agent.cluster.clone(), &session.cluster, &hash)
    };
    options.workers = works.workers.unwrap_or(options.workers);
    let id = async {
        match &works.agent_id {
            AgentId::Given(id) => id.clone(),
            AgentId::OfRegistration => session.agent.clone(),
            AgentId::OfNamespace => namespace_uid(agent).await,
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        id = id => {
            options.agent_id = id;
            work::agent::run(options, stop).await;
        }
    }
}

async fn addons(session: &HubSession, options: &WorkerOptions, stop: CancellationToken) {
    let options = AddOnAgentOptions {
        hub: session.client.clone(),
        cluster: options.cluster.clone(),
        management: options.is_hosted.then(|| options.management.clone()),
        cluster_name: session.cluster.clone(),
        hub_kubeconfig: session.kubeconfig.clone(),
        clusters: session.clusters.clone(),
        driver: options.addon_driver,
        token_seconds: options.addon_token_seconds,
        lease_grace: options.addon_lease_grace.unwrap_or(AddOnAgentOptions::LEASE_GRACE),
    };
    addon::agent::run(options, stop).await;
}

/// What tells this agent's applied works from those of another agent on the same cluster. It must outlive the
/// credential and the hub's address, or works of the old address would never be cleaned up; upstream's operator passes
/// the uid of its Klusterlet, and ours is the uid of the namespace in which the agent keeps its credential. Guessing
/// another one would make strangers of our own works, so this waits until it can be read.
async fn namespace_uid(options: &WorkerOptions) -> String {
    let namespaces: Api<Namespace> = Api::all(options.management.clone());
    let mut pause = RETRY_FIRST;
    loop {
        match namespaces.get(&options.component_namespace).await {
            Ok(namespace) => return namespace.metadata.uid.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(namespace = %options.component_namespace, %error, "could not read the agent's namespace");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_LAST);
    }
}
