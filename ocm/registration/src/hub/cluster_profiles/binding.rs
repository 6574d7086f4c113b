//! What the bindings of a namespace say about a cluster: whether it has a profile there.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSetBinding, Membership},
    condition,
    conditions::managed_cluster_set_binding,
    namespaces,
};

use super::Seen;

/// For how long the profiles of a set stay that the hub itself is about to make anew.
const HOLD: SignedDuration = SignedDuration::from_secs(30);

/// Whether a cluster is in a set that is bound.
pub enum BoundSet<'a> {
    /// It is, this one.
    HasCluster(&'a ManagedCluster),
    /// It is in none.
    None,
    /// One of the hub's own sets is missing, for a moment: what there is stays, until then.
    MadeAnew(Option<Timestamp>),
}

/// Whether a binding holds.
pub fn is_bound(binding: &ManagedClusterSetBinding) -> bool {
    let conditions = binding.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::is_true(conditions, managed_cluster_set_binding::BOUND)
}

/// Whether the cluster is in a set that is bound. One that is gone, or on its way out, is in none.
pub fn bound_set(seen: &Seen) -> BoundSet<'_> {
    let cluster = seen.cluster.as_deref();
    let Some(cluster) = cluster.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        return BoundSet::None;
    };
    let mut found = BoundSet::None;
    for binding in &seen.bindings {
        let wanted = &binding.spec.cluster_set;
        match seen.sets.iter().find(|it| it.name_any() == *wanted) {
            Some(set) if is_bound(binding) && Membership::of([&**set]).has(cluster) => {
                return BoundSet::HasCluster(cluster);
            }
            Some(_) => {}
            None if ![namespaces::DEFAULT_CLUSTER_SET, namespaces::GLOBAL_CLUSTER_SET].contains(&wanted.as_str()) => {}
            None => {
                let conditions = binding.status.as_ref().map_or(&[][..], |it| &it.conditions);
                let until = match condition::find(conditions, managed_cluster_set_binding::BOUND) {
                    // Nobody has noticed yet; the binding will tell.
                    Some(it) if it.status == "True" => None,
                    Some(it) => it.last_transition_time.0.checked_add(HOLD).ok(),
                    None => continue,
                };
                if until.is_none_or(|it| seen.now < it) {
                    found = BoundSet::MadeAnew(until);
                }
            }
        }
    }
    found
}
