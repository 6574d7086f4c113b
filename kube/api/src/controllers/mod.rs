//! The few controllers that Kubernetes itself supplies, without which its clients hang: namespaces empty themselves,
//! orphans are collected, certificates are signed, every namespace has its ServiceAccount and root CA.
//!
//! All of them hang on one subscription to the store's events. An event only names keys; what to do with a key is
//! decided from the state at that moment, so that a lost or repeated event does no harm. There are no controllers for
//! Deployments, ReplicaSets or Jobs: they come with the nodes that run their pods, and are no part of the server.

mod bootstrap;
mod bootstrap_token;
mod cluster_role;
mod compaction;
mod crd;
mod csr;
mod event_ttl;
mod garbage;
mod namespace;
mod queue;
mod root_ca;
mod service_account;
mod token_secret;
mod volume_protection;

#[cfg(test)]
mod tests;

pub use bootstrap::{Bootstrap, bootstrap};

use crate::{
    identity::{Attributes, Decision, User},
    local::Local,
};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube_store::{status::Status, store::Event};
use queue::{Key, Queue};
use serde_json::Value;
use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use volume_protection::VolumeProtection;

/// How often every controller looks at everything again. Events carry the work; this only bounds the harm of a bug.
const SURVEY_INTERVAL: Duration = Duration::from_secs(600);
/// Writes of one reconciliation that may be under way at a time; they share a group commit.
const WRITES_MAX: usize = 32;

/// What a ServiceAccount token Secret is filled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenClaims {
    pub namespace: String,
    pub service_account: String,
    pub service_account_uid: String,
    pub secret: String,
    pub secret_uid: String,
}

/// Why a CertificateSigningRequest cannot be signed; becomes its `Failed` condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsignable {
    pub reason: String,
    pub message: String,
}

/// What the controllers need of the server besides its objects.
pub trait Ground: Send + Sync + 'static {
    /// PEM of the certificates that clients verify this server with.
    fn root_ca(&self) -> String;
    /// Signs an approved request of a `kubernetes.io/` client or serving signer; the answer is one PEM block.
    ///
    /// # Errors
    /// When the signer's rules forbid the request.
    fn sign(&self, csr: &Value, now: Timestamp) -> Result<String, Unsignable>;
    /// A token without expiry, bound to its Secret.
    ///
    /// # Errors
    /// When it cannot be made now.
    fn mint(&self, claims: &TokenClaims) -> Result<String, String>;
    /// What authorization says.
    fn authorize(&self, user: &User, attributes: &Attributes) -> Decision;
}

/// One controller: which keys an event touches, and what one key needs.
#[async_trait::async_trait]
trait Controller: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// Keys worked on at a time.
    fn parallel(&self) -> usize {
        1
    }

    /// Queues the keys that an event touches. Called for every event of the server: it must be cheap.
    fn notice(&self, event: &Event, queue: &Queue);

    /// Queues every key that may need work.
    fn survey(&self, queue: &Queue);

    /// Does what the key needs now; the answer says when to look again without any event.
    async fn reconcile(&self, key: &Key, queue: &Queue) -> Result<Option<Duration>, Status>;
}

/// Starts all controllers; they end when `stop` is cancelled. Events live for `event_ttl` after their last write. Call it
/// after [`bootstrap`].
pub fn run(
    local: Local,
    ground: Arc<dyn Ground>,
    event_ttl: Duration,
    stop: CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let controllers: Vec<Arc<dyn Controller>> = vec![
        Arc::new(namespace::Namespaces::new(local.clone())),
        Arc::new(garbage::GarbageCollector::new(local.clone())),
        Arc::new(crd::Definitions::new(local.clone())),
        Arc::new(service_account::DefaultServiceAccounts { local: local.clone() }),
        Arc::new(root_ca::RootCa {
            local: local.clone(),
            ground: ground.clone(),
        }),
        Arc::new(token_secret::TokenSecrets {
            local: local.clone(),
            ground: ground.clone(),
        }),
        Arc::new(bootstrap_token::BootstrapTokens { local: local.clone() }),
        Arc::new(csr::CertificateRequests {
            local: local.clone(),
            ground,
        }),
        Arc::new(cluster_role::Aggregation::new(local.clone())),
        Arc::new(VolumeProtection::new(local.clone(), volume_protection::CLAIMS)),
        Arc::new(VolumeProtection::new(local.clone(), volume_protection::VOLUMES)),
        Arc::new(event_ttl::EventTtl {
            local: local.clone(),
            ttl: event_ttl,
        }),
    ];
    tokio::spawn(compaction::run(local.store().clone(), stop.clone()));
    tokio::spawn(drive(local, controllers, stop))
}

async fn drive(local: Local, controllers: Vec<Arc<dyn Controller>>, stop: CancellationToken) {
    let queues: Vec<_> = controllers.into_iter().map(|it| (it, Queue::default())).collect();
    let mut workers = tokio::task::JoinSet::new();
    for (controller, queue) in &queues {
        for _ in 0..controller.parallel() {
            workers.spawn(work(controller.clone(), queue.clone(), stop.clone()));
        }
    }
    'subscribed: while !stop.is_cancelled() {
        // Subscribed before the survey, so that nothing falls between the two.
        let mut events = local.subscribe();
        let mut survey = tokio::time::interval(SURVEY_INTERVAL);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break 'subscribed,
                _ = survey.tick() => queues.iter().for_each(|(it, queue)| it.survey(queue)),
                event = events.next() => match event {
                    Some(event) => queues.iter().for_each(|(it, queue)| it.notice(&event, queue)),
                    // Fell behind: start again from the state, which the survey reads.
                    None => break,
                },
            }
        }
        // A store that is shutting down ends every subscription at once; do not spin until `stop` is cancelled too.
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    }
    workers.shutdown().await;
}

/// A failure that is tried again sooner is one of the first of its key, and may well be the last.
const WORTH_A_WORD: Duration = Duration::from_millis(20);

async fn work(controller: Arc<dyn Controller>, queue: Queue, stop: CancellationToken) {
    loop {
        let key = tokio::select! {
            () = stop.cancelled() => return,
            key = queue.next() => key,
        };
        // One object that nobody has thought of must not end the care for all others.
        let looked = AssertUnwindSafe(controller.reconcile(&key, &queue))
            .catch_unwind()
            .await;
        let looked = looked.unwrap_or_else(|_| Err(Status::internal("the controller panicked")));
        match looked {
            Ok(again) => queue.done(&key, again),
            Err(error) => {
                let (resource, namespace, name) = (&key.resource, &key.namespace, &key.name);
                let delay = queue.failed(&key);
                // A conflict is everyday: someone else wrote in between, and the next look sees it.
                if error.is_conflict() || delay < WORTH_A_WORD {
                    tracing::debug!(controller = controller.name(), %resource, %namespace, %name, %error, "will try again");
                } else {
                    tracing::warn!(controller = controller.name(), %resource, %namespace, %name, %error, ?delay, "keeps failing");
                }
            }
        }
    }
}

/// An object that is gone is as good as done.
fn tolerate(result: Result<Value, Status>) -> Result<(), Status> {
    match result {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Runs writes side by side, so that they share a commit, and returns the first error after all have ended.
async fn all<F: Future<Output = Result<(), Status>>>(writes: Vec<F>) -> Result<(), Status> {
    let mut writes = std::pin::pin!(futures::stream::iter(writes).buffer_unordered(WRITES_MAX));
    let mut result = Ok(());
    while let Some(one) = writes.next().await {
        result = result.and(one);
    }
    result
}

/// A `meta/v1 Time`: whole seconds, UTC.
fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Reads a `meta/v1 Time` or `MicroTime`.
fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The time from `now` to `then`; zero when it has passed.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
