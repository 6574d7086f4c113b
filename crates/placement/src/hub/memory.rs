//! What the scheduler knows between two runs: the fleet, what each placement made of it, and what has just gone missing.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::cluster::{
    AddOnPlacementScore, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
};
use ocm_reconcile::{Cache, cache::key_of};
use parking_lot::{Mutex, RwLock};

use super::{
    Caches,
    load::{Load, all_clusters},
    lost::Lost,
    triggers::Change,
};
use crate::select::{
    Needs, Scores, World,
    fleet::Fleet,
    memo::{Answers, Facts, Memo},
    scope::{HOLD, HOLD_BINDING, Scope},
};

/// How many clusters all placements together remember to match. A placement that finds no room looks at the whole fleet each
/// time, as upstream does.
const MATCHES_MAX: usize = 2_000_000;

/// What is known.
pub struct Memory {
    sets: Cache<ManagedClusterSet>,
    bindings: Cache<ManagedClusterSetBinding>,
    fleet: Arc<RwLock<Fleet>>,
    answers: Answers,
    memos: Mutex<HashMap<String, Memo>>,
    matches: AtomicUsize,
    load: Load,
    lost_bindings: Lost<ManagedClusterSetBinding>,
    lost_scores: Lost<AddOnPlacementScore>,
}

/// What a choice is made from.
pub enum Input {
    /// With the clusters looked at already.
    Facts(Facts),
    /// With everything, because something is held that would be lost otherwise.
    World(World),
}

impl Input {
    /// The placement.
    pub fn placement(&self) -> &Arc<Placement> {
        match self {
            Self::Facts(it) => &it.placement,
            Self::World(it) => &it.placement,
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Facts(it) => it.now,
            Self::World(it) => it.now,
        }
    }

    /// Whether the placement's decisions name any cluster now.
    pub fn has_any(&self) -> bool {
        match self {
            Self::Facts(it) => !it.has.is_empty(),
            Self::World(it) => !it.has.is_empty(),
        }
    }
}

impl Memory {
    /// Of what these caches hold, now and later. To be made before anybody queues placements, so that a change is known before
    /// it is looked at.
    pub fn over(caches: &Caches) -> Self {
        let fleet = Arc::new(RwLock::new(Fleet::default()));
        let of_clusters = fleet.clone();
        caches.clusters.listen(move |old, new| match (old, new) {
            (Some(old), Some(new)) if Change::of(Some(&**old), Some(&**new)).is_nothing() => {
                of_clusters.write().put_quietly(new.clone());
            }
            (_, Some(new)) => of_clusters.write().put(new.clone()),
            (Some(old), None) => of_clusters.write().remove(&old.name_any()),
            (None, None) => {}
        });
        let of_scores = fleet.clone();
        caches.scores.listen(move |old, new| match (old, new) {
            (_, Some(new)) => of_scores.write().put_score(new.clone()),
            (Some(old), None) => of_scores.write().remove_score(old),
            (None, None) => {}
        });
        let answers = Answers::new(fleet.read().scores().clone());
        Self {
            sets: caches.sets.clone(),
            bindings: caches.set_bindings.clone(),
            fleet,
            answers,
            memos: Mutex::default(),
            matches: AtomicUsize::new(0),
            load: Load::over(&caches.decisions),
            lost_bindings: Lost::over(&caches.set_bindings, HOLD_BINDING, Timestamp::now),
            lost_scores: Lost::over(&caches.scores, HOLD, Timestamp::now),
        }
    }

    /// What this placement's choice is made from; `own` are its decisions.
    pub fn look(&self, placement: Arc<Placement>, own: &[Arc<PlacementDecision>], now: Timestamp) -> Input {
        let namespace = placement.namespace().unwrap_or_default();
        let bindings = self.bindings.list_in(&namespace);
        let lost_bindings = self.lost_bindings.at_in(&namespace, now);
        let of_lost = lost_bindings.iter().map(|(it, _)| it);
        let sets: Vec<_> = bindings
            .iter()
            .chain(of_lost)
            .filter_map(|it| self.sets.named(&it.name_any()))
            .collect();
        let scope = Scope::of(
            &placement,
            bindings.iter().map(|it| &**it),
            lost_bindings.iter().map(|(it, until)| (&**it, *until)),
            |name| sets.iter().any(|it| it.metadata.name.as_deref() == Some(name)),
            now,
        );
        let lost_scores = self.lost_scores.at(now);
        let needs = (!lost_scores.is_empty()).then(|| Needs::of(&placement));
        let asks = |name: &str| {
            let needs = needs.as_ref();
            needs.is_some_and(|it| it.any_score || it.scores.contains(name))
        };
        let holds = lost_scores.iter().any(|(it, _)| asks(&it.name_any()));
        if !scope.missing.is_empty() || holds {
            let mut scores = self.fleet.read().scores().read().clone();
            for (it, until) in lost_scores {
                scores.hold(it, until);
            }
            return Input::World(self.world(placement, own, now, bindings, lost_bindings, sets, scores));
        }
        let eligible = sets.into_iter().filter(|it| scope.eligible.contains(&it.name_any()));
        let eligible: Vec<_> = eligible.collect();
        let key = key_of(&*placement);
        let mut memo = self.take(&key).unwrap_or_else(|| Memo::new(placement.clone()));
        memo.look(&placement, eligible, &self.fleet, &self.answers);
        let load = |names: &mut dyn Iterator<Item = &str>| self.load.of_names(own, names);
        let facts = memo.facts(now, scope, all_clusters(own), &self.fleet, &load);
        self.keep(key, memo);
        Input::Facts(facts)
    }

    #[allow(clippy::too_many_arguments)] // The parts of one world.
    fn world(
        &self,
        placement: Arc<Placement>,
        own: &[Arc<PlacementDecision>],
        now: Timestamp,
        bindings: Vec<Arc<ManagedClusterSetBinding>>,
        lost_bindings: Vec<(Arc<ManagedClusterSetBinding>, Timestamp)>,
        sets: Vec<Arc<ManagedClusterSet>>,
        scores: Scores,
    ) -> World {
        let clusters: Vec<_> = self.fleet.read().all().map(|(_, it)| it.cluster).collect();
        let (load, load_max) = self.load.besides(own, &clusters);
        World {
            now,
            placement,
            bindings,
            lost_bindings,
            sets,
            clusters,
            has: all_clusters(own),
            load,
            load_max,
            scores: Arc::new(scores),
        }
    }

    fn take(&self, key: &str) -> Option<Memo> {
        let memo = self.memos.lock().remove(key)?;
        self.matches.fetch_sub(memo.len(), Ordering::Relaxed);
        Some(memo)
    }

    fn keep(&self, key: String, memo: Memo) {
        if self.matches.load(Ordering::Relaxed) + memo.len() > MATCHES_MAX {
            return;
        }
        self.matches.fetch_add(memo.len(), Ordering::Relaxed);
        self.memos.lock().insert(key, memo);
    }

    /// Forgets a placement that is gone.
    pub fn forget(&self, key: &str) {
        self.take(key);
    }

    /// Forgets what placements made of the fleet, to see what remembering costs.
    pub fn clear(&self) {
        *self.memos.lock() = HashMap::new();
        self.matches.store(0, Ordering::Relaxed);
        self.answers.clear();
        *self.fleet.write() = Fleet::default();
    }
}
