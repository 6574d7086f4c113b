//! Every cluster that the placements of a ManifestWorkReplicaSet choose has its work, when it is its turn.
//!
//! Root: ManifestWorkReplicaSets. Reads: their works, Placements, PlacementDecisions, ControllerRevisions.
//! Writes: the works, the ControllerRevisions and the finalizer of the set. Never: a status; a work that does not have the
//! set's label, also if it has the name of ours; more clusters under way than the strategy allows.
//! Upstream: ocm `pkg/work/hub/controllers/manifestworkreplicasetcontroller`, finalize and deploy reconcilers.
//!
//! We differ where upstream's world is not safe (see also `desired_state` and `standing`):
//!
//! 1. A placement that is missing or cannot be read stops no other; the works that were made for it stay as they are.
//! 2. Works are looked up in an index, compared by fingerprint, and named after their set, so that a cache that lags cannot
//!    make a second one. Works that upstream made are kept, with their names; spare ones of the same set are removed.
//! 3. A cluster that is chosen by another placement now keeps its work, which only gets another label.
//! 4. While a placement has fewer decisions than it counts, nothing is removed.
//! 5. The set's labels reach its works also when nothing else changes, and what others put on a work stays there.
//!
//! A run goes on in rounds, each a bounded number of writes, so that no number of clusters makes a plan large.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt;
use ocm_api::{
    annotations, finalizers,
    work::{CascadeDeletionPolicy, ManifestWork, ManifestWorkReplicaSet},
};
use ocm_reconcile::{
    Clients, Done, ObserveError, Outcome, Plan, Reconciler, Site, Step, Target, async_trait,
    cache::split_key,
    difference,
    execute::{execute_with, sentence},
    run::RunError,
};
use placement::rollout::Turn;
use serde_json::{Value, json};
use tracing::debug;

use super::{
    Caches,
    desired_state::{Chosen, DesiredState, Problem, Seen, of_placement},
    fingerprint::Fingerprint,
    fleet::Member,
    names::{self, Marks},
    revision,
    rollout_status::{RolloutStatuses, Verdict},
};

/// Writes of one round. Enough to keep [`AT_ONCE`](Reconciler::AT_ONCE) of them under way, few enough that the objects of a
/// plan are no matter.
const ROUND: usize = 256;

/// When to look again after a work that was to be made was there already: by then the cache knows whose it is.
const MET_AGAIN: Duration = Duration::from_millis(100);

/// How many failures an error tells of; a thousand clusters mostly fail in the same way.
const TOLD_MAX: usize = 3;

/// The reconciler.
pub struct Spread {
    pub(super) caches: Caches,
    pub(super) board: RolloutStatuses,
}

impl Spread {
    fn chosen(&self, set: &ManifestWorkReplicaSet) -> Vec<Chosen> {
        let namespace = set.namespace().unwrap_or_default();
        let decisions = self.caches.decisions.list_in(&namespace);
        let references = set.spec.placement_refs.iter();
        references
            .map(|it| Chosen {
                placement: self.caches.placements.get(&namespace, &it.name),
                decisions: of_placement(&decisions, &it.name),
            })
            .collect()
    }

    /// Sees at once what it has written, without waiting for the watches.
    fn learn(&self, key: &str, set: &ManifestWorkReplicaSet, seen: &Seen, plan: &Plan, outcome: &Outcome) {
        let wanted = revision::template(set, seen.revisions.as_deref()).fingerprint;
        let steps = plan.stages.iter().flatten();
        for (step, answer) in steps.zip(outcome.stages.iter().flatten()) {
            let Some(target) = step.target() else { continue };
            let cluster = target.namespace.as_deref().unwrap_or_default();
            match (target.api_resource.kind.as_str(), answer) {
                (ManifestWork::KIND, Ok(Done::Object(object))) => {
                    if let Ok(work) = object.as_ref().clone().try_parse::<ManifestWork>() {
                        let answered = Fingerprint::of(&work.spec);
                        if answered != wanted && is_final(step, answered, seen) {
                            self.caches.fleet.answered(&names::label_value(set), wanted, answered);
                        }
                        self.caches.works.put(work);
                    }
                }
                (ManifestWork::KIND, Ok(Done::AlreadyExists)) => self.board.met(key, cluster, &target.name),
                ("ControllerRevision", Ok(Done::Object(object))) => {
                    if let Ok(revision) = object.as_ref().clone().try_parse::<ControllerRevision>() {
                        self.caches.revisions.put(revision);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether a server that answered something else than it was given would answer the same again: what was made new says so at
/// once; what was changed, when the change changed nothing, for otherwise somebody else may have been at it.
fn is_final(step: &Step, answered: Fingerprint, seen: &Seen) -> bool {
    match step {
        Step::Create { .. } => true,
        Step::MergePatch { target, patch, .. } if patch.get("spec").is_some() => {
            let cluster = target.namespace.as_deref().unwrap_or_default();
            let mut members = seen.members.iter();
            let before = members.find(|it| it.cluster() == cluster && it.name() == target.name);
            before.is_some_and(|it| it.spec == answered)
        }
        _ => false,
    }
}

#[async_trait]
impl Reconciler for Spread {
    const NAME: &'static str = "manifest-work-replica-set";
    const AT_ONCE: usize = 64;

    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let mut seen = Seen {
            now: Timestamp::now(),
            set: self.caches.sets.get(namespace, name),
            placements: Vec::new(),
            members: Vec::new(),
            revisions: None,
            strangers: BTreeSet::new(),
            failed: BTreeSet::new(),
        };
        if let Some(set) = seen.set.clone() {
            seen.placements = self.chosen(&set);
            seen.members = self.caches.fleet.members(&names::label_value(&set));
            let revisions = &self.caches.revisions;
            seen.revisions = revisions.is_synced().then(|| revisions.list_in(namespace));
            seen.strangers = self
                .board
                .strangers(key, |cluster, name| self.caches.works.get(cluster, name));
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(set) = seen.set.as_deref() else {
            return plan;
        };
        if set.metadata.deletion_timestamp.is_some() {
            leave(&mut plan, set, seen);
            return plan;
        }
        if let Some(why) = names::refusal(set) {
            plan.refuse(why);
            return plan;
        }
        if plan
            .add_finalizer(Site::Hub, set, finalizers::MANIFEST_WORK_REPLICA_SET)
            .is_some()
        {
            // The works come with the next run, which the finalizer's own change asks for.
            return plan;
        }
        let scene = DesiredState::of(set, seen);
        if let Some(revisions) = &seen.revisions {
            revision::record(&mut plan, set, &scene.template, revisions);
        }
        let mut writer = Writer {
            scene: &scene,
            seen,
            plan,
            room: ROUND,
            spec: None,
            changes: HashMap::new(),
        };
        writer.deliver();
        writer.tidy_up();
        writer.finish()
    }

    async fn reconcile(&self, clients: &Clients, key: &str) -> Result<Option<Duration>, RunError> {
        let mut failed = BTreeSet::new();
        let mut errors: Vec<String> = Vec::new();
        let mut met = None;
        loop {
            let mut seen = self.observe(key).await.map_err(RunError::Observe)?;
            seen.failed = failed.clone();
            let plan = Self::plan(&seen);
            debug!(steps = plan.len(), notes = ?plan.notes, "a round");
            let outcome = execute_with(clients, &plan, Self::AT_ONCE).await;
            if let Some(set) = seen.set.as_deref() {
                self.learn(key, set, &seen, &plan, &outcome);
            }
            for (id, error) in outcome.errors() {
                let step = plan.stages.get(id.stage).and_then(|it| it.get(id.step));
                let target = step.and_then(Step::target);
                failed.extend(target.and_then(|it| it.namespace.clone()));
                let what = target.map(ToString::to_string).unwrap_or_default();
                errors.push(format!("{what}: {}", sentence(error)));
            }
            for (step, answer) in plan.stages.iter().flatten().zip(outcome.stages.iter().flatten()) {
                if let (Some(target), Ok(Done::AlreadyExists)) = (step.target(), answer)
                    && target.api_resource.kind == ManifestWork::KIND
                {
                    met = Some(MET_AGAIN);
                    failed.extend(target.namespace.clone());
                }
            }
            match seen.set.as_deref() {
                Some(set) if set.metadata.deletion_timestamp.is_none() => {
                    self.board.put(key, Verdict::of(set, &seen, &errors));
                }
                _ => self.board.forget(key),
            }
            let is_more = plan.again == Some(Duration::ZERO);
            if is_more && !plan.is_empty() {
                continue;
            }
            return match errors.len() {
                0 => Ok([plan.again.filter(|_| !is_more), met].into_iter().flatten().min()),
                count => {
                    errors.truncate(TOLD_MAX);
                    let more = count.saturating_sub(TOLD_MAX);
                    let more = if more > 0 {
                        format!("; and {more} more")
                    } else {
                        String::new()
                    };
                    Err(RunError::Execute(format!("{}{more}", errors.join("; "))))
                }
            };
        }
    }
}

/// The set goes: its works first.
fn leave(plan: &mut Plan, set: &ManifestWorkReplicaSet, seen: &Seen) {
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
        .filter(|it| !it.is_leaving() && !seen.failed.contains(it.cluster()));
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
    } else if !seen.failed.is_empty() {
        plan.wait("some works could not be deleted");
    } else {
        plan.stage();
        plan.remove_finalizer(Site::Hub, set, finalizers::MANIFEST_WORK_REPLICA_SET);
    }
}

/// Plans the writes of one round.
struct Writer<'s> {
    scene: &'s DesiredState<'s>,
    seen: &'s Seen,
    plan: Plan,
    room: usize,
    /// What the works shall say, as JSON.
    spec: Option<Value>,
    /// The patches that lead there, by what a work says now: mostly they say one of two things.
    changes: HashMap<Fingerprint, Option<Value>>,
}

impl<'s> Writer<'s> {
    fn deliver(&mut self) {
        let scene = self.scene;
        for place in &scene.places {
            let name = &place.reference.name;
            match &place.problem {
                Some(Problem::Missing) => {
                    self.plan
                        .refuse(format!("there is no placement {name}; its works are left as they are"));
                }
                Some(Problem::Unreadable(why)) => {
                    self.plan.refuse(format!("placement {name}: {why}"));
                }
                Some(Problem::Incomplete) => {
                    self.plan
                        .wait(format!("decisions of placement {name} are missing; nothing is removed"));
                }
                None => {}
            }
            if !place.is_readable() {
                continue;
            }
            let rollout = match scene.rollout(place, self.seen) {
                Ok(rollout) => rollout,
                Err(why) => {
                    self.plan.refuse(format!("placement {name}: {why}"));
                    continue;
                }
            };
            let marks = Marks::of(scene.set, name);
            let mut waits = 0;
            for it in &rollout.clusters {
                match (scene.kept.get(it.cluster), it.turn) {
                    (kept, Turn::Start) if !scene.is_paused => self.bring(it.cluster, &marks, kept.copied()),
                    (kept, turn) => {
                        waits += usize::from(matches!(turn, Turn::Start | Turn::Wait(_)));
                        if let Some(kept) = kept {
                            self.label(&marks, kept);
                        }
                    }
                }
            }
            if waits > 0 && scene.is_paused {
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
                names::work_name(scene.set),
                clusters.join(", ")
            ));
        }
    }

    /// What nobody asks for any more.
    fn tidy_up(&mut self) {
        let scene = self.scene;
        for it in &scene.spare {
            self.remove(it);
        }
        for (cluster, it) in &scene.kept {
            if !scene.places_by_cluster.contains_key(cluster) && scene.may_go(it) {
                self.remove(it);
            }
        }
    }

    fn finish(self) -> Plan {
        self.plan
    }

    /// One more write; false when they are enough for this round, or when the cluster has just failed.
    fn takes(&mut self, cluster: &str) -> bool {
        if self.seen.failed.contains(cluster) {
            return false;
        }
        if self.room == 0 {
            self.plan.look_again(Duration::ZERO);
            return false;
        }
        self.room -= 1;
        true
    }

    fn remove(&mut self, member: &Member) {
        if self.takes(member.cluster()) {
            self.plan.delete(Site::Hub, &*member.work);
        }
    }

    fn bring(&mut self, cluster: &str, marks: &Marks, kept: Option<&Member>) {
        if kept.is_none() && self.scene.leaving.contains(cluster) {
            // The next one has the same name.
            self.plan.wait(format!("the work before on {cluster} is not gone yet"));
            return;
        }
        if !self.takes(cluster) {
            return;
        }
        match kept {
            None => self.create(cluster, marks),
            Some(kept) => self.change(marks, kept),
        }
    }

    fn spec(&mut self) -> &Value {
        let spec = self.scene.spec();
        self.spec
            .get_or_insert_with(|| serde_json::to_value(spec).expect("a spec serializes: its keys are strings"))
    }

    fn create(&mut self, cluster: &str, marks: &Marks) {
        let set = self.scene.set;
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
        self.plan.push(Step::Create { target, object });
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
        if metadata.is_some() && self.takes(kept.cluster()) {
            self.patch(kept, None, metadata);
        }
    }

    /// Without a resourceVersion, for the agent writes its status all the time, and what is patched here is ours alone; but
    /// with the uid, as another work of the name would be somebody else's.
    fn patch(&mut self, kept: &Member, spec: Option<Value>, metadata: Option<Value>) {
        let mut patch: BTreeMap<&str, Value> = BTreeMap::new();
        let mut metadata = metadata.unwrap_or_else(|| json!({}));
        metadata["uid"] = json!(kept.work.metadata.uid);
        patch.insert("metadata", metadata);
        patch.extend(spec.map(|it| ("spec", it)));
        if patch.len() == 1 && patch["metadata"].as_object().is_some_and(|it| it.len() == 1) {
            return;
        }
        self.plan.push(Step::MergePatch {
            target: Target::namespaced::<ManifestWork>(Site::Hub, kept.cluster(), kept.name()),
            subresource: None,
            patch: json!(patch),
        });
    }
}

/// Whether anybody waits for a turn.
pub(super) fn waits(scene: &DesiredState<'_>, seen: &Seen) -> bool {
    let mut readable = scene.places.iter().filter(|it| it.is_readable());
    readable.any(|place| {
        let mut clusters = place.groups.iter().flat_map(|it| &it.clusters);
        clusters.any(|it| !scene.has(it) && !seen.strangers.contains(*it))
    })
}

#[cfg(test)]
#[path = "spread_tests.rs"]
mod tests;
