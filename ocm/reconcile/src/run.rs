//! Runs one reconciler: keys from a queue, a bounded number at a time, each through observe, plan, execute, conclude.

use std::{sync::Arc, time::Instant};

use futures::future::BoxFuture;
use serde_json::Map;
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info, info_span, warn};

use crate::{
    execute::{Clients, Done, Manner, Outcome, StepError, execute_with},
    metrics,
    plan::{Note, OwnStep, Plan, Step, Target},
    queue::Queue,
    rbac::Right,
    status::StatusField,
    watches::Watches,
};

/// Why a look at the world failed. It is always retried.
pub type ObserveError = Box<dyn std::error::Error + Send + Sync>;

/// One reconciler. `plan`, `goes_on`, `failure` and `conclude` take no `self`: they see only what was seen
/// and what came of it.
///
/// A run is rounds of observe, plan and execute, mostly one, and a conclusion:
///
/// ```text
/// observe --Seen--> plan --Plan--> execute --Outcome--+--goes_on--> observe_again
///                    |                 |              |
///                 planned          remember           +-----------> conclude --Plan--> execute --> concluded
/// ```
#[async_trait::async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Its name in logs, spans and metrics.
    const NAME: &'static str;

    /// How many keys it works on at a time.
    const WORKERS: usize = 1;

    /// How many steps of one stage are tried together. More than one only where a plan has many objects
    /// and their order means nothing.
    const AT_ONCE: usize = 1;

    /// Whether later stages are tried although a write of an earlier one failed: for plans whose order is a
    /// preference. A [`Step::Own`] that failed always stops the plan.
    const STAGES_GO_ON: bool = false;

    /// The status fields that it writes.
    const STATUS: &'static [StatusField] = &[];

    /// What it has to be allowed besides looking at what it watches: its writes, and what it reads from the API.
    const RIGHTS: &'static [Right] = &[];

    /// Everything a plan is made from, `now` and configuration included.
    type Seen: Send + Sync;

    /// Says what it reads, and which keys a change of it wakes. It begins when all of it has arrived.
    fn watches(&self, watches: &mut Watches);

    /// Looks at the world. Reads caches, and the API where a cache will not do; writes nothing, decides nothing.
    async fn observe(&self, key: &str) -> Result<Self::Seen, ObserveError>;

    /// The APIs that what was seen is written to, for reconcilers whose objects name them; `None` for those that the
    /// controller was started with.
    fn clients(&self, seen: &Self::Seen) -> Option<Clients> {
        let _ = seen;
        None
    }

    /// Decides. A plain function on plain data.
    fn plan(seen: &Self::Seen) -> Plan;

    /// Keeps in memory what is about to be done, for those who decide meanwhile.
    fn planned(&self, seen: &Self::Seen, plan: &Plan) {
        let _ = (seen, plan);
    }

    /// Carries out a step of its own ([`Step::Own`](crate::Step::Own)).
    async fn perform(&self, seen: &Self::Seen, own: &OwnStep) -> Result<Done, StepError> {
        let _ = seen;
        Err(StepError::NobodyPerforms(own.verb))
    }

    /// Keeps in memory what a stage has written, while later ones are still to come, for whom the watch tells of it
    /// before the plan is executed. Called after each stage that was tried, those of the conclusion too.
    fn stage_done(&self, seen: &Self::Seen, so_far: &Outcome) {
        let _ = (seen, so_far);
    }

    /// Keeps in memory what only this process knows, such as the name the server gave to what was created. Called when
    /// the plan was executed, before the conclusion.
    fn remember(&self, seen: &Self::Seen, outcome: &Outcome) {
        let _ = (seen, outcome);
    }

    /// Whether the run goes on with another round before it concludes, because what
    /// to do next depends on what came of this one.
    fn goes_on(seen: &Self::Seen, outcome: &Outcome) -> bool {
        let _ = (seen, outcome);
        false
    }

    /// Looks again in the same run, knowing what was seen before and what came of it.
    async fn observe_again(
        &self,
        key: &str,
        before: Self::Seen,
        outcome: &Outcome,
    ) -> Result<Self::Seen, ObserveError> {
        let _ = (before, outcome);
        self.observe(key).await
    }

    /// What of a round makes the run count as failed, and be retried with a growing delay: every step that failed,
    /// unless a reconciler knows better.
    fn failure(seen: &Self::Seen, outcome: &Outcome) -> Option<String> {
        let _ = seen;
        (!outcome.succeeded()).then(|| outcome.error_text())
    }

    /// Decides what to say about it, once, when everything was tried: mostly one status patch.
    fn conclude(seen: &Self::Seen, outcome: &Outcome) -> Plan {
        let _ = (seen, outcome);
        Plan::new()
    }

    /// Keeps in memory what the conclusion has written, for whom the watch would tell too late.
    fn concluded(&self, outcome: &Outcome) {
        let _ = outcome;
    }
}

/// A reconciler that was started.
pub struct Running {
    /// Its queue: add a key to have it looked at.
    pub queue: Queue,
    /// Ends when the reconciler was cancelled and its last run is over.
    pub finished: tokio::task::JoinHandle<()>,
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
                let result = once(&*reconciler, &clients, &key).await;
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
    key: &'a String,
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

/// More rounds than any run needs; a guard against rules that undo each other.
const ROUNDS_MAX: usize = 1_000;

/// One run; returns when to look again.
pub async fn once<R: Reconciler>(
    reconciler: &R,
    clients: &Clients,
    key: &str,
) -> Result<Option<std::time::Duration>, RunError> {
    let ran = rounds(reconciler, clients, key, |_| {})
        .await
        .map_err(RunError::Observe)?;
    match ran.failures() {
        None => Ok([ran.again, ran.last.again].into_iter().flatten().min()),
        Some(text) => Err(RunError::Execute(text)),
    }
}

/// What became of a run.
pub(crate) struct Ran {
    /// Its conclusion.
    pub last: Arc<Plan>,
    again: Option<std::time::Duration>,
    failures: Vec<String>,
}

impl Ran {
    /// What failed, the first of it in sentences.
    pub fn failures(&self) -> Option<String> {
        let told: Vec<&str> = self.failures.iter().take(FAILURES_TOLD).map(String::as_str).collect();
        let more = match self.failures.len() - told.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        (!told.is_empty()).then(|| told.join("; ") + &more)
    }
}

/// Rounds of observe, plan and execute, then the conclusion. `planned` is called with the plan of each round, none of
/// which is kept: all of a run may be as large as everything that it writes.
pub(crate) async fn rounds<R: Reconciler>(
    reconciler: &R,
    clients: &Clients,
    key: &str,
    mut planned: impl FnMut(&Plan) + Send,
) -> Result<Ran, ObserveError> {
    let (mut count, mut failures) = (0, Vec::new());
    let mut seen = reconciler.observe(key).await?;
    let outcome = loop {
        let plan = Arc::new(R::plan(&seen));
        report(&plan);
        check_authors::<R>(&plan);
        reconciler.planned(&seen, &plan);
        count += 1;
        planned(&plan);
        let outcome = execute_in::<R>(reconciler, clients, &seen, plan).await;
        reconciler.remember(&seen, &outcome);
        failures.extend(R::failure(&seen, &outcome));
        if count == ROUNDS_MAX || !R::goes_on(&seen, &outcome) {
            break outcome;
        }
        seen = reconciler.observe_again(key, seen, &outcome).await?;
    };
    let last = Arc::new(R::conclude(&seen, &outcome));
    report(&last);
    check_authors::<R>(&last);
    let concluded = execute_in::<R>(reconciler, clients, &seen, last.clone()).await;
    reconciler.concluded(&concluded);
    failures.extend((!concluded.succeeded()).then(|| concluded.error_text()));
    Ok(Ran {
        last,
        again: outcome.plan().again,
        failures,
    })
}

async fn execute_in<R: Reconciler>(reconciler: &R, clients: &Clients, seen: &R::Seen, plan: Arc<Plan>) -> Outcome {
    let named = reconciler.clients(seen);
    let clients = named.as_ref().unwrap_or(clients);
    let perform = |own: OwnStep| -> BoxFuture<'_, Result<Done, StepError>> {
        Box::pin(async move { reconciler.perform(seen, &own).await })
    };
    let manner = Manner {
        at_once: R::AT_ONCE,
        stages_go_on: R::STAGES_GO_ON,
        perform: &perform,
        stage_done: &|so_far| reconciler.stage_done(seen, so_far),
    };
    execute_with(clients, plan, &manner).await
}

/// Of the failures of many rounds this many are told.
const FAILURES_TOLD: usize = 5;

/// In debug builds, and so in tests: who writes a status field has declared it.
fn check_authors<R: Reconciler>(plan: &Plan) {
    if !cfg!(debug_assertions) {
        return;
    }
    for step in plan.stages.iter().flatten() {
        let Some((target, fields)) = status_fields(step) else {
            continue;
        };
        let kind = target.api_resource.kind.as_str();
        for field in fields {
            let declared = R::STATUS.iter().any(|it| it.kind == kind && it.field == field);
            debug_assert!(
                declared,
                "{} writes status field {field} of {kind}, which its STATUS does not declare",
                R::NAME
            );
        }
    }
}

fn status_fields(step: &Step) -> Option<(&Target, Vec<&String>)> {
    let (target, body) = match step {
        Step::MergePatch {
            target,
            subresource: Some("status"),
            patch,
        } => (target, patch),
        Step::Replace {
            target,
            subresource: Some("status"),
            object,
        } => (target, object),
        _ => return None,
    };
    // The first status of an object has all its parts, the empty ones of others, too.
    let written = body.get("status")?.as_object()?.iter();
    let written = written.filter(|(_, value)| !value.as_object().is_some_and(Map::is_empty));
    Some((target, written.map(|(field, _)| field).collect()))
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
