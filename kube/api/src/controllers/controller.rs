//! What a controller is, what it needs of the server, and what all of them do alike.

use super::queue::{Key, Queue};
use crate::{
    identity::{AccessDecision, Attributes, User},
    object_meta,
};
use futures::StreamExt;
use jiff::Timestamp;
use kube_store::{status::Status, store::Event};
use serde_json::Value;
use std::{future::Future, time::Duration};

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
pub trait ServerAccess: Send + Sync + 'static {
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
    fn authorize(&self, user: &User, attributes: &Attributes) -> AccessDecision;
}

/// One controller: which keys an event touches, and what one key needs.
#[async_trait::async_trait]
pub(super) trait ServerController: Send + Sync + 'static {
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

/// An object that is gone is as good as done.
pub(super) fn tolerate(result: Result<Value, Status>) -> Result<(), Status> {
    match result {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Runs writes side by side, so that they share a commit, and returns the first error after all have ended.
pub(super) async fn all<F: Future<Output = Result<(), Status>>>(writes: Vec<F>) -> Result<(), Status> {
    let mut writes = std::pin::pin!(futures::stream::iter(writes).buffer_unordered(WRITES_MAX));
    let mut result = Ok(());
    while let Some(one) = writes.next().await {
        result = result.and(one);
    }
    result
}

pub(super) use object_meta::seconds;

/// Reads a `meta/v1 Time` or `MicroTime`.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// The time from `now` to `then`; zero when it has passed.
pub(super) fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
