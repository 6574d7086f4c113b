//! What the two reconcilers of ManifestWorkReplicaSets tell each other: how the last look at a set's clusters went.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use ocm_api::work::ManifestWork;
use ocm_reconcile::{Caches, Queue};
use parking_lot::Mutex;

use super::{
    desired_state::{DesiredState, PlacementProblem, Seen},
    fingerprint::Fingerprint,
    names,
    revision::TemplateInUse,
};

/// How a look at the clusters of a set went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutStatus {
    /// The generation that was looked at.
    pub generation: Option<i64>,
    /// Why there can be no works at all.
    pub refusal: Option<String>,
    /// What the works shall say.
    pub spec: Fingerprint,
    /// Which of the set's templates that is.
    pub is: TemplateInUse,
    /// The placements, in the order of the spec, each once.
    pub places: Vec<PlacementRolloutStatus>,
    /// How many clusters there are.
    pub clusters: usize,
    /// Whether a cluster does not have what it shall have.
    pub waits: bool,
    /// Whether nobody gets anything for now.
    pub is_paused: bool,
    /// Clusters with a work of somebody else that has the name of ours.
    pub strangers: BTreeSet<String>,
    /// What the first failure said, and how many there were.
    pub failed: Option<(String, usize)>,
}

/// A placement of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PlacementRolloutStatus {
    pub name: String,
    pub decision_groups: usize,
    pub clusters: usize,
    pub problem: Option<PlacementProblem>,
}

impl RolloutStatus {
    /// Of what was seen. Nothing has failed yet.
    pub fn of(desired: &DesiredState<'_>, seen: &Seen) -> Self {
        let set = desired.set;
        let mut named = BTreeSet::new();
        let places = desired
            .places
            .iter()
            .filter(|it| named.insert(&it.reference.name))
            .map(|it| PlacementRolloutStatus {
                name: it.reference.name.clone(),
                decision_groups: it.decision_groups(),
                clusters: it.clusters,
                problem: it.problem.clone(),
            })
            .collect();
        Self {
            generation: set.metadata.generation,
            refusal: names::refusal(set),
            spec: desired.fingerprint(),
            is: desired.template.is,
            places,
            clusters: desired.clusters(),
            waits: desired.waits(seen),
            is_paused: desired.is_paused,
            strangers: seen.strangers.clone(),
            failed: None,
        }
    }
}

/// Rollout statuses by set, and the works of others that stand in the way.
#[derive(Clone, Default)]
pub struct RolloutStatuses {
    statuses: Arc<Mutex<HashMap<String, Arc<RolloutStatus>>>>,
    /// The set that met a work, by the work's cluster and name.
    met: Arc<Mutex<HashMap<(String, String), String>>>,
    /// Who wants to know of another one.
    subscribers: Arc<Mutex<Vec<Queue>>>,
}

impl RolloutStatuses {
    /// Those of the process.
    pub fn beside(caches: &Caches) -> Self {
        caches.beside(|_| Self::default())
    }

    /// Adds to `queue` the key of each set whose rollout status becomes another one.
    pub fn subscribe(&self, queue: &Queue) {
        self.subscribers.lock().push(queue.clone());
    }

    /// The last one.
    pub fn get(&self, key: &str) -> Option<Arc<RolloutStatus>> {
        self.statuses.lock().get(key).cloned()
    }

    /// The present one; who reports is told if it differs.
    pub fn put(&self, key: &str, status: RolloutStatus) {
        let mut statuses = self.statuses.lock();
        if statuses.get(key).is_some_and(|it| **it == status) {
            return;
        }
        statuses.insert(key.to_owned(), Arc::new(status));
        drop(statuses);
        self.subscribers.lock().iter().for_each(|it| it.add(key));
    }

    /// The set is gone.
    pub fn forget(&self, key: &str) {
        self.statuses.lock().remove(key);
        self.met.lock().retain(|_, it| it != key);
    }

    /// Whether somebody waits for a cluster of this set to get further. Nobody knows before the first look.
    pub fn waits(&self, key: &str) -> bool {
        self.statuses.lock().get(key).is_none_or(|it| it.waits)
    }

    /// A work of this name is there already.
    pub fn met(&self, key: &str, cluster: &str, name: &str) {
        let work = (cluster.to_owned(), name.to_owned());
        self.met.lock().insert(work, key.to_owned());
    }

    /// The set that a work stands in the way of.
    pub fn in_the_way_of(&self, work: &ManifestWork) -> Option<String> {
        let met = self.met.lock();
        if met.is_empty() {
            return None;
        }
        let meta = &work.metadata;
        let name = (meta.namespace.clone()?, meta.name.clone()?);
        met.get(&name).cloned()
    }

    /// The clusters on which a set met a work that is not its own.
    pub fn strangers(&self, key: &str, get: impl Fn(&str, &str) -> Option<Arc<ManifestWork>>) -> BTreeSet<String> {
        let met = self.met.lock();
        let own = met.iter().filter(|(_, of)| *of == key);
        let strangers = own.filter(|((cluster, name), _)| get(cluster, name).is_some_and(|it| is_stranger(&it, key)));
        strangers.map(|((cluster, _), _)| cluster.clone()).collect()
    }

    /// Forgets what a set met and is gone, or turns out to be the set's own.
    pub fn forget_met(&self, key: &str, get: impl Fn(&str, &str) -> Option<Arc<ManifestWork>>) {
        let stays = |cluster: &str, name: &str| get(cluster, name).is_some_and(|it| is_stranger(&it, key));
        self.met
            .lock()
            .retain(|(cluster, name), of| of != key || stays(cluster, name));
    }
}

fn is_stranger(work: &ManifestWork, key: &str) -> bool {
    let set = names::label_of(work).and_then(names::key_of_label);
    set.as_deref() != Some(key)
}
