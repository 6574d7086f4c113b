//! Which placements a change can affect, found without asking each of them: by the labels and claims they ask for, by
//! the scores, and by the sets they may choose from.
//!
//! A label that changes wakes the placements that ask for that label, and of those the ones that the cluster matched
//! before or matches now; upstream wakes every placement that may choose from any of the cluster's sets,
//! at every heartbeat.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::ResourceExt;
use ocm_api::cluster::{ManagedCluster, ManagedClusterSetBinding, Placement};
use ocm_reconcile::cache::{key_of, split_key};

use super::triggers::ClusterChange;
use crate::select::{Needs, predicates::Predicates};

/// What placements look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Ask {
    Label(String),
    Claim(String),
    Score(String),
    /// Scores whose names nobody knows.
    AnyScore,
    Allocatable,
    /// Anything of a cluster.
    Anything,
}

/// The index.
#[derive(Default)]
pub struct Index {
    /// By namespace and name.
    placements: BTreeMap<String, Interest>,
    asks: HashMap<Ask, BTreeSet<String>>,
    /// Namespaces by the set that is bound there.
    bound: HashMap<String, BTreeSet<String>>,
}

struct Interest {
    sets: Vec<String>,
    needs: Needs,
    /// What may match; nothing when it cannot be read.
    selectors: Option<Predicates>,
    /// Whether it has no cluster: then one more or less may change what is said about it.
    empty: bool,
}

impl Interest {
    fn of(placement: &Placement) -> Self {
        let status = placement.status.as_ref();
        Self {
            sets: placement.spec.cluster_sets.clone(),
            needs: Needs::of(placement),
            selectors: Predicates::selectors(placement),
            empty: status.is_none_or(|it| it.number_of_selected_clusters == 0),
        }
    }

    fn wants(&self, set: &str) -> bool {
        self.sets.is_empty() || self.sets.iter().any(|it| it == set)
    }

    fn asks(&self) -> impl Iterator<Item = Ask> + '_ {
        let needs = &self.needs;
        let flags = [
            (needs.any_score, Ask::AnyScore),
            (needs.allocatable, Ask::Allocatable),
            (needs.anything, Ask::Anything),
        ];
        let labels = needs.labels.iter().cloned().map(Ask::Label);
        let claims = needs.claims.iter().cloned().map(Ask::Claim);
        let scores = needs.scores.iter().cloned().map(Ask::Score);
        let flags = flags.into_iter().filter_map(|(is_set, ask)| is_set.then_some(ask));
        labels.chain(claims).chain(scores).chain(flags)
    }

    fn may_match(&self, cluster: Option<&ManagedCluster>) -> bool {
        let selectors = self.selectors.as_ref();
        cluster.is_some_and(|cluster| selectors.is_some_and(|it| it.may_match(cluster)))
    }

    /// Whether a cluster that stays where it is makes a difference.
    fn concerned(&self, change: &ClusterChange, old: Option<&ManagedCluster>, new: Option<&ManagedCluster>) -> bool {
        match (self.may_match(old), self.may_match(new)) {
            (false, false) => self.empty && change.life,
            (true, true) => change.concerns(&self.needs),
            _ => true,
        }
    }
}

/// A set that has a cluster before or after a change.
pub struct Member {
    /// Its name.
    pub set: String,
    /// Whether it had the cluster before, and has it now.
    pub stays: bool,
}

impl Index {
    /// Puts a placement in, or takes it out.
    pub fn placement(&mut self, old: Option<&Placement>, new: Option<&Placement>) {
        let Some(key) = new.or(old).map(key_of) else { return };
        if let (Some(old), Some(new), Some(interest)) = (old, new, self.placements.get_mut(&key))
            && old.spec == new.spec
        {
            interest.empty = new.status.as_ref().is_none_or(|it| it.number_of_selected_clusters == 0);
            return;
        }
        if let Some(interest) = self.placements.remove(&key) {
            for ask in interest.asks() {
                if let Some(keys) = self.asks.get_mut(&ask) {
                    keys.remove(&key);
                    if keys.is_empty() {
                        self.asks.remove(&ask);
                    }
                }
            }
        }
        if let Some(new) = new {
            let interest = Interest::of(new);
            for ask in interest.asks() {
                self.asks.entry(ask).or_default().insert(key.clone());
            }
            self.placements.insert(key, interest);
        }
    }

    /// Puts a binding in, or takes it out.
    pub fn binding(&mut self, old: Option<&ManagedClusterSetBinding>, new: Option<&ManagedClusterSetBinding>) {
        let Some(it) = new.or(old) else { return };
        let (namespace, set) = (it.namespace().unwrap_or_default(), it.name_any());
        let namespaces = self.bound.entry(set).or_default();
        if new.is_some() {
            namespaces.insert(namespace);
        } else {
            namespaces.remove(&namespace);
        }
    }

    /// The placements of a namespace that may choose from a set.
    pub fn in_namespace(&self, namespace: &str, set: &str) -> BTreeSet<String> {
        let found = self.of_namespace(namespace).filter(|(_, it)| it.wants(set));
        found.map(|(key, _)| key.clone()).collect()
    }

    /// All placements of the namespaces in which a set is bound: also those that want another one say whether any is
    /// bound.
    pub fn where_bound(&self, set: &str) -> BTreeSet<String> {
        let namespaces = self.bound.get(set).into_iter().flatten();
        namespaces.flat_map(|it| self.all_in(it)).collect()
    }

    /// All placements of a namespace.
    pub fn all_in(&self, namespace: &str) -> BTreeSet<String> {
        self.of_namespace(namespace).map(|(key, _)| key.clone()).collect()
    }

    /// The placements that may choose from a set.
    pub fn with_set(&self, set: &str) -> BTreeSet<String> {
        let namespaces = self.bound.get(set).into_iter().flatten();
        namespaces.flat_map(|it| self.in_namespace(it, set)).collect()
    }

    /// The placements that a change of a cluster may affect.
    pub fn of_cluster(
        &self,
        change: &ClusterChange,
        old: Option<&ManagedCluster>,
        new: Option<&ManagedCluster>,
        members: &[Member],
    ) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        let is_concerned = |interest: &Interest| {
            // One that moves from one set to another may stay where it is.
            interest.empty || interest.may_match(old) || interest.may_match(new)
        };
        let everybody = change.life || change.taints;
        for member in members.iter().filter(|it| !it.stays || everybody) {
            for namespace in self.bound.get(&member.set).into_iter().flatten() {
                let all = self.of_namespace(namespace).filter(|(_, it)| it.wants(&member.set));
                let found = all.filter(|(_, it)| {
                    if member.stays {
                        it.concerned(change, old, new)
                    } else {
                        is_concerned(it)
                    }
                });
                keys.extend(found.map(|(key, _)| key.clone()));
            }
        }
        if !everybody {
            let stays: Vec<&str> = members.iter().filter(|it| it.stays).map(|it| it.set.as_str()).collect();
            let asks = change.asks();
            let candidates = asks.filter_map(|it| self.asks.get(&it)).flatten();
            for key in candidates {
                let Some(interest) = self.placements.get(key) else {
                    continue;
                };
                if self.reaches(key, interest, &stays) && interest.concerned(change, old, new) {
                    keys.insert(key.clone());
                }
            }
        }
        keys
    }

    /// The placements that a change of a score may affect.
    pub fn of_score(&self, name: &str, cluster: &ManagedCluster, sets: &[String]) -> BTreeSet<String> {
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let asks = [Ask::Score(name.to_owned()), Ask::AnyScore];
        let candidates = asks.iter().filter_map(|it| self.asks.get(it)).flatten();
        let concerned = candidates.filter(|key| {
            let interest = self.placements.get(*key);
            interest.is_some_and(|it| self.reaches(key, it, &sets) && it.may_match(Some(cluster)))
        });
        concerned.cloned().collect()
    }

    fn of_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a String, &'a Interest)> {
        let all = self.placements.range(format!("{namespace}/")..);
        all.take_while(move |(key, _)| split_key(key).0 == namespace)
    }

    fn reaches(&self, key: &str, interest: &Interest, sets: &[&str]) -> bool {
        let (namespace, _) = split_key(key);
        sets.iter().any(|set| {
            let bound = self.bound.get(*set);
            interest.wants(set) && bound.is_some_and(|it| it.contains(namespace))
        })
    }
}

impl ClusterChange {
    fn asks(&self) -> impl Iterator<Item = Ask> + '_ {
        let labels = self.labels.iter().cloned().map(Ask::Label);
        let claims = self.claims.iter().cloned().map(Ask::Claim);
        let allocatable = self.allocatable.then_some(Ask::Allocatable);
        let anything = self.anything.then_some(Ask::Anything);
        labels.chain(claims).chain(allocatable).chain(anything)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(labels: Value) -> ManagedCluster {
        serde_json::from_value(json!({"metadata": {"name": "c1", "uid": "u", "labels": labels}, "spec": {}})).unwrap()
    }

    fn index() -> Index {
        let mut index = Index::default();
        let by_label = |value: &str| json!({"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": value}}}}]});
        let grouped = json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": [{"groupName": "canary",
            "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "yes"}}}}]}}});
        let cel = json!({"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"env": "prod"}},
            "celSelector": {"celExpressions": ["managedCluster.scores('load').size() > 0"]}}}]});
        let scored = json!({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"type": "AddOn",
            "addOn": {"resourceName": "load", "scoreName": "cpu"}}}]}});
        for (namespace, name, spec) in [
            ("team", "prod", by_label("prod")),
            ("team", "dev", by_label("dev")),
            ("team", "test", by_label("test")),
            ("team", "grouped", grouped),
            ("team", "cel", cel),
            ("team", "scored", scored),
            ("other", "prod", by_label("prod")),
        ] {
            let it = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec,
                "status": {"numberOfSelectedClusters": 1}});
            index.placement(None, Some(&serde_json::from_value(it).unwrap()));
        }
        let binding = json!({"metadata": {"namespace": "team", "name": "global"}, "spec": {"clusterSet": "global"}});
        index.binding(None, Some(&serde_json::from_value(binding).unwrap()));
        index
    }

    fn woken(old: Option<Value>, new: Option<Value>, stays: bool) -> String {
        let (old, new) = (old.map(cluster), new.map(cluster));
        let change = ClusterChange::of(old.as_ref(), new.as_ref());
        let members = [Member {
            set: "global".to_owned(),
            stays,
        }];
        let keys = index().of_cluster(&change, old.as_ref(), new.as_ref(), &members);
        keys.into_iter().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_label_change_triggers_exactly_the_affected_placements() {
        let env = |it: &str| Some(json!({"env": it}));
        assert_eq!(woken(env("prod"), env("dev"), true), "team/cel team/dev team/prod");
        assert_eq!(
            woken(env("prod"), Some(json!({"env": "prod", "canary": "yes"})), true),
            "team/cel team/grouped"
        );
        assert_eq!(woken(env("qa"), Some(json!({"env": "qa", "x": "y"})), true), "");
        assert_eq!(woken(None, env("dev"), false), "team/dev team/grouped team/scored");
        assert_eq!(woken(env("test"), None, false), "team/grouped team/scored team/test");
    }

    #[test]
    fn a_score_triggers_the_placements_that_use_it() {
        let woken = |name: &str, labels: Value| {
            let keys = index().of_score(name, &cluster(labels), &["global".to_owned()]);
            keys.into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(woken("load", json!({"env": "prod"})), "team/cel team/scored");
        assert_eq!(woken("load", json!({})), "team/scored");
        assert_eq!(woken("other", json!({"env": "prod"})), "team/cel");
    }

    #[test]
    fn a_changed_placement_is_indexed_by_its_new_spec() {
        let mut index = index();
        let placement = |spec: Value| -> Placement {
            let it = json!({"metadata": {"namespace": "team", "name": "prod"}, "spec": spec});
            serde_json::from_value(it).unwrap()
        };
        let all = index.asks.len();
        let (old, new) = (placement(json!({})), placement(json!({"numberOfClusters": 1})));
        index.placement(Some(&old), Some(&new));
        assert!(!index.asks[&Ask::Label("env".to_owned())].contains("team/prod"));
        index.placement(Some(&new), None);
        assert_eq!(index.in_namespace("team", "global").len(), 5);
        assert_eq!(index.with_set("global").len(), 5);
        assert_eq!(index.where_bound("global"), index.all_in("team"));
        assert_eq!(index.asks.len(), all);
    }
}
