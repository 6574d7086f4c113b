//! Choosing clusters: everything a placement depends on goes in as a [`World`], and the choice comes out as a [`Selection`],
//! with what became of every cluster. Nothing here knows a clock or an API server.
//!
//! Upstream: ocm `pkg/placement/controllers/scheduling`, `pkg/placement/plugins`. The algorithm, its formulas and its
//! messages are upstream's. We differ where upstream is unsafe:
//!
//! 1. A placement that makes no sense keeps the decisions it has; upstream empties them.
//! 2. A negative `numberOfClusters` makes no sense; upstream panics.
//! 3. A bound set that has just gone missing keeps its clusters for half a minute ([`scope::HOLD`]).
//! 4. Scores are looked at again in the moment in which they become too old, and once; upstream notices by chance and then
//!    retries for ever.
//! 5. Of several tolerations of one taint the longest says when to look again, not the first.

pub mod cel;
pub mod explain;
pub mod groups;
pub mod prioritize;
pub mod quantity;
pub mod scope;
pub mod taint;
mod verdict;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::cluster::{
    AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, ScoreCoordinateType,
};

use cel::{Engine, Expression};
use groups::DecidedGroup;
pub use ocm_api::selector;
use prioritize::{Field, Prioritizer};
use scope::{Membership, Scope};
use selector::Selector;
use taint::Tolerated;
pub use verdict::{conditions, taken};

/// Everything a placement's choice depends on.
#[derive(Clone)]
pub struct World {
    /// The time.
    pub now: Timestamp,
    /// The placement.
    pub placement: Arc<Placement>,
    /// The bindings of its namespace.
    pub bindings: Vec<Arc<ManagedClusterSetBinding>>,
    /// The sets that these name, and maybe others.
    pub sets: Vec<Arc<ManagedClusterSet>>,
    /// All clusters of the hub, by name.
    pub clusters: Vec<Arc<ManagedCluster>>,
    /// The clusters that the placement's decisions name now.
    pub has: BTreeSet<String>,
    /// How often other placements use each of `clusters`; may be empty when [`Needs::load`] says that nobody asks.
    pub load: Vec<u32>,
    /// The highest number of other placements' decisions that name one cluster, whether it still exists or not.
    pub load_max: u32,
    /// What add-ons say of the clusters.
    pub scores: Arc<Scores>,
}

/// AddOnPlacementScores by cluster.
#[derive(Debug, Default)]
pub struct Scores {
    by_cluster: HashMap<String, Vec<Arc<AddOnPlacementScore>>>,
}

impl Scores {
    /// These scores.
    pub fn of_all(scores: impl IntoIterator<Item = Arc<AddOnPlacementScore>>) -> Self {
        let mut all = Self::default();
        for it in scores {
            all.by_cluster
                .entry(it.namespace().unwrap_or_default())
                .or_default()
                .push(it);
        }
        all
    }

    /// One cluster's score object of this name.
    pub fn of(&self, cluster: &str, name: &str) -> Option<&AddOnPlacementScore> {
        let scores = self.by_cluster.get(cluster)?;
        scores
            .iter()
            .find(|it| it.metadata.name.as_deref() == Some(name))
            .map(|it| &**it)
    }
}

/// What of the world a placement looks at, so that nobody need fetch more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The labels it asks for.
    pub labels: BTreeSet<String>,
    /// The claims it asks for.
    pub claims: BTreeSet<String>,
    /// The AddOnPlacementScores it asks for.
    pub scores: BTreeSet<String>,
    /// Whether its expressions ask for scores, of which nobody knows the names.
    pub any_score: bool,
    /// Whether it may look at anything of a cluster.
    pub anything: bool,
    /// Whether it looks at what clusters have to give.
    pub allocatable: bool,
    /// Whether it looks at the decisions of other placements.
    pub load: bool,
}

impl Needs {
    /// What this placement looks at.
    pub fn of(placement: &Placement) -> Self {
        let spec = &placement.spec;
        let mut needs = Self::default();
        let labels = spec
            .predicates
            .iter()
            .map(|it| &it.required_cluster_selector.label_selector)
            .chain(groups_of(placement).map(|it| &it.label_selector));
        for it in labels {
            needs
                .labels
                .extend(it.match_labels.iter().flatten().map(|(key, _)| key.clone()));
            needs
                .labels
                .extend(it.match_expressions.iter().flatten().map(|it| it.key.clone()));
        }
        let claims = spec
            .predicates
            .iter()
            .map(|it| &it.required_cluster_selector.claim_selector)
            .chain(groups_of(placement).map(|it| &it.claim_selector));
        for it in claims {
            needs
                .claims
                .extend(it.match_expressions.iter().map(|it| it.key.clone()));
        }
        needs.anything = has_expressions(placement);
        for it in &spec.predicates {
            let expressions = &it.required_cluster_selector.cel_selector.cel_expressions;
            needs.any_score |= expressions.iter().any(|it| it.contains("scores"));
        }
        for (prioritizer, _) in prioritize::weights(&spec.prioritizer_policy).unwrap_or_default() {
            match prioritizer {
                Prioritizer::Balance => needs.load = true,
                Prioritizer::Steady => {}
                Prioritizer::AllocatableCpu | Prioritizer::AllocatableMemory => needs.allocatable = true,
                Prioritizer::AddOn(it) => {
                    needs.scores.insert(it.resource_name.clone());
                }
            }
        }
        let named = spec
            .prioritizer_policy
            .configurations
            .iter()
            .map(|it| &it.score_coordinate);
        let named = named.filter(|it| it.r#type == ScoreCoordinateType::AddOn);
        needs
            .scores
            .extend(named.filter_map(|it| Some(it.add_on.as_ref()?.resource_name.clone())));
        needs
    }
}

fn groups_of(placement: &Placement) -> impl Iterator<Item = &ocm_api::cluster::GroupClusterSelector> {
    let groups = &placement.spec.decision_strategy.group_strategy.decision_groups;
    groups.iter().map(|it| &it.group_cluster_selector)
}

/// How a choice went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Success,
    /// Well, but somebody should look.
    Warning {
        /// Which part says so.
        plugin: String,
        /// What it says.
        message: String,
    },
    /// The placement makes no sense; nothing was chosen.
    Misconfigured {
        /// Which part says so; empty for the placement's own fields, as upstream has it.
        plugin: &'static str,
        /// What it says.
        message: String,
    },
}

/// What became of a cluster that the placement may choose from.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// The cluster.
    pub cluster: &'a ManagedCluster,
    /// Whether it is here only because its set has just gone missing.
    pub held: bool,
    /// How far it came.
    pub fate: Fate,
}

/// How far a cluster came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It matches no predicate.
    NoPredicate,
    /// This one of its taints is not tolerated.
    Tainted {
        /// Its place in `spec.taints`.
        taint: usize,
    },
    /// It fits.
    Fits {
        /// Its place in [`Ranking::totals`] and in every prioritizer's scores.
        place: usize,
        /// Whether it was chosen.
        chosen: bool,
    },
}

/// The scores of the clusters that fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking<'a> {
    /// Each prioritizer with its weight and the scores it gives, in the order of the clusters that fit.
    pub prioritizers: Vec<(Prioritizer<'a>, i64, Vec<i64>)>,
    /// The sums of weight times score.
    pub totals: Vec<i64>,
}

/// A choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection<'a> {
    /// Which sets counted.
    pub scope: Scope,
    /// How it went.
    pub outcome: Outcome,
    /// Every cluster of the scope, by name.
    pub candidates: Vec<Candidate<'a>>,
    /// How those that fit were ranked.
    pub ranking: Ranking<'a>,
    /// The groups of the chosen clusters; at least one, unless the placement is misconfigured.
    pub groups: Vec<DecidedGroup<'a>>,
    /// How many clusters were chosen.
    pub chosen: usize,
    /// How many more are wanted than there are.
    pub unscheduled: usize,
    /// When the choice may change even if nothing happens.
    pub recheck_at: Option<Timestamp>,
}

/// Chooses.
pub fn select(world: &World) -> Selection<'_> {
    let placement = &*world.placement;
    let spec = &placement.spec;
    let exists = |name: &str| world.sets.iter().any(|it| it.metadata.name.as_deref() == Some(name));
    let scope = Scope::of(placement, world.bindings.iter().map(|it| &**it), exists, world.now);
    let eligible = world.sets.iter().filter(|it| scope.eligible.contains(&it.name_any()));
    let membership = Membership::of(eligible.map(|it| &**it));
    let mut places = Vec::new();
    let mut candidates = Vec::new();
    for (place, cluster) in world.clusters.iter().enumerate() {
        if cluster.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let member = membership.has(cluster);
        let held = !member
            && !scope.missing.is_empty()
            && world.has.contains(cluster.metadata.name.as_deref().unwrap_or_default());
        if member || held {
            places.push(place);
            candidates.push(Candidate {
                cluster,
                held,
                fate: Fate::NoPredicate,
            });
        }
    }
    let any_held = candidates.iter().any(|it| it.held);
    let mut selection = Selection {
        recheck_at: scope.held_until.filter(|_| any_held),
        scope,
        outcome: Outcome::Success,
        candidates,
        ranking: Ranking::default(),
        groups: Vec::new(),
        chosen: 0,
        unscheduled: 0,
    };
    let chosen = if has_expressions(placement) {
        cel::deeply(|| choose(world, &places, &mut selection))
    } else {
        choose(world, &places, &mut selection)
    };
    if let Err((plugin, message)) = chosen {
        selection.outcome = Outcome::Misconfigured { plugin, message };
        selection.groups.clear();
        selection.chosen = 0;
        return selection;
    }
    let number = spec.number_of_clusters.and_then(|it| usize::try_from(it).ok());
    selection.unscheduled = number.map_or(0, |it| it - selection.chosen);
    selection
}

pub(crate) fn has_expressions(placement: &Placement) -> bool {
    let selectors = placement.spec.predicates.iter().map(|it| &it.required_cluster_selector);
    selectors
        .into_iter()
        .any(|it| !it.cel_selector.cel_expressions.is_empty())
}

type Misconfigured = (&'static str, String);

fn choose<'a>(world: &'a World, places: &[usize], selection: &mut Selection<'a>) -> Result<(), Misconfigured> {
    let spec = &world.placement.spec;
    let number = match spec.number_of_clusters {
        Some(number) if number < 0 => return Err(("", "numberOfClusters should not be negative".to_owned())),
        Some(number) => number.unsigned_abs() as usize,
        None => usize::MAX,
    };
    let predicates = Predicates::of(world).map_err(|message| ("Predicate", message))?;
    for it in &mut selection.candidates {
        if predicates.any_matches(it.cluster) {
            it.fate = Fate::Fits {
                place: 0,
                chosen: false,
            };
        }
    }
    let fits = |it: &Candidate<'_>| matches!(it.fate, Fate::Fits { .. });
    if selection.candidates.iter().any(fits) {
        taint::check(&spec.tolerations).map_err(|message| ("TaintToleration", message))?;
    }
    let has: Vec<bool> = selection
        .candidates
        .iter()
        .map(|it| {
            world
                .has
                .contains(it.cluster.metadata.name.as_deref().unwrap_or_default())
        })
        .collect();
    for (it, has) in selection.candidates.iter_mut().zip(&has) {
        if !fits(it) {
            continue;
        }
        match taint::tolerates(&it.cluster.spec.taints, &spec.tolerations, *has, world.now) {
            Tolerated::Until(end) => selection.recheck_at = earliest(selection.recheck_at, end),
            Tolerated::Not(taint) => {
                let taint = it.cluster.spec.taints.iter().position(|it| std::ptr::eq(it, taint));
                it.fate = Fate::Tainted {
                    taint: taint.unwrap_or_default(),
                };
            }
        }
    }
    let weights = prioritize::weights(&spec.prioritizer_policy).map_err(|message| ("", message))?;
    let fitting: Vec<usize> = (0..selection.candidates.len())
        .filter(|it| fits(&selection.candidates[*it]))
        .collect();
    let field = Field {
        clusters: fitting.iter().map(|it| selection.candidates[*it].cluster).collect(),
        has: fitting.iter().map(|it| has[*it]).collect(),
        load: fitting
            .iter()
            .map(|it| world.load.get(places[*it]).copied().unwrap_or_default())
            .collect(),
        load_max: world.load_max,
        scores: &world.scores,
        now: world.now,
    };
    rank(selection, &field, weights);
    let totals = &selection.ranking.totals;
    let mut order: Vec<usize> = (0..fitting.len()).collect();
    // Candidates come by name, so that a stable sort leaves equals by name.
    order.sort_by_key(|it| std::cmp::Reverse(totals[*it]));
    order.truncate(number);
    order.sort_unstable();
    for (place, candidate) in fitting.iter().enumerate() {
        selection.candidates[*candidate].fate = Fate::Fits { place, chosen: false };
    }
    for place in &order {
        selection.candidates[fitting[*place]].fate = Fate::Fits {
            place: *place,
            chosen: true,
        };
    }
    let chosen: Vec<&ManagedCluster> = order.iter().map(|it| field.clusters[*it]).collect();
    selection.groups =
        groups::split(&spec.decision_strategy.group_strategy, &chosen).map_err(|message| ("", message))?;
    selection.chosen = chosen.len();
    Ok(())
}

fn rank<'a>(selection: &mut Selection<'a>, field: &Field<'_>, weights: Vec<(Prioritizer<'a>, i64)>) {
    let mut totals = vec![0i64; field.clusters.len()];
    for (prioritizer, weight) in weights {
        let given = prioritize::score(prioritizer, field);
        for (total, value) in totals.iter_mut().zip(&given.values) {
            *total += weight * value;
        }
        if !given.expired.is_empty() {
            selection.outcome = Outcome::Warning {
                plugin: prioritizer.to_string(),
                message: format!("AddOnPlacementScores {} expired", given.expired.join(" ")),
            };
        }
        // They count up to and including that time.
        let expiry = given
            .until
            .and_then(|it| it.checked_add(jiff::SignedDuration::from_millis(1)).ok());
        selection.recheck_at = earliest(selection.recheck_at, expiry);
        selection.ranking.prioritizers.push((prioritizer, weight, given.values));
    }
    selection.ranking.totals = totals;
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

/// The value of a cluster's claim. The last of several with one name counts.
pub(crate) fn claim<'c>(cluster: &'c ManagedCluster, name: &str) -> Option<&'c str> {
    let claims = &cluster.status.as_ref()?.cluster_claims;
    claims
        .iter()
        .rev()
        .find(|it| it.name == name)
        .map(|it| it.value.as_str())
}

/// The predicates of a placement, read.
pub(crate) struct Predicates {
    all: Vec<Predicate>,
    /// Only when an expression needs one: it is big.
    engine: Option<Engine>,
}

/// One predicate, read.
struct Predicate {
    labels: Selector,
    claims: Selector,
    expressions: Vec<Expression>,
}

/// Why a predicate does not match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    Label(String),
    Claim(String),
    Expression { text: String, error: Option<String> },
}

/// A cluster as its expressions see it, made when the first one asks.
type Seen = Option<kube_cel::cel::Value>;

impl Predicates {
    pub(crate) fn of(world: &World) -> Result<Self, String> {
        let predicates = &world.placement.spec.predicates;
        let mut read = Self {
            all: Vec::with_capacity(predicates.len()),
            engine: None,
        };
        for it in predicates {
            let wanted = &it.required_cluster_selector;
            let labels = Selector::of(&wanted.label_selector)?;
            let claims = Selector::of_expressions(&wanted.claim_selector.match_expressions)?;
            let mut expressions = Vec::new();
            for text in &wanted.cel_selector.cel_expressions {
                let engine = read.engine.get_or_insert_with(|| Engine::new(world.scores.clone()));
                expressions.push(engine.compile(text)?);
            }
            read.all.push(Predicate {
                labels,
                claims,
                expressions,
            });
        }
        Ok(read)
    }

    /// Without predicates every cluster matches.
    fn any_matches(&self, cluster: &ManagedCluster) -> bool {
        let mut seen = None;
        self.all.is_empty() || self.all.iter().any(|it| self.matches(it, cluster, &mut seen))
    }

    fn matches(&self, predicate: &Predicate, cluster: &ManagedCluster, seen: &mut Seen) -> bool {
        predicate.labels.matches(|key| label(cluster, key))
            && predicate.claims.matches(|key| claim(cluster, key))
            && self.ask(&predicate.expressions, cluster, seen) == Ok(true)
    }

    fn ask(&self, expressions: &[Expression], cluster: &ManagedCluster, seen: &mut Seen) -> Result<bool, String> {
        let Some(engine) = self.engine.as_ref().filter(|_| !expressions.is_empty()) else {
            return Ok(true);
        };
        let seen = seen.get_or_insert_with(|| {
            let resource = kube::core::ApiResource::erase::<ManagedCluster>(&());
            cel::from_json(&ocm_reconcile::plan::typed(cluster, &resource))
        });
        engine.all_true(expressions, seen)
    }

    /// Why each predicate does not match, in their order; empty when one does.
    pub(crate) fn unmet(&self, placement: &Placement, cluster: &ManagedCluster) -> Vec<Unmet> {
        let mut seen = None;
        if self.any_matches(cluster) {
            return Vec::new();
        }
        let texts = placement
            .spec
            .predicates
            .iter()
            .map(|it| &it.required_cluster_selector.cel_selector);
        self.all
            .iter()
            .zip(texts)
            .filter_map(|(it, texts)| {
                if let Some(unmet) = it.labels.unmet(|key| label(cluster, key)) {
                    return Some(Unmet::Label(unmet.to_string()));
                }
                if let Some(unmet) = it.claims.unmet(|key| claim(cluster, key)) {
                    return Some(Unmet::Claim(unmet.to_string()));
                }
                it.expressions
                    .iter()
                    .zip(&texts.cel_expressions)
                    .find_map(|(it, text)| {
                        let answer = self.ask(std::slice::from_ref(it), cluster, &mut seen);
                        (answer != Ok(true)).then(|| Unmet::Expression {
                            text: text.clone(),
                            error: answer.err(),
                        })
                    })
            })
            .collect()
    }
}

fn label<'c>(cluster: &'c ManagedCluster, key: &str) -> Option<&'c str> {
    cluster.labels().get(key).map(String::as_str)
}
