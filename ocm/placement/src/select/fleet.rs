//! All clusters of a hub with the order in which they changed, so that whoever looked before looks at what has changed
//! since; and by label, so that whoever has not looked looks at those that may match.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use kube::ResourceExt;
use ocm_api::cluster::{AddOnPlacementScore, ManagedCluster};
use parking_lot::RwLock;

use super::{Scores, predicates::Predicates, slots::Slots};

/// How many changes are kept. Whoever missed more looks at everything, which then costs no more.
const JOURNAL_MAX: usize = 4096;

/// The clusters, and what add-ons say of them.
#[derive(Default)]
pub struct FleetTable {
    slots: Vec<Option<Known>>,
    free: Vec<u32>,
    by_name: BTreeMap<Arc<str>, u32>,
    by_label: HashMap<String, HashMap<String, BTreeSet<u32>>>,
    tainted: Slots,
    /// How many decisions name each.
    loads: Vec<u32>,
    version: u64,
    journal: VecDeque<u32>,
    /// How many changes there were before those of the journal.
    forgotten: u64,
    scores: Arc<RwLock<Scores>>,
}

/// A cluster in one state. No other state of any cluster, its scores included, has its version.
#[derive(Clone, Debug)]
pub struct Known {
    /// The version.
    pub version: u64,
    /// Its name, the same for all its states.
    pub name: Arc<str>,
    /// The cluster.
    pub cluster: Arc<ManagedCluster>,
}

/// What there is to look at.
pub enum Delta {
    /// Everything.
    All,
    /// The clusters that have changed, each once: as they are now, or gone.
    Changed(Vec<(u32, Option<Known>)>),
}

impl FleetTable {
    /// Puts a cluster in, in the place of its last state.
    pub fn put(&mut self, cluster: Arc<ManagedCluster>) {
        let text = cluster.metadata.name.as_deref().unwrap_or_default();
        let (name, slot) = match self.by_name.get_key_value(text) {
            Some((name, slot)) => (name.clone(), *slot),
            None => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(None);
                    self.loads.push(0);
                    u32::try_from(self.slots.len() - 1).expect("a hub has fewer than four billion clusters")
                });
                let name: Arc<str> = text.into();
                self.by_name.insert(name.clone(), slot);
                (name, slot)
            }
        };
        let old = self.slots[slot as usize].take();
        self.relabel(slot, old.as_ref().map(|it| &*it.cluster), Some(&cluster));
        self.tainted.set(slot, !cluster.spec.taints.is_empty());
        self.version += 1;
        self.slots[slot as usize] = Some(Known {
            version: self.version,
            name,
            cluster,
        });
        self.note(slot);
    }

    /// Puts in a state that is no other to any placement.
    pub fn put_quietly(&mut self, cluster: Arc<ManagedCluster>) {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let slot = self.by_name.get(name).copied();
        if let Some(known) = slot.and_then(|it| self.slots[it as usize].as_mut()) {
            known.cluster = cluster;
        }
    }

    /// Takes a cluster out.
    pub fn remove(&mut self, name: &str) {
        let Some(slot) = self.by_name.remove(name) else { return };
        let old = self.slots[slot as usize].take();
        self.relabel(slot, old.as_ref().map(|it| &*it.cluster), None);
        self.tainted.set(slot, false);
        self.loads[slot as usize] = 0;
        self.free.push(slot);
        self.note(slot);
    }

    fn relabel(&mut self, slot: u32, old: Option<&ManagedCluster>, new: Option<&ManagedCluster>) {
        let (before, after) = (old.map(ManagedCluster::labels), new.map(ManagedCluster::labels));
        for (key, value) in before.into_iter().flatten() {
            if after.is_some_and(|it| it.get(key) == Some(value)) {
                continue;
            }
            let Some(values) = self.by_label.get_mut(key) else {
                continue;
            };
            if let Some(slots) = values.get_mut(value) {
                slots.remove(&slot);
                if slots.is_empty() {
                    values.remove(value);
                }
            }
        }
        for (key, value) in after.into_iter().flatten() {
            if before.is_some_and(|it| it.get(key) == Some(value)) {
                continue;
            }
            let values = self.by_label.entry(key.clone()).or_default();
            values.entry(value.clone()).or_default().insert(slot);
        }
    }

    /// Says how many decisions name a cluster.
    pub fn set_load(&mut self, name: &str, load: u32) {
        if let Some(slot) = self.by_name.get(name) {
            self.loads[*slot as usize] = load;
        }
    }

    /// How many decisions name the cluster in a slot.
    pub fn load(&self, slot: u32) -> u32 {
        self.loads.get(slot as usize).copied().unwrap_or_default()
    }

    /// Puts a score in.
    pub fn put_score(&mut self, score: Arc<AddOnPlacementScore>) {
        let cluster = score.metadata.namespace.clone().unwrap_or_default();
        self.scores.write().put(score);
        self.touch(&cluster);
    }

    /// Takes a score out.
    pub fn remove_score(&mut self, score: &AddOnPlacementScore) {
        self.scores.write().remove(score);
        self.touch(score.metadata.namespace.as_deref().unwrap_or_default());
    }

    /// The scores, as they are at any time.
    pub fn scores(&self) -> &Arc<RwLock<Scores>> {
        &self.scores
    }

    fn touch(&mut self, name: &str) {
        let Some(slot) = self.by_name.get(name).copied() else {
            return;
        };
        self.version += 1;
        if let Some(it) = &mut self.slots[slot as usize] {
            it.version = self.version;
        }
        self.note(slot);
    }

    fn note(&mut self, slot: u32) {
        self.journal.push_back(slot);
        if self.journal.len() > JOURNAL_MAX {
            self.journal.pop_front();
            self.forgotten += 1;
        }
    }

    /// How many changes there were.
    pub fn position(&self) -> u64 {
        self.forgotten + self.journal.len() as u64
    }

    /// What to look at for one who has seen everything before a position; everything for one who has seen nothing.
    pub fn since(&self, seen: Option<u64>) -> Delta {
        let skip = seen.and_then(|it| it.checked_sub(self.forgotten));
        let Some(skip) = skip.and_then(|it| usize::try_from(it).ok()) else {
            return Delta::All;
        };
        let changed: BTreeSet<u32> = self.journal.range(skip.min(self.journal.len())..).copied().collect();
        let changed = changed.into_iter();
        Delta::Changed(changed.map(|it| (it, self.slots[it as usize].clone())).collect())
    }

    /// The clusters in a slot of these that may match: those that have, for one of the predicates,
    /// a label it asks for. By name.
    pub(crate) fn candidates(&self, of: &Slots, predicates: &Predicates) -> Vec<(u32, Known)> {
        let mut slots = BTreeSet::new();
        let mut any = true;
        for listed in predicates.listed() {
            any = false;
            let found = listed.iter().map(|(key, values)| {
                let by_value = self.by_label.get(*key);
                let values = values.iter().filter_map(|it| by_value?.get(it));
                values.collect::<Vec<_>>()
            });
            match found.min_by_key(|it| it.iter().map(|it| it.len()).sum::<usize>()) {
                Some(found) => slots.extend(found.into_iter().flatten().copied()),
                None => any = true,
            }
            if any {
                break;
            }
        }
        let known = |slot: u32| Some((slot, self.slots[slot as usize].clone()?));
        if any {
            let all = self.by_name.values().copied().filter(|it| of.has(*it));
            return all.filter_map(known).collect();
        }
        let mut found: Vec<_> = slots.into_iter().filter(|it| of.has(*it)).filter_map(known).collect();
        // Slots are given by name at first, so that there is little to sort.
        found.sort_by(|one, other| one.1.name.cmp(&other.1.name));
        found
    }

    /// The cluster in a slot.
    pub fn at(&self, slot: u32) -> Option<&Known> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The slot of a cluster.
    pub fn slot(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// Whether the cluster in a slot has taints.
    pub fn is_tainted(&self, slot: u32) -> bool {
        self.tainted.has(slot)
    }

    /// The first cluster by name whose slot is asked for.
    pub fn first(&self, is_it: impl Fn(u32) -> bool) -> Option<Arc<ManagedCluster>> {
        let found = self.by_name.values().find(|it| is_it(**it))?;
        self.at(*found).map(|it| it.cluster.clone())
    }

    /// All clusters, by name.
    pub fn all(&self) -> impl Iterator<Item = (u32, &Known)> + '_ {
        let slots = self.by_name.values().copied();
        slots.filter_map(|it| Some((it, self.at(it)?)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(name: &str, labels: Value) -> Arc<ManagedCluster> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": {}})).unwrap())
    }

    fn shown(fleet: &FleetTable, seen: Option<u64>) -> String {
        match fleet.since(seen) {
            Delta::All => "all".to_owned(),
            Delta::Changed(changed) => changed
                .iter()
                .map(|(slot, it)| format!("{slot}{} ", if it.is_some() { "" } else { " gone" }))
                .collect(),
        }
    }

    #[test]
    fn a_reader_sees_only_changes_since_its_last_position() {
        let put = |fleet: &mut FleetTable, name: &str| fleet.put(cluster(name, json!({})));
        let mut fleet = FleetTable::default();
        put(&mut fleet, "a");
        put(&mut fleet, "b");
        assert_eq!(shown(&fleet, None), "all");
        let seen = Some(fleet.position());
        assert_eq!(shown(&fleet, seen), "");
        put(&mut fleet, "b");
        put(&mut fleet, "b");
        fleet.remove("a");
        assert_eq!(shown(&fleet, seen), "0 gone 1 ");
        // Another cluster takes the slot.
        put(&mut fleet, "c");
        assert_eq!(shown(&fleet, seen), "0 1 ");
        assert_eq!(fleet.first(|_| true).unwrap().metadata.name.as_deref(), Some("b"));
        for _ in 0..JOURNAL_MAX {
            put(&mut fleet, "c");
        }
        assert_eq!(shown(&fleet, seen), "all");
        assert_eq!(shown(&fleet, Some(fleet.position() - 1)), "0 ");
    }

    #[test]
    fn only_clusters_with_a_requested_label_are_candidates() {
        let mut fleet = FleetTable::default();
        for (name, env) in [("a", "prod"), ("b", "dev"), ("c", "prod"), ("d", "dev")] {
            fleet.put(cluster(name, json!({"env": env, "all": "yes"})));
        }
        fleet.put(cluster("b", json!({"env": "prod"})));
        fleet.remove("c");
        let mut slots = Slots::default();
        (0..3).for_each(|it| slots.set(it, true));
        let asked = |predicates: Value| -> String {
            let it = json!({"metadata": {"name": "p"}, "spec": {"predicates": predicates}});
            let predicates = Predicates::selectors(&serde_json::from_value(it).unwrap()).unwrap();
            let found = fleet.candidates(&slots, &predicates);
            found.iter().map(|(_, it)| &*it.name).collect::<Vec<_>>().join("")
        };
        let labels = |it: Value| json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": it}}});
        assert_eq!(asked(json!([labels(json!({"env": "prod"}))])), "ab");
        assert_eq!(asked(json!([labels(json!({"env": "prod", "all": "yes"}))])), "a");
        assert_eq!(asked(json!([labels(json!({"env": "dev"}))])), "");
        assert_eq!(
            asked(json!([labels(json!({"env": "none"})), labels(json!({"all": "yes"}))])),
            "a"
        );
        assert_eq!(asked(json!([labels(json!({"env": "none"})), labels(json!({}))])), "ab");
        assert_eq!(asked(json!([])), "ab");
    }
}
