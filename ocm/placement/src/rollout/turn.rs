//! What comes out of a rollout decision: every cluster's turn, and why.

use std::{fmt, time::Duration};

use jiff::Timestamp;

use super::RolloutState;

/// What a rollout decision says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout<'a> {
    /// Every cluster of the placement's decisions, by name.
    pub clusters: Vec<ClusterRollout<'a>>,
    /// Clusters that the caller knows and the placement no longer chooses, by name.
    pub removed: Vec<&'a str>,
    /// Whether more clusters failed than may.
    pub max_failure_breach: bool,
    /// When to decide again even if nothing happens: the next deadline or end of a soak time.
    pub recheck_after: Option<Duration>,
}

/// What one cluster may do, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterRollout<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// Its decision group's name; empty for the groups without one.
    pub group: &'a str,
    /// Its decision group's index.
    pub group_index: i32,
    /// Whether the caller does not know it.
    pub is_new: bool,
    /// How far it is: as the caller said, [`RolloutState::TimeOut`] when its deadline has passed,
    /// [`RolloutState::ToApply`] when it is new.
    pub status: RolloutState,
    /// Since when it has the status the caller said.
    pub since: Option<Timestamp>,
    /// What it may do.
    pub turn: Turn,
}

/// What a cluster may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Take the change now.
    Start,
    /// It has the change and is not done with it.
    InFlight {
        /// When it times out.
        until: Option<Timestamp>,
    },
    /// It has succeeded and has to stay well for a while.
    Soaks {
        /// For how long.
        until: Option<Timestamp>,
    },
    /// Its deadline has passed: it counts as failed.
    TimesOut,
    /// It is done.
    Done,
    /// Its caller has given it up.
    GaveUp,
    /// It does not take part.
    Skipped,
    /// It has to wait.
    Wait(Wait),
}

/// What a cluster waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As many clusters as may are under way.
    ForRoom {
        /// How many may.
        at_once: usize,
    },
    /// An earlier group is not done.
    ForGroup {
        /// Its index.
        index: i32,
    },
    /// What is under way has to end while there are mandatory groups.
    ForMandatory,
    /// Too many clusters failed; somebody has to look.
    Breach {
        /// How many failed.
        failures: usize,
        /// How many may.
        failures_max: usize,
    },
}

impl<'a> Rollout<'a> {
    /// The clusters that take part now: they start, are in flight, or soak (upstream: `ClustersToRollout`).
    pub fn to_rollout(&self) -> impl Iterator<Item = &ClusterRollout<'a>> {
        self.clusters.iter().filter(|it| it.turn.is_in_rollout())
    }

    /// The clusters that take the change now.
    pub fn starts(&self) -> impl Iterator<Item = &ClusterRollout<'a>> {
        self.clusters.iter().filter(|it| it.turn == Turn::Start)
    }

    /// The clusters whose deadline has passed (upstream: `ClustersTimeOut`).
    pub fn timed_out(&self) -> impl Iterator<Item = &ClusterRollout<'a>> {
        self.clusters.iter().filter(|it| it.turn == Turn::TimesOut)
    }

    /// One cluster's turn; nothing when the placement does not choose it.
    pub fn of(&self, cluster: &str) -> Option<&ClusterRollout<'a>> {
        let position = self.clusters.binary_search_by(|it| it.cluster.cmp(cluster)).ok()?;
        self.clusters.get(position)
    }
}

impl ClusterRollout<'_> {
    /// Whether it counts as a failure.
    pub fn has_failed(&self) -> bool {
        matches!(self.status, RolloutState::Failed | RolloutState::TimeOut)
    }
}

impl Turn {
    /// Whether the cluster takes part now: it starts, is in flight, or soaks.
    pub fn is_in_rollout(self) -> bool {
        matches!(self, Turn::Start | Turn::InFlight { .. } | Turn::Soaks { .. })
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Turn::Start => f.write_str("takes the change now"),
            Turn::InFlight { until: Some(until) } => write!(f, "has the change and may take until {until}"),
            Turn::InFlight { until: None } => f.write_str("has the change and is not done with it"),
            Turn::Soaks { until: Some(until) } => write!(f, "has succeeded and has to stay well until {until}"),
            Turn::Soaks { until: None } => f.write_str("has succeeded and has to stay well"),
            Turn::TimesOut => f.write_str("was not done in time"),
            Turn::Done => f.write_str("is done"),
            Turn::GaveUp => f.write_str("was given up"),
            Turn::Skipped => f.write_str("does not take part"),
            Turn::Wait(wait) => write!(f, "waits: {wait}"),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::ForRoom { at_once } => write!(f, "{at_once} clusters may be under way at once, and are"),
            Wait::ForGroup { index } => write!(f, "decision group {index} comes first"),
            Wait::ForMandatory => f.write_str("what is under way has to end first, as there are mandatory groups"),
            Wait::Breach { failures, failures_max } => {
                write!(
                    f,
                    "{failures} clusters failed and {failures_max} may; the rollout has stopped"
                )
            }
        }
    }
}
