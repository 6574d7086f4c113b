//! All clusters of a hub with the order in which they changed, so that whoever looked before looks at what has changed since.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use ocm_api::cluster::{AddOnPlacementScore, ManagedCluster};
use parking_lot::RwLock;

use super::Scores;

/// How many changes are kept. Whoever missed more looks at everything, which then costs no more.
const JOURNAL_MAX: usize = 4096;

/// The clusters, and what add-ons say of them.
#[derive(Default)]
pub struct Fleet {
    slots: Vec<Option<Known>>,
    free: Vec<u32>,
    by_name: BTreeMap<String, u32>,
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
    /// The cluster.
    pub cluster: Arc<ManagedCluster>,
}

/// What there is to look at.
pub enum Delta {
    /// Everything, by name.
    All(Vec<(u32, Known)>),
    /// The clusters that have changed, each once: as they are now, or gone.
    Changed(Vec<(u32, Option<Known>)>),
}

impl Fleet {
    /// Puts a cluster in, in the place of its last state.
    pub fn put(&mut self, cluster: Arc<ManagedCluster>) {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let slot = match self.by_name.get(name) {
            Some(slot) => *slot,
            None => {
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.slots.push(None);
                    u32::try_from(self.slots.len() - 1).expect("a hub has fewer than four billion clusters")
                });
                self.by_name.insert(name.to_owned(), slot);
                slot
            }
        };
        self.version += 1;
        self.slots[slot as usize] = Some(Known {
            version: self.version,
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

    /// The cluster in a slot.
    pub fn at(&self, slot: u32) -> Option<&Arc<ManagedCluster>> {
        self.slots.get(slot as usize)?.as_ref().map(|it| &it.cluster)
    }

    /// Takes a cluster out.
    pub fn remove(&mut self, name: &str) {
        let Some(slot) = self.by_name.remove(name) else { return };
        self.slots[slot as usize] = None;
        self.free.push(slot);
        self.note(slot);
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

    /// How many clusters there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// What to look at for one who has seen everything before a position; everything for one who has seen nothing.
    pub fn since(&self, seen: Option<u64>) -> Delta {
        let skip = seen.and_then(|it| it.checked_sub(self.forgotten));
        let Some(skip) = skip.and_then(|it| usize::try_from(it).ok()) else {
            return Delta::All(self.all().collect());
        };
        let changed: BTreeSet<u32> = self.journal.iter().skip(skip).copied().collect();
        let changed = changed.into_iter();
        Delta::Changed(changed.map(|it| (it, self.slots[it as usize].clone())).collect())
    }

    /// The first cluster by name whose slot is asked for.
    pub fn first(&self, is_it: impl Fn(u32) -> bool) -> Option<Arc<ManagedCluster>> {
        let found = self.by_name.values().find(|it| is_it(**it))?;
        self.slots[*found as usize].as_ref().map(|it| it.cluster.clone())
    }

    /// All clusters, by name.
    pub fn all(&self) -> impl Iterator<Item = (u32, Known)> + '_ {
        let slots = self.by_name.values().copied();
        slots.filter_map(|it| Some((it, self.slots[it as usize].clone()?)))
    }
}

/// Some of the slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    words: Vec<u64>,
    count: usize,
}

impl Slots {
    /// Puts a slot in or takes it out.
    pub fn set(&mut self, slot: u32, is_in: bool) {
        if self.has(slot) == is_in {
            return;
        }
        let (word, bit) = (slot as usize / 64, 1u64 << (slot % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] ^= bit;
        if is_in {
            self.count += 1;
        } else {
            self.count -= 1;
        }
    }

    /// Whether a slot is in.
    pub fn has(&self, slot: u32) -> bool {
        let word = self.words.get(slot as usize / 64);
        word.is_some_and(|it| it & (1 << (slot % 64)) != 0)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str) -> Arc<ManagedCluster> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "spec": {}})).unwrap())
    }

    fn shown(fleet: &Fleet, seen: Option<u64>) -> String {
        match fleet.since(seen) {
            Delta::All(all) => format!("all {}", all.len()),
            Delta::Changed(changed) => changed
                .iter()
                .map(|(slot, it)| format!("{slot}{} ", if it.is_some() { "" } else { " gone" }))
                .collect(),
        }
    }

    #[test]
    fn who_has_looked_before_sees_what_has_changed_since() {
        let mut fleet = Fleet::default();
        fleet.put(cluster("a"));
        fleet.put(cluster("b"));
        assert_eq!(shown(&fleet, None), "all 2");
        let seen = Some(fleet.position());
        assert_eq!(shown(&fleet, seen), "");
        fleet.put(cluster("b"));
        fleet.put(cluster("b"));
        fleet.remove("a");
        assert_eq!(shown(&fleet, seen), "0 gone 1 ");
        // Another cluster takes the slot.
        fleet.put(cluster("c"));
        assert_eq!(shown(&fleet, seen), "0 1 ");
        assert_eq!(fleet.first(|_| true).unwrap().metadata.name.as_deref(), Some("b"));
        for _ in 0..JOURNAL_MAX {
            fleet.put(cluster("c"));
        }
        assert_eq!(shown(&fleet, seen), "all 2");
        assert_eq!(shown(&fleet, Some(fleet.position() - 1)), "0 ");
    }

    #[test]
    fn slots_are_counted() {
        let mut slots = Slots::default();
        for (slot, is_in) in [(3, true), (200, true), (3, true), (3, false), (500, false)] {
            slots.set(slot, is_in);
        }
        assert!(slots.has(200) && !slots.has(3) && !slots.has(501));
        assert_eq!(slots.count(), 1);
    }
}
