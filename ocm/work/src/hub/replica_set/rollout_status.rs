//! What the two reconcilers of ManifestWorkReplicaSets tell each other: how the last look at a set's clusters went.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use ocm_api::work::{ManifestWork, ManifestWorkReplicaSet};
use ocm_reconcile::Queue;
use parking_lot::Mutex;

use super::{
    desired_state::{DesiredState, Problem, Seen},
    fingerprint::Fingerprint,
    names,
    revision::Is,
    spread,
};

/// How a look at the clusters of a set went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The generation that was looked at.
    pub generation: Option<i64>,
    /// Why there can be no works at all.
    pub refusal: Option<String>,
    /// What the works shall say.
    pub spec: Fingerprint,
    /// Which of the set's templates that is.
    pub is: Is,
    /// The placements, in the order of the spec, each once.
    pub places: Vec<Told>,
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
pub struct Told {
    pub name: String,
    pub decision_groups: usize,
    pub clusters: usize,
    pub problem: Option<Problem>,
}

impl Verdict {
    /// Of what was seen.
    pub fn of(set: &ManifestWorkReplicaSet, seen: &Seen, errors: &[String]) -> Self {
        let scene = DesiredState::of(set, seen);
        let mut named = BTreeSet::new();
        let places = scene
            .places
            .iter()
            .filter(|it| named.insert(&it.reference.name))
            .map(|it| Told {
                name: it.reference.name.clone(),
                decision_groups: it.decision_groups(),
                clusters: it.clusters,
                problem: it.problem.clone(),
            })
            .collect();
        Self {
            generation: set.metadata.generation,
            refusal: names::refusal(set),
            spec: scene.fingerprint(),
            is: scene.template.is,
            places,
            clusters: scene.clusters(),
            waits: spread::waits(&scene, seen),
            is_paused: scene.is_paused,
            strangers: seen.strangers.clone(),
            failed: errors.first().map(|it| (it.clone(), errors.len())),
        }
    }
}

/// Verdicts by set, and the works of others that stand in the way.
#[derive(Clone, Default)]
pub struct RolloutStatuses {
    verdicts: Arc<Mutex<HashMap<String, Arc<Verdict>>>>,
    /// The set that met a work, by the work's cluster and name.
    met: Arc<Mutex<HashMap<(String, String), String>>>,
    /// Who wants to know of another verdict.
    pub(super) report: Queue,
}

impl RolloutStatuses {
    /// The last verdict.
    pub fn verdict(&self, key: &str) -> Option<Arc<Verdict>> {
        self.verdicts.lock().get(key).cloned()
    }

    /// Another verdict; who reports is told if it differs.
    pub fn put(&self, key: &str, verdict: Verdict) {
        let mut verdicts = self.verdicts.lock();
        if verdicts.get(key).is_some_and(|it| **it == verdict) {
            return;
        }
        verdicts.insert(key.to_owned(), Arc::new(verdict));
        drop(verdicts);
        self.report.add(key);
    }

    /// The set is gone.
    pub fn forget(&self, key: &str) {
        self.verdicts.lock().remove(key);
        self.met.lock().retain(|_, it| it != key);
    }

    /// Whether somebody waits for a cluster of this set to get further. Nobody knows before the first look.
    pub fn waits(&self, key: &str) -> bool {
        self.verdicts.lock().get(key).is_none_or(|it| it.waits)
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

    /// The clusters on which a set met a work that is not its own. A work that is gone, or turns out to be the set's own, is
    /// forgotten.
    pub fn strangers(&self, key: &str, get: impl Fn(&str, &str) -> Option<Arc<ManifestWork>>) -> BTreeSet<String> {
        let mut met = self.met.lock();
        met.retain(|(cluster, name), of| {
            let is_stranger = |it: Arc<ManifestWork>| {
                let set = names::label_of(&it).and_then(names::key_of_label);
                set.as_deref() != Some(key)
            };
            of != key || get(cluster, name).is_some_and(is_stranger)
        });
        let own = met.iter().filter(|(_, of)| *of == key);
        own.map(|((cluster, _), _)| cluster.clone()).collect()
    }
}
