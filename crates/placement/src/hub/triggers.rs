//! Which placements to look at again when something changes: only those that it can affect.
//!
//! A heartbeat changes no ManagedCluster, and most changes of one (a condition, a label that nobody asks for) affect no
//! placement. Upstream decides every placement of a cluster's sets anew at every change and every ten minutes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::ResourceExt;
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, Placement},
    labels,
};
use ocm_reconcile::{Queue, cache::key_of};
use parking_lot::RwLock;

use super::Caches;
use crate::select::{Needs, claim, scope::Membership};

/// What is known of placements and bindings, kept for the moment in which a cluster changes.
#[derive(Clone, Default)]
struct Index {
    /// By namespace and name.
    placements: Arc<RwLock<BTreeMap<(String, String), Interest>>>,
    /// Namespaces by the set that is bound there.
    bound: Arc<RwLock<BTreeMap<String, BTreeSet<String>>>>,
}

struct Interest {
    sets: Vec<String>,
    needs: Needs,
}

/// Placements whose spec changes, decisions that somebody else changes, and whatever else a choice depends on.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    let index = Index::default();
    let placements = index.placements.clone();
    caches.placements.listen(move |old, new| {
        let Some(it) = new.or(old) else { return };
        let key = (it.namespace().unwrap_or_default(), it.name_any());
        match new {
            Some(it) => placements.write().insert(key, Interest::of(it)),
            None => placements.write().remove(&key),
        };
    });
    let bound = index.bound.clone();
    caches.set_bindings.listen(move |old, new| {
        let Some(it) = new.or(old) else { return };
        let (namespace, set) = (it.namespace().unwrap_or_default(), it.name_any());
        let mut bound = bound.write();
        let namespaces = bound.entry(set).or_default();
        if new.is_some() {
            namespaces.insert(namespace);
        } else {
            namespaces.remove(&namespace);
        }
    });

    caches.placements.subscribe(queue, |old, new| {
        if let (Some(old), Some(new)) = (old, new)
            && is_only_our_status(old, new)
        {
            return None;
        }
        new.map(key_of)
    });
    caches.decisions.subscribe(queue, |old, new| {
        let mut keys = BTreeSet::new();
        for it in [old, new].into_iter().flatten() {
            let placement = it.labels().get(labels::PLACEMENT);
            keys.extend(placement.map(|name| format!("{}/{name}", it.namespace().unwrap_or_default())));
        }
        keys
    });

    let of_bindings = index.clone();
    caches.set_bindings.subscribe(queue, move |old, new| {
        let set = new
            .or(old)
            .map(|it| (it.namespace().unwrap_or_default(), it.name_any()));
        set.map(|(namespace, set)| of_bindings.in_namespace(&namespace, &set, |_| true))
            .unwrap_or_default()
    });
    let of_sets = index.clone();
    caches.sets.subscribe(queue, move |old, new| {
        let same = matches!((old, new), (Some(old), Some(new)) if old.spec == new.spec);
        let set = new.or(old).filter(|_| !same).map(|it| it.name_any());
        set.map(|it| of_sets.with_sets(&[it], |_| true)).unwrap_or_default()
    });
    let (of_clusters, sets) = (index.clone(), caches.sets.clone());
    caches.clusters.subscribe(queue, move |old, new| {
        let change = Change::of(old, new);
        if change.is_nothing() {
            return BTreeSet::new();
        }
        let sets = sets.list();
        let mut keys = BTreeSet::new();
        let (mut joined_or_left, mut stayed) = (Vec::new(), Vec::new());
        for (set, before, after) in sets_of(&sets, old, new) {
            if before && after {
                stayed.push(set);
            } else {
                joined_or_left.push(set);
            }
        }
        keys.extend(of_clusters.with_sets(&joined_or_left, |_| true));
        keys.extend(of_clusters.with_sets(&stayed, |needs| change.concerns(needs)));
        keys
    });
    let (of_scores, sets, clusters) = (index, caches.sets.clone(), caches.clusters.clone());
    caches.scores.subscribe(queue, move |old, new| {
        let same = matches!((old, new), (Some(old), Some(new)) if old.status == new.status);
        let (false, Some(score)) = (same, new.or(old)) else {
            return BTreeSet::new();
        };
        let Some(cluster) = clusters.named(&score.namespace().unwrap_or_default()) else {
            return BTreeSet::new();
        };
        let sets = sets.list();
        let sets: Vec<String> = sets_of(&sets, Some(&cluster), None).map(|(set, ..)| set).collect();
        let name = score.name_any();
        of_scores.with_sets(&sets, |needs| needs.any_score || needs.scores.contains(&name))
    });
}

/// The sets that have the cluster before or after, by name.
fn sets_of<'a>(
    sets: &'a [Arc<ManagedClusterSet>],
    old: Option<&'a ManagedCluster>,
    new: Option<&'a ManagedCluster>,
) -> impl Iterator<Item = (String, bool, bool)> + 'a {
    sets.iter().filter_map(move |set| {
        let membership = Membership::of([&**set]);
        let (before, after) = (
            old.is_some_and(|it| membership.has(it)),
            new.is_some_and(|it| membership.has(it)),
        );
        (before || after).then(|| (set.name_any(), before, after))
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

impl Interest {
    fn of(placement: &Placement) -> Self {
        Self {
            sets: placement.spec.cluster_sets.clone(),
            needs: Needs::of(placement),
        }
    }
}

impl Index {
    /// The placements of a namespace that may choose from a set.
    fn in_namespace(&self, namespace: &str, set: &str, concerned: impl Fn(&Needs) -> bool) -> Vec<String> {
        let placements = self.placements.read();
        placements
            .range((namespace.to_owned(), String::new())..)
            .take_while(|((it, _), _)| it == namespace)
            .filter(|(_, it)| it.sets.is_empty() || it.sets.iter().any(|it| it == set))
            .filter(|(_, it)| concerned(&it.needs))
            .map(|((namespace, name), _)| format!("{namespace}/{name}"))
            .collect()
    }

    /// The placements that may choose from any of these sets.
    fn with_sets(&self, sets: &[String], concerned: impl Fn(&Needs) -> bool) -> BTreeSet<String> {
        let bound = self.bound.read();
        let mut keys = BTreeSet::new();
        for set in sets {
            for namespace in bound.get(set).into_iter().flatten() {
                keys.extend(self.in_namespace(namespace, set, &concerned));
            }
        }
        keys
    }
}

/// What of a cluster changed that a placement may ask for.
#[derive(Debug, Default, PartialEq)]
struct Change {
    /// It came, went or is going.
    life: bool,
    taints: bool,
    allocatable: bool,
    labels: BTreeSet<String>,
    claims: BTreeSet<String>,
    /// Anything at all, be it a condition.
    anything: bool,
}

impl Change {
    fn of(old: Option<&ManagedCluster>, new: Option<&ManagedCluster>) -> Self {
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

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn concerns(&self, needs: &Needs) -> bool {
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
    fn a_change_concerns_those_who_ask_for_it() {
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
            let change = Change::of(Some(&nothing), Some(&cluster(part, field, value)));
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
        assert!(Change::of(Some(&nothing), Some(&nothing)).is_nothing());
    }
}
