//! The right to write, which can end while requests are being made.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Method, Request, Response};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Service};

/// Stands between a process and what it writes to. The guard that is there by default lets everything through; that of
/// a term of leadership (see [`lead`](crate::lead)) lets nothing through but questions once the term may be over.
/// Cloning shares it.
#[derive(Clone, Default)]
pub struct Guard {
    until: Option<Arc<Mutex<Instant>>>,
}

/// Why a write was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process leads no longer, and writes nothing")]
pub struct LeadershipLost;

impl Guard {
    /// Lets writes through until then.
    pub fn until(end: Instant) -> Self {
        Self {
            until: Some(Arc::new(Mutex::new(end))),
        }
    }

    /// Lets writes through until then, later or sooner than before.
    pub fn extend(&self, end: Instant) {
        if let Some(until) = &self.until {
            *until.lock() = end;
        }
    }

    /// Lets nothing through from now on.
    pub fn close(&self) {
        self.extend(Instant::now());
    }

    /// Whether a write is let through now.
    pub fn is_open(&self) -> bool {
        self.until.as_ref().is_none_or(|it| Instant::now() < *it.lock())
    }

    /// The client behind the guard.
    pub fn over(&self, client: Client) -> Client {
        if self.until.is_none() {
            return client;
        }
        let namespace = client.default_namespace().to_owned();
        let guard = self.clone();
        Client::new(Guarded { guard, client }, namespace)
    }
}

/// A client that asks the guard before each write.
#[derive(Clone)]
struct Guarded {
    guard: Guard,
    client: Client,
}

impl Service<Request<Body>> for Guarded {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
        if !reads && !self.guard.is_open() {
            return Box::pin(async { Err(LeadershipLost.into()) });
        }
        let client = self.client.clone();
        Box::pin(async move { Ok(client.send(request).await?) })
    }
}
