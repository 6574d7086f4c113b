//! What is said about a choice: the two conditions of a Placement.
//! Upstream: ocm `pkg/placement/controllers/scheduling/scheduling_controller.go`, `newSatisfiedCondition` and its neighbour.

use ocm_api::{
    cluster::Placement,
    condition::{Wanted, wanted},
    conditions::placement::{self, reason},
};

use super::{Outcome, Selection};

/// The conditions. `keeps` says that the placement makes no sense and keeps the decisions it has: whether it is satisfied then
/// stays as it was.
pub fn conditions(placement: &Placement, selection: &Selection<'_>, keeps: bool) -> Vec<Wanted> {
    let mut conditions = vec![misconfigured(selection, keeps)];
    if !keeps {
        conditions.insert(0, satisfied(placement, selection));
    }
    conditions
}

/// What is said instead while PlacementDecisions of the placement's names belong to somebody else.
pub fn taken(decisions: &[&str]) -> Wanted {
    wanted(
        placement::SATISFIED,
        false,
        reason::NOT_ALL_DECISIONS_SCHEDULED,
        format!("PlacementDecisions {} belong to somebody else", decisions.join(" ")),
    )
}

fn misconfigured(selection: &Selection<'_>, keeps: bool) -> Wanted {
    match &selection.outcome {
        Outcome::Misconfigured { plugin, message } => {
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
        _ => wanted(
            placement::MISCONFIGURED,
            false,
            reason::SUCCEED_CONFIGURED,
            "Placement configurations check pass",
        ),
    }
}

fn satisfied(placement: &Placement, selection: &Selection<'_>) -> Wanted {
    let scope = &selection.scope;
    let held = selection.candidates.iter().any(|it| it.held);
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
    } else if selection.candidates.is_empty() {
        (
            false,
            reason::ALL_MANAGED_CLUSTER_SETS_EMPTY,
            format!(
                "All ManagedClusterSets [{}] have no member ManagedCluster",
                eligible.join(",")
            ),
        )
    } else if selection.chosen == 0 {
        (
            false,
            reason::NO_MANAGED_CLUSTER_MATCHED,
            "No ManagedCluster matches any of the cluster predicate".to_owned(),
        )
    } else if selection.unscheduled == 0 {
        (
            true,
            reason::ALL_DECISIONS_SCHEDULED,
            "All cluster decisions scheduled".to_owned(),
        )
    } else {
        (
            false,
            reason::NOT_ALL_DECISIONS_SCHEDULED,
            format!("{} cluster decisions unscheduled", selection.unscheduled),
        )
    };
    if held {
        let missing: Vec<&str> = scope.missing.iter().map(String::as_str).collect();
        message = format!(
            "{message}; ManagedClusterSets [{}] have just gone missing and their clusters are kept for now",
            missing.join(",")
        );
    }
    wanted(placement::SATISFIED, is_satisfied, reason, message)
}
