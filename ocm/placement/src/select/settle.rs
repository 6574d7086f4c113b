//! From the clusters that match to the chosen ones: taints, scores, the best of them, groups.
//! Upstream: ocm `pkg/placement/controllers/scheduling/schedule.go`.

use jiff::Timestamp;
use ocm_api::cluster::{AddOnScore, ManagedCluster, Placement};

use super::{
    CandidateResult, ChoiceOutcome, Ranking,
    groups::{self, DecidedGroup},
    prioritize::{self, Amounts, Field, Prioritizer, Said},
    taint::{self, Tolerated},
};

/// Which part of the placement makes no sense, and why.
pub(crate) type Misconfigured = (&'static str, String);

/// What there is to choose from: the clusters that match a predicate, by name, column by column.
pub(crate) struct Contest<'a, 'f> {
    pub(crate) placement: &'a Placement,
    pub(crate) now: Timestamp,
    /// Which of them the placement has already.
    pub(crate) has: Vec<bool>,
    /// How often other placements use each of them; may be empty when nobody asks.
    pub(crate) load: Vec<u32>,
    pub(crate) load_max: u32,
    /// What each of them has to give; empty when nobody asks.
    pub(crate) amounts: Vec<Amounts>,
    /// What add-ons say of one of them.
    pub(crate) says: &'f dyn Fn(&AddOnScore, usize) -> Option<Said>,
    pub(crate) name: &'f dyn Fn(usize) -> &'a str,
    /// Whether one of them has taints, which is rare.
    pub(crate) is_tainted: &'f dyn Fn(usize) -> bool,
    pub(crate) cluster: &'f dyn Fn(usize) -> &'a ManagedCluster,
}

/// What came of it.
pub(crate) struct Settled<'a> {
    pub(crate) outcome: ChoiceOutcome,
    /// How far each cluster came.
    pub(crate) results: Vec<CandidateResult>,
    pub(crate) ranking: Ranking<'a>,
    pub(crate) groups: Vec<DecidedGroup<'a>>,
    pub(crate) chosen: usize,
    pub(crate) recheck_at: Option<Timestamp>,
}

/// How many clusters a placement wants at most.
pub(crate) fn number(placement: &Placement) -> Result<usize, Misconfigured> {
    match placement.spec.number_of_clusters {
        Some(number) if number < 0 => Err(("", "numberOfClusters should not be negative".to_owned())),
        Some(number) => Ok(number.unsigned_abs() as usize),
        None => Ok(usize::MAX),
    }
}

/// Chooses among those that match.
pub(crate) fn settle<'a>(contest: &Contest<'a, '_>) -> Result<Settled<'a>, Misconfigured> {
    let spec = &contest.placement.spec;
    let number = number(contest.placement)?;
    let count = contest.has.len();
    if count > 0 {
        taint::check(&spec.tolerations).map_err(|message| ("TaintToleration", message))?;
    }
    let mut recheck_at = None;
    let mut results = Vec::with_capacity(count);
    let mut fitting = Vec::with_capacity(count);
    for (position, has) in contest.has.iter().enumerate() {
        if (contest.is_tainted)(position) {
            let taints = &(contest.cluster)(position).spec.taints;
            match taint::tolerates(taints, &spec.tolerations, *has, contest.now) {
                Tolerated::Until(end) => recheck_at = earliest(recheck_at, end),
                Tolerated::Not(taint) => {
                    let taint = taints.iter().position(|it| std::ptr::eq(it, taint));
                    results.push(CandidateResult::Tainted {
                        taint: taint.unwrap_or_default(),
                    });
                    continue;
                }
            }
        }
        results.push(CandidateResult::Fits {
            place: fitting.len(),
            chosen: false,
        });
        fitting.push(position);
    }
    let weights = prioritize::weights(&spec.prioritizer_policy).map_err(|message| ("", message))?;
    let says = |wanted: &AddOnScore, place: usize| (contest.says)(wanted, fitting[place]);
    let name = |place: usize| (contest.name)(fitting[place]);
    let field = Field {
        has: fitting.iter().map(|it| contest.has[*it]).collect(),
        load: fitting
            .iter()
            .map(|it| contest.load.get(*it).copied().unwrap_or_default())
            .collect(),
        load_max: contest.load_max,
        amounts: match contest.amounts.as_slice() {
            [] => Vec::new(),
            amounts => fitting.iter().map(|it| amounts[*it]).collect(),
        },
        says: &says,
        name: &name,
        now: contest.now,
    };
    let mut settled = Settled {
        outcome: ChoiceOutcome::Success,
        results,
        ranking: Ranking::default(),
        groups: Vec::new(),
        chosen: 0,
        recheck_at,
    };
    rank(&mut settled, &field, weights);
    let order = best(&settled.ranking.totals, number);
    for place in &order {
        settled.results[fitting[*place]] = CandidateResult::Fits {
            place: *place,
            chosen: true,
        };
    }
    let chosen: Vec<&ManagedCluster> = order.iter().map(|it| (contest.cluster)(fitting[*it])).collect();
    settled.groups = groups::split(&spec.decision_strategy.group_strategy, &chosen).map_err(|message| ("", message))?;
    settled.chosen = chosen.len();
    Ok(settled)
}

/// The places of the highest totals; of equals the first, which is the first by name. In the order of the places.
fn best(totals: &[i64], number: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..totals.len()).collect();
    if number < totals.len() {
        if number > 0 {
            order.select_nth_unstable_by_key(number - 1, |it| (std::cmp::Reverse(totals[*it]), *it));
        }
        order.truncate(number);
        order.sort_unstable();
    }
    order
}

fn rank<'a>(settled: &mut Settled<'a>, field: &Field<'_>, weights: Vec<(Prioritizer<'a>, i64)>) {
    let mut totals = vec![0i64; field.has.len()];
    for (prioritizer, weight) in weights {
        let given = prioritize::score(prioritizer, field);
        for (total, value) in totals.iter_mut().zip(&given.values) {
            *total += weight * value;
        }
        if !given.expired.is_empty() {
            settled.outcome = ChoiceOutcome::Warning {
                plugin: prioritizer.to_string(),
                message: format!("AddOnPlacementScores {} expired", given.expired.join(" ")),
            };
        }
        // They count up to and including that time.
        let expiry = given
            .until
            .and_then(|it| it.checked_add(jiff::SignedDuration::from_millis(1)).ok());
        settled.recheck_at = earliest(settled.recheck_at, expiry);
        settled.ranking.prioritizers.push((prioritizer, weight, given.values));
    }
    settled.ranking.totals = totals;
}

/// The earlier of two times.
pub(crate) fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_taken_and_of_equals_the_first() {
        let totals = [5, 9, 5, -3, 9, 5];
        assert_eq!(best(&totals, 0), [0usize; 0]);
        assert_eq!(best(&totals, 1), [1]);
        assert_eq!(best(&totals, 3), [0, 1, 4]);
        assert_eq!(best(&totals, 4), [0, 1, 2, 4]);
        assert_eq!(best(&totals, usize::MAX), [0, 1, 2, 3, 4, 5]);
        assert_eq!(best(&[], 3), [0usize; 0]);
    }
}
