//! When a work is looked at again though nothing happens.

use std::{collections::HashMap, time::Duration};

use ocm_api::work::UpdateStrategyType;
use ocm_reconcile::Plan;

use super::{executor::ExecutorRefusal, seen::Seen};

/// Doubling from the first to the last, with each run that leaves something failed.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Objects that the cluster does not let us watch are looked at this often, as upstream looks at all.
const POLL: Duration = Duration::from_secs(10);

/// The safety net under the watches.
const RESYNC: Duration = Duration::from_secs(30 * 60);

/// Whether a run that did not fail has left something that is worth another try.
pub(super) struct Retries {
    key: String,
    is_worth_one: bool,
}

impl Retries {
    /// Counts the run among those before it.
    pub(super) fn count_in(&self, counts: &mut HashMap<String, u32>) {
        if self.is_worth_one {
            *counts.entry(self.key.clone()).or_insert(0) += 1;
        } else {
            counts.remove(&self.key);
        }
    }
}

/// Adds the time to look again to the conclusion of a run.
pub(super) fn look_again(plan: &mut Plan, seen: &Seen) {
    let is_worth_one = is_worth_retrying(seen);
    if !seen.attempts.has_failed {
        plan.work_out(Retries {
            key: seen.key.clone(),
            is_worth_one,
        });
    }
    if is_worth_one {
        plan.look_again(RETRY_MIN.saturating_mul(1 << seen.retries.min(20)).min(RETRY_MAX));
    }
    if seen.items.iter().any(|it| it.key.is_some() && !it.watched) {
        plan.look_again(POLL.mul_f64(1.0 + 0.9 * seen.chance));
    }
    if seen.work.is_some() || seen.trace.is_some() {
        plan.look_again(RESYNC.mul_f64(0.7 + 0.6 * seen.chance));
    }
}

/// Whether a write was refused in a way that time may heal, so that it is worth trying again soon.
pub fn is_worth_retrying(seen: &Seen) -> bool {
    let failed = seen.items.iter().any(|it| {
        let conflict = it.config.update() == UpdateStrategyType::ServerSideApply
            && it.tried.failure.as_ref().is_some_and(|it| it.code == Some(409));
        let refused = it.tried.failure.is_some() && !conflict;
        let unresolved = it.manifest.is_ok() && it.resource.is_err();
        refused || unresolved || it.unreadable.is_some() || matches!(it.permitted, Err(ExecutorRefusal::Unchecked(_)))
    });
    failed || seen.attempts.blocked.is_some() || seen.leaving.iter().any(|it| it.problem.is_some())
}
