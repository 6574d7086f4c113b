//! What a ManifestWorkReplicaSet waits for, in sentences, made by the rules that the hub itself goes by.

use ocm_api::{
    annotations, finalizers,
    work::{CascadeDeletionPolicy, ManifestWorkReplicaSet},
};
use placement::rollout::{RolloutState, Turn};

use super::{
    desired_state::{DesiredPlacement, DesiredState, PlacementProblem, Seen},
    names,
    revision::TemplateInUse,
};

/// A cluster of a set, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The cluster.
    pub cluster: String,
    /// A sentence without its subject and its full stop.
    pub because: String,
    /// Whether it has what it shall have and is well.
    pub is_done: bool,
}

/// Sentences about the whole set. None means that it waits for nothing.
pub fn sentences(set: &ManifestWorkReplicaSet, seen: &Seen) -> Vec<String> {
    let mut said = Vec::new();
    if set.metadata.deletion_timestamp.is_some() {
        let count = seen.members.len();
        let held = set.metadata.finalizers.iter().flatten();
        let ours = held.clone().any(|it| it == finalizers::MANIFEST_WORK_REPLICA_SET);
        said.push(match set.spec.cascade_deletion_policy {
            _ if !ours => "It is being deleted and waits for the finalizers of others.".to_owned(),
            CascadeDeletionPolicy::Foreground => {
                format!("It is being deleted and waits until its {count} works are gone from their clusters.")
            }
            CascadeDeletionPolicy::Background => format!("It is being deleted, and with it its {count} works."),
        });
        return said;
    }
    if let Some(why) = names::refusal(set) {
        return vec![format!("There can be no works: {why}.")];
    }
    let desired = DesiredState::of(set, seen);
    match desired.template.is {
        TemplateInUse::Present => {}
        TemplateInUse::Before(_) => said.push(format!(
            "Its works are as its template was before, because it has the annotation {}=true.",
            annotations::ROLL_BACK
        )),
        TemplateInUse::Unknown => said.push(format!(
            "It has the annotation {}=true, and there is no template before this one.",
            annotations::ROLL_BACK
        )),
        TemplateInUse::Unkept => said.push(format!(
            "It has the annotation {}=true, and the templates before this one are not known: there is no right to list \
             ControllerRevisions. Nothing changes meanwhile.",
            annotations::ROLL_BACK
        )),
    }
    for place in &desired.places {
        said.extend(of_place(&desired, place, seen));
    }
    said
}

fn of_place(desired: &DesiredState<'_>, place: &DesiredPlacement<'_>, seen: &Seen) -> Vec<String> {
    let name = &place.reference.name;
    match &place.problem {
        Some(PlacementProblem::Missing) => {
            return vec![format!("There is no placement {name}; its works are left as they are.")];
        }
        Some(PlacementProblem::Unreadable(why)) => {
            return vec![format!("Placement {name} cannot be followed: {why}.")];
        }
        _ => {}
    }
    let mut said = Vec::new();
    if place.problem == Some(PlacementProblem::Incomplete) {
        said.push(format!(
            "Placement {name} has fewer decisions than it counts, so that nothing is removed for now."
        ));
    }
    if place.clusters == 0 {
        said.push(format!(
            "Placement {name} chooses no cluster that no other placement of it chooses."
        ));
        return said;
    }
    let Ok(rollout) = desired.rollout(place, seen) else {
        return said;
    };
    let count = |of: &dyn Fn(&placement::rollout::ClusterRollout<'_>) -> bool| {
        rollout.clusters.iter().filter(|it| of(it)).count()
    };
    let has = count(&|it| desired.has(it.cluster));
    let done = count(&|it| it.status == RolloutState::Succeeded);
    if has < place.clusters || done < place.clusters {
        said.push(format!(
            "Placement {name}: {has} of {} clusters have the template, {done} are done with it.",
            place.clusters
        ));
    }
    if has < place.clusters && desired.is_paused {
        said.push(format!(
            "No further cluster gets it, because of the annotation {}=true.",
            annotations::ROLLOUT_PAUSED
        ));
    }
    if rollout.max_failure_breach {
        said.push(format!(
            "The rollout over placement {name} has stopped: too many clusters failed."
        ));
    }
    said
}

/// One sentence for each cluster, by cluster.
pub fn clusters(set: &ManifestWorkReplicaSet, seen: &Seen) -> Vec<Explained> {
    let desired = DesiredState::of(set, seen);
    let mut all = Vec::new();
    for place in desired.places.iter().filter(|it| it.is_readable()) {
        let Ok(rollout) = desired.rollout(place, seen) else {
            continue;
        };
        for it in &rollout.clusters {
            let because = if seen.strangers.contains(it.cluster) {
                format!(
                    "has a work {} of somebody else, which is left alone",
                    names::work_name(set)
                )
            } else if desired.has(it.cluster) || !matches!(it.turn, Turn::Start) {
                it.turn.to_string()
            } else if desired.is_paused {
                format!("waits: {} says so", annotations::ROLLOUT_PAUSED)
            } else if desired.leaving.contains(it.cluster) && !desired.kept.contains_key(it.cluster) {
                "waits: the work before is not gone yet".to_owned()
            } else {
                it.turn.to_string()
            };
            all.push(Explained {
                cluster: it.cluster.to_owned(),
                because,
                is_done: desired.has(it.cluster) && it.turn == Turn::Done,
            });
        }
    }
    for (cluster, member) in &desired.kept {
        if !desired.places_by_cluster.contains_key(cluster) {
            let because = if desired.may_go(member) {
                "is chosen no more and loses its work".to_owned()
            } else {
                format!(
                    "is chosen no more and keeps its work while nobody knows what placement {} says",
                    member.placement()
                )
            };
            all.push(Explained {
                cluster: (*cluster).to_owned(),
                because,
                is_done: false,
            });
        }
    }
    all.sort_by(|one, other| one.cluster.cmp(&other.cluster));
    all
}
