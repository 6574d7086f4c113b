//! What every request and controller of one server may use: its objects, its keys, what it serves, and who may do what.
//! It knows none of them.

use crate::{
    admission::{configuration::Hooks, plugin::Admission},
    authn::Authenticator,
    authz::Rbac,
    buffers::Buffers,
    callout::Caller,
    clock::Clock,
    fair::Fair,
    identity::{AccessDecision, Attributes, User},
    intake::Intake,
    kept::KeptObjects,
    limits::Limits,
    pages::ServedPage,
    party::Parties,
    persist::{self, Durability, StorageError},
    pki::Pki,
    pod_logs::PodLogs,
    pod_streams::PodStreams,
    rates::Rates,
    registry::Registry,
    reports::Reports,
    snapshots::Snapshots,
    standing::OpenWatches,
    wake::Wake,
};
use arc_swap::ArcSwap;
use kube_store::{Store, status::Status};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// What all requests share.
pub struct ServerContext {
    pub store: Arc<Store>,
    pub registry: Arc<ArcSwap<Registry>>,
    pub wake: Arc<Wake>,
    pub admission: Vec<Arc<dyn Admission>>,
    /// Webhooks and policies that are configured.
    pub hooks: Arc<ArcSwap<Hooks>>,
    pub caller: Arc<Caller>,
    pub authenticator: Arc<Authenticator>,
    pub rbac: Arc<Rbac>,
    pub pki: Arc<Pki>,
    pub clock: Clock,
    /// Who is served when more is asked than can be done at once.
    pub fair: Fair,
    /// Bodies of requests that are on their way.
    pub intake: Arc<Intake>,
    /// Whose user is whose.
    pub parties: Arc<Parties>,
    /// What clients keep here.
    pub kept: Arc<KeptObjects>,
    /// How fast they write.
    pub rates: Rates,
    /// What waits for their watches to be read.
    pub buffers: Arc<Buffers>,
    /// Where it is told that they have reached a bound.
    pub reports: Reports,
    pub limits: Limits,
    /// Those who watch, and whether they still may.
    pub standing: Arc<OpenWatches>,
    /// Lists that are walked page by page.
    pub snapshots: Snapshots,
    pub stop: CancellationToken,
    /// Held while something is taken that only one may have (see `pipeline::allocating`).
    pub allocating: tokio::sync::Mutex<()>,
    /// Who has the logs of pods; nobody without a node.
    pub pod_logs: parking_lot::RwLock<Option<Arc<dyn PodLogs>>>,
    /// Who reaches into pods; nobody without a node.
    pub pod_streams: parking_lot::RwLock<Option<Arc<dyn PodStreams>>>,
    /// The connections into pods that there may be still.
    pub pod_sessions: Arc<tokio::sync::Semaphore>,
    /// What others of the process show, by the beginning of its path.
    pub pages: parking_lot::RwLock<Vec<(String, Arc<dyn ServedPage>)>>,
    /// Where clients reach the server, if it listens.
    pub address: Option<SocketAddr>,
    pub ready: AtomicBool,
    pub shutdown_delay: Duration,
    pub durability: Durability,
    pub queue: Arc<persist::WriteQueue>,
}

impl ServerContext {
    /// Shows a write at once where there is no disk to wait for. Whoever decides several writes before waiting for them
    /// says so of each: the last one may never be waited for, when the client goes away.
    pub fn decided(&self, revision: u64) {
        self.durability.decided(&self.store, revision);
    }

    /// Waits until a write is on disk and visible.
    ///
    /// # Errors
    /// 500 with the reason when it could not be kept; the write did not happen then.
    pub async fn durable(&self, revision: u64) -> Result<(), Status> {
        self.durability.wait(&self.store, revision).await.map_err(not_kept)
    }

    /// 500: there is no room for what is written. Somebody looks whether there is by now.
    pub fn no_room(&self) -> Status {
        let reason = self.durability.trouble();
        self.queue.look();
        not_kept(reason.unwrap_or_else(|| StorageError::Full.to_string().into()))
    }

    /// Why what is written is not kept at present, if it is not.
    pub fn trouble(&self) -> Option<Arc<str>> {
        let trouble = self.durability.trouble();
        if trouble.is_some() {
            self.queue.look();
        }
        trouble
    }

    /// Waits until readers see what was decided until now. Who is refused because of a write that is still on its way
    /// to the disk would read the state before it, and be refused again.
    pub async fn shown(&self) {
        // What is lost was not shown, and never will be.
        let _ = self.durability.wait(&self.store, self.store.decided()).await;
    }

    /// What authorization says.
    pub fn authorize(&self, user: &User, attributes: &Attributes) -> AccessDecision {
        self.rbac.authorize(user, attributes)
    }

    /// Whether a user may do something.
    pub fn may(&self, user: &User, attributes: &Attributes) -> bool {
        matches!(self.authorize(user, attributes), AccessDecision::Allow(_))
    }

    /// Whether webhooks are asked: not for the first objects, which must be there whoever is not.
    pub fn asks_webhooks(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Whether bootstrap objects are in place and the server is not stopping.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !self.stop.is_cancelled()
    }
}

fn not_kept(reason: Arc<str>) -> Status {
    let mut status = Status::internal(format!("the write could not be kept: {reason}"));
    status.retry_after_seconds = Some(1);
    status
}
