//! Which clusters a placement may choose from: those of the sets that are bound to its namespace.
//! Upstream: ocm `pkg/placement/controllers/scheduling/scheduling_controller.go`, `getEligibleClusterSets`.
//!
//! We differ in one thing: a bound set that has just gone missing keeps its clusters where they are for [`HOLD`]. Sets
//! are re-created within seconds (`default` and `global` by the hub itself), and a fleet is not emptied for that. A
//! binding that is gone counts for [`HOLD_BINDING`].

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
pub use ocm_api::cluster::Membership;
use ocm_api::{
    cluster::{ManagedClusterSetBinding, Placement},
    condition,
    conditions::managed_cluster_set_binding,
};

/// For how long the clusters of a missing set stay chosen, and scores that are gone count.
pub const HOLD: SignedDuration = SignedDuration::from_secs(30);

/// For how long a missing binding counts. A binding is a permission: long enough for a tool
/// that replaces it by deleting it, not longer.
pub const HOLD_BINDING: SignedDuration = SignedDuration::from_secs(5);

/// What the bindings of the namespace and the placement's own list come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EligibleSets {
    /// The sets that are bound and exist, by name.
    pub bound: BTreeSet<String>,
    /// Those of them that the placement wants.
    pub eligible: BTreeSet<String>,
    /// Sets that are bound and wanted, and have just gone missing.
    pub missing: BTreeSet<String>,
    /// Until when their clusters stay.
    pub held_until: Option<Timestamp>,
}

impl EligibleSets {
    /// Reads it. Upstream goes by the bindings' names, which admission keeps equal to their sets' names.
    pub fn of<'a>(
        placement: &Placement,
        bindings: impl IntoIterator<Item = &'a ManagedClusterSetBinding>,
        lost: impl IntoIterator<Item = (&'a ManagedClusterSetBinding, Timestamp)>,
        exists: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> Self {
        let mut scope = Self::default();
        let wanted = |name: &str| {
            let sets = &placement.spec.cluster_sets;
            sets.is_empty() || sets.iter().any(|it| it == name)
        };
        for binding in bindings {
            let name = binding.name_any();
            if exists(&name) {
                if wanted(&name) {
                    scope.eligible.insert(name.clone());
                }
                scope.bound.insert(name);
                continue;
            }
            // A binding that was never bound holds nothing.
            let conditions = binding.status.as_ref().map_or(&[][..], |it| &it.conditions);
            let Some(bound) = condition::find(conditions, managed_cluster_set_binding::BOUND) else {
                continue;
            };
            let until = match bound.status.as_str() {
                // NoEvaluator has noticed yet; the binding will tell.
                "True" => None,
                _ => bound.last_transition_time.0.checked_add(HOLD).ok(),
            };
            if wanted(&name) && until.is_none_or(|it| now < it) {
                scope.missing.insert(name);
                scope.held_until = [scope.held_until, until].into_iter().flatten().min();
            }
        }
        for (binding, until) in lost {
            let name = binding.name_any();
            if exists(&name) && wanted(&name) && !scope.bound.contains(&name) && now < until {
                scope.missing.insert(name);
                scope.held_until = [scope.held_until, Some(until)].into_iter().flatten().min();
            }
        }
        scope
    }
}
