//! What the rounds of a run over a ManifestWorkReplicaSet have come to so far.

use std::{collections::BTreeSet, time::Duration};

use ocm_api::work::ManifestWork;
use ocm_reconcile::{Done, Outcome, Plan, Step, StepError, Target, execute::sentence};

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
        self.failure = self.failure_with(outcome);
        for (step, result) in outcome.results() {
            let cluster = step.target().and_then(|it| it.namespace.clone());
            match result {
                Err(_) => self.failed.extend(cluster),
                _ if has_met(step, result) => {
                    self.has_met = true;
                    self.failed.extend(cluster);
                }
                Ok(_) => {}
            }
        }
        self
    }

    /// What the first failure said, and how many there were, with those of one more round.
    pub fn failure_with(&self, outcome: &Outcome) -> Option<(String, usize)> {
        let count = errors(outcome).count();
        match &self.failure {
            Some((first, before)) => Some((first.clone(), before + count)),
            None => Some((sentences(outcome).next()?, count)),
        }
    }

    /// When the run is over, with what has come of its last round.
    pub fn conclude(&self, last: &Outcome) -> Plan {
        let mut plan = Plan::new();
        if self.has_met || last.results().any(|(step, result)| has_met(step, result)) {
            plan.look_again(MET_AGAIN);
        }
        plan
    }
}

/// The failures of a round, the first of them in sentences.
pub fn failures(outcome: &Outcome) -> Option<String> {
    let told: Vec<String> = sentences(outcome).take(TOLD_MAX).collect();
    let more = match errors(outcome).count() - told.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    (!told.is_empty()).then(|| told.join("; ") + &more)
}

fn errors(outcome: &Outcome) -> impl Iterator<Item = (&Step, &StepError)> {
    let results = outcome.results();
    results.filter_map(|(step, result)| Some((step, result.as_ref().err()?)))
}

fn sentences(outcome: &Outcome) -> impl Iterator<Item = String> {
    errors(outcome).map(|(step, error)| {
        let what = step.target().map(ToString::to_string).unwrap_or_default();
        format!("{what}: {}", sentence(error))
    })
}

/// Whether a work that was to be made was there already.
fn has_met(step: &Step, result: &Result<Done, StepError>) -> bool {
    let is_of_work = |it: &Target| it.api_resource.kind == ManifestWork::KIND;
    matches!(result, Ok(Done::AlreadyExists)) && step.target().is_some_and(is_of_work)
}
