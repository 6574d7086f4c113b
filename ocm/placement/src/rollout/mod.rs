//! Which clusters may take a change now: one set of rules for add-ons, works, and whoever else rolls something out.
//!
//! [`admit`] is a plain function: the strategy, the decision groups of a placement ([`groups`]), what the caller knows
//! about each cluster ([`Existing`]), and the time go in; what each cluster may do, and why, comes out ([`Rollout`]).
//! The caller does something only for clusters whose turn is [`Turn::Start`], and looks again after
//! [`recheck_after`](Rollout::recheck_after).
//!
//! Upstream: sdk-go `pkg/apis/cluster/v1alpha1/rollout.go`. It reads a global clock; here the caller passes `now`.
//! Sizes, defaults, the meaning of the statuses and the order of clusters and groups are upstream's, its floating-point
//! percentages included (7 % of 100 is 8). Three habits that look odd are kept: a `maxFailures` larger than the number
//! of clusters counts as 0; with mandatory groups, `Progressive` goes in whole batches, because anything in flight
//! anywhere holds the rest back; a cluster that succeeded nobody knows when soaks until somebody does.
//!
//! We differ where upstream lets more happen than the strategy allows:
//!
//! 1. **What is in flight counts first.** Upstream walks the clusters by name and stops at `maxConcurrency`, so that
//!    clusters in flight behind that point are not counted and `maxConcurrency` is exceeded when a cluster
//!    with an early name joins.
//! 2. **A breach starts nothing.** For the same reason upstream still starts clusters whose names come before the
//!    failure that breaks `maxFailures`.
//! 3. **A group with a timeout does not open the next group.** Upstream subtracts clusters that timed out from the
//!    number in flight, which does not contain them, and so may start the next group beside what is still in flight.
//! 4. **A mandatory group with a cluster that has given up holds the rest**, also when the caller itself says so
//!    ([`RolloutState::TimeOut`]).
//! 5. **Groups with gaps in their indexes are all seen**, which matters in the moment when a placement's decisions are
//!    being rewritten; and a cluster that two decisions name in that moment belongs to the first of its groups.
//! 6. **A soak time is never shorter than it says**: the time of a condition is cut to whole seconds,
//!    so a second is added to it.
//! 7. A strategy that cannot be read is refused as a whole ([`Unusable`]), before anything is decided.

mod groups;
mod limits;
mod turn;

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use ocm_api::cluster::{RolloutStrategy, RolloutType};

pub use groups::{BadGroup, Group, groups};
pub use limits::Unusable;
use limits::{RolloutLimits, size};
pub use turn::{ClusterRollout, Rollout, Turn, Wait};

/// How far a cluster is, as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RolloutState {
    /// It does not have the change yet.
    ToApply,
    /// It has the change and is not done with it.
    Progressing,
    /// It has the change and is well.
    Succeeded,
    /// It has the change and is not well. It may still recover until the deadline.
    Failed,
    /// It has the change and has given up.
    TimeOut,
    /// It does not take part.
    Skip,
}

/// What is known of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Existing {
    /// How far it is.
    pub status: RolloutState,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// Decides which clusters may take the change at `now`.
///
/// `groups` come in any order; `existing` may hold clusters that are in no group, which are then [`Rollout::removed`],
/// and need not hold clusters that are new. The last of two entries of one cluster counts.
pub fn admit<'a>(
    strategy: &RolloutStrategy,
    groups: &[Group<'a>],
    existing: impl IntoIterator<Item = (&'a str, Existing)>,
    now: Timestamp,
) -> Result<Rollout<'a>, Unusable> {
    let rules = RolloutLimits::of(strategy)?;
    let mut rollout = State::gather(groups, existing);
    rollout.evaluate(&rules, now);
    match strategy.r#type {
        RolloutType::All => rollout.all(),
        RolloutType::Progressive => rollout.progressive(&rules)?,
        RolloutType::ProgressivePerGroup => rollout.per_group(&rules)?,
    }
    Ok(rollout.finish(now))
}

/// How long a cluster soaks after the second in which it is said to have succeeded. Conditions keep whole seconds, cut
/// off, so that it may have been up to a second later; a soak time is never shorter than it says.
fn whole_soak(soak: SignedDuration, since: Option<Timestamp>) -> SignedDuration {
    let is_cut = since.is_some_and(|it| it.subsec_nanosecond() == 0);
    if is_cut && soak.is_positive() {
        soak.saturating_add(SignedDuration::from_secs(1))
    } else {
        soak
    }
}

/// The clusters by name, and which of them form a group.
struct State<'a> {
    clusters: Vec<ClusterRollout<'a>>,
    /// In their order, each with its clusters' positions in `clusters`.
    groups: Vec<Members<'a>>,
    removed: Vec<&'a str>,
    breach: bool,
}

struct Members<'a> {
    name: &'a str,
    index: i32,
    positions: Vec<usize>,
}

/// Where going group by group came to.
struct Halt {
    wait: Wait,
    breach: bool,
}

impl<'a> State<'a> {
    fn gather(groups: &[Group<'a>], existing: impl IntoIterator<Item = (&'a str, Existing)>) -> Self {
        let mut ordered: Vec<&Group<'a>> = groups.iter().collect();
        ordered.sort_by_key(|it| (it.index, it.name));
        let mut named: Vec<(&'a str, usize)> = ordered
            .iter()
            .enumerate()
            .flat_map(|(position, group)| group.clusters.iter().map(move |cluster| (*cluster, position)))
            .filter(|(cluster, _)| !cluster.is_empty())
            .collect();
        named.sort_unstable();
        named.dedup_by_key(|(cluster, _)| *cluster);

        let mut existing: Vec<(&'a str, Existing)> = existing
            .into_iter()
            .filter(|(cluster, _)| !cluster.is_empty())
            .collect();
        // Stable, so that the last entry of a cluster stays the last.
        existing.sort_by_key(|(cluster, _)| *cluster);
        let mut known = existing.into_iter().peekable();

        let mut groups: Vec<Members<'a>> = ordered
            .iter()
            .map(|it| Members {
                name: it.name,
                index: it.index,
                positions: Vec::with_capacity(it.clusters.len()),
            })
            .collect();
        let mut clusters = Vec::with_capacity(named.len());
        let mut removed = Vec::new();
        for (cluster, group) in named {
            while let Some((gone, _)) = known.next_if(|(it, _)| *it < cluster) {
                removed.push(gone);
            }
            let mut before = None;
            while let Some((_, it)) = known.next_if(|(it, _)| *it == cluster) {
                before = Some(it);
            }
            groups[group].positions.push(clusters.len());
            clusters.push(ClusterRollout {
                cluster,
                group: ordered[group].name,
                group_index: ordered[group].index,
                is_new: before.is_none(),
                status: before.map_or(RolloutState::ToApply, |it| it.status),
                since: before.and_then(|it| it.since),
                turn: Turn::Wait(Wait::ForRoom { at_once: 0 }),
            });
        }
        removed.extend(known.map(|(gone, _)| gone));
        removed.dedup();
        Self {
            clusters,
            groups,
            removed,
            breach: false,
        }
    }

    /// What becomes of every cluster that has the change, whatever the strategy.
    fn evaluate(&mut self, rules: &RolloutLimits<'_>, now: Timestamp) {
        for it in &mut self.clusters {
            let since = it.since.unwrap_or(now);
            // A time beyond the calendar never comes.
            let after = |duration| since.checked_add(duration).ok();
            match it.status {
                // Decided later.
                RolloutState::ToApply => {}
                RolloutState::Succeeded => {
                    it.turn = match after(whole_soak(rules.soak, it.since)) {
                        Some(until) if now >= until => Turn::Done,
                        until => Turn::Soaks { until },
                    }
                }
                RolloutState::TimeOut => it.turn = Turn::GaveUp,
                RolloutState::Skip => it.turn = Turn::Skipped,
                RolloutState::Progressing | RolloutState::Failed => match rules.deadline.map(after) {
                    Some(Some(until)) if now >= until => {
                        it.status = RolloutState::TimeOut;
                        it.turn = Turn::TimesOut;
                    }
                    until => it.turn = Turn::InFlight { until: until.flatten() },
                },
            }
        }
    }

    fn all(&mut self) {
        self.start(|_| true);
    }

    fn progressive(&mut self, rules: &RolloutLimits<'_>) -> Result<(), Unusable> {
        let failures_max = size(rules.max_failures, self.clusters.len(), 0)?;
        let (mandatory, rest) = self.split(rules);
        let rest_total: usize = rest.iter().map(|it| self.groups[*it].positions.len()).sum();
        let at_once = size(rules.max_concurrency, rest_total, rest_total)?;
        if self.mandatory(&mandatory) {
            return Ok(());
        }
        let failures = self.clusters.iter().filter(|it| it.has_failed()).count();
        self.breach = failures > failures_max;
        if self.breach {
            self.hold(Wait::Breach { failures, failures_max });
            return Ok(());
        }
        let in_flight = self.clusters.iter().filter(|it| it.turn.is_in_rollout()).count();
        let mut room = at_once.saturating_sub(in_flight);
        // Clusters that their caller knows come before those that are new, as upstream has it.
        for new in [false, true] {
            for it in &mut self.clusters {
                if room > 0 && it.status == RolloutState::ToApply && it.is_new == new && it.turn != Turn::Start {
                    it.turn = Turn::Start;
                    room -= 1;
                }
            }
        }
        self.hold(Wait::ForRoom { at_once });
        Ok(())
    }

    fn per_group(&mut self, rules: &RolloutLimits<'_>) -> Result<(), Unusable> {
        let (mandatory, rest) = self.split(rules);
        let failures_max = rest
            .iter()
            .map(|it| size(rules.max_failures, self.groups[*it].positions.len(), 0))
            .collect::<Result<Vec<_>, _>>()?;
        if self.mandatory(&mandatory) {
            return Ok(());
        }
        if let Some(halt) = self.group_by_group(&rest, &failures_max) {
            self.breach = halt.breach;
            self.hold(halt.wait);
        }
        Ok(())
    }

    /// The groups that come first, and all others.
    fn split(&self, rules: &RolloutLimits<'_>) -> (Vec<usize>, Vec<usize>) {
        (0..self.groups.len()).partition(|it| {
            let group = &self.groups[*it];
            rules.mandatory.iter().any(|wanted| {
                if wanted.group_name.is_empty() {
                    wanted.group_index == group.index
                } else {
                    wanted.group_name == group.name
                }
            })
        })
    }

    /// Goes through the mandatory groups; true when they hold everything else back.
    fn mandatory(&mut self, mandatory: &[usize]) -> bool {
        if mandatory.is_empty() {
            return false;
        }
        let halt = self.group_by_group(mandatory, &vec![0; mandatory.len()]);
        let busy = self
            .clusters
            .iter()
            .any(|it| it.turn.is_in_rollout() || it.turn == Turn::TimesOut);
        match halt {
            Some(halt) => {
                self.breach = halt.breach;
                self.hold(halt.wait);
                true
            }
            None => {
                if busy {
                    self.hold(Wait::ForMandatory);
                }
                busy
            }
        }
    }

    /// Starts group after group until one has to be waited for.
    fn group_by_group(&mut self, order: &[usize], failures_max: &[usize]) -> Option<Halt> {
        let mut selected = self.clusters.iter().filter(|it| it.turn.is_in_rollout()).count();
        // Upstream subtracts every failure here; those that timed out are not in `selected`.
        let mut failed_in_flight = 0;
        for (group, failures_max) in order.iter().zip(failures_max) {
            let group = &self.groups[*group];
            let mut failures = 0;
            for position in &group.positions {
                let it = &mut self.clusters[*position];
                if it.status == RolloutState::ToApply {
                    it.turn = Turn::Start;
                    selected += 1;
                }
                failures += usize::from(it.has_failed());
                failed_in_flight += usize::from(it.has_failed() && it.turn.is_in_rollout());
            }
            let breach = failures > *failures_max;
            if breach || selected > failed_in_flight {
                let wait = if breach {
                    Wait::Breach {
                        failures,
                        failures_max: *failures_max,
                    }
                } else {
                    Wait::ForGroup { index: group.index }
                };
                return Some(Halt { wait, breach });
            }
        }
        None
    }

    fn start(&mut self, may: impl Fn(&ClusterRollout<'a>) -> bool) {
        for it in &mut self.clusters {
            if it.status == RolloutState::ToApply && may(it) {
                it.turn = Turn::Start;
            }
        }
    }

    /// Everybody who has not got a turn yet waits for the same thing.
    fn hold(&mut self, wait: Wait) {
        for it in &mut self.clusters {
            if it.status == RolloutState::ToApply && it.turn != Turn::Start {
                it.turn = Turn::Wait(wait);
            }
        }
    }

    fn finish(self, now: Timestamp) -> Rollout<'a> {
        let recheck_after = self
            .clusters
            .iter()
            .filter_map(|it| match it.turn {
                Turn::InFlight { until } | Turn::Soaks { until } => until,
                _ => None,
            })
            .filter_map(|until| std::time::Duration::try_from(until.duration_since(now)).ok())
            .filter(|it| !it.is_zero())
            .min();
        Rollout {
            clusters: self.clusters,
            removed: self.removed,
            max_failure_breach: self.breach,
            recheck_after,
        }
    }
}
