//! A ManifestWorkReplicaSet says how far its works are.
//!
//! Root: ManifestWorkReplicaSets. Reads: the verdict of the last look at its clusters, and the counters of its works.
//! Writes: its status, ten times a second at most, however many works change. Never: a work.
//! Upstream: ocm `manifestworkreplicasetcontroller`, status reconciler; conditions, reasons and the words of
//! `availableDecisionGroups` are its own. We add the generation that a condition is about, a message where something is
//! wrong, and the two numbers that upstream's API has and nobody writes: `desiredTotal`, how many clusters there are, and
//! `updated`, how many works say what they shall.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ocm_api::{
    annotations,
    condition::{self, ConditionUpdate, wanted},
    conditions::manifest_work_replica_set::{self as types, reason},
    work::{ManifestWorkReplicaSet, ManifestWorkReplicaSetStatus, ManifestWorkReplicaSetSummary, PlacementSummary},
};
use ocm_reconcile::{ObserveError, Outcome, Plan, Reconciler, Site, async_trait, cache::split_key};
use parking_lot::Mutex;

use super::{
    Caches,
    desired_state::Problem,
    fleet::Counts,
    names,
    revision::Is,
    rollout_status::{RolloutStatuses, Verdict},
};

/// The shortest time between two reports on one set. Watchers of a set see a moving number; a thousand writes of it would
/// show them nothing more.
const PACE: Duration = Duration::from_millis(100);

/// The reconciler.
pub struct Report {
    caches: Caches,
    board: RolloutStatuses,
    last: Mutex<HashMap<String, Instant>>,
}

/// What a report is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The set; `None` when it is gone.
    pub set: Option<Arc<ManifestWorkReplicaSet>>,
    /// How the last look at its clusters went.
    pub verdict: Option<Arc<Verdict>>,
    /// What there is of each placement of the verdict.
    pub counts: Vec<Counts>,
    /// How long to hold the report back.
    pub hold: Duration,
}

impl Report {
    /// Over these caches.
    pub fn new(caches: &Caches, board: &RolloutStatuses) -> Self {
        Self {
            caches: caches.clone(),
            board: board.clone(),
            last: Mutex::default(),
        }
    }
}

#[async_trait]
impl Reconciler for Report {
    const NAME: &'static str = "manifest-work-replica-set-status";

    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let set = self.caches.sets.get(namespace, name);
        let last = self.last.lock().get(key).copied();
        if set.is_none() {
            self.last.lock().remove(key);
        }
        let mut seen = Seen {
            now: Timestamp::now(),
            set,
            verdict: self.board.verdict(key),
            counts: Vec::new(),
            hold: last.map_or(Duration::ZERO, |it| PACE.saturating_sub(it.elapsed())),
        };
        if let (Some(set), Some(verdict), true) = (&seen.set, &seen.verdict, seen.hold.is_zero()) {
            let label = names::label_value(set);
            let places = verdict.places.iter();
            seen.counts = places
                .map(|it| self.caches.fleet.counts(&label, &it.name, verdict.spec))
                .collect();
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(set) = seen
            .set
            .as_deref()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
        else {
            return plan;
        };
        let Some(verdict) = seen.verdict.as_deref() else {
            plan.wait("nobody has looked at its clusters yet");
            return plan;
        };
        if !seen.hold.is_zero() {
            plan.wait("it has just been reported on");
            plan.look_again(seen.hold);
            return plan;
        }
        // The template is no part of a status, and may be large.
        let old = ManifestWorkReplicaSet {
            metadata: set.metadata.clone(),
            spec: Default::default(),
            status: set.status.clone(),
        };
        let new = ManifestWorkReplicaSet {
            status: Some(status(set, verdict, &seen.counts, seen.now)),
            ..old.clone()
        };
        plan.status(Site::Hub, &old, &new);
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let Some(set) = &seen.set else {
            return;
        };
        if outcome.stages.iter().any(|it| !it.is_empty()) {
            let key = ocm_reconcile::cache::key_of(&**set);
            self.last.lock().insert(key, Instant::now());
        }
        // Otherwise the next report would meet the resourceVersion of this one.
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let written = outcome.latest::<ManifestWorkReplicaSet>(Site::Hub, set.metadata.namespace.as_deref(), name);
        if let Some(it) = written {
            self.caches.sets.put(it);
        }
    }
}

fn status(
    set: &ManifestWorkReplicaSet,
    verdict: &Verdict,
    counts: &[Counts],
    now: Timestamp,
) -> ManifestWorkReplicaSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    let mut say = |it: ConditionUpdate| {
        condition::set(&mut status.conditions, it.at_generation(verdict.generation), now);
    };
    if let Some(why) = &verdict.refusal {
        say(wanted(
            types::MANIFEST_WORK_APPLIED,
            false,
            reason::INVALID_MANIFEST_WORK_NAME,
            why.clone(),
        ));
        return status;
    }
    let mut all = Counts::default();
    for it in counts {
        all.total += it.total;
        all.applied += it.applied;
        all.available += it.available;
        all.progressing += it.progressing;
        all.degraded += it.degraded;
        all.succeeded += it.succeeded;
    }
    let verified = verified(verdict);
    let is_empty = verified.reason == reason::PLACEMENT_DECISION_EMPTY;
    say(verified);
    say(applied(verdict, &all, is_empty));
    say(rolled_out(verdict, &all));
    let desired = |clusters: usize| i64::try_from(clusters).unwrap_or(i64::MAX);
    status.summary = summary(&all, desired(verdict.clusters));
    status.placements_summary = verdict
        .places
        .iter()
        .zip(counts)
        .map(|(place, counts)| PlacementSummary {
            name: place.name.clone(),
            available_decision_groups: format!(
                "{} ({} / {} clusters applied)",
                place.decision_groups, counts.total, place.clusters
            ),
            summary: summary(counts, desired(place.clusters)),
        })
        .collect();
    status
}

fn summary(counts: &Counts, desired: i64) -> ManifestWorkReplicaSetSummary {
    ManifestWorkReplicaSetSummary {
        total: counts.total,
        progressing: counts.progressing,
        available: counts.available,
        degraded: counts.degraded,
        applied: counts.applied,
        desired_total: desired,
        updated: counts.total,
    }
}

fn verified(verdict: &Verdict) -> ConditionUpdate {
    let of = |problem: &Problem| {
        let mut places = verdict.places.iter();
        places.find(|it| it.problem.as_ref() == Some(problem))
    };
    if let Some(missing) = of(&Problem::Missing) {
        let message = format!("there is no placement {}", missing.name);
        return wanted(
            types::PLACEMENT_VERIFIED,
            false,
            reason::PLACEMENT_DECISION_NOT_FOUND,
            message,
        );
    }
    for it in &verdict.places {
        if let Some(Problem::Unreadable(why)) = &it.problem {
            let message = format!("placement {}: {why}", it.name);
            return wanted(types::PLACEMENT_VERIFIED, false, reason::NOT_AS_EXPECTED, message);
        }
    }
    if verdict.clusters == 0 {
        return wanted(types::PLACEMENT_VERIFIED, false, reason::PLACEMENT_DECISION_EMPTY, "");
    }
    wanted(types::PLACEMENT_VERIFIED, true, reason::AS_EXPECTED, "")
}

fn applied(verdict: &Verdict, all: &Counts, is_empty: bool) -> ConditionUpdate {
    let say = |yes: bool, reason: &str, message: String| wanted(types::MANIFEST_WORK_APPLIED, yes, reason, message);
    if let Some(cluster) = verdict.strangers.first() {
        let others = match verdict.strangers.len() - 1 {
            0 => String::new(),
            more => format!(" (and on {more} more)"),
        };
        let message = format!(
            "the namespace of cluster {cluster}{others} has a ManifestWork with the name of ours that is not ours; it is left \
             alone"
        );
        return say(false, reason::NOT_AS_EXPECTED, message);
    }
    if let Some((error, count)) = &verdict.failed {
        let others = match count - 1 {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        return say(false, reason::NOT_AS_EXPECTED, format!("{error}{others}"));
    }
    let Counts {
        total,
        available,
        progressing,
        degraded,
        ..
    } = *all;
    match () {
        () if is_empty => say(false, reason::PLACEMENT_DECISION_EMPTY, String::new()),
        () if total == 0 => say(false, reason::NOT_AS_EXPECTED, String::new()),
        () if available == total && progressing == 0 && degraded == 0 => say(true, reason::AS_EXPECTED, String::new()),
        () if progressing > 0 && degraded == 0 => say(false, reason::PROCESSING, String::new()),
        () => say(false, reason::NOT_AS_EXPECTED, String::new()),
    }
}

fn rolled_out(verdict: &Verdict, all: &Counts) -> ConditionUpdate {
    let is_missing = verdict.places.iter().any(|it| it.problem.is_some());
    let is_done = usize::try_from(all.succeeded) == Ok(verdict.clusters) && !verdict.waits && !is_missing;
    let back = match verdict.is {
        Is::Present => String::new(),
        Is::Before(_) => format!("rolled back to the template before, as {} says", annotations::ROLL_BACK),
        Is::Unknown => format!("{} has nothing to go back to", annotations::ROLL_BACK),
        Is::Unkept => format!(
            "{} is held up, and nothing changes: the hub has no right to keep ControllerRevisions",
            annotations::ROLL_BACK
        ),
    };
    let is_paused = verdict.is_paused && verdict.is != Is::Unkept;
    let message = match (is_paused && !is_done, back.is_empty()) {
        (false, _) => back,
        (true, true) => format!("paused, as {} says", annotations::ROLLOUT_PAUSED),
        (true, false) => format!("{back}; paused, as {} says", annotations::ROLLOUT_PAUSED),
    };
    let reason = if is_done { reason::COMPLETE } else { reason::PROGRESSING };
    wanted(types::PLACEMENT_ROLLED_OUT, is_done, reason, message)
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
