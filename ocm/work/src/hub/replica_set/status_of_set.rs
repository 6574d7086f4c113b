//! What the status of a ManifestWorkReplicaSet says: plain functions of how its works are.
//!
//! Conditions, reasons and the words of `availableDecisionGroups` are upstream's (ocm
//! `manifestworkreplicasetcontroller`, status reconciler). We add the generation that a condition is about, a message
//! where something is wrong, and the two numbers that upstream's API has and nobody writes: `desiredTotal`, how many
//! clusters there are, and `updated`, how many works say what they shall.

use jiff::Timestamp;
use ocm_api::{
    annotations,
    condition::{self, ConditionUpdate, wanted},
    conditions::manifest_work_replica_set::{self as types, reason},
    work::{ManifestWorkReplicaSet, ManifestWorkReplicaSetStatus, ManifestWorkReplicaSetSummary, PlacementSummary},
};

use super::{
    desired_state::PlacementProblem, revision::TemplateInUse, rollout_status::RolloutStatus, works_by_set::WorkCounts,
};

/// The set as it is and with the status that it is to have: without its template, which is no part of that and may be
/// large.
pub fn before_and_after(
    set: &ManifestWorkReplicaSet,
    rollout: &RolloutStatus,
    counts: &[WorkCounts],
    now: Timestamp,
) -> (ManifestWorkReplicaSet, ManifestWorkReplicaSet) {
    let old = ManifestWorkReplicaSet {
        metadata: set.metadata.clone(),
        spec: Default::default(),
        status: set.status.clone(),
    };
    let new = ManifestWorkReplicaSet {
        status: Some(status(set, rollout, counts, now)),
        ..old.clone()
    };
    (old, new)
}

/// The whole status, given the works of each placement.
pub fn status(
    set: &ManifestWorkReplicaSet,
    rollout: &RolloutStatus,
    counts: &[WorkCounts],
    now: Timestamp,
) -> ManifestWorkReplicaSetStatus {
    let mut status = set.status.clone().unwrap_or_default();
    let mut say = |it: ConditionUpdate| {
        condition::set(&mut status.conditions, it.at_generation(rollout.generation), now);
    };
    if let Some(why) = &rollout.refusal {
        say(wanted(
            types::MANIFEST_WORK_APPLIED,
            false,
            reason::INVALID_MANIFEST_WORK_NAME,
            why.clone(),
        ));
        return status;
    }
    let mut all = WorkCounts::default();
    for it in counts {
        all.total += it.total;
        all.applied += it.applied;
        all.available += it.available;
        all.progressing += it.progressing;
        all.degraded += it.degraded;
        all.succeeded += it.succeeded;
    }
    let verified = verified(rollout);
    let is_empty = verified.reason == reason::PLACEMENT_DECISION_EMPTY;
    say(verified);
    say(applied(rollout, &all, is_empty));
    say(rolled_out(rollout, &all));
    let desired = |clusters: usize| i64::try_from(clusters).unwrap_or(i64::MAX);
    status.summary = summary(&all, desired(rollout.clusters));
    status.placements_summary = rollout
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

fn summary(counts: &WorkCounts, desired: i64) -> ManifestWorkReplicaSetSummary {
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

fn verified(rollout: &RolloutStatus) -> ConditionUpdate {
    let of = |problem: &PlacementProblem| {
        let mut places = rollout.places.iter();
        places.find(|it| it.problem.as_ref() == Some(problem))
    };
    if let Some(missing) = of(&PlacementProblem::Missing) {
        let message = format!("there is no placement {}", missing.name);
        return wanted(
            types::PLACEMENT_VERIFIED,
            false,
            reason::PLACEMENT_DECISION_NOT_FOUND,
            message,
        );
    }
    for it in &rollout.places {
        if let Some(PlacementProblem::Unreadable(why)) = &it.problem {
            let message = format!("placement {}: {why}", it.name);
            return wanted(types::PLACEMENT_VERIFIED, false, reason::NOT_AS_EXPECTED, message);
        }
    }
    if rollout.clusters == 0 {
        return wanted(types::PLACEMENT_VERIFIED, false, reason::PLACEMENT_DECISION_EMPTY, "");
    }
    wanted(types::PLACEMENT_VERIFIED, true, reason::AS_EXPECTED, "")
}

fn applied(rollout: &RolloutStatus, all: &WorkCounts, is_empty: bool) -> ConditionUpdate {
    let say = |yes: bool, reason: &str, message: String| wanted(types::MANIFEST_WORK_APPLIED, yes, reason, message);
    if let Some(cluster) = rollout.strangers.first() {
        let others = match rollout.strangers.len() - 1 {
            0 => String::new(),
            more => format!(" (and on {more} more)"),
        };
        let message = format!(
            "the namespace of cluster {cluster}{others} has a ManifestWork with the name of ours that is not ours; it is left \
             alone"
        );
        return say(false, reason::NOT_AS_EXPECTED, message);
    }
    if let Some((error, count)) = &rollout.failed {
        let others = match count - 1 {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        return say(false, reason::NOT_AS_EXPECTED, format!("{error}{others}"));
    }
    let WorkCounts {
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

fn rolled_out(rollout: &RolloutStatus, all: &WorkCounts) -> ConditionUpdate {
    let is_missing = rollout.places.iter().any(|it| it.problem.is_some());
    let is_done = usize::try_from(all.succeeded) == Ok(rollout.clusters) && !rollout.waits && !is_missing;
    let back = match rollout.is {
        TemplateInUse::Present => String::new(),
        TemplateInUse::Before(_) => format!("rolled back to the template before, as {} says", annotations::ROLL_BACK),
        TemplateInUse::Unknown => format!("{} has nothing to go back to", annotations::ROLL_BACK),
        TemplateInUse::Unkept => format!(
            "{} is held up, and nothing changes: the hub has no right to keep ControllerRevisions",
            annotations::ROLL_BACK
        ),
    };
    let is_paused = rollout.is_paused && rollout.is != TemplateInUse::Unkept;
    let message = match (is_paused && !is_done, back.is_empty()) {
        (false, _) => back,
        (true, true) => format!("paused, as {} says", annotations::ROLLOUT_PAUSED),
        (true, false) => format!("{back}; paused, as {} says", annotations::ROLLOUT_PAUSED),
    };
    let reason = if is_done { reason::COMPLETE } else { reason::PROGRESSING };
    wanted(types::PLACEMENT_ROLLED_OUT, is_done, reason, message)
}

#[cfg(test)]
#[path = "status_of_set_tests.rs"]
mod tests;
