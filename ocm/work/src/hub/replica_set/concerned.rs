//! Which ManifestWorkReplicaSets have to be looked at when something changes.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use ocm_api::{
    cluster::{Placement, PlacementDecision},
    labels,
    work::{ManifestWork, ManifestWorkReplicaSet},
};
use ocm_reconcile::{Cache, Queue, cache::key_of};

use super::{
    names,
    rollout_status::RolloutStatuses,
    works_by_set::{WorkChange, WorksBySet},
};

/// The set that changed, unless it still wants the same: reports on it are changes, too.
pub fn itself(old: Option<&ManifestWorkReplicaSet>, new: Option<&ManifestWorkReplicaSet>) -> Option<String> {
    match (old, new) {
        (Some(old), Some(new)) if is_same_spec(old, new) => None,
        (old, new) => new.or(old).map(key_of),
    }
}

fn is_same_spec(old: &ManifestWorkReplicaSet, new: &ManifestWorkReplicaSet) -> bool {
    let (before, after) = (&old.metadata, &new.metadata);
    before.uid == after.uid
        && before.generation == after.generation
        && before.generation.is_some()
        && before.deletion_timestamp == after.deletion_timestamp
        && before.finalizers == after.finalizers
        && before.labels == after.labels
        && before.annotations == after.annotations
}

/// The set that met a work which is not its own.
pub fn in_whose_way(
    met: &RolloutStatuses,
) -> impl Fn(Option<&ManifestWork>, Option<&ManifestWork>) -> Option<String> + Send + Sync + use<> {
    let met = met.clone();
    move |old, new| {
        let of = |work: Option<&ManifestWork>| work.and_then(|it| met.in_the_way_of(it));
        of(new).or_else(|| of(old))
    }
}

/// The sets of a placement that chooses another number of clusters, comes or goes.
pub fn by_placement(
    sets: &Cache<ManifestWorkReplicaSet>,
) -> impl Fn(Option<&Placement>, Option<&Placement>) -> Vec<String> + Send + Sync + use<> {
    let sets = sets.clone();
    let counted = |it: &Placement| {
        let counts = it
            .status
            .as_ref()
            .map(|it| (it.number_of_selected_clusters, it.decision_groups.len()));
        (counts, it.metadata.deletion_timestamp.is_some())
    };
    move |old, new| match (old, new) {
        (Some(old), Some(new)) if counted(old) == counted(new) => Vec::new(),
        (old, new) => {
            let changed = new
                .or(old)
                .and_then(|it| Some((it.namespace(), it.metadata.name.as_deref()?)));
            changed
                .map(|(namespace, name)| that_refer_to(&sets, namespace, name))
                .unwrap_or_default()
        }
    }
}

/// The sets of the placement of a decision that changed.
pub fn by_decision(
    sets: &Cache<ManifestWorkReplicaSet>,
) -> impl Fn(Option<&PlacementDecision>, Option<&PlacementDecision>) -> Vec<String> + Send + Sync + use<> {
    let sets = sets.clone();
    move |old, new| match (old, new) {
        (Some(old), Some(new)) if old.status == new.status && old.metadata.labels == new.metadata.labels => Vec::new(),
        (old, new) => {
            let changed = new
                .or(old)
                .and_then(|it| Some((it.namespace(), it.labels().get(labels::PLACEMENT)?)));
            changed
                .map(|(namespace, name)| that_refer_to(&sets, namespace, name))
                .unwrap_or_default()
        }
    }
}

/// The set of a work that may not be as the set wants it, or for which another cluster may have waited.
pub fn by_work(works: &WorksBySet, statuses: &RolloutStatuses) -> impl FnOnce(&Queue) + Send + use<> {
    let (works, statuses) = (works.clone(), statuses.clone());
    move |queue| {
        let queue = queue.clone();
        works.listen(move |key, change| {
            if change == WorkChange::Content || change == WorkChange::Rollout && statuses.waits(key) {
                queue.add(key);
            }
        });
    }
}

fn that_refer_to(sets: &Cache<ManifestWorkReplicaSet>, namespace: Option<String>, placement: &str) -> Vec<String> {
    let sets = sets.list_in(&namespace.unwrap_or_default());
    let refers = |it: &ManifestWorkReplicaSet| it.spec.placement_refs.iter().any(|it| it.name == placement);
    sets.iter().filter(|it| refers(it)).map(|it| key_of(&**it)).collect()
}

/// The set of a template that is gone: somebody removed it, or it was of a set before of the same name.
pub fn by_revision(old: Option<&ControllerRevision>, new: Option<&ControllerRevision>) -> Option<String> {
    match (old, new) {
        (Some(old), None) => names::key_of_label(old.labels().get(labels::MANIFEST_WORK_REPLICA_SET)?),
        _ => None,
    }
}
