//! What the rounds of a run over a ManifestWorkReplicaSet have come to so far.

use std::{collections::BTreeSet, time::Duration};

use ocm_api::work::ManifestWork;
use ocm_reconcile::{Done, Outcome, Plan, Step, execute::sentence};

/// When to look again after a work that was to be made was there already: by then the cache knows whose it is.
const MET_AGAIN: Duration = Duration::from_millis(100);

/// How many failures an error tells of; a thousand clusters mostly fail in the same way.
const TOLD_MAX: usize = 3;

/// What the rounds before this one have come to.
#[derive(Clone, Debug, Default)]
pub struct EarlierRounds {
    /// The clusters where something failed; they are not tried again at once.
    pub failed: BTreeSet<String>,
    /// What the first failure said, and how many there were.
    pub failure: Option<(String, usize)>,
    /// Whether a work that was to be made was there already.
    pub has_met: bool,
}

impl EarlierRounds {
    /// With what has come of one more round.
    pub fn and(mut self, outcome: &Outcome) -> Self {
        for (step, result) in outcome.results() {
            let cluster = step.target().and_then(|it| it.namespace.clone());
            match result {
                Err(_) => self.failed.extend(cluster),
                Ok(Done::AlreadyExists) if is_of_work(step) => {
                    self.has_met = true;
                    self.failed.extend(cluster);
                }
                Ok(_) => {}
            }
        }
        let mut failures = sentences(outcome);
        if let Some(first) = failures.next() {
            let (_, count) = self.failure.get_or_insert((first, 0));
            *count += 1 + failures.count();
        }
        self
    }

    /// When the run is over.
    pub fn conclude(&self) -> Plan {
        let mut plan = Plan::new();
        if self.has_met {
            plan.look_again(MET_AGAIN);
        }
        plan
    }
}

/// The failures of a round, the first of them in sentences.
pub fn failures(outcome: &Outcome) -> Option<String> {
    let mut all = sentences(outcome);
    let told: Vec<String> = all.by_ref().take(TOLD_MAX).collect();
    let more = match all.count() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    (!told.is_empty()).then(|| told.join("; ") + &more)
}

fn sentences(outcome: &Outcome) -> impl Iterator<Item = String> {
    outcome.results().filter_map(|(step, result)| {
        let what = step.target().map(ToString::to_string).unwrap_or_default();
        Some(format!("{what}: {}", sentence(result.as_ref().err()?)))
    })
}

fn is_of_work(step: &Step) -> bool {
    step.target()
        .is_some_and(|it| it.api_resource.kind == ManifestWork::KIND)
}
