//! What the scheduler knows between two runs: the fleet, what each placement made of it,
//! and what has just gone missing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    cluster::{
        AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
    },
    labels,
};
use ocm_reconcile::{
    Cache, Caches,
    cache::{key_of, split_key},
};
use parking_lot::{Mutex, RwLock};

use super::{
    load::{Load, all_clusters, belongs_to, clusters, counted},
    lost::Lost,
    triggers::ClusterChange,
};
use crate::select::{
    Choice, Needs, Scores, SelectionInput,
    groups::DesiredDecision,
    memo::{ChoiceContext, Memo, SharedFleet},
    scope::{EligibleSets, HOLD, HOLD_BINDING},
    select,
};

/// How many clusters all placements together remember to match. A placement that finds no room looks at the whole fleet
/// each time, as upstream does.
const MATCHES_MAX: usize = 2_000_000;

/// What is known.
pub struct Memory {
    sets: Cache<ManagedClusterSet>,
    bindings: Cache<ManagedClusterSetBinding>,
    shared: Arc<SharedFleet>,
    memos: Mutex<HashMap<String, Memo>>,
    matches: AtomicUsize,
    load: Load,
    decisions: Arc<RwLock<Decisions>>,
    /// What the decisions of each placement are about to say, by name.
    expected: Mutex<HashMap<String, HashMap<String, u64>>>,
    lost_bindings: Lost<ManagedClusterSetBinding>,
    lost_scores: Lost<AddOnPlacementScore>,
}

/// Decisions by name, by the placement that they say is theirs or are named after.
type Decisions = HashMap<String, BTreeMap<String, Arc<PlacementDecision>>>;

/// What a choice is made from.
pub enum ChoiceInput {
    /// The clusters were looked at already, and this is what comes of them.
    Remembered {
        /// The placement.
        placement: Arc<Placement>,
        /// The time.
        now: Timestamp,
        /// Whether the placement's decisions name any cluster now.
        has_any: bool,
        /// What is chosen.
        choice: Arc<Choice>,
    },
    /// Everything, because something is held that would be lost otherwise.
    Everything(Box<SelectionInput>),
}

impl ChoiceInput {
    /// The placement.
    pub fn placement(&self) -> &Arc<Placement> {
        match self {
            Self::Remembered { placement, .. } => placement,
            Self::Everything(it) => &it.placement,
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::Remembered { now, .. } => *now,
            Self::Everything(it) => it.now,
        }
    }

    /// Whether the placement's decisions name any cluster now.
    pub fn has_any(&self) -> bool {
        match self {
            Self::Remembered { has_any, .. } => *has_any,
            Self::Everything(it) => !it.has.is_empty(),
        }
    }

    /// What is chosen.
    pub fn choice(&self) -> Arc<Choice> {
        match self {
            Self::Remembered { choice, .. } => choice.clone(),
            Self::Everything(it) => Arc::new(Choice::of(&select(it))),
        }
    }
}

impl Memory {
    /// The one of this process. It listens before anybody queues placements, so
    /// that a change is known before it is looked at.
    pub fn beside(caches: &Caches) -> Arc<Self> {
        caches.beside(|it| Arc::new(Self::over(it)))
    }

    /// Of what these caches hold, now and later.
    fn over(caches: &Caches) -> Self {
        let decisions_cache = caches.of::<PlacementDecision>();
        let (bindings, scores) = (
            caches.of::<ManagedClusterSetBinding>(),
            caches.of::<AddOnPlacementScore>(),
        );
        let shared = Arc::new(SharedFleet::default());
        let load = Load::default();
        // The fleet is locked around both, so that no number comes late.
        let (of_decisions, counting) = (shared.clone(), load.clone());
        decisions_cache.listen(move |old, new| {
            let mut fleet = of_decisions.fleet.write();
            for (cluster, count) in counting.count(old.map(|it| &**it), new.map(|it| &**it)) {
                fleet.set_load(&cluster, count);
            }
        });
        let decisions: Arc<RwLock<Decisions>> = Arc::default();
        let by_placement = decisions.clone();
        decisions_cache.listen(move |old, new| {
            let mut by_placement = by_placement.write();
            for (key, name) in old.iter().flat_map(|it| placements_of(it)) {
                if let Some(of_it) = by_placement.get_mut(&key) {
                    of_it.remove(&name);
                    if of_it.is_empty() {
                        by_placement.remove(&key);
                    }
                }
            }
            let Some(new) = new else { return };
            for (key, name) in placements_of(new) {
                by_placement.entry(key).or_default().insert(name, new.clone());
            }
        });
        let (of_clusters, counted) = (shared.clone(), load.clone());
        caches.of::<ManagedCluster>().listen(move |old, new| match (old, new) {
            (Some(old), Some(new)) if ClusterChange::of(Some(&**old), Some(&**new)).is_nothing() => {
                of_clusters.fleet.write().put_quietly(new.clone());
            }
            (_, Some(new)) => {
                let mut fleet = of_clusters.fleet.write();
                fleet.put(new.clone());
                if old.is_none() {
                    let name = new.name_any();
                    fleet.set_load(&name, counted.of(&name));
                }
            }
            (Some(old), None) => of_clusters.fleet.write().remove(&old.name_any()),
            (None, None) => {}
        });
        let of_scores = shared.clone();
        scores.listen(move |old, new| match (old, new) {
            (_, Some(new)) => of_scores.fleet.write().put_score(new.clone()),
            (Some(old), None) => of_scores.fleet.write().remove_score(old),
            (None, None) => {}
        });
        Self {
            sets: caches.of(),
            shared,
            memos: Mutex::default(),
            matches: AtomicUsize::new(0),
            load,
            decisions,
            expected: Mutex::default(),
            lost_bindings: Lost::over(&bindings, HOLD_BINDING, Timestamp::now),
            lost_scores: Lost::over(&scores, HOLD, Timestamp::now),
            bindings,
        }
    }

    /// The decisions that say they are this placement's, or have a name that one of its own could have.
    pub fn decisions(&self, key: &str) -> Vec<Arc<PlacementDecision>> {
        let decisions = self.decisions.read();
        decisions
            .get(key)
            .into_iter()
            .flat_map(|it| it.values().cloned())
            .collect()
    }

    /// Says what the decisions of a placement are about to say, so that nobody wakes when they do.
    pub fn expect(&self, key: &str, desired: &[DesiredDecision]) {
        let digests = desired.iter().map(|it| {
            let clusters = it.clusters.iter().map(String::as_str);
            (it.name.clone(), digest(&it.group, &it.index.to_string(), clusters))
        });
        self.expected.lock().insert(key.to_owned(), digests.collect());
    }

    /// Whether a decision is its placement's and says what it is wanted to say.
    pub fn is_expected(&self, key: &str, decision: &PlacementDecision) -> bool {
        let label = |it: &str| decision.labels().get(it).map(String::as_str).unwrap_or_default();
        let is_owned = decision.owner_references().iter().any(|it| it.controller == Some(true));
        if label(labels::PLACEMENT) != split_key(key).1 || !is_owned {
            return false;
        }
        let (group, index) = (label(labels::DECISION_GROUP_NAME), label(labels::DECISION_GROUP_INDEX));
        let name = decision.metadata.name.as_deref().unwrap_or_default();
        let expected = self.expected.lock();
        let of_it = expected.get(key).and_then(|it| it.get(name));
        of_it.is_some_and(|it| *it == digest(group, index, clusters(decision)))
    }

    /// What this placement's choice is made from; `decisions` are those that are or could be its own.
    pub fn look(&self, placement: Arc<Placement>, decisions: &[Arc<PlacementDecision>], now: Timestamp) -> ChoiceInput {
        let (namespace, name) = (placement.namespace().unwrap_or_default(), placement.name_any());
        let own: Vec<_> = decisions.iter().filter(|it| belongs_to(it, &name)).cloned().collect();
        let bindings = self.bindings.list_in(&namespace);
        let lost_bindings = self.lost_bindings.at_in(&namespace, now);
        let of_lost = lost_bindings.iter().map(|(it, _)| it);
        let sets: Vec<_> = bindings
            .iter()
            .chain(of_lost)
            .filter_map(|it| self.sets.named(&it.name_any()))
            .collect();
        let scope = EligibleSets::of(
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
            let mut scores = self.shared.fleet.read().scores().read().clone();
            for (it, until) in lost_scores {
                scores.hold(it, until);
            }
            let world = self.world(placement, &own, now, bindings, lost_bindings, sets, scores);
            return ChoiceInput::Everything(Box::new(world));
        }
        let eligible = sets.into_iter().filter(|it| scope.eligible.contains(&it.name_any()));
        let eligible: Vec<_> = eligible.collect();
        let key = key_of(&*placement);
        let mut memo = self.take(&key).unwrap_or_else(|| Memo::new(placement.clone()));
        memo.look(&placement, eligible, &self.shared);
        let own = counted(&own);
        let context = ChoiceContext {
            now,
            scope,
            own: &own,
            load_max: self.load.most_besides(&own),
        };
        let choice = memo.choose(&self.shared.fleet.read(), context);
        self.keep(key, memo);
        ChoiceInput::Remembered {
            placement,
            now,
            has_any: !own.is_empty(),
            choice: Arc::new(choice),
        }
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
    ) -> SelectionInput {
        let fleet = self.shared.fleet.read();
        let clusters: Vec<_> = fleet.all().map(|(_, it)| it.cluster.clone()).collect();
        drop(fleet);
        let (load, load_max) = self.load.besides(own, &clusters);
        SelectionInput {
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
        self.expected.lock().remove(key);
    }

    /// Forgets what placements made of the fleet, to see what remembering costs.
    pub fn clear(&self) {
        *self.memos.lock() = HashMap::new();
        self.matches.store(0, Ordering::Relaxed);
        self.shared.clear();
    }
}

/// The placements that a decision may be one of, each with the decision's name.
pub(crate) fn placements_of(decision: &PlacementDecision) -> BTreeSet<(String, String)> {
    let name = decision.name_any();
    let namespace = decision.namespace().unwrap_or_default();
    let by_name = name.rsplit_once("-decision-").map(|(it, _)| it);
    let by_label = decision.labels().get(labels::PLACEMENT).map(String::as_str);
    let placements = by_name.into_iter().chain(by_label);
    placements
        .map(|it| (format!("{namespace}/{it}"), name.clone()))
        .collect()
}

fn digest<'a>(group: &str, index: &str, clusters: impl Iterator<Item = &'a str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (group, index).hash(&mut hasher);
    clusters.for_each(|it| it.hash(&mut hasher));
    hasher.finish()
}
