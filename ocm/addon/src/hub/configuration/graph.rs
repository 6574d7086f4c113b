//! Who belongs to which placement, how far each is, and who may take the configuration now.
//! Upstream: ocm `pkg/addon/controllers/addonconfiguration/graph.go`.
//!
//! We differ in two things. A placement that does not exist chooses nothing, and the others go on; upstream stops the
//! whole add-on. The sizes of a rollout are those of the clusters that a placement has for itself: clusters that a
//! later placement takes over neither count nor keep a mandatory group waiting.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use ocm_api::{
    addon::{
        InstallProgression, PlacementStrategy,
        v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    },
    cluster::{Placement, RolloutStrategy, RolloutType},
    condition,
    conditions::managed_cluster_add_on::{self, progressing_reason},
};
use placement::rollout::{self, ClusterRollout, Existing, Group, Rollout, RolloutState, Turn};

use super::desired::{self, Desired};
use crate::hub::{facts, placements::InstallPlacement};

/// Everything that is decided for one add-on at one moment.
pub struct Graph<'a> {
    /// One for each placement, in the order of the spec.
    pub nodes: Vec<PlacementNode<'a>>,
    /// One for each add-on, by cluster.
    pub add_ons: BTreeMap<&'a str, InstalledAddOn<'a>>,
}

/// One placement.
pub struct PlacementNode<'a> {
    /// How many clusters it chose.
    pub selected: usize,
    /// How many of them no later placement takes over.
    pub effective: usize,
    /// What is rolled out, or why nothing can be.
    pub rollout: Result<Rollout<'a>, String>,
}

/// One add-on on a cluster.
pub struct InstalledAddOn<'a> {
    /// The add-on.
    pub addon: &'a ManagedClusterAddOn,
    /// The position of its placement; none when it has none.
    pub node: Option<usize>,
    /// The configuration that is meant for it.
    pub desired: Cow<'a, Desired>,
    /// How far it is.
    pub progress: Existing,
}

/// What holds on the clusters of each placement, and on clusters without one.
pub struct Inherited {
    defaults: Desired,
    placements: Vec<Desired>,
}

impl Inherited {
    /// From the status of an add-on.
    pub fn of(offer: &ClusterManagementAddOn) -> Self {
        let defaults = desired::defaults(offer);
        let progressions = progressions(offer).iter();
        let placements = progressions.map(|it| desired::of_placement(&defaults, it)).collect();
        Self { defaults, placements }
    }
}

/// The progressions, one for each placement of the spec.
pub fn progressions(offer: &ClusterManagementAddOn) -> &[InstallProgression] {
    offer.status.as_ref().map_or(&[], |it| &it.install_progressions)
}

impl<'a> Graph<'a> {
    /// Decides. `chosen` has an entry for each placement of the spec, in its order, as `inherited` has.
    pub fn of(
        offer: &'a ClusterManagementAddOn,
        inherited: &'a Inherited,
        chosen: &'a [InstallPlacement],
        addons: impl IntoIterator<Item = &'a ManagedClusterAddOn>,
        now: Timestamp,
    ) -> Self {
        let groups: Vec<_> = chosen.iter().map(groups).collect();
        // A cluster that several placements chose belongs to the last one listed.
        let mut owner: HashMap<&'a str, usize> = HashMap::new();
        for (position, groups) in groups.iter().enumerate() {
            owner.extend(groups.clusters.iter().map(|it| (*it, position)));
        }
        let mut add_ons = BTreeMap::new();
        for addon in addons {
            let node = owner.get(facts::cluster(addon)).copied();
            let of_node = node.map_or(&inherited.defaults, |it| &inherited.placements[it]);
            let desired = desired::of_addon(of_node, addon);
            let progress = progress(addon, &desired);
            let add_on = InstalledAddOn {
                addon,
                node,
                desired,
                progress,
            };
            add_ons.insert(facts::cluster(addon), add_on);
        }
        let mut existing: Vec<Vec<(&'a str, Existing)>> = vec![Vec::new(); groups.len()];
        for (cluster, add_on) in &add_ons {
            existing[..]
                .get_mut(add_on.node.unwrap_or(usize::MAX))
                .into_iter()
                .for_each(|it| it.push((*cluster, add_on.progress)));
        }
        let strategies = &offer.spec.install_strategy.placements;
        let nodes = groups.into_iter().zip(existing).zip(strategies).zip(chosen).enumerate();
        let nodes = nodes.map(|(position, (((groups, existing), strategy), chosen))| {
            let selected = groups.clusters.len();
            let own = |cluster: &&str| owner.get(cluster) == Some(&position);
            let effective = groups.clusters.iter().filter(|it| own(it)).count();
            let rollout = groups.groups.and_then(|mut groups| {
                groups.iter_mut().for_each(|it| it.clusters.retain(own));
                let strategy = strategy_of(strategy, chosen.placement.as_deref());
                rollout::admit(&strategy, &groups, existing, now).map_err(|it| it.to_string())
            });
            PlacementNode {
                selected,
                effective,
                rollout,
            }
        });
        Self {
            nodes: nodes.collect(),
            add_ons,
        }
    }

    /// What an add-on may do. Clusters without placement take everything at once.
    pub fn turn(&self, add_on: &InstalledAddOn<'a>) -> Option<Turn> {
        match add_on.node {
            None if add_on.progress.status == RolloutState::Succeeded => Some(Turn::Done),
            None if add_on.progress.status == RolloutState::ToApply => Some(Turn::Start),
            None => Some(Turn::InFlight { until: None }),
            Some(_) => self.verdict(add_on).map(|it| it.turn),
        }
    }

    /// What its placement says about an add-on.
    pub fn verdict(&self, add_on: &InstalledAddOn<'a>) -> Option<&ClusterRollout<'a>> {
        self.nodes[add_on.node?]
            .rollout
            .as_ref()
            .ok()?
            .of(facts::cluster(add_on.addon))
    }

    /// When to decide again even if nothing happens.
    pub fn recheck_after(&self) -> Option<Duration> {
        let rollouts = self.nodes.iter().filter_map(|it| it.rollout.as_ref().ok());
        rollouts.filter_map(|it| it.recheck_after).min()
    }
}

/// How many add-ons of a placement are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutCounts {
    /// In the rollout.
    pub progressing: usize,
    /// Done with it.
    pub done: usize,
    /// Failed and out of it.
    pub failed: usize,
    /// Timed out.
    pub timed_out: usize,
}

impl Graph<'_> {
    /// The counts of each placement, in one pass.
    pub fn counts(&self) -> Vec<RolloutCounts> {
        let mut counts = vec![RolloutCounts::default(); self.nodes.len()];
        for add_on in self.add_ons.values() {
            let (Some(node), Some(turn)) = (add_on.node, self.turn(add_on)) else {
                continue;
            };
            let count = &mut counts[node];
            match (turn, add_on.progress.status) {
                (Turn::TimesOut | Turn::GaveUp, _) => count.timed_out += 1,
                (turn, _) if turn.is_in_rollout() => count.progressing += 1,
                (_, RolloutState::Succeeded) => count.done += 1,
                (_, RolloutState::Failed) => count.failed += 1,
                _ => {}
            }
        }
        counts
    }
}

struct Groups<'a> {
    clusters: BTreeSet<&'a str>,
    groups: Result<Vec<Group<'a>>, String>,
}

fn groups(chosen: &InstallPlacement) -> Groups<'_> {
    let decisions = chosen.placement.iter().flat_map(|_| &chosen.decisions);
    Groups {
        // Also of decisions that cannot be read: their clusters wait, rather than fall back to the defaults.
        clusters: chosen.chosen(),
        groups: rollout::groups(decisions.map(|it| &**it)).map_err(|it| it.to_string()),
    }
}

/// The strategy, with the placement's group size where a progressive one names no number of clusters.
fn strategy_of<'a>(strategy: &'a PlacementStrategy, placement: Option<&Placement>) -> Cow<'a, RolloutStrategy> {
    let strategy = &strategy.rollout_strategy;
    let named = strategy.progressive.as_ref().and_then(|it| it.max_concurrency.as_ref());
    let is_unset = match named {
        None | Some(IntOrString::Int(0)) => true,
        Some(IntOrString::String(text)) => text.is_empty(),
        Some(IntOrString::Int(_)) => false,
    };
    if strategy.r#type != RolloutType::Progressive || !is_unset {
        return Cow::Borrowed(strategy);
    }
    let size = placement.and_then(|it| {
        it.spec
            .decision_strategy
            .group_strategy
            .clusters_per_decision_group
            .clone()
    });
    let mut strategy = strategy.clone();
    strategy.progressive.get_or_insert_default().max_concurrency = size;
    Cow::Owned(strategy)
}

/// How far an add-on is with the configuration that is meant for it.
fn progress(addon: &ManagedClusterAddOn, desired: &Desired) -> Existing {
    let references = facts::references(addon);
    if !desired::is_told(desired, references) {
        return Existing {
            status: RolloutState::ToApply,
            since: None,
        };
    }
    let progressing = condition::find(facts::conditions(addon), managed_cluster_add_on::PROGRESSING);
    let since = |reason: &str| {
        progressing
            .filter(|it| it.reason == reason)
            .map(|it| it.last_transition_time.0)
    };
    if references.iter().all(|it| it.last_applied_config == it.desired_config) {
        return Existing {
            status: RolloutState::Succeeded,
            since: since(progressing_reason::COMPLETED),
        };
    }
    if progressing.is_some_and(|it| it.reason == progressing_reason::FAILED) {
        return Existing {
            status: RolloutState::Failed,
            since: since(progressing_reason::FAILED),
        };
    }
    Existing {
        status: RolloutState::Progressing,
        since: since(progressing_reason::PROGRESSING),
    }
}
