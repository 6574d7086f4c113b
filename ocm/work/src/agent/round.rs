//! Before a round writes: whose turn it is at objects that several works have, and whether the executor of the work
//! could do it.

use futures::future::join_all;
use ocm_api::work::ManifestWorkExecutor;
use ocm_reconcile::{Done, Plan, Step, StepError};
use parking_lot::Mutex;

use super::{
    applying::WriteHashes,
    attempts,
    executor::{self, ExecutorRefusal},
    manifest::ObjectKey,
    manifest_works::ManifestWorks,
    objects::Turn,
    records,
    seen::Seen,
};

/// The verb of the step with which a round that writes begins.
pub(super) const WAIT: &str = "wait for";

/// A round: what it is about to write, and what came of asking whether it may. It begins with its first look and ends
/// with the next one.
#[derive(Debug, Default)]
pub struct Round {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writes: Vec<ObjectKey>,
    /// The writes that the executor may have no right to, though it may write such objects.
    questions: Vec<(ObjectKey, Step)>,
    /// It is kept until the next plan is made: others would otherwise write before it is seen what came of this one.
    turn: Option<Turn>,
    /// Whether the turn was waited for on behalf of this round.
    is_its_own: bool,
    /// Whether others have written meanwhile, so that everything has to be looked at again.
    has_waited: bool,
    refused: Vec<(ObjectKey, ExecutorRefusal)>,
}

impl Round {
    /// Takes in what the plan of the round writes.
    pub(super) fn begin(&self, seen: &Seen, plan: &Plan) {
        let steps = plan.stages.iter().flatten();
        let writes = steps.filter_map(|step| Some((records::key_of_target(step.target()?)?, step)));
        let mut state = self.state.lock();
        for (key, step) in writes {
            // What is let go of grants less afterwards, and a work can always be deleted, whatever became of its
            // executor.
            if executor_of(seen).is_some() && executor::grants_rights(&key) && !attempts::is_leaving(seen, &key) {
                state.questions.push((key.clone(), step.clone()));
            }
            state.writes.push(key);
        }
        // Before the next is taken, for they may be of the same objects.
        if state.writes.is_empty() || !state.is_its_own {
            state.turn = None;
        }
    }

    /// The writes that are not to be made.
    pub(super) fn refused(&self) -> Vec<(ObjectKey, ExecutorRefusal)> {
        self.state.lock().refused.clone()
    }

    /// Whether others have written meanwhile, so that this one did not.
    pub(super) fn has_waited(&self) -> bool {
        self.state.lock().has_waited
    }

    /// The next one. Who waited for its turn writes in it; who has written has it while it looks what came of that.
    pub(super) fn next(&self) -> Self {
        let mut state = self.state.lock();
        let state = State {
            turn: state.turn.take(),
            is_its_own: state.has_waited,
            ..State::default()
        };
        Self { state: state.into() }
    }
}

/// The writes, behind the step that waits until they may be made.
pub(super) fn in_turn(writes: Plan) -> Plan {
    let mut targets = writes.stages.iter().flatten().filter_map(Step::target);
    if !targets.any(records::is_object) {
        return writes;
    }
    let mut plan = Plan::new();
    plan.perform(WAIT, "its turn to write into what other works may have, too");
    if let Some(hashes) = writes.worked_out::<WriteHashes>() {
        plan.work_out(hashes.clone());
    }
    plan.then(writes);
    plan
}

impl ManifestWorks {
    /// Waits until the round may write. An error says that it may not, and has it looked at again.
    pub(super) async fn wait_for_turn(&self, seen: &Seen) -> Result<Done, StepError> {
        let (writes, questions, has_turn) = {
            let mut state = seen.round.state.lock();
            let (writes, questions) = (std::mem::take(&mut state.writes), std::mem::take(&mut state.questions));
            (writes, questions, state.turn.is_some())
        };
        if !has_turn {
            let (turn, has_waited) = self.objects.take_turn(&seen.key, writes.into_iter()).await;
            let mut state = seen.round.state.lock();
            (state.turn, state.has_waited) = (Some(turn), has_waited);
            if has_waited {
                return Err(StepError::Own("another work has written meanwhile".to_owned()));
            }
        }
        let Some(executor) = executor_of(seen) else {
            return Ok(Done::Performed);
        };
        let asking = questions.into_iter().map(|(key, step)| async move {
            let answer = self.executors.permit_write(executor, &key, &step).await;
            Some((key, answer.err()?))
        });
        let refused: Vec<_> = join_all(asking).await.into_iter().flatten().collect();
        if refused.is_empty() {
            return Ok(Done::Performed);
        }
        seen.round.state.lock().refused = refused;
        Err(StepError::Own("the executor of the work may not write this".to_owned()))
    }
}

fn executor_of(seen: &Seen) -> Option<&ManifestWorkExecutor> {
    seen.work.as_ref()?.spec.executor.as_ref()
}
