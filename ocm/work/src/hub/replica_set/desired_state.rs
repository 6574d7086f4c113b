//! What a ManifestWorkReplicaSet wants, against what there is: plain functions of what was seen.
//!
//! Every cluster has one work of a set, whatever number of its placements choose it: that of the first placement in the
//! order of the spec. Upstream makes one for each placement, loses sight of all but one of them, and makes new ones for
//! ever; and while a change reaches one placement before the other, its two works would undo each other's on the
//! cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use ocm_api::{
    annotations,
    cluster::{Placement, PlacementDecision},
    work::{LocalPlacementReference, ManifestWorkReplicaSet, ManifestWorkSpec},
};
use placement::rollout::{Existing, Group, Rollout, RolloutState, admit, groups};

use super::{
    fingerprint::Fingerprint,
    names,
    revision::{self, Template, TemplateInUse},
    rounds::EarlierRounds,
    works_by_set::Member,
};

/// Everything that is known of a set.
#[derive(Default)]
pub struct Seen {
    /// Its namespace and name, as `namespace/name`.
    pub key: String,
    /// The time.
    pub now: Timestamp,
    /// The set; `None` when it is gone.
    pub set: Option<Arc<ManifestWorkReplicaSet>>,
    /// Its placements, in the order of its spec.
    pub placements: Vec<PlacementWithDecisions>,
    /// Its works, by cluster and name.
    pub members: Vec<Member>,
    /// The templates it had; `None` where nobody may keep them.
    pub revisions: Option<Vec<Arc<ControllerRevision>>>,
    /// The clusters where somebody else's work has the name of ours.
    pub strangers: BTreeSet<String>,
    /// What the rounds of this run have come to so far.
    pub earlier: EarlierRounds,
}

/// A placement and its decisions.
#[derive(Clone, Default)]
pub struct PlacementWithDecisions {
    /// The placement; `None` when there is none.
    pub placement: Option<Arc<Placement>>,
    /// Its decisions, by name.
    pub decisions: Vec<Arc<PlacementDecision>>,
}

impl PlacementWithDecisions {
    /// A placement, and its decisions among those of its namespace.
    pub fn of(placement: Option<Arc<Placement>>, decisions: &[Arc<PlacementDecision>], name: &str) -> Self {
        let is_its = |it: &&Arc<PlacementDecision>| {
            let label = it.labels().get(ocm_api::labels::PLACEMENT);
            label.is_some_and(|it| it == name)
        };
        Self {
            placement,
            decisions: decisions.iter().filter(is_its).cloned().collect(),
        }
    }
}

/// What the set wants.
pub struct DesiredState<'s> {
    /// The set.
    pub set: &'s ManifestWorkReplicaSet,
    /// What its works shall say.
    pub template: Template<'s>,
    /// Its placements, in the order of its spec.
    pub places: Vec<DesiredPlacement<'s>>,
    /// Which placement each chosen cluster belongs to.
    pub places_by_cluster: BTreeMap<&'s str, usize>,
    /// The work that each cluster keeps, those included that no placement chooses.
    pub kept: BTreeMap<&'s str, &'s Member>,
    /// Works beside those that are kept.
    pub spare: Vec<&'s Member>,
    /// Works that are being deleted, by cluster.
    pub leaving: BTreeSet<&'s str>,
    /// Whether the template is to reach no further cluster for now.
    pub is_paused: bool,
}

/// A placement of a set.
pub struct DesiredPlacement<'s> {
    /// The set's word.
    pub reference: &'s LocalPlacementReference,
    /// The placement.
    pub placement: Option<&'s Placement>,
    /// Its decision groups, without the clusters that another placement before it has.
    pub groups: Vec<Group<'s>>,
    /// How many clusters that is.
    pub clusters: usize,
    /// Why its clusters are left as they are, if they are.
    pub problem: Option<PlacementProblem>,
}

/// Why the clusters of a placement are left as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementProblem {
    /// There is no such placement.
    Missing,
    /// Its decisions or the strategy cannot be read.
    Unreadable(String),
    /// It has fewer decisions than it counts: somebody deletes them or is writing them. What they name goes on.
    Incomplete,
}

impl<'s> DesiredState<'s> {
    /// Of what was seen.
    pub fn of(set: &'s ManifestWorkReplicaSet, seen: &'s Seen) -> Self {
        let mut places_by_cluster = BTreeMap::new();
        let references = set.spec.placement_refs.iter().zip(&seen.placements);
        let places: Vec<_> = references
            .enumerate()
            .map(|(position, (reference, chosen))| place(position, reference, chosen, &mut places_by_cluster))
            .collect();
        let template = revision::template(set, seen.revisions.as_deref());
        // Who wants to go back does not want the template to go any further while nobody knows what was before.
        let is_stuck = template.is == TemplateInUse::Unkept;
        let mut desired = Self {
            set,
            template,
            places,
            places_by_cluster,
            kept: BTreeMap::new(),
            spare: Vec::new(),
            leaving: BTreeSet::new(),
            is_paused: names::says(set, annotations::ROLLOUT_PAUSED) || is_stuck,
        };
        for member in &seen.members {
            if member.is_leaving() {
                desired.leaving.insert(member.cluster());
            } else if let Some(present) = desired.kept.get_mut(member.cluster()) {
                let wanted = desired.places_by_cluster.get(member.cluster());
                let wanted = wanted.map(|it| desired.places[*it].reference.name.as_str());
                let rank = |it: &Member| {
                    let made = it.work.metadata.creation_timestamp.as_ref().map(|it| it.0);
                    (wanted != Some(it.placement()), made)
                };
                let worse = if rank(member) < rank(present) {
                    std::mem::replace(present, member)
                } else {
                    member
                };
                desired.spare.push(worse);
            } else {
                desired.kept.insert(member.cluster(), member);
            }
        }
        desired
    }

    /// Whose turn it is at one of the placements. An error when nobody can tell.
    pub fn rollout(&self, place: &'s DesiredPlacement<'s>, seen: &'s Seen) -> Result<Rollout<'s>, String> {
        let clusters = place.groups.iter().flat_map(|it| &it.clusters);
        let existing = clusters.filter_map(|it| {
            if seen.strangers.contains(*it) {
                let status = RolloutState::Skip;
                return Some((*it, Existing { status, since: None }));
            }
            // A work that says something else does not have the change.
            let kept = self.kept.get(it)?;
            (kept.spec == self.template.fingerprint).then_some((*it, kept.existing))
        });
        let strategy = &place.reference.rollout_strategy;
        admit(strategy, &place.groups, existing, seen.now).map_err(|error| error.to_string())
    }

    /// Whether a cluster has what its work shall say.
    pub fn has(&self, cluster: &str) -> bool {
        let kept = self.kept.get(cluster);
        kept.is_some_and(|it| it.spec == self.template.fingerprint)
    }

    /// Whether a work may go for which no placement asks any more.
    pub fn may_go(&self, member: &Member) -> bool {
        let is_missing = |it: &DesiredPlacement<'_>| it.problem == Some(PlacementProblem::Missing);
        let own = self.places.iter().find(|it| it.reference.name == member.placement());
        // While decisions are being rewritten a cluster may be in none of them for a moment.
        let settled = self.places.iter().all(|it| it.problem.is_none() || is_missing(it));
        settled && !own.is_some_and(is_missing)
    }

    /// How many clusters there are.
    pub fn clusters(&self) -> usize {
        self.places_by_cluster.len()
    }

    /// Whether anybody waits for a turn.
    pub fn waits(&self, seen: &Seen) -> bool {
        let mut readable = self.places.iter().filter(|it| it.is_readable());
        readable.any(|place| {
            let mut clusters = place.groups.iter().flat_map(|it| &it.clusters);
            clusters.any(|it| !self.has(it) && !seen.strangers.contains(*it))
        })
    }

    /// What its works shall say.
    pub fn spec(&self) -> &ManifestWorkSpec {
        &self.template.spec
    }

    /// The fingerprint of that.
    pub fn fingerprint(&self) -> Fingerprint {
        self.template.fingerprint
    }
}

fn place<'s>(
    position: usize,
    reference: &'s LocalPlacementReference,
    chosen: &'s PlacementWithDecisions,
    places_by_cluster: &mut BTreeMap<&'s str, usize>,
) -> DesiredPlacement<'s> {
    let mut place = DesiredPlacement {
        reference,
        placement: chosen.placement.as_deref(),
        groups: Vec::new(),
        clusters: 0,
        problem: None,
    };
    let Some(placement) = place.placement.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        place.problem = Some(PlacementProblem::Missing);
        return place;
    };
    match groups(chosen.decisions.iter().map(|it| &**it)) {
        Ok(groups) => place.groups = groups,
        Err(error) => {
            place.problem = Some(PlacementProblem::Unreadable(error.to_string()));
            return place;
        }
    }
    // Asked about nobody, the rules say whether they can be read.
    if let Err(error) = admit(&reference.rollout_strategy, &[], [], Timestamp::UNIX_EPOCH) {
        place.problem = Some(PlacementProblem::Unreadable(error.to_string()));
    }
    let mut named = BTreeSet::new();
    for group in &mut place.groups {
        group.clusters.retain(|cluster| {
            named.insert(*cluster) && *places_by_cluster.entry(cluster).or_insert(position) == position
        });
        place.clusters += group.clusters.len();
    }
    let status = placement.status.as_ref();
    let counted = status.map_or(0, |it| it.number_of_selected_clusters);
    if place.problem.is_none() && usize::try_from(counted).is_ok_and(|it| named.len() < it) {
        place.problem = Some(PlacementProblem::Incomplete);
    }
    place
}

impl DesiredPlacement<'_> {
    /// How many decision groups the placement says it has.
    pub fn decision_groups(&self) -> usize {
        let status = self.placement.and_then(|it| it.status.as_ref());
        status.map_or(0, |it| it.decision_groups.len())
    }

    /// Whether the rollout goes on here.
    pub fn is_readable(&self) -> bool {
        matches!(self.problem, None | Some(PlacementProblem::Incomplete))
    }
}
