//! Which works of a ManifestWorkReplicaSet are made, changed and removed in one round of a run: plain functions.
//!
//! A round is a bounded number of writes, so that no number of clusters makes a plan large. A plan that wants to be
//! looked at again at once has more to write.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use kube::ResourceExt;
use ocm_api::{
    annotations, finalizers,
    work::{CascadeDeletionPolicy, ManifestWork, ManifestWorkReplicaSet},
};
use ocm_reconcile::{Plan, Site, Step, Target, difference};
use placement::rollout::Turn;
use serde_json::{Value, json};

use super::{
    desired_state::{DesiredState, PlacementProblem, Seen},
    fingerprint::Fingerprint,
    names::{self, Marks},
    works_by_set::Member,
};

/// Writes of one round. Enough to keep [`AT_ONCE`](ocm_reconcile::Reconciler::AT_ONCE) of them under way, few enough
/// that the objects of a plan are no matter.
pub(super) const ROUND: usize = 256;

/// The works that are wanted and those that nobody asks for any more.
pub(super) fn deliver(plan: &mut Plan, desired: &DesiredState<'_>, seen: &Seen) {
    let mut round = Round {
        desired,
        seen,
        plan,
        room: ROUND,
        spec: None,
        changes: HashMap::new(),
    };
    round.deliver();
    round.tidy_up();
    // A round that writes nothing is the last one: what it leaves comes with the next change.
    if plan.is_empty() && plan.again == Some(Duration::ZERO) {
        plan.again = None;
    }
}

/// Whether a plan was one of several rounds, and not the last of them.
pub(super) fn has_more(plan: &Plan) -> bool {
    plan.again == Some(Duration::ZERO) && !plan.is_empty()
}

/// The set goes: its works first.
pub(super) fn leave(plan: &mut Plan, set: &ManifestWorkReplicaSet, seen: &Seen) {
    if !set
        .finalizers()
        .iter()
        .any(|it| it == finalizers::MANIFEST_WORK_REPLICA_SET)
    {
        return;
    }
    let staying = seen
        .members
        .iter()
        .filter(|it| !it.is_leaving() && !seen.earlier.failed.contains(it.cluster()));
    let mut more = false;
    for (count, member) in staying.enumerate() {
        more = count >= ROUND;
        if more {
            plan.look_again(Duration::ZERO);
            break;
        }
        plan.delete(Site::Hub, &*member.work);
    }
    if more {
        return;
    }
    let is_foreground = set.spec.cascade_deletion_policy == CascadeDeletionPolicy::Foreground;
    let count = seen.members.len();
    if is_foreground && count > 0 {
        plan.wait(format!("{count} works are not gone yet"));
    } else if !seen.earlier.failed.is_empty() {
        plan.wait("some works could not be deleted");
    } else {
        plan.stage();
        plan.remove_finalizer(Site::Hub, set, finalizers::MANIFEST_WORK_REPLICA_SET);
    }
}

/// The writes of one round.
struct Round<'s> {
    desired: &'s DesiredState<'s>,
    seen: &'s Seen,
    plan: &'s mut Plan,
    room: usize,
    /// What the works shall say, as JSON.
    spec: Option<Value>,
    /// The patches that lead there, by what a work says now: mostly they say one of two things.
    changes: HashMap<Fingerprint, Option<Value>>,
}

impl<'s> Round<'s> {
    /// What every cluster that is chosen has, when it is its turn.
    fn deliver(&mut self) {
        let desired = self.desired;
        for place in &desired.places {
            let name = &place.reference.name;
            match &place.problem {
                Some(PlacementProblem::Missing) => {
                    self.plan
                        .refuse(format!("there is no placement {name}; its works are left as they are"));
                }
                Some(PlacementProblem::Unreadable(why)) => {
                    self.plan.refuse(format!("placement {name}: {why}"));
                }
                Some(PlacementProblem::Incomplete) => {
                    self.plan
                        .wait(format!("decisions of placement {name} are missing; nothing is removed"));
                }
                None => {}
            }
            if !place.is_readable() {
                continue;
            }
            let rollout = match desired.rollout(place, self.seen) {
                Ok(rollout) => rollout,
                Err(why) => {
                    self.plan.refuse(format!("placement {name}: {why}"));
                    continue;
                }
            };
            let marks = Marks::of(desired.set, name);
            let mut waits = 0;
            for it in &rollout.clusters {
                match (desired.kept.get(it.cluster), it.turn) {
                    (kept, Turn::Start) if !desired.is_paused => self.bring(it.cluster, &marks, kept.copied()),
                    (kept, turn) => {
                        waits += usize::from(matches!(turn, Turn::Start | Turn::Wait(_)));
                        if let Some(kept) = kept {
                            self.label(&marks, kept);
                        }
                    }
                }
            }
            if waits > 0 && desired.is_paused {
                self.plan.wait(format!(
                    "placement {name}: {waits} clusters wait, as {} says",
                    annotations::ROLLOUT_PAUSED
                ));
            } else if waits > 0 {
                self.plan
                    .wait(format!("placement {name}: {waits} clusters wait for their turn"));
                // Only who waits cares when a deadline passes or a soak time ends.
                if let Some(delay) = rollout.recheck_after {
                    self.plan.look_again(delay);
                }
            }
        }
        if !self.seen.strangers.is_empty() {
            let clusters: Vec<&str> = self.seen.strangers.iter().map(String::as_str).collect();
            self.plan.refuse(format!(
                "somebody else's work {} is on {}",
                names::work_name(desired.set),
                clusters.join(", ")
            ));
        }
    }

    /// What nobody asks for any more.
    fn tidy_up(&mut self) {
        let desired = self.desired;
        for it in &desired.spare {
            self.remove(it);
        }
        for (cluster, it) in &desired.kept {
            if !desired.places_by_cluster.contains_key(cluster) && desired.may_go(it) {
                self.remove(it);
            }
        }
    }

    /// Whether one more write may be made; not when they are enough for this round,
    /// or when the cluster has just failed.
    fn has_room(&mut self, cluster: &str) -> bool {
        if self.seen.earlier.failed.contains(cluster) {
            return false;
        }
        if self.room == 0 {
            self.plan.look_again(Duration::ZERO);
            return false;
        }
        true
    }

    fn push(&mut self, step: Step) {
        self.room -= 1;
        self.plan.push(step);
    }

    fn remove(&mut self, member: &Member) {
        if self.has_room(member.cluster()) && self.plan.delete(Site::Hub, &*member.work).is_some() {
            self.room -= 1;
        }
    }

    fn bring(&mut self, cluster: &str, marks: &Marks, kept: Option<&Member>) {
        if kept.is_none() && self.desired.leaving.contains(cluster) {
            // The next one has the same name.
            self.plan.wait(format!("the work before on {cluster} is not gone yet"));
            return;
        }
        if !self.has_room(cluster) {
            return;
        }
        match kept {
            None => self.create(cluster, marks),
            Some(kept) => self.change(marks, kept),
        }
    }

    fn spec(&mut self) -> &Value {
        let spec = self.desired.spec();
        self.spec
            .get_or_insert_with(|| serde_json::to_value(spec).expect("a spec serializes: its keys are strings"))
    }

    fn create(&mut self, cluster: &str, marks: &Marks) {
        let set = self.desired.set;
        let name = names::work_name(set);
        let object = json!({
            "apiVersion": ManifestWork::API_VERSION,
            "kind": ManifestWork::KIND,
            "metadata": {
                "name": name, "namespace": cluster,
                "labels": marks.labels, "annotations": marks.annotations,
            },
            "spec": self.spec().clone(),
        });
        let target = Target::namespaced::<ManifestWork>(Site::Hub, cluster, &name);
        self.push(Step::Create { target, object });
    }

    fn change(&mut self, marks: &Marks, kept: &Member) {
        let wanted = self.spec().clone();
        let change = self.changes.entry(kept.spec).or_insert_with(|| {
            let before = serde_json::to_value(&kept.work.spec).expect("a spec serializes: its keys are strings");
            difference::merge_patch(&before, &wanted)
        });
        let spec = change.clone();
        self.patch(kept, spec, marks.patch(&kept.work));
    }

    fn label(&mut self, marks: &Marks, kept: &Member) {
        let metadata = marks.patch(&kept.work);
        if metadata.is_some() && self.has_room(kept.cluster()) {
            self.patch(kept, None, metadata);
        }
    }

    /// Without a resourceVersion, for the agent writes its status all the time, and what is patched here is ours alone;
    /// but with the uid, as another work of the name would be somebody else's.
    fn patch(&mut self, kept: &Member, spec: Option<Value>, metadata: Option<Value>) {
        let mut patch: BTreeMap<&str, Value> = BTreeMap::new();
        let mut metadata = metadata.unwrap_or_else(|| json!({}));
        metadata["uid"] = json!(kept.work.metadata.uid);
        patch.insert("metadata", metadata);
        patch.extend(spec.map(|it| ("spec", it)));
        if patch.len() == 1 && patch["metadata"].as_object().is_some_and(|it| it.len() == 1) {
            return;
        }
        self.push(Step::MergePatch {
            target: Target::namespaced::<ManifestWork>(Site::Hub, kept.cluster(), kept.name()),
            subresource: None,
            patch: json!(patch),
        });
    }
}
