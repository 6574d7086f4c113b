//! Which placements to look at again when something changes: only those that it can affect.
//!
//! A heartbeat changes no ManagedCluster, and most changes of one (a condition, a label that nobody asks for) affect no
//! placement. Upstream decides every placement of a cluster's sets anew at every change and every ten minutes.

use std::{collections::BTreeSet, sync::Arc};

use kube::ResourceExt;
use ocm_api::{
    cluster::{
        AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
    },
    labels,
};
use ocm_reconcile::{Cache, Caches, cache::key_of};
use parking_lot::RwLock;

use super::{
    index::{Index, Member},
    memory::Memory,
};
use crate::select::{Needs, claim, scope::Membership};

/// What placements look at, kept as they and the bindings of sets change. Cloning shares it.
#[derive(Clone, Default)]
pub struct SharedIndex(Arc<RwLock<Index>>);

impl SharedIndex {
    /// Of what these caches hold, now and later. To be made before anybody subscribes to them.
    pub fn over(caches: &Caches) -> Self {
        let index = Self::default();
        let of_placements = index.clone();
        caches.of::<Placement>().listen(move |old, new| {
            let mut index = of_placements.0.write();
            index.placement(old.map(|it| &**it), new.map(|it| &**it));
        });
        let of_bindings = index.clone();
        caches.of::<ManagedClusterSetBinding>().listen(move |old, new| {
            let mut index = of_bindings.0.write();
            index.binding(old.map(|it| &**it), new.map(|it| &**it));
        });
        index
    }
}

/// The placement, unless it is only our own conclusion that comes back.
pub fn of_placement(old: Option<&Placement>, new: Option<&Placement>) -> Option<String> {
    if let (Some(old), Some(new)) = (old, new)
        && is_only_our_status(old, new)
    {
        return None;
    }
    new.map(key_of)
}

/// The placements of decisions that somebody else changes.
pub fn of_decision(
    memory: &Arc<Memory>,
) -> impl Fn(Option<&PlacementDecision>, Option<&PlacementDecision>) -> BTreeSet<String> + use<> {
    let memory = memory.clone();
    move |old, new| {
        let mut keys = BTreeSet::new();
        for it in [old, new].into_iter().flatten() {
            let placement = it.labels().get(labels::PLACEMENT);
            keys.extend(placement.map(|name| format!("{}/{name}", it.namespace().unwrap_or_default())));
        }
        // Our own writes come back, too.
        keys.retain(|key| !new.is_some_and(|it| memory.is_expected(key, it)));
        keys
    }
}

/// The placements of a binding's namespace that may choose from its set; when it comes or goes, all of them.
pub fn of_binding(
    index: &SharedIndex,
) -> impl Fn(Option<&ManagedClusterSetBinding>, Option<&ManagedClusterSetBinding>) -> BTreeSet<String> + use<> {
    let index = index.clone();
    move |old, new| {
        let Some(it) = new.or(old) else { return BTreeSet::new() };
        let (namespace, set) = (it.namespace().unwrap_or_default(), it.name_any());
        let index = index.0.read();
        match (old, new) {
            (Some(_), Some(_)) => index.in_namespace(&namespace, &set),
            _ => index.all_in(&namespace),
        }
    }
}

/// The placements that may choose from a set.
pub fn of_set(
    index: &SharedIndex,
) -> impl Fn(Option<&ManagedClusterSet>, Option<&ManagedClusterSet>) -> BTreeSet<String> + use<> {
    let index = index.clone();
    move |old, new| {
        let same = matches!((old, new), (Some(old), Some(new)) if old.spec == new.spec);
        let set = new.or(old).filter(|_| !same).map(|it| it.name_any());
        let index = index.0.read();
        match (old, new) {
            (Some(_), Some(_)) => set.map(|it| index.with_set(&it)),
            _ => set.map(|it| index.where_bound(&it)),
        }
        .unwrap_or_default()
    }
}

/// The placements to which a change of a cluster makes a difference.
pub fn of_cluster(
    index: &SharedIndex,
    sets: &Cache<ManagedClusterSet>,
) -> impl Fn(Option<&ManagedCluster>, Option<&ManagedCluster>) -> BTreeSet<String> + use<> {
    let (index, sets) = (index.clone(), sets.clone());
    move |old, new| {
        let change = ClusterChange::of(old, new);
        if change.is_nothing() {
            return BTreeSet::new();
        }
        let sets = sets.list();
        let members: Vec<Member> = sets_of(&sets, old, new).collect();
        index.0.read().of_cluster(&change, old, new, &members)
    }
}

/// The placements that ask for a score of a cluster that they may choose.
pub fn of_score(
    index: &SharedIndex,
    sets: &Cache<ManagedClusterSet>,
    clusters: &Cache<ManagedCluster>,
) -> impl Fn(Option<&AddOnPlacementScore>, Option<&AddOnPlacementScore>) -> BTreeSet<String> + use<> {
    let (index, sets, clusters) = (index.clone(), sets.clone(), clusters.clone());
    move |old, new| {
        let same = matches!((old, new), (Some(old), Some(new)) if old.status == new.status);
        let (false, Some(score)) = (same, new.or(old)) else {
            return BTreeSet::new();
        };
        let Some(cluster) = clusters.named(&score.namespace().unwrap_or_default()) else {
            return BTreeSet::new();
        };
        let sets = sets.list();
        let sets: Vec<String> = sets_of(&sets, Some(&cluster), None).map(|it| it.set).collect();
        index.0.read().of_score(&score.name_any(), &cluster, &sets)
    }
}

/// The sets that have the cluster before or after, by name.
fn sets_of<'a>(
    sets: &'a [Arc<ManagedClusterSet>],
    old: Option<&'a ManagedCluster>,
    new: Option<&'a ManagedCluster>,
) -> impl Iterator<Item = Member> + 'a {
    sets.iter().filter_map(move |set| {
        let membership = Membership::of([&**set]);
        let (before, after) = (
            old.is_some_and(|it| membership.has(it)),
            new.is_some_and(|it| membership.has(it)),
        );
        (before || after).then(|| Member {
            set: set.name_any(),
            stays: before && after,
        })
    })
}

/// Our own conclusion comes back as a change of the status and of nothing else.
fn is_only_our_status(old: &Placement, new: &Placement) -> bool {
    old.spec == new.spec
        && old.metadata.uid == new.metadata.uid
        && old.metadata.annotations == new.metadata.annotations
        && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        && new.status.is_some()
}

/// What of a cluster changed that a placement may ask for.
#[derive(Debug, Default, PartialEq)]
pub struct ClusterChange {
    /// It came, went or is going.
    pub life: bool,
    /// Its taints.
    pub taints: bool,
    /// What it has to give.
    pub allocatable: bool,
    /// These labels.
    pub labels: BTreeSet<String>,
    /// These claims.
    pub claims: BTreeSet<String>,
    /// Anything at all, be it a condition.
    pub anything: bool,
}

impl ClusterChange {
    /// From one state to the next.
    pub fn of(old: Option<&ManagedCluster>, new: Option<&ManagedCluster>) -> Self {
        let (Some(old), Some(new)) = (old, new) else {
            return Self {
                life: true,
                anything: true,
                ..Self::default()
            };
        };
        let (before, after) = (old.labels(), new.labels());
        let keys = before.keys().chain(after.keys());
        let claims = [old, new].into_iter().filter_map(|it| it.status.as_ref());
        let claims = claims.flat_map(|it| &it.cluster_claims).map(|it| &it.name);
        let resources = |it: &ManagedCluster| {
            it.status
                .as_ref()
                .map(|it| (it.allocatable.clone(), it.capacity.clone()))
        };
        Self {
            life: old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
                || old.metadata.uid != new.metadata.uid,
            taints: old.spec.taints != new.spec.taints,
            allocatable: resources(old) != resources(new),
            labels: keys.filter(|it| before.get(*it) != after.get(*it)).cloned().collect(),
            claims: claims.filter(|it| claim(old, it) != claim(new, it)).cloned().collect(),
            anything: old.metadata.annotations != new.metadata.annotations
                || before != after
                || old.spec != new.spec
                || old.status != new.status,
        }
    }

    /// Whether it makes no difference to anybody.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it makes a difference to one who looks at such a cluster.
    pub fn concerns(&self, needs: &Needs) -> bool {
        self.life
            || self.taints
            || self.allocatable && needs.allocatable
            || self.anything && needs.anything
            || !self.labels.is_disjoint(&needs.labels)
            || !self.claims.is_disjoint(&needs.claims)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(part: &str, field: &str, value: Value) -> ManagedCluster {
        let mut it = json!({"metadata": {"name": "c1", "uid": "u"}, "spec": {}, "status": {}});
        it[part][field] = value;
        serde_json::from_value(it).unwrap()
    }

    #[test]
    fn a_change_concerns_placements_that_use_the_field() {
        let placement = |spec: Value| -> Placement {
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
        };
        let selector = |it: Value| Needs::of(&placement(json!({"predicates": [{"requiredClusterSelector": it}]})));
        let by_label = selector(json!({"labelSelector": {"matchLabels": {"env": "prod"}}}));
        let by_claim =
            selector(json!({"claimSelector": {"matchExpressions": [{"key": "region", "operator": "Exists"}]}}));
        let by_cel = selector(json!({"celSelector": {"celExpressions": ["true"]}}));
        let nothing = cluster("metadata", "labels", json!({}));
        let concerned = |part: &str, field: &str, value: Value| {
            let change = ClusterChange::of(Some(&nothing), Some(&cluster(part, field, value)));
            [&by_label, &by_claim, &by_cel].map(|it| change.concerns(it))
        };
        assert_eq!(concerned("metadata", "resourceVersion", json!("7")), [false; 3]);
        assert_eq!(
            concerned("metadata", "labels", json!({"env": "x"})),
            [true, false, true]
        );
        assert_eq!(
            concerned("metadata", "labels", json!({"other": "x"})),
            [false, false, true]
        );
        let claims = json!([{"name": "region", "value": "eu"}]);
        assert_eq!(concerned("status", "clusterClaims", claims), [false, true, true]);
        let taints = json!([{"key": "a", "effect": "NoSelect"}]);
        assert_eq!(concerned("spec", "taints", taints), [true; 3]);
        assert_eq!(concerned("metadata", "uid", json!("v")), [true; 3]);
        assert!(ClusterChange::of(Some(&nothing), Some(&nothing)).is_nothing());
    }
}
