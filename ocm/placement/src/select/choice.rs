//! A choice without the clusters that were not taken: what has to be written, and what is said about it.

use std::fmt;

use jiff::Timestamp;
use ocm_api::cluster::ManagedCluster;

use super::{
    CandidateResult, ChoiceOutcome, Selection,
    groups::DecidedGroup,
    scope::EligibleSets,
    settle::{Settled, earliest},
};

/// Upstream cuts the list of scores in an event here.
const SCORES_LENGTH_MAX: usize = 1000;

/// What came of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Which sets counted.
    pub scope: EligibleSets,
    /// How it went.
    pub outcome: ChoiceOutcome,
    /// How many clusters there were to choose from.
    pub members: usize,
    /// Whether some of them were there only because their set, or its binding, has just gone missing.
    pub held: bool,
    /// The clusters that might match, but that an expression cannot be asked of.
    pub failing: Option<Failing>,
    /// `namespace/name` of scores that have just gone missing and count for now.
    pub held_scores: Vec<String>,
    /// The groups of the chosen clusters; at least one, unless the placement is misconfigured.
    pub groups: Vec<Group>,
    /// How many clusters were chosen.
    pub chosen: usize,
    /// How many more are wanted than there are.
    pub unscheduled: usize,
    /// `cluster:score ` for every cluster that fits, by name, as far as it goes into an event.
    pub scores: String,
    /// When the choice may change even if nothing happens.
    pub recheck_at: Option<Timestamp>,
}

/// A group of chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its clusters, by name.
    pub clusters: Vec<String>,
}

/// Expressions that cannot be asked of some clusters. Such a cluster does not match, as upstream has it;
/// upstream does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// Of how many.
    pub count: usize,
    /// The first by name.
    pub cluster: String,
    /// What is wrong there.
    pub error: String,
}

impl Failing {
    /// Counts one more; they come by name.
    pub(crate) fn count(failing: &mut Option<Self>, cluster: &ManagedCluster, error: String) {
        match failing {
            Some(it) => it.count += 1,
            None => {
                *failing = Some(Self {
                    count: 1,
                    cluster: cluster.metadata.name.clone().unwrap_or_default(),
                    error,
                });
            }
        }
    }
}

/// `fail on 3 clusters, first on c1: no such key: env`
impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "fail on cluster {}: {}", self.cluster, self.error),
            count => write!(f, "fail on {count} clusters, first on {}: {}", self.cluster, self.error),
        }
    }
}

impl Choice {
    /// What this selection came to.
    pub fn of(selection: &Selection<'_>) -> Self {
        let fitting = selection.candidates.iter().filter_map(|it| match it.result {
            CandidateResult::Fits { place, .. } => {
                let total = selection.ranking.totals.get(place).copied().unwrap_or_default();
                Some((it.cluster.metadata.name.as_deref().unwrap_or_default(), total))
            }
            _ => None,
        });
        Self {
            scope: selection.scope.clone(),
            outcome: selection.outcome.clone(),
            members: selection.candidates.len(),
            held: selection.candidates.iter().any(|it| it.held),
            failing: selection.failing.clone(),
            held_scores: selection.held_scores.clone(),
            groups: owned(&selection.groups),
            chosen: selection.chosen,
            unscheduled: selection.unscheduled,
            scores: scores(fitting),
            recheck_at: selection.recheck_at,
        }
    }

    /// What became of those that match, where nothing is held.
    pub(crate) fn settled<'n>(
        self,
        name: impl Fn(usize) -> &'n str,
        settled: Settled<'_>,
        number: Option<i32>,
    ) -> Self {
        let fitting = settled
            .results
            .iter()
            .enumerate()
            .filter_map(|(position, result)| match result {
                CandidateResult::Fits { place, .. } => Some((name(position), settled.ranking.totals[*place])),
                _ => None,
            });
        let scores = scores(fitting);
        let wanted = number.and_then(|it| usize::try_from(it).ok());
        Self {
            groups: owned(&settled.groups),
            chosen: settled.chosen,
            unscheduled: wanted.map_or(0, |it| it.saturating_sub(settled.chosen)),
            scores,
            recheck_at: earliest(self.recheck_at, settled.recheck_at),
            outcome: settled.outcome,
            ..self
        }
    }
}

fn owned(groups: &[DecidedGroup<'_>]) -> Vec<Group> {
    let groups = groups.iter().map(|it| Group {
        name: it.name.to_owned(),
        clusters: it.clusters.iter().map(|it| (*it).to_owned()).collect(),
    });
    groups.collect()
}

/// The list of scores as upstream's event has it.
fn scores<'a>(fitting: impl Iterator<Item = (&'a str, i64)>) -> String {
    use fmt::Write;

    let mut text = String::new();
    for (name, total) in fitting {
        write!(text, "{name}:{total} ").expect("a String takes what is written");
        if text.len() > SCORES_LENGTH_MAX {
            // Names of clusters are ASCII.
            text.truncate(SCORES_LENGTH_MAX);
            text.push_str("......");
            break;
        }
    }
    text
}
