//! The works of every ManifestWorkReplicaSet, by set, with counters: what a change of one work costs does not depend on
//! how many others there are.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{labels, work::ManifestWork};
use ocm_reconcile::{Cache, Caches, Queue};
use parking_lot::{Mutex, RwLock};
use placement::rollout::{Existing, RolloutState};

use super::{
    cluster_rollout_status::{self, WorkConditions},
    fingerprint::Fingerprint,
    names,
};

/// A work of a set.
#[derive(Clone, Debug)]
pub struct Member {
    /// The work.
    pub work: Arc<ManifestWork>,
    /// What it says.
    pub spec: Fingerprint,
    /// How far it is with that.
    pub existing: Existing,
    /// What the summary counts.
    pub flags: WorkConditions,
}

impl Member {
    /// A work that was seen for the first time at `seen`.
    pub fn new(work: &Arc<ManifestWork>, seen: Timestamp) -> Self {
        // An old work that its agent has not answered may have been changed a moment before.
        let created = work.metadata.creation_timestamp.as_ref().map(|it| it.0);
        let answered = cluster_rollout_status::flags(work).applied;
        let written = if answered { created.unwrap_or(seen) } else { seen };
        Self::written(work, Fingerprint::of(&work.spec), written)
    }

    fn written(work: &Arc<ManifestWork>, spec: Fingerprint, written: Timestamp) -> Self {
        Self {
            existing: cluster_rollout_status::existing(work, written),
            flags: cluster_rollout_status::flags(work),
            work: work.clone(),
            spec,
        }
    }

    /// Its cluster.
    pub fn cluster(&self) -> &str {
        self.work.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.work.metadata.name.as_deref().unwrap_or_default()
    }

    /// The placement that it was made for; empty when it does not say.
    pub fn placement(&self) -> &str {
        let placement = self.work.labels().get(labels::MANIFEST_WORK_PLACEMENT);
        placement.map(String::as_str).unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.work.metadata.deletion_timestamp.is_some()
    }
}

/// How many works of one placement say the same, and what of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct WorkCounts {
    pub total: i64,
    pub applied: i64,
    pub available: i64,
    pub progressing: i64,
    pub degraded: i64,
    pub succeeded: i64,
}

impl WorkCounts {
    fn add(&mut self, member: &Member, by: i64) {
        let WorkConditions {
            applied,
            available,
            progressing,
            degraded,
        } = member.flags;
        self.total += by;
        self.applied += by * i64::from(applied);
        self.available += by * i64::from(available);
        self.progressing += by * i64::from(progressing);
        self.degraded += by * i64::from(degraded);
        self.succeeded += by * i64::from(member.existing.status == RolloutState::Succeeded);
    }
}

/// What a change of a work is to its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkChange {
    /// Only what is counted changed.
    Counts,
    /// How far it is changed, for which another cluster may have waited.
    Rollout,
    /// It may not be as the set wants it.
    Content,
}

/// The works of all sets. Cloning shares them.
#[derive(Clone)]
pub struct WorksBySet {
    sets: Arc<Mutex<HashMap<String, Works>>>,
    listeners: Arc<RwLock<Vec<Listener>>>,
}

/// Is told the key of a set, and what the change of one of its works is to it.
type Listener = Box<dyn Fn(&str, WorkChange) + Send + Sync>;

/// The works of one set.
#[derive(Default)]
struct Works {
    members: BTreeMap<(String, String), Kept>,
    counts: HashMap<String, HashMap<Fingerprint, WorkCounts>>,
    /// What a server made of what it was given, where that is not the same.
    answers: HashMap<Fingerprint, Fingerprint>,
}

struct Kept {
    member: Member,
    /// When it got what it says.
    written: Timestamp,
    /// What it says, before a server's answer counts as what the server was given.
    raw: Fingerprint,
}

impl WorksBySet {
    /// The works of the process, counted once for all who ask.
    pub fn beside(caches: &Caches) -> Self {
        caches.beside(|it| Self::over(&it.of(), Timestamp::now))
    }

    /// The works of a cache; `clock` says when a change is seen.
    pub fn over(works: &Cache<ManifestWork>, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let by_set = Self {
            sets: Arc::default(),
            listeners: Arc::default(),
        };
        let counted = by_set.clone();
        works.listen(move |old, new| counted.changed(old, new, clock()));
        by_set
    }

    /// Has `listener` told of every change from now on.
    pub fn listen(&self, listener: impl Fn(&str, WorkChange) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(listener));
    }

    /// Adds to `queue` the key of each set of which a work changes.
    pub fn subscribe(&self, queue: &Queue) {
        let queue = queue.clone();
        self.listen(move |key, _| queue.add(key));
    }

    fn changed(&self, old: Option<&Arc<ManifestWork>>, new: Option<&Arc<ManifestWork>>, now: Timestamp) {
        let set = |work: &Arc<ManifestWork>| names::label_of(work).map(str::to_owned);
        let (before, after) = (old.and_then(set), new.and_then(set));
        let (mut lost, mut changes) = (None, None);
        {
            let mut sets = self.sets.lock();
            if let (Some(before), Some(old)) = (&before, old)
                && after.as_ref() != Some(before)
            {
                lost = sets.get_mut(before).and_then(|it| it.remove(old));
                if sets.get(before).is_some_and(|it| it.members.is_empty()) {
                    sets.remove(before);
                }
            }
            if let (Some(after), Some(new)) = (&after, new) {
                changes = sets.entry(after.clone()).or_default().put(new, now);
            }
        }
        for (label, change) in [(before, lost), (after, changes)] {
            if let (Some(label), Some(change)) = (label, change)
                && let Some(key) = names::key_of_label(&label)
            {
                self.listeners.read().iter().for_each(|it| it(&key, change));
            }
        }
    }

    /// The works with this label, by cluster and name.
    pub fn members(&self, label: &str) -> Vec<Member> {
        let sets = self.sets.lock();
        let members = sets.get(label).into_iter().flat_map(|it| it.members.values());
        members.map(|it| it.member.clone()).collect()
    }

    /// How many works of a placement say this. Works that are being deleted do not count.
    pub fn counts(&self, label: &str, placement: &str, spec: Fingerprint) -> WorkCounts {
        let sets = self.sets.lock();
        let of = |works: &Works| works.counts.get(placement)?.get(&spec).copied();
        sets.get(label).and_then(of).unwrap_or_default()
    }

    /// A server that was given `wanted` has `answered`: whoever says the one says the other from now on. Otherwise a
    /// server that knows less fields than we do, or fills some in, would be given the same thing for ever.
    pub fn answered(&self, label: &str, wanted: Fingerprint, answered: Fingerprint) {
        if wanted == answered {
            return;
        }
        if let Some(works) = self.sets.lock().get_mut(label) {
            works.answers.insert(answered, wanted);
            works.recount();
        }
    }
}

impl Works {
    fn put(&mut self, work: &Arc<ManifestWork>, now: Timestamp) -> Option<WorkChange> {
        let name = name(work);
        let before = self.members.remove(&name);
        let meta = &work.metadata;
        let same = before.as_ref().filter(|it| it.member.work.metadata.uid == meta.uid);
        let kept = match same {
            Some(it) if meta.generation.is_some() && it.member.work.metadata.generation == meta.generation => {
                self.kept(work, it.raw, it.written)
            }
            Some(_) => self.kept(work, Fingerprint::of(&work.spec), now),
            None => {
                let member = Member::new(work, now);
                let raw = member.spec;
                // `Member::new` knows nothing of answers.
                let spec = self.meaning(raw);
                let written = now.min(member.existing.since.unwrap_or(now));
                Kept {
                    member: Member { spec, ..member },
                    written,
                    raw,
                }
            }
        };
        let change = match &before {
            None => Some(WorkChange::Content),
            Some(it) => difference(&it.member, &kept.member),
        };
        if let Some(before) = &before {
            self.count(&before.member, -1);
        }
        self.count(&kept.member, 1);
        self.members.insert(name, kept);
        change
    }

    fn kept(&self, work: &Arc<ManifestWork>, raw: Fingerprint, written: Timestamp) -> Kept {
        Kept {
            member: Member::written(work, self.meaning(raw), written),
            written,
            raw,
        }
    }

    fn meaning(&self, raw: Fingerprint) -> Fingerprint {
        self.answers.get(&raw).copied().unwrap_or(raw)
    }

    fn remove(&mut self, work: &ManifestWork) -> Option<WorkChange> {
        let gone = self.members.remove(&name(work))?;
        self.count(&gone.member, -1);
        Some(WorkChange::Content)
    }

    fn count(&mut self, member: &Member, by: i64) {
        if member.is_leaving() {
            return;
        }
        let placement = member.placement();
        if !self.counts.contains_key(placement) {
            self.counts.insert(placement.to_owned(), HashMap::new());
        }
        let of_placement = self.counts.get_mut(placement).expect("it was put there");
        let counts = of_placement.entry(member.spec).or_default();
        counts.add(member, by);
        if counts.total == 0 {
            of_placement.remove(&member.spec);
            if of_placement.is_empty() {
                self.counts.remove(placement);
            }
        }
    }

    fn recount(&mut self) {
        self.counts.clear();
        let mut members = std::mem::take(&mut self.members);
        for it in members.values_mut() {
            it.member.spec = self.meaning(it.raw);
            self.count(&it.member, 1);
        }
        self.members = members;
    }
}

fn difference(old: &Member, new: &Member) -> Option<WorkChange> {
    let (before, after) = (&old.work.metadata, &new.work.metadata);
    let is_as_before = old.spec == new.spec
        && old.is_leaving() == new.is_leaving()
        && before.uid == after.uid
        && before.labels == after.labels
        && before.annotations == after.annotations;
    if !is_as_before {
        Some(WorkChange::Content)
    } else if old.existing != new.existing {
        Some(WorkChange::Rollout)
    } else if old.flags != new.flags {
        Some(WorkChange::Counts)
    } else {
        None
    }
}

fn name(work: &ManifestWork) -> (String, String) {
    let meta = &work.metadata;
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

#[cfg(test)]
#[path = "works_by_set_tests.rs"]
mod tests;
