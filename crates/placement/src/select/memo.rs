//! What a placement made of every cluster the last time, so that the next choice looks only at the clusters that have changed
//! since. It is a shortcut: [`super::select`] says what is right, and a test compares the two on random changes.
//!
//! What depends on one cluster alone is kept (is it a member, does it match, what has it to give); what depends on the time, on
//! the other clusters and on other placements (taints, scores, ranks, groups) is made anew of the few that match.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use ocm_api::cluster::{ManagedCluster, ManagedClusterSet, Placement};
use parking_lot::{Mutex, RwLock};

use super::{
    Choice, Failing, Needs, Outcome, Scores,
    cel::{self, Engine, Expression, FindScores},
    fleet::{Delta, Fleet, Known, Slots},
    has_expressions,
    predicates::{Asked, Fresh, Judgement, Nobody, Predicates},
    prioritize::{self, Amounts},
    scope::{Membership, Scope},
    settle::{self, Contest},
};

/// What was made of the clusters.
pub struct Memo {
    placement: Arc<Placement>,
    /// The sets that count, by name.
    sets: Vec<Arc<ManagedClusterSet>>,
    predicates: Result<Predicates, String>,
    allocatable: bool,
    /// Up to which change of the fleet; nothing at first.
    seen: Option<u64>,
    members: Slots,
    failing: Slots,
    /// The first cluster that an expression cannot be asked of, and what is wrong.
    example: Option<(String, String)>,
    /// The slots of those that match.
    matching: Vec<u32>,
    /// What each of them has to give; empty when nobody asks.
    amounts: Vec<Amounts>,
}

/// A cluster that matches a predicate.
#[derive(Clone, Debug)]
pub struct Match {
    /// The cluster.
    pub cluster: Arc<ManagedCluster>,
    /// What it has to give, where somebody asks.
    amounts: Amounts,
}

impl Match {
    fn name(&self) -> &str {
        self.cluster.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Everything that a choice is made from, the clusters looked at already. What [`super::World`] is for [`super::select`], where
/// nothing is held.
pub struct Facts {
    /// The time.
    pub now: Timestamp,
    /// The placement.
    pub placement: Arc<Placement>,
    /// Which sets count.
    pub scope: Scope,
    /// How many clusters they have.
    pub members: usize,
    /// Those that match, by name; or what is wrong with the predicates.
    pub matching: Result<Vec<Match>, String>,
    /// Those that cannot be asked.
    pub failing: Option<Failing>,
    /// The clusters that the placement's decisions name now.
    pub has: BTreeSet<String>,
    /// How often other placements use each of those that match; may be empty.
    pub load: Vec<u32>,
    /// The highest number of other placements' decisions that name one cluster.
    pub load_max: u32,
    /// The scores that it asks for, of those that match.
    pub scores: Scores,
}

/// Chooses. What [`super::select`] would choose.
pub fn choose(facts: &Facts) -> Choice {
    let mut choice = Choice {
        scope: facts.scope.clone(),
        outcome: Outcome::Success,
        members: facts.members,
        held: false,
        failing: None,
        held_scores: Vec::new(),
        groups: Vec::new(),
        chosen: 0,
        unscheduled: 0,
        scores: String::new(),
        recheck_at: None,
    };
    let placement = &*facts.placement;
    let matching = settle::number(placement).and_then(|_| {
        let matching = facts.matching.as_ref();
        matching.map_err(|message| ("Predicate", message.clone()))
    });
    let settled = matching.and_then(|matching| {
        choice.failing.clone_from(&facts.failing);
        let clusters: Vec<&ManagedCluster> = matching.iter().map(|it| &*it.cluster).collect();
        let contest = Contest {
            placement,
            now: facts.now,
            has: matching.iter().map(|it| facts.has.contains(it.name())).collect(),
            load: facts.load.clone(),
            load_max: facts.load_max,
            amounts: matching.iter().map(|it| it.amounts).collect(),
            scores: &facts.scores,
            clusters,
        };
        settle::settle(&contest).map(|settled| (contest.clusters, settled))
    });
    match settled {
        Ok((clusters, settled)) => choice.settled(&clusters, settled, placement.spec.number_of_clusters),
        Err((plugin, message)) => {
            choice.outcome = Outcome::Misconfigured { plugin, message };
            choice
        }
    }
}

impl Memo {
    /// Of a placement, of which nothing is known yet.
    pub fn new(placement: Arc<Placement>) -> Self {
        let needs = Needs::of(&placement);
        Self {
            placement,
            sets: Vec::new(),
            predicates: Ok(Predicates::default()),
            allocatable: needs.allocatable,
            seen: None,
            members: Slots::default(),
            failing: Slots::default(),
            example: None,
            matching: Vec::new(),
            amounts: Vec::new(),
        }
    }

    /// How many clusters it keeps.
    pub fn len(&self) -> usize {
        self.matching.len()
    }

    /// Whether it keeps none.
    pub fn is_empty(&self) -> bool {
        self.matching.is_empty()
    }

    /// Looks at what has changed. `sets` are those that count.
    pub fn look(
        &mut self,
        placement: &Arc<Placement>,
        mut sets: Vec<Arc<ManagedClusterSet>>,
        fleet: &RwLock<Fleet>,
        answers: &Answers,
    ) {
        if self.placement.spec != placement.spec {
            *self = Self::new(placement.clone());
        }
        // The object as it is now, so that the old one is let go.
        self.placement = placement.clone();
        sets.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let same = self.sets.iter().map(|it| (&it.metadata.name, &it.spec));
        if !same.eq(sets.iter().map(|it| (&it.metadata.name, &it.spec))) {
            self.seen = None;
        }
        self.sets = sets;
        let (delta, position) = {
            let fleet = fleet.read();
            (fleet.since(self.seen), fleet.position())
        };
        let is_first = self.seen.is_none();
        let is_nothing = matches!(&delta, Delta::Changed(changed) if changed.is_empty());
        if is_nothing && !is_first {
            return;
        }
        if has_expressions(placement) {
            let engine = answers.engine();
            cel::deeply(|| self.look_at(delta, fleet, &mut answers.with(&engine), &engine, is_first));
            answers.give_back(engine);
        } else {
            self.look_at(delta, fleet, &mut Unasked, &NoEngine, is_first);
        }
        self.seen = Some(position);
    }

    fn look_at(
        &mut self,
        delta: Delta,
        fleet: &RwLock<Fleet>,
        asked: &mut impl Remembers,
        engine: &impl Engines,
        is_first: bool,
    ) {
        if is_first {
            self.predicates = Predicates::of(&self.placement, || engine.get());
        }
        let sets = std::mem::take(&mut self.sets);
        let membership = Membership::of(sets.iter().map(|it| &**it));
        let predicates = std::mem::replace(&mut self.predicates, Ok(Predicates::default()));
        let mut judge = |known: &Known| {
            let cluster = &known.cluster;
            if cluster.metadata.deletion_timestamp.is_some() || !membership.has(cluster) {
                return None;
            }
            let Ok(predicates) = &predicates else {
                return Some(Judgement::Differs);
            };
            asked.is(known.version);
            Some(predicates.judge(cluster, asked))
        };
        match delta {
            Delta::All(all) => {
                (self.members, self.failing, self.example) = Default::default();
                self.matching.clear();
                self.amounts.clear();
                for (slot, known) in all {
                    let judgement = judge(&known);
                    self.members.set(slot, judgement.is_some());
                    match judgement {
                        Some(Judgement::Matches) => self.keep(slot, &known.cluster),
                        Some(Judgement::Fails(_)) => self.failing.set(slot, true),
                        Some(Judgement::Differs) | None => {}
                    }
                }
                self.matching.shrink_to_fit();
                self.amounts.shrink_to_fit();
            }
            Delta::Changed(changed) => {
                for (slot, known) in changed {
                    let judgement = known.as_ref().and_then(&mut judge);
                    self.members.set(slot, judgement.is_some());
                    let fails = matches!(judgement, Some(Judgement::Fails(_)));
                    if fails || self.failing.has(slot) {
                        // It may come before the one that is told of, or be it.
                        self.example = None;
                    }
                    self.failing.set(slot, fails);
                    if let Some(place) = self.matching.iter().position(|it| *it == slot) {
                        self.matching.remove(place);
                        if self.allocatable {
                            self.amounts.remove(place);
                        }
                    }
                    if let (Some(known), Some(Judgement::Matches)) = (known, judgement) {
                        self.keep(slot, &known.cluster);
                    }
                }
            }
        }
        if self.failing.count() == 0 {
            self.example = None;
        } else if self.example.is_none() {
            let first = fleet.read().first(|it| self.failing.has(it));
            if let (Some(cluster), Ok(predicates)) = (first, &predicates) {
                let error = match predicates.judge(&cluster, &mut Fresh::new(engine.get())) {
                    Judgement::Fails(error) => error,
                    // Another change is under way, and will be looked at.
                    Judgement::Matches | Judgement::Differs => String::new(),
                };
                self.example = Some((cluster.metadata.name.clone().unwrap_or_default(), error));
            }
        }
        self.predicates = predicates;
        self.sets = sets;
    }

    fn keep(&mut self, slot: u32, cluster: &ManagedCluster) {
        self.matching.push(slot);
        if self.allocatable {
            self.amounts.push(prioritize::amounts(cluster));
        }
    }

    /// What the choice is made from. `load` tells of the clusters it is given how often others use them, and the most that any
    /// is used.
    pub fn facts(
        &self,
        now: Timestamp,
        scope: Scope,
        has: BTreeSet<String>,
        fleet: &RwLock<Fleet>,
        load: LoadOf<'_>,
    ) -> Facts {
        let needs = Needs::of(&self.placement);
        let fleet = fleet.read();
        let matching = self.matching.iter().enumerate().filter_map(|(place, slot)| {
            Some(Match {
                // One that is gone since will be looked at.
                cluster: fleet.at(*slot)?.clone(),
                amounts: self.amounts.get(place).copied().unwrap_or_default(),
            })
        });
        let mut matching: Vec<Match> = matching.collect();
        matching.sort_by(|one, other| one.name().cmp(other.name()));
        let mut asked = Scores::default();
        if !needs.scores.is_empty() {
            let scores = fleet.scores().read();
            for it in &matching {
                let of_it = needs.scores.iter().filter_map(|name| scores.of(it.name(), name));
                of_it.for_each(|it| asked.put(it.clone()));
            }
        }
        drop(fleet);
        let (load, load_max) = if needs.load {
            load(&mut matching.iter().map(Match::name))
        } else {
            (Vec::new(), 0)
        };
        Facts {
            now,
            placement: self.placement.clone(),
            scope,
            members: self.members.count(),
            matching: match &self.predicates {
                Ok(_) => Ok(matching),
                Err(message) => Err(message.clone()),
            },
            failing: self.example.as_ref().map(|(cluster, error)| Failing {
                count: self.failing.count(),
                cluster: cluster.clone(),
                error: error.clone(),
            }),
            has,
            load,
            load_max,
            scores: asked,
        }
    }
}

/// How often other placements use each of these clusters, and how often the one that is used most.
pub type LoadOf<'a> = &'a dyn Fn(&mut dyn Iterator<Item = &str>) -> (Vec<u32>, u32);

/// One who may know the answers for a cluster in a state.
trait Remembers: Asked {
    /// The next questions are about this state.
    fn is(&mut self, version: u64);
}

trait Engines {
    fn get(&self) -> &Engine;
}

impl Engines for Engine {
    fn get(&self) -> &Engine {
        self
    }
}

struct NoEngine;

impl Engines for NoEngine {
    fn get(&self) -> &Engine {
        unreachable!("a placement without expressions needs no engine")
    }
}

struct Unasked;

impl Asked for Unasked {
    fn all_true(&mut self, expressions: &[Expression], cluster: &ManagedCluster) -> Result<bool, String> {
        Nobody.all_true(expressions, cluster)
    }
}

impl Remembers for Unasked {
    fn is(&mut self, _: u64) {}
}

/// How many expressions are remembered, and how many states of each, before all is forgotten.
const EXPRESSIONS_MAX: usize = 64;
const STATES_MAX: usize = 25_000;

/// More than this in one predicate could cost more together than a predicate may, which each for itself does not show.
const APART_MAX: usize = 10;

/// What expressions said of clusters, by expression and state of the cluster: placements of one fleet ask the same again and
/// again. Engines are kept too: making one costs more than asking it.
pub struct Answers {
    scores: FindScores,
    engines: Mutex<Vec<Engine>>,
    known: Mutex<HashMap<Arc<str>, HashMap<u64, Answer>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    True,
    False,
    Error,
}

impl Answers {
    /// Of clusters with these scores.
    pub fn new(scores: Arc<RwLock<Scores>>) -> Self {
        Self {
            scores: Arc::new(move |cluster, name| scores.read().of(cluster, name).cloned()),
            engines: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.engines.lock().clear();
        *self.known.lock() = HashMap::new();
    }

    fn engine(&self) -> Engine {
        let kept = self.engines.lock().pop();
        kept.unwrap_or_else(|| Engine::finding(self.scores.clone()))
    }

    fn give_back(&self, engine: Engine) {
        self.engines.lock().push(engine);
    }

    fn with<'a>(&'a self, engine: &'a Engine) -> Remembered<'a> {
        Remembered {
            fresh: Fresh::new(engine),
            answers: self,
            version: 0,
        }
    }

    fn known(&self, expression: &Expression, version: u64) -> Option<Answer> {
        self.known.lock().get(&expression.text)?.get(&version).copied()
    }

    fn learn(&self, expression: &Expression, version: u64, answer: Answer) {
        let mut known = self.known.lock();
        if known.len() >= EXPRESSIONS_MAX && !known.contains_key(&expression.text) {
            known.clear();
        }
        let states = known.entry(expression.text.clone()).or_default();
        if states.len() >= STATES_MAX {
            states.clear();
        }
        states.insert(version, answer);
    }
}

struct Remembered<'a> {
    fresh: Fresh<'a>,
    answers: &'a Answers,
    version: u64,
}

impl Asked for Remembered<'_> {
    fn all_true(&mut self, expressions: &[Expression], cluster: &ManagedCluster) -> Result<bool, String> {
        if expressions.len() > APART_MAX {
            return self.fresh.all_true(expressions, cluster);
        }
        for it in expressions {
            let answer = self.answers.known(it, self.version).unwrap_or_else(|| {
                let answer = match self.fresh.all_true(std::slice::from_ref(it), cluster) {
                    Ok(true) => Answer::True,
                    Ok(false) => Answer::False,
                    Err(_) => Answer::Error,
                };
                self.answers.learn(it, self.version, answer);
                answer
            });
            match answer {
                Answer::True => {}
                Answer::False => return Ok(false),
                // What is wrong is asked again where it is told.
                Answer::Error => return Err(String::new()),
            }
        }
        Ok(true)
    }
}

impl Remembers for Remembered<'_> {
    fn is(&mut self, version: u64) {
        self.version = version;
    }
}
