//! What a placement made of every cluster the last time, so that the next choice looks only at the clusters that have
//! changed since. It is a shortcut: [`super::select`] says what is right, and a test compares the two on random
//! changes.
//!
//! What depends on one cluster alone is kept, column by column: does it match, what has it to give, what do add-ons say
//! of it. What depends on the time, on the other clusters and on other placements (taints, ranks, groups) is made anew
//! of those few columns; the clusters themselves are not touched, but for those that are chosen.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use ocm_api::cluster::{AddOnScore, ManagedCluster, ManagedClusterSet, Placement};
use parking_lot::{Mutex, RwLock};

use super::{
    Choice, ChoiceOutcome, Failing, Needs, Scores,
    cel::{Engine, Expression, FindScores},
    fleet::{Delta, FleetTable, Known},
    has_expressions,
    members::Members,
    predicates::{ExpressionEvaluator, Fresh, Judgement, NoEvaluator, Predicates},
    prioritize::{self, Amounts, Prioritizer, Said},
    scope::EligibleSets,
    settle::{self, Contest},
    slots::Slots,
};

/// What was made of the clusters.
pub struct Memo {
    placement: Arc<Placement>,
    needs: Needs,
    /// The sets that count, by name.
    sets: Vec<Arc<ManagedClusterSet>>,
    predicates: Result<Predicates, String>,
    /// Up to which change of the fleet; nothing at first.
    seen: Option<u64>,
    /// How many clusters there are to choose from.
    members: usize,
    failing: Slots,
    /// The first cluster that an expression cannot be asked of, and what is wrong.
    example: Option<(String, String)>,
    /// Those that match, by name.
    matching: Vec<Match>,
    /// What each of them has to give; empty when nobody asks.
    amounts: Vec<Amounts>,
    /// What add-ons say of each of them, by what is asked for.
    said: Vec<(AddOnScore, Vec<Option<Said>>)>,
}

/// A cluster that matches a predicate.
struct Match {
    slot: u32,
    name: Arc<str>,
}

/// What a choice is made from beside the clusters.
pub struct ChoiceContext<'a> {
    /// The time.
    pub now: Timestamp,
    /// Which sets count.
    pub scope: EligibleSets,
    /// The clusters that the placement's decisions name now, and how often.
    pub own: &'a BTreeMap<&'a str, u32>,
    /// The highest number of other placements' decisions that name one cluster.
    pub load_max: u32,
}

/// What all placements of a hub look at together.
pub struct SharedFleet {
    /// The clusters.
    pub fleet: RwLock<FleetTable>,
    members: Members,
    answers: Answers,
}

impl Default for SharedFleet {
    fn default() -> Self {
        let fleet = FleetTable::default();
        let answers = Answers::new(fleet.scores().clone());
        Self {
            fleet: RwLock::new(fleet),
            members: Members::default(),
            answers,
        }
    }
}

impl SharedFleet {
    /// Forgets everything.
    pub fn clear(&self) {
        *self.fleet.write() = FleetTable::default();
        self.members.clear();
        self.answers.clear();
    }
}

impl Memo {
    /// Of a placement, of which nothing is known yet.
    pub fn new(placement: Arc<Placement>) -> Self {
        let needs = Needs::of(&placement);
        let mut said: Vec<(AddOnScore, _)> = Vec::new();
        let weights = prioritize::weights(&placement.spec.prioritizer_policy).unwrap_or_default();
        for (prioritizer, _) in weights {
            if let Prioritizer::AddOn(it) = prioritizer
                && said.iter().all(|(other, _)| other != it)
            {
                said.push((it.clone(), Vec::new()));
            }
        }
        Self {
            placement,
            needs,
            sets: Vec::new(),
            predicates: Ok(Predicates::default()),
            seen: None,
            members: 0,
            failing: Slots::default(),
            example: None,
            matching: Vec::new(),
            amounts: Vec::new(),
            said,
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
    pub fn look(&mut self, placement: &Arc<Placement>, mut sets: Vec<Arc<ManagedClusterSet>>, shared: &SharedFleet) {
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
        if has_expressions(placement) {
            let engine = shared.answers.engine();
            self.look_at(shared, &mut shared.answers.with(&engine), &engine);
            shared.answers.give_back(engine);
        } else {
            self.look_at(shared, &mut Unasked, &NoEngine);
        }
    }

    fn look_at(&mut self, shared: &SharedFleet, asked: &mut impl Remembers, engine: &impl Engines) {
        let is_first = self.seen.is_none();
        if is_first {
            self.predicates = Predicates::of(&self.placement, || engine.get());
        }
        let (members, delta, candidates, position, scores) = {
            let fleet = shared.fleet.read();
            let members = shared.members.of(&self.sets, &fleet);
            let delta = fleet.since(self.seen);
            let candidates = match (&delta, &self.predicates) {
                (Delta::All, Ok(predicates)) => fleet.candidates(&members, predicates),
                _ => Vec::new(),
            };
            (members, delta, candidates, fleet.position(), fleet.scores().clone())
        };
        self.members = members.count();
        self.seen = Some(position);
        let predicates = std::mem::replace(&mut self.predicates, Ok(Predicates::default()));
        if let Ok(predicates) = &predicates {
            match delta {
                Delta::All => {
                    (self.failing, self.example) = Default::default();
                    self.matching.clear();
                    self.amounts.clear();
                    self.said.iter_mut().for_each(|(_, column)| column.clear());
                    for (slot, known) in candidates {
                        asked.is(known.version);
                        match predicates.judge(&known.cluster, asked) {
                            Judgement::Matches => self.keep(self.matching.len(), slot, &known, &scores),
                            Judgement::Fails(_) => self.failing.set(slot, true),
                            Judgement::Differs => {}
                        }
                    }
                    self.matching.shrink_to_fit();
                }
                Delta::Changed(changed) => {
                    for (slot, known) in changed {
                        let known = known.filter(|_| members.has(slot));
                        let judgement = known.as_ref().map(|known| {
                            asked.is(known.version);
                            predicates.judge(&known.cluster, asked)
                        });
                        let fails = matches!(judgement, Some(Judgement::Fails(_)));
                        if fails || self.failing.has(slot) {
                            // It may come before the one that is told of, or be it.
                            self.example = None;
                        }
                        self.failing.set(slot, fails);
                        self.let_go(slot);
                        if let (Some(known), Some(Judgement::Matches)) = (known, judgement) {
                            let place = self.matching.partition_point(|it| it.name < known.name);
                            self.keep(place, slot, &known, &scores);
                        }
                    }
                }
            }
            if self.failing.count() == 0 {
                self.example = None;
            } else if self.example.is_none() {
                let first = shared.fleet.read().first(|it| self.failing.has(it));
                self.example = first.map(|cluster| {
                    let error = match predicates.judge(&cluster, &mut Fresh::new(engine.get())) {
                        Judgement::Fails(error) => error,
                        // Another change is under way, and will be looked at.
                        Judgement::Matches | Judgement::Differs => String::new(),
                    };
                    (cluster.metadata.name.clone().unwrap_or_default(), error)
                });
            }
        }
        self.predicates = predicates;
    }

    fn keep(&mut self, place: usize, slot: u32, known: &Known, scores: &RwLock<Scores>) {
        let name = known.name.clone();
        if !self.said.is_empty() {
            let scores = scores.read();
            for (wanted, column) in &mut self.said {
                column.insert(place, prioritize::said(&scores, &name, wanted));
            }
        }
        if self.needs.allocatable {
            self.amounts.insert(place, prioritize::amounts(&known.cluster));
        }
        self.matching.insert(place, Match { slot, name });
    }

    fn let_go(&mut self, slot: u32) {
        let Some(place) = self.matching.iter().position(|it| it.slot == slot) else {
            return;
        };
        self.matching.remove(place);
        if self.needs.allocatable {
            self.amounts.remove(place);
        }
        self.said.iter_mut().for_each(|(_, column)| {
            column.remove(place);
        });
    }

    /// Chooses. What [`super::select`] would choose, where nothing is held.
    pub fn choose(&self, fleet: &FleetTable, context: ChoiceContext<'_>) -> Choice {
        let mut choice = Choice {
            scope: context.scope,
            outcome: ChoiceOutcome::Success,
            members: self.members,
            held: false,
            failing: None,
            held_scores: Vec::new(),
            groups: Vec::new(),
            chosen: 0,
            unscheduled: 0,
            scores: String::new(),
            recheck_at: None,
        };
        let placement = &*self.placement;
        let readable = settle::number(placement).and_then(|_| match &self.predicates {
            Ok(_) => Ok(()),
            Err(message) => Err(("Predicate", message.clone())),
        });
        if let Err((plugin, message)) = readable {
            choice.outcome = ChoiceOutcome::Misconfigured { plugin, message };
            return choice;
        }
        choice.failing = self.example.as_ref().map(|(cluster, error)| Failing {
            count: self.failing.count(),
            cluster: cluster.clone(),
            error: error.clone(),
        });
        // One that has gone since, or has made room for another, will be looked at.
        let is_there = |it: &Match| {
            fleet
                .at(it.slot)
                .is_some_and(|known| Arc::ptr_eq(&known.name, &it.name))
        };
        let rows: Vec<usize> = (0..self.matching.len())
            .filter(|it| is_there(&self.matching[*it]))
            .collect();
        let mut own = Slots::default();
        let mut of_own: Vec<(u32, u32)> = context
            .own
            .iter()
            .filter_map(|(name, count)| Some((fleet.slot(name)?, *count)))
            .collect();
        of_own.sort_unstable();
        of_own.iter().for_each(|(slot, _)| own.set(*slot, true));
        let slot = |place: usize| self.matching[rows[place]].slot;
        let name = |place: usize| &*self.matching[rows[place]].name;
        let cluster = |place: usize| {
            let known = fleet.at(slot(place)).expect("rows are there");
            &*known.cluster
        };
        let is_tainted = |place: usize| fleet.is_tainted(slot(place));
        let says = |wanted: &AddOnScore, place: usize| {
            let column = self.said.iter().find(|(it, _)| it == wanted);
            column.and_then(|(_, column)| column[rows[place]])
        };
        let load = |place: usize| {
            let slot = slot(place);
            let all = fleet.load(slot);
            if own.has(slot) {
                let own = of_own.binary_search_by_key(&slot, |(it, _)| *it);
                all.saturating_sub(own.map_or(0, |it| of_own[it].1))
            } else {
                all
            }
        };
        let contest = Contest {
            placement,
            now: context.now,
            has: (0..rows.len()).map(|it| own.has(slot(it))).collect(),
            load: if self.needs.load {
                (0..rows.len()).map(load).collect()
            } else {
                Vec::new()
            },
            load_max: context.load_max,
            amounts: if self.needs.allocatable {
                rows.iter().map(|it| self.amounts[*it]).collect()
            } else {
                Vec::new()
            },
            says: &says,
            name: &name,
            is_tainted: &is_tainted,
            cluster: &cluster,
        };
        match settle::settle(&contest) {
            Ok(settled) => choice.settled(name, settled, placement.spec.number_of_clusters),
            Err((plugin, message)) => {
                choice.outcome = ChoiceOutcome::Misconfigured { plugin, message };
                choice
            }
        }
    }
}

/// One who may know the answers for a cluster in a state.
trait Remembers: ExpressionEvaluator {
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

impl ExpressionEvaluator for Unasked {
    fn all_true(&mut self, expressions: &[Expression], cluster: &ManagedCluster) -> Result<bool, String> {
        NoEvaluator.all_true(expressions, cluster)
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

/// What expressions said of clusters, by expression and state of the cluster: placements of one fleet ask the same
/// again and again. Engines are kept too: making one costs more than asking it.
struct Answers {
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
    fn new(scores: Arc<RwLock<Scores>>) -> Self {
        Self {
            scores: Arc::new(move |cluster, name| scores.read().of(cluster, name).cloned()),
            engines: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Forgets everything.
    fn clear(&self) {
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

impl ExpressionEvaluator for Remembered<'_> {
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
