//! What is not in a cache is mostly not there, and is made without asking: for a cluster that comes that is a handful of
//! requests less. Where something was there after all, because it lacks our label or the watch has not brought it yet, the API
//! is asked from then on.

use std::{collections::BTreeSet, time::Duration};

use ocm_reconcile::{
    Clients, Done, Outcome, Reconciler,
    run::{self, RunError},
};
use parking_lot::Mutex;

/// The keys whose objects are not all in the caches.
#[derive(Default)]
pub struct Doubts {
    keys: Mutex<BTreeSet<String>>,
}

/// Whether something was there already that was to be created.
pub fn met(outcome: &Outcome) -> bool {
    let mut results = outcome.stages.iter().flatten();
    results.any(|it| matches!(it, Ok(Done::AlreadyExists)))
}

impl Doubts {
    /// Whether the API is to be asked.
    pub fn has(&self, key: &str) -> bool {
        self.keys.lock().contains(key)
    }

    /// Notes what became of a plan.
    pub fn note(&self, key: &str, outcome: &Outcome) {
        if met(outcome) {
            self.keys.lock().insert(key.to_owned());
        }
    }

    /// The key is gone.
    pub fn drop(&self, key: &str) {
        self.keys.lock().remove(key);
    }

    /// One run, and another at once when that has raised a doubt.
    pub async fn reconcile<R: Reconciler>(
        &self,
        reconciler: &R,
        clients: &Clients,
        key: &str,
    ) -> Result<Option<Duration>, RunError> {
        let doubted = self.has(key);
        let again = run::once(reconciler, clients, key).await?;
        if doubted || !self.has(key) {
            return Ok(again);
        }
        run::once(reconciler, clients, key).await
    }
}
