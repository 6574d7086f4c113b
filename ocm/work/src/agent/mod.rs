//! The agent half: what a hub asks for is put on the cluster, kept there, reported on and removed again.
//!
//! ```text
//! ManifestWork (hub) --+
//! AppliedManifestWork -+--> observation --Seen--> manifest_works: phase --+--> applying: strategy, agreement, ignore
//! objects -------------+    claims, executor                              +--> removing: ownership
//!    ^                                                                    +--> statuses: report, feedback, rules
//!    +------------- writes, one round after the other (round, attempts, written) ----------+
//! ```

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use kube::Client;
use ocm_api::{
    namespaces::WORK_FIELD_MANAGER,
    work::{AppliedManifestWork, ManifestWork, manifests},
};
use ocm_reconcile::{Cache, Caches, Clients, Controller, Queue, cache::Watching};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, info_span};

mod applying;
mod attempts;
mod claims;
pub mod config;
mod declared;
pub mod discovery;
pub mod executor;
pub mod feedback;
mod grants;
pub mod ignore;
pub mod jq;
pub mod jsonpath;
pub mod manifest;
mod manifest_works;
mod md5;
mod memory;
pub mod objects;
mod observation;
pub mod ownership;
mod phase;
mod records;
mod removing;
pub mod report;
mod round;
pub mod rules;
mod schedule;
mod seen;
mod signals;
mod statuses;
pub mod strategy;
mod written;

use discovery::Discovery;
use executor::Executors;
use feedback::RawJson;
use manifest_works::ManifestWorks;
use objects::WatchedObjects;
use seen::AgentIdentity;

/// How long the objects of a work that vanished from the hub stay: upstream's default.
pub const EVICTION_GRACE: Duration = Duration::from_secs(60 * 60);

/// What the agent half needs.
#[derive(Clone)]
pub struct WorkAgentOptions {
    /// Speaks to the hub as the agent.
    pub hub: Client,
    /// Speaks to the cluster.
    pub cluster: Client,
    /// The cluster's name, and its namespace on the hub.
    pub cluster_name: String,
    /// Tells this agent from others on the cluster, and survives a change of the hub's address. Empty: the hub hash.
    pub agent_id: String,
    /// See [`hub_hash`].
    pub hub_hash: String,
    /// How long the objects of a work that vanished from the hub stay.
    pub eviction_grace: Duration,
    /// What to do with feedback that is neither text, whole number nor boolean.
    pub raw_feedback: RawJson,
    /// How many works are looked at at the same time.
    pub workers: usize,
    /// Cancelled when the hub has said that it deletes the cluster. What its works have applied is then removed as soon
    /// as they are gone, or the hub refuses to show them: nobody will ever say more about them.
    pub leaving: CancellationToken,
}

impl WorkAgentOptions {
    /// Upstream's defaults for everything that has one.
    pub fn new(hub: Client, cluster: Client, cluster_name: &str, hub_hash: &str) -> Self {
        Self {
            hub,
            cluster,
            cluster_name: cluster_name.to_owned(),
            agent_id: String::new(),
            hub_hash: hub_hash.to_owned(),
            eviction_grace: EVICTION_GRACE,
            raw_feedback: RawJson::Refused,
            workers: 32,
            leaving: CancellationToken::new(),
        }
    }
}

/// Lower-case hex SHA-256 of the hub's address, byte for byte as the kubeconfig has it.
pub fn hub_hash(address: &str) -> String {
    Sha256::digest(address.as_bytes())
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect()
}

/// Runs until cancelled, then waits for the runs under way.
pub async fn run(options: WorkAgentOptions, cancel: CancellationToken) {
    let span = info_span!("work", cluster = %options.cluster_name);
    serve(options, cancel).instrument(span).await;
}

async fn serve(options: WorkAgentOptions, cancel: CancellationToken) {
    let WorkAgentOptions {
        hub,
        cluster,
        cluster_name,
        agent_id,
        hub_hash,
        eviction_grace,
        raw_feedback,
        workers,
        leaving,
    } = options;
    let identity = Arc::new(AgentIdentity {
        agent_id: if agent_id.is_empty() {
            hub_hash.clone()
        } else {
            agent_id
        },
        hub_hash,
        eviction_grace,
        raw: raw_feedback,
    });
    let stop = cancel.child_token();
    // Whoever stops waiting for the agent stops it.
    let _stops = stop.clone().drop_guard();
    let of_hub = Caches::new(hub.clone(), stop.clone()).shaped(manifests::pack);
    let works: Cache<ManifestWork> = of_hub.in_namespace(&cluster_name, Watching::default());
    let traces: Cache<AppliedManifestWork> = Caches::new(cluster.clone(), stop.clone()).of();
    let side = Side {
        identity,
        leaving,
        hub,
        cluster,
        cluster_name,
        traces,
        workers,
    };
    // A trace whose work is not in the cache is taken for abandoned, so nothing is decided before both lists are whole.
    tokio::select! {
        () = stop.cancelled() => return,
        () = side.is_refused_for_good(&works) => {}
        () = async { works.synced().await; side.traces.synced().await } => {
            info!(works = works.len(), "work agent started");
            let running = stop.child_token();
            // What is under way is finished, not torn.
            tokio::join!(side.carry_out(works.clone(), running.clone()), async {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = side.is_refused_for_good(&works) => {}
                }
                running.cancel();
            });
        }
    }
    if !stop.is_cancelled() {
        info!("the hub has deleted the cluster and shows its works no more: what they applied is removed");
        side.traces.synced().await;
        side.carry_out(Cache::holding([]), stop.clone()).await;
    }
    stop.cancel();
}

/// What stays the same whatever the hub wants.
struct Side {
    identity: Arc<AgentIdentity>,
    leaving: CancellationToken,
    hub: Client,
    cluster: Client,
    cluster_name: String,
    traces: Cache<AppliedManifestWork>,
    workers: usize,
}

impl Side {
    /// Ends when the hub has said that it deletes the cluster, and lets us see its works no more.
    async fn is_refused_for_good(&self, works: &Cache<ManifestWork>) {
        self.leaving.cancelled().await;
        let refused = |it: &Cache<ManifestWork>| it.failure().filter(|it| it.code == Some(403)).map(drop);
        works.until(refused).await;
    }

    /// Carries these works out until cancelled, then waits for the runs under way.
    async fn carry_out(&self, works: Cache<ManifestWork>, stop: CancellationToken) {
        let queue = Queue::awaiting();
        let agent = ManifestWorks {
            identity: self.identity.clone(),
            leaving: self.leaving.clone(),
            stop: stop.clone(),
            namespace: self.cluster_name.clone(),
            cluster: self.cluster.clone(),
            works,
            traces: self.traces.clone(),
            objects: WatchedObjects::new(self.cluster.clone(), queue.clone(), stop.clone()),
            discovery: Discovery::new(self.cluster.clone()),
            executors: Arc::new(Executors::new(self.cluster.clone(), stop.clone())),
            retries: Mutex::new(HashMap::new()),
            keeps_agent_id: AtomicBool::new(true),
        };
        let clients = Clients::both(self.hub.clone(), self.cluster.clone()).writing_as(WORK_FIELD_MANAGER);
        let running = Controller::with_queue(agent, queue)
            .workers(self.workers)
            .start(clients, stop);
        // It can only have panicked, which was told.
        let _ = running.finished.await;
    }
}
