//! A ManifestWork of the hub is carried out on its cluster: one key is the pair of a work and its trace, the
//! AppliedManifestWork.
//!
//! Reads: the work, its trace, the objects of both, what the cluster serves, what the executor may.
//! Writes: the work's finalizer and status; the trace; the objects. Never: an object that does not carry the trace as
//! its owner is not deleted. Rounds follow until nothing is left to do, and then both statuses are written.

use std::time::Instant;

use kube::ResourceExt;
use ocm_reconcile::{
    Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, StatusField, StepError, Watches, async_trait,
    execute::sentence, rbac::Right,
};

pub(crate) use super::memory::ManifestWorks;
use super::{
    applying,
    attempts::{self, Attempts},
    declared,
    phase::Phase,
    removing,
    round::{self, Round},
    schedule::{self, Retries},
    seen::Seen,
    statuses,
};

#[async_trait]
impl Reconciler for ManifestWorks {
    const NAME: &'static str = "work-agent";
    const WORKERS: usize = 32;
    const AT_ONCE: usize = 16;
    const STAGES_GO_ON: bool = true;
    const STATUS: &'static [StatusField] = declared::STATUS;
    const RIGHTS: &'static [Right] = declared::RIGHTS;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let identity = self.identity.clone();
        watches
            .wakes(&self.works, move |old, new| {
                old.or(new).map(|it| identity.trace_name(&it.name_any()))
            })
            .root(&self.traces)
            .signal("the objects that works have applied", self.follow_objects())
            .signal("what the executors of works may", self.hear_of_rights())
            .signal("that the hub deletes the cluster", self.hear_of_leaving());
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        Ok(self.look(key, Attempts::since(Instant::now()), Round::default()).await)
    }

    fn plan(seen: &Seen) -> Plan {
        if seen.attempts.are_over() {
            return Plan::new();
        }
        round::in_turn(writes(seen))
    }

    fn planned(&self, seen: &Seen, plan: &Plan) {
        seen.round.begin(seen, plan);
    }

    async fn perform(&self, seen: &Seen, own: &OwnStep) -> Result<Done, StepError> {
        match own.verb {
            round::WAIT => self.wait_for_turn(seen).await,
            verb => Err(StepError::NobodyPerforms(verb)),
        }
    }

    fn stage_done(&self, seen: &Seen, so_far: &Outcome) {
        self.see_works_and_traces(so_far);
        self.see_objects(seen, so_far);
    }

    fn goes_on(_: &Seen, outcome: &Outcome) -> bool {
        !outcome.plan().is_empty()
    }

    async fn observe_again(&self, key: &str, mut before: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        let (mut attempts, round) = (Attempts::after(&mut before, outcome), before.round.next());
        if let Err(error) = self.read_traces_of_before(outcome).await {
            attempts.could_not_read_trace(sentence(&error.into()));
        }
        Ok(self.look(key, attempts, round).await)
    }

    fn failure(seen: &Seen, outcome: &Outcome) -> Option<String> {
        let steps = outcome.results();
        let of_steps = steps.filter_map(|(step, it)| attempts::failure(step, it));
        // It was found out by the look before the last round, which tries nothing.
        let failures: Vec<String> = seen.attempts.unread_trace.iter().cloned().chain(of_steps).collect();
        (!failures.is_empty()).then(|| failures.join("; "))
    }

    fn conclude(seen: &Seen, _: &Outcome) -> Plan {
        let mut plan = statuses::conclude(seen);
        schedule::look_again(&mut plan, seen);
        plan
    }

    fn concluded(&self, outcome: &Outcome) {
        // A run that failed is tried again by the queue, and counted there.
        if let Some(retries) = outcome.worked_out::<Retries>().filter(|_| outcome.succeeded()) {
            retries.count_in(&mut self.retries.lock());
        }
    }
}

/// The next round.
fn writes(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    match (seen.phase(), &seen.work, &seen.trace) {
        (Phase::Applying, Some(work), _) => match &seen.attempts.blocked {
            None => applying::apply(&mut plan, seen, work),
            Some(why) => {
                plan.wait(format!("the work could not be begun: {why}"));
            }
        },
        (Phase::Complete, _, _) => {
            plan.remark("every manifest is complete: the objects are left as they are");
        }
        (Phase::Renewing, _, Some(trace)) => {
            plan.wait("the earlier AppliedManifestWork takes its objects along; then the work is applied anew");
            removing::finish(&mut plan, seen, trace);
        }
        (Phase::Leaving, Some(work), trace) => removing::leave(&mut plan, seen, work, trace.as_deref()),
        (Phase::Finishing, _, Some(trace)) => removing::finish(&mut plan, seen, trace),
        (Phase::Abandoned, _, Some(trace)) => removing::evict(&mut plan, seen, trace),
        (Phase::Foreign, _, Some(trace)) => {
            plan.remark(match trace.spec.agent_id.as_str() {
                "" => "belongs to an agent of another hub".to_owned(),
                agent => format!("belongs to agent {agent}"),
            });
        }
        _ => {}
    }
    plan
}

#[cfg(test)]
#[path = "manifest_works_tests.rs"]
mod tests;
