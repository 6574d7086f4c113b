//! Runs one reconciler: keys from a queue, a bounded number at a time, each through observe, plan, execute, conclude.

use std::{sync::Arc, time::Instant};

use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info, info_span, warn};

use crate::{
    awaited::{self, Need},
    execute::{Clients, Outcome, execute, execute_with},
    metrics,
    plan::{Note, Plan},
    queue::Queue,
};

/// Why a look at the world failed. It is always retried.
pub type ObserveError = Box<dyn std::error::Error + Send + Sync>;

/// One reconciler. `plan` and `conclude` take no `self`: they see only what was seen.
#[async_trait::async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Its name in logs, spans and metrics.
    const NAME: &'static str;

    /// How many steps of one stage are tried together. More than one only where a plan has many objects and their order means
    /// nothing.
    const AT_ONCE: usize = 1;

    /// Everything a plan is made from, `now` and configuration included.
    type Seen: Send + Sync;

    /// Looks at the world. Reads caches, and the API where a cache will not do; writes nothing, decides nothing.
    async fn observe(&self, key: &str) -> Result<Self::Seen, ObserveError>;

    /// Decides. A plain function on plain data.
    fn plan(seen: &Self::Seen) -> Plan;

    /// Keeps in memory what only this process knows, such as the name the server gave to what was created. Called when the
    /// plan was executed, before the conclusion.
    fn remember(&self, seen: &Self::Seen, outcome: &Outcome) {
        let _ = (seen, outcome);
    }

    /// Keeps in memory what the conclusion has written, for whom the watch would tell too late.
    fn concluded(&self, outcome: &Outcome) {
        let _ = outcome;
    }

    /// Decides what to say about it, once, when everything was tried: mostly one status patch.
    fn conclude(seen: &Self::Seen, outcome: &Outcome) -> Plan {
        let _ = (seen, outcome);
        Plan::new()
    }

    /// One run; returns when to look again. Override it where a run takes several rounds of observe, plan and execute,
    /// because what to do next depends on what the API server answered.
    async fn reconcile(&self, clients: &Clients, key: &str) -> Result<Option<std::time::Duration>, RunError>
    where
        Self: Sized,
    {
        once(self, clients, key).await
    }
}

/// A reconciler that was started.
pub struct Running {
    /// Its queue: add a key to have it looked at.
    pub queue: Queue,
    /// Ends when the reconciler was cancelled and its last run is over.
    pub finished: tokio::task::JoinHandle<()>,
}

/// [`run`] in a task of its own.
pub fn spawn<R: Reconciler>(
    reconciler: R,
    clients: Clients,
    queue: Queue,
    workers: usize,
    cancel: CancellationToken,
) -> Running {
    let finished = tokio::spawn(run(Arc::new(reconciler), clients, queue.clone(), workers, cancel));
    Running { queue, finished }
}

/// [`spawn`] when everything that the reconciler reads has arrived; `subscribe` is called then. The queue is an
/// [awaiting](Queue::awaiting) one.
pub fn spawn_when<R: Reconciler>(
    needs: Vec<Need>,
    reconciler: R,
    subscribe: impl FnOnce(&Queue) + Send + 'static,
    clients: Clients,
    queue: Queue,
    workers: usize,
    cancel: CancellationToken,
) -> Running {
    let own = queue.clone();
    let finished = tokio::spawn(async move {
        tokio::select! {
            () = cancel.cancelled() => own.begin(),
            () = awaited::arrived(R::NAME, needs) => {
                subscribe(&own);
                own.begin();
                run(Arc::new(reconciler), clients, own, workers, cancel.clone()).await;
            }
        }
    });
    Running { queue, finished }
}

/// Runs until cancelled, then waits for the runs under way.
pub async fn run<R: Reconciler>(
    reconciler: Arc<R>,
    clients: Clients,
    queue: Queue,
    workers: usize,
    cancel: CancellationToken,
) {
    let slots = Arc::new(Semaphore::new(workers.max(1)));
    let meter = metrics::meter(R::NAME, &queue);
    let mut runs = JoinSet::new();
    loop {
        let slot = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            slot = slots.clone().acquire_owned() => slot.expect("the semaphore is never closed"),
        };
        let key = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            key = queue.next() => key,
        };
        while runs.try_join_next().is_some() {}
        let (reconciler, clients, queue, meter) = (reconciler.clone(), clients.clone(), queue.clone(), meter.clone());
        let span = info_span!("reconcile", controller = R::NAME, key = %key);
        runs.spawn(
            async move {
                let _slot = slot;
                // A panic in one run must not leave its key marked as running for ever.
                let mut turn = Turn {
                    queue: &queue,
                    key: &key,
                    over: false,
                };
                let begun = Instant::now();
                let result = reconciler.reconcile(&clients, &key).await;
                meter.count(begun.elapsed(), result.is_ok());
                match result {
                    Ok(again) => turn.done(again),
                    Err(error) => {
                        let delay = turn.failed();
                        // The first failures are mostly two writers meeting; they are worth a word only when they last.
                        if delay.as_millis() > 100 {
                            warn!(%error, ?delay, "run failed, will retry");
                        } else {
                            debug!(%error, ?delay, "run failed, will retry");
                        }
                    }
                }
            }
            .instrument(span),
        );
    }
    while runs.join_next().await.is_some() {}
}

struct Turn<'a> {
    queue: &'a Queue,
    key: &'a str,
    over: bool,
}

impl Turn<'_> {
    fn done(&mut self, again: Option<std::time::Duration>) {
        self.over = true;
        self.queue.done(self.key, again);
    }

    fn failed(&mut self) -> std::time::Duration {
        self.over = true;
        self.queue.failed(self.key)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.queue.failed(self.key);
        }
    }
}

/// Why one run has to be retried.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The world could not be looked at.
    #[error("could not observe: {0}")]
    Observe(ObserveError),
    /// Some steps failed.
    #[error("could not execute: {0}")]
    Execute(String),
}

/// One run: observe, plan, execute, conclude, execute. Returns when to look again.
pub async fn once<R: Reconciler>(
    reconciler: &R,
    clients: &Clients,
    key: &str,
) -> Result<Option<std::time::Duration>, RunError> {
    let seen = reconciler.observe(key).await.map_err(RunError::Observe)?;
    let plan = R::plan(&seen);
    report(&plan);
    let outcome = execute_with(clients, &plan, R::AT_ONCE).await;
    reconciler.remember(&seen, &outcome);
    let last = R::conclude(&seen, &outcome);
    report(&last);
    let concluded = execute(clients, &last).await;
    reconciler.concluded(&concluded);
    if outcome.succeeded() && concluded.succeeded() {
        return Ok([plan.again, last.again].into_iter().flatten().min());
    }
    let text = [outcome.error_text(), concluded.error_text()]
        .into_iter()
        .filter(|it| !it.is_empty())
        .collect::<Vec<_>>();
    Err(RunError::Execute(text.join("; ")))
}

fn report(plan: &Plan) {
    for note in &plan.notes {
        match note {
            Note::Wait(why) => debug!(%why, "waits"),
            Note::Refuse(why) => info!(%why, "refuses"),
            Note::Remark(what) => debug!(%what, "remarks"),
        }
    }
    if !plan.is_empty() {
        debug!(steps = plan.len(), %plan, "executes a plan");
    }
}
