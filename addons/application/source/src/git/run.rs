//! One conversation with a Git server: until when, up to how many bytes, and why it failed.
//!
//! The library that speaks Git's protocol blocks, and folds whatever happened below it into a text. What waits for the
//! network waits here, and what went wrong there is kept here.

use crate::{SourceBounds, SourceError, bounds::Deadline, error::chain};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// One conversation with a Git server, on a thread that may block.
pub(super) struct Run {
    /// The URL as it may be shown.
    pub url: String,
    pub deadline: Deadline,
    pub bounds: SourceBounds,
    /// What stops the reading of a pack.
    pub interrupted: AtomicBool,
    runtime: Handle,
    given_up: CancellationToken,
    received: AtomicU64,
    /// The first failure of the transport.
    failure: Mutex<Option<SourceError>>,
}

impl Run {
    /// Lets blocking work have a thread and a conversation, until the deadline or until nobody waits for it any more.
    pub async fn with<T: Send + 'static>(
        url: String,
        bounds: &SourceBounds,
        work: impl FnOnce(Arc<Run>) -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let deadline = bounds.deadline();
        let given_up = CancellationToken::new();
        let run = Arc::new(Run {
            url: url.clone(),
            deadline,
            bounds: bounds.clone(),
            interrupted: AtomicBool::new(false),
            runtime: Handle::current(),
            given_up: given_up.clone(),
            received: AtomicU64::new(0),
            failure: Mutex::new(None),
        });
        let _until_dropped = UntilDropped(run.clone());
        let working = tokio::task::spawn_blocking(move || work(run));
        match tokio::time::timeout_at(deadline.at, working).await {
            Ok(Ok(done)) => done,
            // The library asserts what a server may get wrong.
            Ok(Err(_)) => Err(SourceError::corrupt(&url, "it does not speak Git's protocol")),
            Err(_) => Err(deadline.missed(&url)),
        }
    }

    /// Waits for the network.
    pub fn wait<T>(&self, operation: impl Future<Output = Result<T, SourceError>>) -> io::Result<T> {
        let result = self.runtime.block_on(async {
            tokio::select! {
                result = operation => result,
                () = self.given_up.cancelled() => Err(self.deadline.missed(&self.url)),
                () = tokio::time::sleep_until(self.deadline.at) => Err(self.deadline.missed(&self.url)),
            }
        });
        result.map_err(|it| self.fail(it))
    }

    /// Counts what was received.
    pub fn count(&self, bytes: usize) -> io::Result<()> {
        let before = self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        let max = self.bounds.received_bytes_max();
        if before + bytes as u64 <= max {
            return Ok(());
        }
        let what = format!("it sends more than {max} bytes");
        Err(self.fail(SourceError::too_large(&self.url, what)))
    }

    /// Keeps a failure of the transport, and makes the error that ends the conversation.
    pub fn fail(&self, error: SourceError) -> io::Error {
        let text = error.to_string();
        let mut kept = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert(error);
        io::Error::other(text)
    }

    /// What the transport failed with.
    pub fn failure(&self) -> Option<SourceError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What an error of the library means.
    pub fn explained(&self, error: gix::Error) -> SourceError {
        self.failure().unwrap_or_else(|| {
            if self.deadline.has_passed() {
                return self.deadline.missed(&self.url);
            }
            if error.is_resource_exhausted() {
                let max = self.bounds.total_bytes_max;
                return SourceError::too_large(&self.url, format!("an object has more than {max} bytes"));
            }
            SourceError::corrupt(&self.url, chain(&error))
        })
    }

    /// Fails when the time is over.
    pub fn check_time(&self) -> Result<(), SourceError> {
        if self.given_up.is_cancelled() || self.deadline.has_passed() {
            return Err(self.deadline.missed(&self.url));
        }
        Ok(())
    }
}

/// Stops the blocking work when nobody waits for it.
struct UntilDropped(Arc<Run>);

impl Drop for UntilDropped {
    fn drop(&mut self) {
        self.0.given_up.cancel();
        self.0.interrupted.store(true, Ordering::Relaxed);
    }
}
