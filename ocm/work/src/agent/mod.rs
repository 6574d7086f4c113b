//! The agent half: what a hub asks for is put on the cluster, kept there, reported on and removed again.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use kube::{Api, Client, ResourceExt};
use ocm_api::{
    namespaces::WORK_FIELD_MANAGER,
    work::{AppliedManifestWork, ManifestWork, manifests},
};
use ocm_reconcile::{Cache, Clients, Queue, cache::Watching};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info, info_span};

pub mod agreement;
pub mod config;
pub mod discovery;
pub mod executor;
pub mod feedback;
mod grants;
pub mod ignore;
pub mod jq;
pub mod jsonpath;
pub mod manifest;
mod md5;
pub mod objects;
pub mod ownership;
pub mod plan;
pub mod report;
pub mod rules;
pub mod strategy;
mod turn;

use discovery::Discovery;
use executor::Executors;
use feedback::RawJson;
use objects::WatchedObjects;
use plan::AgentIdentity;
use turn::WorkAgent;

/// How long the objects of a work that vanished from the hub stay: upstream's default.
pub const EVICTION_GRACE: Duration = Duration::from_secs(60 * 60);

/// A watch that nobody needs is kept for this long, in case the next work needs it again.
const IDLE_WATCH: Duration = Duration::from_secs(120);

/// How often all works with an executor are looked at again at most because rights have changed.
const RIGHTS_AGAIN: Duration = Duration::from_secs(1);

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
    /// Cancelled when the hub has said that it deletes the cluster. What its works have applied is then removed as soon as they are
    /// gone, or the hub refuses to show them: nobody will ever say more about them.
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
    let api = Api::namespaced(hub.clone(), &cluster_name);
    let works: Cache<ManifestWork> = Cache::start_shaped(api, Watching::default(), stop.clone(), manifests::pack);
    let traces: Cache<AppliedManifestWork> = Cache::start(Api::all(cluster.clone()), stop.clone());
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
        let queue = Queue::new();
        let names = self.identity.clone();
        works.subscribe(&queue, move |old, new| {
            old.or(new).map(|it| names.trace_name(&it.name_any()))
        });
        self.traces.subscribe_by_name(&queue);
        let objects = WatchedObjects::new(self.cluster.clone(), queue.clone(), stop.clone());
        tokio::spawn(tidy(objects.clone(), stop.clone()));
        tokio::spawn(self.look_at_all_when_leaving(queue.clone(), stop.clone()));
        // Before anything is decided: what a work may take off an object depends on who else has it.
        for trace in self.traces.list() {
            let records = trace.status.iter().flat_map(|it| &it.applied_resources);
            objects.follow(&trace.name_any(), records.map(plan::key_of_record).collect());
        }
        let executors = Arc::new(Executors::new(self.cluster.clone(), stop.clone()));
        tokio::spawn(look_when_rights_change(
            executors.clone(),
            works.clone(),
            queue.clone(),
            self.identity.clone(),
            stop.clone(),
        ));
        let agent = WorkAgent {
            identity: self.identity.clone(),
            leaving: self.leaving.clone(),
            namespace: self.cluster_name.clone(),
            cluster: self.cluster.clone(),
            works,
            traces: self.traces.clone(),
            objects,
            discovery: Discovery::new(self.cluster.clone()),
            executors,
            retries: Mutex::new(HashMap::new()),
            keeps_agent_id: AtomicBool::new(true),
        };
        let clients = Clients::both(self.hub.clone(), self.cluster.clone()).writing_as(WORK_FIELD_MANAGER);
        ocm_reconcile::run(Arc::new(agent), clients, queue, self.workers, stop).await;
    }

    /// A work may be gone before it is known why.
    fn look_at_all_when_leaving(&self, queue: Queue, stop: CancellationToken) -> impl Future<Output = ()> + use<> {
        let (leaving, traces) = (self.leaving.clone(), self.traces.clone());
        async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = leaving.cancelled() => traces.list().iter().for_each(|it| queue.add(it.name_any())),
            }
        }
    }
}

/// Works whose executor may have got or lost a right are looked at anew.
async fn look_when_rights_change(
    executors: Arc<Executors>,
    works: Cache<ManifestWork>,
    queue: Queue,
    identity: Arc<AgentIdentity>,
    cancel: CancellationToken,
) {
    // Answers end at once; looking at every work again for each of many changes is what has to wait.
    let mut rounds = tokio::time::interval(RIGHTS_AGAIN);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = async { rounds.tick().await; executors.changed().await } => {}
        }
        let with_executor = works.list().into_iter().filter(|it| it.spec.executor.is_some());
        with_executor.for_each(|it| queue.add(identity.trace_name(&it.name_any())));
    }
}

async fn tidy(objects: WatchedObjects, cancel: CancellationToken) {
    let mut ticks = tokio::time::interval(IDLE_WATCH);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => objects.rest(IDLE_WATCH),
        }
    }
}
