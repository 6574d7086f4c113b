//! Choosing clusters: everything a placement depends on goes in as a [`SelectionInput`], and the choice comes out as a
//! [`Selection`], with what became of every cluster. Nothing here knows a clock or an API server.
//!
//! Upstream: ocm `pkg/placement/controllers/scheduling`, `pkg/placement/plugins`. The algorithm, its formulas and its
//! messages are upstream's. We differ where upstream is unsafe:
//!
//! 1. A placement that makes no sense keeps the decisions it has; upstream empties them.
//! 2. A negative `numberOfClusters` makes no sense; upstream panics.
//! 3. A bound set that has just gone missing keeps its clusters for half a minute ([`scope::HOLD`]).
//! 4. A binding, or the scores of a cluster, that were there a moment ago count for a moment more
//!    ([`scope::HOLD_BINDING`], [`scope::HOLD`]).
//! 5. Scores are looked at again in the moment in which they become too old, and once;
//!    upstream notices by chance and then retries for ever.
//! 6. Of several tolerations of one taint the longest says when to look again, not the first.

pub mod cel;
pub mod choice;
mod conditions;
pub mod explain;
pub mod fleet;
pub mod groups;
pub(crate) mod members;
pub mod memo;
pub(crate) mod predicates;
pub mod prioritize;
pub mod scope;
mod scores;
pub mod sections;
pub(crate) mod settle;
pub mod slots;
pub mod steps;
pub mod taint;

#[cfg(test)]
mod memo_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
pub(crate) mod tests;

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::cluster::{
    AddOnScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, ScoreCoordinateType,
};

use cel::Engine;
pub use choice::{Choice, Failing};
pub use conditions::{conditions, taken, unwritten};
use groups::DecidedGroup;
pub use ocm_api::selector;
pub(crate) use predicates::claim;
use predicates::{ExpressionEvaluator, Fresh, Judgement, NoEvaluator, Predicates};
use prioritize::Prioritizer;
use scope::{EligibleSets, Membership};
pub use scores::Scores;
use settle::{Contest, Misconfigured, earliest};

/// Everything a placement's choice depends on.
#[derive(Clone)]
pub struct SelectionInput {
    /// The time.
    pub now: Timestamp,
    /// The placement.
    pub placement: Arc<Placement>,
    /// The bindings of its namespace.
    pub bindings: Vec<Arc<ManagedClusterSetBinding>>,
    /// Bindings that have just gone missing, each with the time until which it counts.
    pub lost_bindings: Vec<(Arc<ManagedClusterSetBinding>, Timestamp)>,
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
pub enum ChoiceOutcome {
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
    pub result: CandidateResult,
}

/// How far a cluster came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateResult {
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
    pub scope: EligibleSets,
    /// How it went.
    pub outcome: ChoiceOutcome,
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
    /// The clusters that might match, but that an expression cannot be asked of.
    pub failing: Option<Failing>,
    /// `namespace/name` of scores that have just gone missing and count for now.
    pub held_scores: Vec<String>,
    /// When the choice may change even if nothing happens.
    pub recheck_at: Option<Timestamp>,
}

/// Chooses.
pub fn select(world: &SelectionInput) -> Selection<'_> {
    let placement = &*world.placement;
    let spec = &placement.spec;
    let exists = |name: &str| world.sets.iter().any(|it| it.metadata.name.as_deref() == Some(name));
    let bindings = world.bindings.iter().map(|it| &**it);
    let lost = world.lost_bindings.iter().map(|(it, until)| (&**it, *until));
    let scope = EligibleSets::of(placement, bindings, lost, exists, world.now);
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
                result: CandidateResult::NoPredicate,
            });
        }
    }
    let any_held = candidates.iter().any(|it| it.held);
    let mut selection = Selection {
        recheck_at: scope.held_until.filter(|_| any_held),
        scope,
        outcome: ChoiceOutcome::Success,
        candidates,
        ranking: Ranking::default(),
        groups: Vec::new(),
        chosen: 0,
        unscheduled: 0,
        failing: None,
        held_scores: Vec::new(),
    };
    for (cluster, name, until) in world.scores.held() {
        let counts = |it: &Candidate<'_>| it.cluster.metadata.name.as_deref() == Some(cluster);
        let asked = || {
            let needs = Needs::of(placement);
            needs.any_score || needs.scores.contains(name)
        };
        if selection.candidates.iter().any(counts) && asked() {
            selection.held_scores.push(format!("{cluster}/{name}"));
            selection.recheck_at = earliest(selection.recheck_at, Some(until));
        }
    }
    if let Err((plugin, message)) = choose(world, &places, &mut selection) {
        selection.outcome = ChoiceOutcome::Misconfigured { plugin, message };
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

fn choose<'a>(world: &'a SelectionInput, places: &[usize], selection: &mut Selection<'a>) -> Result<(), Misconfigured> {
    settle::number(&world.placement)?;
    let engine = has_expressions(&world.placement).then(|| Engine::new(world.scores.clone()));
    let mut asked = evaluator_of(engine.as_ref());
    let predicates = Predicates::of(&world.placement, || {
        engine.as_ref().expect("there is one when there are expressions")
    });
    let predicates = predicates.map_err(|message| ("Predicate", message))?;
    let mut matching = Vec::new();
    for (place, it) in selection.candidates.iter().enumerate() {
        match predicates.judge(it.cluster, &mut *asked) {
            Judgement::Matches => matching.push(place),
            Judgement::Differs => {}
            Judgement::Fails(error) => Failing::count(&mut selection.failing, it.cluster, error),
        }
    }
    let needs = Needs::of(&world.placement);
    let clusters: Vec<&'a ManagedCluster> = matching.iter().map(|it| selection.candidates[*it].cluster).collect();
    let name = |place: usize| clusters[place].metadata.name.as_deref().unwrap_or_default();
    let cluster = |place: usize| clusters[place];
    let is_tainted = |place: usize| !clusters[place].spec.taints.is_empty();
    let says = |wanted: &AddOnScore, place: usize| prioritize::said(&world.scores, name(place), wanted);
    let contest = Contest {
        placement: &world.placement,
        now: world.now,
        has: (0..clusters.len()).map(|it| world.has.contains(name(it))).collect(),
        load: matching
            .iter()
            .map(|it| world.load.get(places[*it]).copied().unwrap_or_default())
            .collect(),
        load_max: world.load_max,
        amounts: if needs.allocatable {
            clusters.iter().map(|it| prioritize::amounts(it)).collect()
        } else {
            Vec::new()
        },
        says: &says,
        name: &name,
        is_tainted: &is_tainted,
        cluster: &cluster,
    };
    let settled = settle::settle(&contest)?;
    for (place, result) in matching.into_iter().zip(settled.results) {
        selection.candidates[place].result = result;
    }
    selection.outcome = settled.outcome;
    selection.ranking = settled.ranking;
    selection.groups = settled.groups;
    selection.chosen = settled.chosen;
    selection.recheck_at = earliest(selection.recheck_at, settled.recheck_at);
    Ok(())
}

pub(crate) fn evaluator_of<'e>(engine: Option<&'e Engine>) -> Box<dyn ExpressionEvaluator + 'e> {
    match engine {
        Some(engine) => Box::new(Fresh::new(engine)),
        None => Box::new(NoEvaluator),
    }
}
