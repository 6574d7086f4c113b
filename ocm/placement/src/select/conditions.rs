//! What is said about a choice: the two conditions of a Placement.
//! Upstream: ocm `pkg/placement/controllers/scheduling/scheduling_controller.go`,
//! `newSatisfiedCondition` and its neighbour.

use ocm_api::{
    cluster::Placement,
    condition::{ConditionUpdate, wanted},
    conditions::placement::{self, reason},
};

use super::{Choice, ChoiceOutcome};

/// The conditions. `keeps` says that the placement makes no sense and keeps the decisions it has: whether it is
/// satisfied then stays as it was.
pub fn conditions(placement: &Placement, choice: &Choice, keeps: bool) -> Vec<ConditionUpdate> {
    let mut conditions = vec![misconfigured(choice, keeps)];
    if !keeps {
        conditions.insert(0, satisfied(placement, choice));
    }
    conditions
}

/// What is said instead while PlacementDecisions of the placement's names belong to somebody else.
pub fn taken(decisions: &[String]) -> ConditionUpdate {
    wanted(
        placement::SATISFIED,
        false,
        reason::NOT_ALL_DECISIONS_SCHEDULED,
        format!("PlacementDecisions {} belong to somebody else", decisions.join(" ")),
    )
}

/// What is said instead when the decisions could not be written. Upstream forgets the error and says
/// that all went well.
pub fn unwritten(error: &str) -> ConditionUpdate {
    wanted(
        placement::SATISFIED,
        false,
        reason::NOT_ALL_DECISIONS_SCHEDULED,
        format!("PlacementDecisions could not be written: {error}"),
    )
}

fn misconfigured(choice: &Choice, keeps: bool) -> ConditionUpdate {
    match &choice.outcome {
        ChoiceOutcome::Misconfigured { plugin, message } => {
            let kept = if keeps {
                "; the decisions made before are kept"
            } else {
                ""
            };
            wanted(
                placement::MISCONFIGURED,
                true,
                reason::MISCONFIGURED,
                format!("{plugin}:{message}{kept}"),
            )
        }
        _ => {
            let mut message = "Placement configurations check pass".to_owned();
            // Upstream says nothing of it.
            if let Some(failing) = &choice.failing {
                message = format!("{message}; CEL expressions {failing}");
            }
            wanted(placement::MISCONFIGURED, false, reason::SUCCEED_CONFIGURED, message)
        }
    }
}

fn satisfied(placement: &Placement, choice: &Choice) -> ConditionUpdate {
    let scope = &choice.scope;
    let held = choice.held;
    let eligible: Vec<&str> = scope.eligible.iter().map(String::as_str).collect();
    let (is_satisfied, reason, mut message) = if scope.bound.is_empty() && !held {
        (
            false,
            reason::NO_MANAGED_CLUSTER_SET_BINDINGS,
            "No valid ManagedClusterSetBindings found in placement namespace".to_owned(),
        )
    } else if eligible.is_empty() && !held {
        let wanted = placement.spec.cluster_sets.join(",");
        (
            false,
            reason::NO_INTERSECTION,
            format!("None of ManagedClusterSets [{wanted}] is bound to placement namespace"),
        )
    } else if choice.members == 0 {
        (
            false,
            reason::ALL_MANAGED_CLUSTER_SETS_EMPTY,
            format!(
                "All ManagedClusterSets [{}] have no member ManagedCluster",
                eligible.join(",")
            ),
        )
    } else if choice.chosen == 0 {
        (
            false,
            reason::NO_MANAGED_CLUSTER_MATCHED,
            "No ManagedCluster matches any of the cluster predicate".to_owned(),
        )
    } else if choice.unscheduled == 0 {
        (
            true,
            reason::ALL_DECISIONS_SCHEDULED,
            "All cluster decisions scheduled".to_owned(),
        )
    } else {
        (
            false,
            reason::NOT_ALL_DECISIONS_SCHEDULED,
            format!("{} cluster decisions unscheduled", choice.unscheduled),
        )
    };
    if held {
        let missing: Vec<&str> = scope.missing.iter().map(String::as_str).collect();
        message = format!(
            "{message}; ManagedClusterSets [{}] or their bindings have just gone missing and their clusters are kept for now",
            missing.join(",")
        );
    }
    if !choice.held_scores.is_empty() {
        message = format!(
            "{message}; AddOnPlacementScores {} have just gone missing and their last values count for now",
            choice.held_scores.join(" ")
        );
    }
    wanted(placement::SATISFIED, is_satisfied, reason, message)
}
