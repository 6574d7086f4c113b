//! Deployments: one ReplicaSet per template, and the way from the old ones to the new one.
//!
//! root: Deployment; reads: its ReplicaSets and their pods; writes: ReplicaSets, the Deployment's status and revision;
//! never: pods.

use super::{
    Again, Error, Workloads,
    pods::{self, Labels},
    rollout::{self, Set, Strategy},
};
use crate::{events::EventType, times};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const COMPONENT: &str = "deployment-controller";
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of the Deployment that its ReplicaSets do not take over.
const OWN_ANNOTATIONS: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    "deployment.kubernetes.io/revision-history",
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// The sets of a Deployment.
struct Sets {
    new: Option<Arc<ReplicaSet>>,
    /// Oldest first.
    old: Vec<Arc<ReplicaSet>>,
    /// Whether the new one was made in this pass.
    made: bool,
}

impl Sets {
    fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }
}

fn set_of(it: &ReplicaSet) -> Set {
    Set {
        wanted: wanted_of(it),
        available: it
            .status
            .as_ref()
            .and_then(|it| it.available_replicas)
            .unwrap_or_default(),
    }
}

fn wanted_of(it: &ReplicaSet) -> i32 {
    it.spec.replicas.unwrap_or(1)
}

fn name_of(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

fn revision(meta: &ObjectMeta) -> i64 {
    let text = meta.annotations.as_ref().and_then(|it| it.get(REVISION));
    text.and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// The template without the label that tells ReplicaSets apart.
fn plain(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|it| it.labels.as_mut()) {
        labels.remove(HASH);
    }
    template
}

/// A short name of a template. Upstream hashes Go's view of it; nobody compares the two.
pub fn hash(template: &PodTemplateSpec, collisions: i32) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = serde_json::to_string(template).unwrap_or_default();
    let bytes = text.bytes().chain(
        if collisions > 0 {
            collisions.to_string()
        } else {
            String::new()
        }
        .into_bytes(),
    );
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, it| {
        (hash ^ u32::from(it)).wrapping_mul(0x0100_0193)
    });
    let digits = hash.to_string();
    digits
        .bytes()
        .map(|it| char::from(LETTERS[usize::from(it) % LETTERS.len()]))
        .collect()
}

fn with_label(mut labels: Option<Labels>, hash: &str) -> Option<Labels> {
    labels.get_or_insert_default().insert(HASH.into(), hash.into());
    labels
}

fn strategy(spec: &DeploymentSpec) -> Strategy {
    let strategy = spec.strategy.as_ref();
    if strategy.and_then(|it| it.type_.as_deref()) == Some("Recreate") {
        return Strategy::Recreate;
    }
    let rolling = strategy.and_then(|it| it.rolling_update.as_ref());
    rollout::bounds(
        rolling.and_then(|it| it.max_surge.as_ref()),
        rolling.and_then(|it| it.max_unavailable.as_ref()),
        spec.replicas.unwrap_or(1),
    )
}

fn most(strategy: Strategy, desired: i32) -> i32 {
    match strategy {
        Strategy::Recreate => desired,
        Strategy::Rolling { surge, .. } => desired.saturating_add(if desired > 0 { surge } else { 0 }),
    }
}

impl Workloads {
    pub(super) async fn deployment(&self, deployment: &Arc<Deployment>) -> Result<Again, Error> {
        let spec = &deployment.spec;
        let mut sets = self.sets(deployment, spec).await?;
        if deployment.metadata.deletion_timestamp.is_none() {
            let paused = spec.paused.unwrap_or_default();
            if paused {
                self.scale_paused(deployment, spec, &mut sets).await?;
            } else if !self.roll(deployment, spec, &mut sets).await? {
                // The name of the new set is another's: with the next number of collisions it gets another one.
                return Ok(Some(Duration::ZERO));
            }
        }
        let now = Timestamp::now();
        let status = status(deployment, spec, &sets, now);
        self.write_status(&self.deployments, &**deployment, deployment.status.as_ref(), &status)
            .await?;
        if spec.paused != Some(true) && is_complete(deployment, spec, &status) {
            self.forget(deployment, spec, &sets).await?;
        }
        Ok(deadline(spec, &status, now))
    }

    /// The ReplicaSets of a Deployment, adopted where they are orphans that it selects.
    async fn sets(&self, deployment: &Arc<Deployment>, spec: &DeploymentSpec) -> Result<Sets, Error> {
        let meta = &deployment.metadata;
        let mut all = Vec::new();
        for set in self.replica_sets.list_in(meta.namespace.as_deref().unwrap_or_default()) {
            match pods::controller(&set.metadata) {
                Some(it) if Some(&it.uid) == meta.uid.as_ref() => all.push(set),
                None if meta.deletion_timestamp.is_none()
                    && set.metadata.deletion_timestamp.is_none()
                    && pods::matches(&spec.selector, set.metadata.labels.as_ref()) =>
                {
                    let mut owners = set.metadata.owner_references.clone().unwrap_or_default();
                    owners.push(pods::owned_by(&**deployment));
                    all.push(
                        self.patch_set(&set, json!({"metadata": {"ownerReferences": owners}}))
                            .await?,
                    );
                }
                _ => {}
            }
        }
        all.sort_by_key(|it| {
            (
                it.metadata.creation_timestamp.clone().map(|it| it.0),
                name_of(&it.metadata).to_owned(),
            )
        });
        let wanted = plain(&spec.template);
        let is_new = |it: &Arc<ReplicaSet>| {
            let template = it.spec.template.as_ref();
            template.is_some_and(|it| plain(it) == wanted)
        };
        let at = all.iter().position(is_new);
        let new = at.map(|at| all.remove(at));
        Ok(Sets {
            new,
            old: all,
            made: false,
        })
    }

    async fn patch_set(&self, set: &ReplicaSet, mut patch: Value) -> Result<Arc<ReplicaSet>, Error> {
        patch["metadata"]["uid"] = json!(set.metadata.uid);
        let api = self.api::<ReplicaSet>(set.metadata.namespace.as_deref());
        let params = PatchParams::default();
        let changed = api
            .patch(name_of(&set.metadata), &params, &Patch::Merge(&patch))
            .await?;
        self.replica_sets.put(changed.clone());
        Ok(Arc::new(changed))
    }

    /// Makes or finds the new set and moves pods towards it. `false` when it has to be tried again under another name.
    async fn roll(&self, deployment: &Arc<Deployment>, spec: &DeploymentSpec, sets: &mut Sets) -> Result<bool, Error> {
        let strategy = strategy(spec);
        let desired = spec.replicas.unwrap_or(1);
        if strategy == Strategy::Recreate && self.old_pods_remain(sets).await? {
            return Ok(true);
        }
        let number = sets
            .old
            .iter()
            .map(|it| revision(&it.metadata))
            .max()
            .unwrap_or_default()
            .saturating_add(1);
        let all = sets.all().map(|it| i64::from(wanted_of(it))).sum();
        let before = sets.new.as_ref().map_or(0, |it| wanted_of(it));
        let wanted = rollout::new_wanted(strategy, desired, before, all);
        match &sets.new {
            Some(new) => {
                let number = number.max(revision(&new.metadata));
                sets.new = Some(
                    self.bring(deployment, new, wanted, desired, most(strategy, desired), Some(number))
                        .await?,
                );
            }
            None => match self.make(deployment, spec, wanted, number).await? {
                Some(new) => {
                    sets.new = Some(new);
                    sets.made = true;
                }
                None => return Ok(false),
            },
        }
        let Some(new) = &sets.new else { return Ok(true) };
        let number = revision(&new.metadata);
        if revision(&deployment.metadata) != number {
            let patch =
                json!({"metadata": {"uid": deployment.metadata.uid, "annotations": {REVISION: number.to_string()}}});
            let api = self.api::<Deployment>(deployment.metadata.namespace.as_deref());
            let name = name_of(&deployment.metadata);
            let changed = api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            self.deployments.put(changed);
        }
        let old: Vec<Set> = sets.old.iter().map(|it| set_of(it)).collect();
        let left = rollout::old_wanted(strategy, desired, set_of(new), &old);
        for (set, wanted) in sets.old.iter_mut().zip(left) {
            if wanted_of(set) != wanted || wanted > 0 {
                *set = self
                    .bring(deployment, set, wanted, desired, most(strategy, desired), None)
                    .await?;
            }
        }
        Ok(true)
    }

    /// With the strategy Recreate: ends all old pods, and tells whether some are left.
    async fn old_pods_remain(&self, sets: &mut Sets) -> Result<bool, Error> {
        for set in &mut sets.old {
            if wanted_of(set) != 0 {
                *set = self.patch_set(set, json!({"spec": {"replicas": 0}})).await?;
            }
        }
        let remains = |set: &Arc<ReplicaSet>| {
            let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
            let is_its = |pod: &Arc<_>| {
                let pod: &k8s_openapi::api::core::v1::Pod = pod;
                let owner = pods::controller(&pod.metadata);
                owner.is_some_and(|it| Some(&it.uid) == set.metadata.uid.as_ref())
                    && !matches!(pods::phase(pod), "Succeeded" | "Failed")
            };
            self.pods.list_in(namespace).iter().any(is_its)
        };
        Ok(sets.old.iter().any(remains))
    }

    /// Scales a set and tells it what its Deployment wants.
    async fn bring(
        &self,
        deployment: &Arc<Deployment>,
        set: &Arc<ReplicaSet>,
        wanted: i32,
        desired: i32,
        most: i32,
        number: Option<i64>,
    ) -> Result<Arc<ReplicaSet>, Error> {
        let before = wanted_of(set);
        let mut annotations = Labels::from([(DESIRED.into(), desired.to_string()), (MAX.into(), most.to_string())]);
        if let Some(number) = number {
            annotations.insert(REVISION.into(), number.to_string());
            annotations.extend(inherited(deployment));
        }
        let own = set.metadata.annotations.as_ref();
        annotations.retain(|key, value| own.and_then(|it| it.get(key)) != Some(value));
        if before == wanted && annotations.is_empty() {
            return Ok(set.clone());
        }
        let mut patch = json!({"metadata": {"annotations": annotations}});
        if before != wanted {
            patch["spec"] = json!({"replicas": wanted});
        }
        let changed = self.patch_set(set, patch).await?;
        if before != wanted {
            self.tell_scaled(deployment, name_of(&set.metadata), before, wanted);
        }
        Ok(changed)
    }

    fn tell_scaled(&self, deployment: &Deployment, set: &str, before: i32, wanted: i32) {
        let way = if wanted > before { "up" } else { "down" };
        let text = format!("Scaled {way} replica set {set} from {before} to {wanted}");
        self.tell(deployment, COMPONENT, EventType::Normal, "ScalingReplicaSet", text);
    }

    /// Makes the set of the present template. `None` when its name is taken by a set of another one.
    async fn make(
        &self,
        deployment: &Arc<Deployment>,
        spec: &DeploymentSpec,
        wanted: i32,
        number: i64,
    ) -> Result<Option<Arc<ReplicaSet>>, Error> {
        let meta = &deployment.metadata;
        let collisions = deployment
            .status
            .as_ref()
            .and_then(|it| it.collision_count)
            .unwrap_or_default();
        let hash = hash(&spec.template, collisions);
        let desired = spec.replicas.unwrap_or(1);
        let mut template = spec.template.clone();
        let labels = with_label(template.metadata.take().and_then(|it| it.labels), &hash);
        template.metadata = Some(ObjectMeta {
            labels: labels.clone(),
            annotations: spec.template.metadata.as_ref().and_then(|it| it.annotations.clone()),
            ..ObjectMeta::default()
        });
        let mut annotations = inherited(deployment);
        annotations.insert(REVISION.into(), number.to_string());
        annotations.insert(DESIRED.into(), desired.to_string());
        annotations.insert(MAX.into(), most(strategy(spec), desired).to_string());
        let set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", name_of(meta))),
                namespace: meta.namespace.clone(),
                labels,
                annotations: Some(annotations),
                owner_references: Some(vec![pods::owned_by(&**deployment)]),
                ..ObjectMeta::default()
            },
            spec: ReplicaSetSpec {
                replicas: Some(wanted),
                min_ready_seconds: spec.min_ready_seconds,
                selector: LabelSelector {
                    match_labels: with_label(spec.selector.match_labels.clone(), &hash),
                    match_expressions: spec.selector.match_expressions.clone(),
                },
                template: Some(template),
            },
            status: None,
        };
        let api = self.api::<ReplicaSet>(meta.namespace.as_deref());
        match api.create(&PostParams::default(), &set).await {
            Ok(made) => {
                self.replica_sets.put(made.clone());
                if wanted > 0 {
                    self.tell_scaled(deployment, name_of(&made.metadata), 0, wanted);
                }
                Ok(Some(Arc::new(made)))
            }
            Err(Error::Api(status)) if status.code == 409 => {
                let found = api.get(name_of(&set.metadata)).await?;
                let ours = pods::controller(&found.metadata).is_some_and(|it| Some(&it.uid) == meta.uid.as_ref());
                let template = found.spec.template.as_ref();
                if ours && template.is_some_and(|it| plain(it) == plain(&spec.template)) {
                    self.replica_sets.put(found.clone());
                    return Ok(Some(Arc::new(found)));
                }
                let patch =
                    json!({"metadata": {"uid": meta.uid}, "status": {"collisionCount": collisions.saturating_add(1)}});
                let api = self.api::<Deployment>(meta.namespace.as_deref());
                let params = PatchParams::default();
                let changed = api.patch_status(name_of(meta), &params, &Patch::Merge(&patch)).await?;
                self.deployments.put(changed);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A paused Deployment is scaled and nothing else: the youngest set that has pods takes the difference.
    async fn scale_paused(
        &self,
        deployment: &Arc<Deployment>,
        spec: &DeploymentSpec,
        sets: &mut Sets,
    ) -> Result<(), Error> {
        let desired = spec.replicas.unwrap_or(1);
        let all: i32 = sets.all().map(|it| wanted_of(it)).sum();
        let youngest = match &mut sets.new {
            Some(new) => Some(new),
            None => sets.old.last_mut(),
        };
        let Some(set) = youngest else { return Ok(()) };
        let wanted = (wanted_of(set) + desired - all).max(0);
        *set = self
            .bring(
                deployment,
                &set.clone(),
                wanted,
                desired,
                most(strategy(spec), desired),
                None,
            )
            .await?;
        Ok(())
    }

    /// Removes sets that nobody will go back to.
    async fn forget(&self, deployment: &Arc<Deployment>, spec: &DeploymentSpec, sets: &Sets) -> Result<(), Error> {
        let kept = usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(usize::MAX);
        let is_empty = |it: &&Arc<ReplicaSet>| {
            let has_none = it.status.as_ref().is_none_or(|it| it.replicas == 0);
            wanted_of(it) == 0 && has_none && it.metadata.deletion_timestamp.is_none()
        };
        let mut empty: Vec<_> = sets.old.iter().filter(is_empty).collect();
        empty.sort_by_key(|it| revision(&it.metadata));
        let api = self.api::<ReplicaSet>(deployment.metadata.namespace.as_deref());
        for set in empty.iter().take(empty.len().saturating_sub(kept)) {
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: set.metadata.uid.clone(),
                    ..Preconditions::default()
                }),
                ..DeleteParams::background()
            };
            match api.delete(name_of(&set.metadata), &params).await {
                Ok(_) => {}
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The annotations that a set takes over.
fn inherited(deployment: &Deployment) -> Labels {
    let mut annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !OWN_ANNOTATIONS.contains(&key.as_str()));
    annotations
}

fn nonzero(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

fn status(deployment: &Deployment, spec: &DeploymentSpec, sets: &Sets, now: Timestamp) -> DeploymentStatus {
    let sum = |of: fn(&ReplicaSet) -> i32| sets.all().map(|it| of(it)).fold(0, i32::saturating_add);
    let count = |it: &ReplicaSet| it.status.as_ref().map_or(0, |it| it.replicas);
    let replicas = sum(count);
    let ready = sum(|it| it.status.as_ref().and_then(|it| it.ready_replicas).unwrap_or_default());
    let available = sum(|it| set_of(it).available);
    let told = sum(wanted_of);
    let before = deployment.status.clone().unwrap_or_default();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: nonzero(replicas),
        updated_replicas: sets.new.as_ref().and_then(|it| nonzero(count(it))),
        ready_replicas: nonzero(ready),
        available_replicas: nonzero(available),
        unavailable_replicas: nonzero(told.saturating_sub(available).max(0)),
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
        ..DeploymentStatus::default()
    };
    let desired = spec.replicas.unwrap_or(1);
    let unavailable = match strategy(spec) {
        Strategy::Recreate => 0,
        Strategy::Rolling { .. } if desired == 0 => 0,
        Strategy::Rolling { unavailable, .. } => unavailable,
    };
    let available = if available >= desired.saturating_sub(unavailable) {
        (
            "Available",
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.".to_owned(),
        )
    } else {
        let text = "Deployment does not have minimum availability.".to_owned();
        ("Available", "False", "MinimumReplicasUnavailable", text)
    };
    let progressing = progressing(deployment, spec, sets, &before, &status, now);
    let failure = sets.all().find_map(|it| {
        let conditions = it.status.as_ref()?.conditions.as_ref()?;
        conditions
            .iter()
            .find(|it| it.type_.as_deref() == Some("ReplicaFailure"))
    });
    let conditions = status.conditions.get_or_insert_default();
    set_condition(conditions, available, false, now);
    match progressing {
        Progressing::Stays => {}
        Progressing::None => conditions.retain(|it| it.type_.as_deref() != Some("Progressing")),
        Progressing::Is(verdict, moved) => set_condition(conditions, verdict, moved, now),
    }
    match failure {
        Some(it) => {
            let text = |it: &Option<String>| it.clone().unwrap_or_default();
            let reason = text(&it.reason);
            set_condition(
                conditions,
                ("ReplicaFailure", "True", &reason, text(&it.message)),
                false,
                now,
            );
        }
        None => conditions.retain(|it| it.type_.as_deref() != Some("ReplicaFailure")),
    }
    status
}

type Verdict<'a> = (&'a str, &'a str, &'a str, String);

/// Sets a condition: the transition time moves with its status, the update time with its reason, or when `moved`.
fn set_condition(conditions: &mut Vec<DeploymentCondition>, verdict: Verdict<'_>, moved: bool, now: Timestamp) {
    let (kind, status, reason, message) = verdict;
    let at = conditions.iter().position(|it| it.type_.as_deref() == Some(kind));
    let before = at.map(|at| conditions.remove(at));
    let same_status = before.as_ref().filter(|it| it.status.as_deref() == Some(status));
    let same = same_status.filter(|it| it.reason.as_deref() == Some(reason) && !moved);
    let condition = DeploymentCondition {
        type_: Some(kind.to_owned()),
        status: Some(status.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: same_status
            .and_then(|it| it.last_transition_time.clone())
            .or_else(|| Some(times::seconds(now))),
        last_update_time: same
            .and_then(|it| it.last_update_time.clone())
            .or_else(|| Some(times::seconds(now))),
    };
    match at {
        Some(at) => conditions.insert(at, condition),
        None => conditions.push(condition),
    }
}

fn is_complete(deployment: &Deployment, spec: &DeploymentSpec, status: &DeploymentStatus) -> bool {
    let desired = spec.replicas.unwrap_or(1);
    status.updated_replicas.unwrap_or_default() == desired
        && status.replicas.unwrap_or_default() == desired
        && status.available_replicas.unwrap_or_default() == desired
        && status.observed_generation >= deployment.metadata.generation
}

/// What to say about the progress of a rollout.
enum Progressing {
    Stays,
    None,
    /// The verdict, and whether something has moved just now.
    Is(Verdict<'static>, bool),
}

fn progressing(
    deployment: &Deployment,
    spec: &DeploymentSpec,
    sets: &Sets,
    before: &DeploymentStatus,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Progressing {
    let Some(seconds) = spec.progress_deadline_seconds.filter(|it| *it != i32::MAX) else {
        return Progressing::None;
    };
    let known = condition(before, "Progressing");
    let reason = known.and_then(|it| it.reason.as_deref()).unwrap_or_default();
    if spec.paused.unwrap_or_default() {
        let text = "Deployment is paused".to_owned();
        return Progressing::Is(("Progressing", "Unknown", "DeploymentPaused", text), false);
    }
    if reason == "DeploymentPaused" {
        let text = "Deployment is resumed".to_owned();
        return Progressing::Is(("Progressing", "Unknown", "DeploymentResumed", text), false);
    }
    let set = match &sets.new {
        Some(new) => format!("ReplicaSet {:?}", name_of(&new.metadata)),
        None => format!("Deployment {:?}", name_of(&deployment.metadata)),
    };
    if sets.made {
        let name = sets.new.as_ref().map_or("", |it| name_of(&it.metadata));
        let text = format!("Created new replica set {name:?}");
        return Progressing::Is(("Progressing", "True", "NewReplicaSetCreated", text), false);
    }
    // It was complete before: scaling it is no rollout.
    if status.replicas == status.updated_replicas && reason == "NewReplicaSetAvailable" {
        return Progressing::Stays;
    }
    if is_complete(deployment, spec, status) {
        let text = format!("{set} has successfully progressed.");
        return Progressing::Is(("Progressing", "True", "NewReplicaSetAvailable", text), false);
    }
    let number = |it: Option<i32>| it.unwrap_or_default();
    let old_pods = |it: &DeploymentStatus| number(it.replicas).saturating_sub(number(it.updated_replicas));
    let moved = number(status.updated_replicas) > number(before.updated_replicas)
        || old_pods(status) < old_pods(before)
        || number(status.ready_replicas) > number(before.ready_replicas)
        || number(status.available_replicas) > number(before.available_replicas);
    if moved {
        let text = format!("{set} is progressing.");
        return Progressing::Is(("Progressing", "True", "ReplicaSetUpdated", text), true);
    }
    let since = known.and_then(|it| it.last_update_time.as_ref()).map(|it| it.0);
    let late = since.is_some_and(|it| times::after(it, times::of_seconds(seconds.into())) <= now);
    if late || reason == "ProgressDeadlineExceeded" {
        let text = format!("{set} has timed out progressing.");
        return Progressing::Is(("Progressing", "False", "ProgressDeadlineExceeded", text), false);
    }
    match known {
        Some(_) => Progressing::Stays,
        None => {
            let name = sets.new.as_ref().map_or("", |it| name_of(&it.metadata));
            let text = format!("Found new replica set {name:?}");
            Progressing::Is(("Progressing", "True", "FoundNewReplicaSet", text), false)
        }
    }
}

fn condition<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    let conditions = status.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_.as_deref() == Some(kind))
}

/// When the rollout would be too late, while it goes on.
fn deadline(spec: &DeploymentSpec, status: &DeploymentStatus, now: Timestamp) -> Again {
    let seconds = spec.progress_deadline_seconds.filter(|it| *it != i32::MAX)?;
    let known = condition(status, "Progressing")?;
    if !matches!(
        known.reason.as_deref(),
        Some("NewReplicaSetCreated" | "ReplicaSetUpdated" | "FoundNewReplicaSet" | "DeploymentResumed")
    ) {
        return None;
    }
    let since = known.last_update_time.as_ref()?.0;
    let due = times::after(since, times::of_seconds(seconds.into()));
    Some(times::until(now, due) + Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn deployment(replicas: i32, status: &DeploymentStatus) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "d", "generation": 1},
            "spec": {"replicas": replicas, "progressDeadlineSeconds": 600, "selector": {}, "template": {}},
            "status": status,
        }))
        .unwrap()
    }

    fn set(name: &str, wanted: i32, has: i32, available: i32) -> Arc<ReplicaSet> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name}, "spec": {"replicas": wanted, "selector": {}},
                "status": {"replicas": has, "readyReplicas": available, "availableReplicas": available},
            }))
            .unwrap(),
        )
    }

    /// The status after a pass, as one line, and the status to go on with.
    fn pass(before: &DeploymentStatus, replicas: i32, sets: &Sets, now: i64) -> (String, DeploymentStatus) {
        let deployment = deployment(replicas, before);
        let status = status(&deployment, &deployment.spec, sets, at(now));
        let number = |it: Option<i32>| it.unwrap_or_default();
        let conditions = status.conditions.iter().flatten().map(|it| {
            let text = |it: &Option<String>| it.clone().unwrap_or_default();
            format!("{}={}/{}", text(&it.type_), text(&it.status), text(&it.reason))
        });
        let counts = format!(
            "{}/{}/{}/{}",
            number(status.replicas),
            number(status.updated_replicas),
            number(status.available_replicas),
            number(status.unavailable_replicas)
        );
        (format!("{counts} {}", conditions.collect::<Vec<_>>().join(" ")), status)
    }

    fn sets(new: Arc<ReplicaSet>, old: Vec<Arc<ReplicaSet>>, made: bool) -> Sets {
        Sets {
            new: Some(new),
            old,
            made,
        }
    }

    #[test]
    fn a_new_deployment_says_what_kubernetes_says() {
        let none = DeploymentStatus::default();
        let (line, status) = pass(&none, 1, &sets(set("d-1", 1, 0, 0), vec![], true), 0);
        assert_eq!(
            line,
            "0/0/0/1 Available=False/MinimumReplicasUnavailable Progressing=True/NewReplicaSetCreated"
        );
        let (line, status) = pass(&status, 1, &sets(set("d-1", 1, 1, 0), vec![], false), 1);
        assert_eq!(
            line,
            "1/1/0/1 Available=False/MinimumReplicasUnavailable Progressing=True/ReplicaSetUpdated"
        );
        let (line, status) = pass(&status, 1, &sets(set("d-1", 1, 1, 1), vec![], false), 2);
        assert_eq!(
            line,
            "1/1/1/0 Available=True/MinimumReplicasAvailable Progressing=True/NewReplicaSetAvailable"
        );
        let progressing = condition(&status, "Progressing").unwrap();
        assert_eq!(
            progressing.message.as_deref(),
            Some("ReplicaSet \"d-1\" has successfully progressed.")
        );
        assert_eq!(progressing.last_transition_time.as_ref().unwrap().0, at(0));
        assert_eq!(progressing.last_update_time.as_ref().unwrap().0, at(2));
        // A pod that dies later does not make it a rollout again.
        let (line, _) = pass(&status, 1, &sets(set("d-1", 1, 1, 0), vec![], false), 3);
        assert_eq!(
            line,
            "1/1/0/1 Available=False/MinimumReplicasUnavailable Progressing=True/NewReplicaSetAvailable"
        );
    }

    #[test]
    fn a_stuck_rollout_is_reported_after_its_progress_deadline() {
        let none = DeploymentStatus::default();
        let stuck = || sets(set("d-2", 1, 1, 0), vec![set("d-1", 3, 3, 3)], false);
        let (_, status) = pass(&none, 3, &stuck(), 0);
        let (line, status) = pass(&status, 3, &stuck(), 599);
        assert_eq!(
            line,
            "4/1/3/1 Available=True/MinimumReplicasAvailable Progressing=True/ReplicaSetUpdated"
        );
        let (line, status) = pass(&status, 3, &stuck(), 600);
        assert_eq!(
            line,
            "4/1/3/1 Available=True/MinimumReplicasAvailable Progressing=False/ProgressDeadlineExceeded"
        );
        let (line, _) = pass(
            &status,
            3,
            &sets(set("d-2", 2, 2, 1), vec![set("d-1", 2, 2, 2)], false),
            601,
        );
        assert_eq!(
            line,
            "4/2/3/1 Available=True/MinimumReplicasAvailable Progressing=True/ReplicaSetUpdated"
        );
    }

    #[test]
    fn the_last_time_and_the_largest_numbers_end_no_pass() {
        let most = i32::MAX;
        let stuck = sets(set("d-2", most, 1, 0), vec![set("d-1", most, most, 1)], false);
        let (_, mut status) = pass(&DeploymentStatus::default(), most, &stuck, 0);
        for it in status.conditions.iter_mut().flatten() {
            it.last_update_time = Some(Time("9999-12-30T21:59:59Z".parse().unwrap()));
        }
        let (line, status) = pass(&status, most, &stuck, 1);
        assert_eq!(
            line,
            "2147483647/1/1/2147483646 Available=False/MinimumReplicasUnavailable Progressing=True/ReplicaSetUpdated"
        );
        let deployment = deployment(most, &status);
        assert!(deadline(&deployment.spec, &status, at(1)).is_some());
    }

    #[test]
    fn a_template_hash_is_stable_and_changes_with_the_template() {
        let template = |image: &str| -> PodTemplateSpec {
            serde_json::from_value(json!({"spec": {"containers": [{"name": "c", "image": image}]}})).unwrap()
        };
        assert_eq!(hash(&template("a"), 0), hash(&template("a"), 0));
        assert_ne!(hash(&template("a"), 0), hash(&template("b"), 0));
        assert_ne!(hash(&template("a"), 0), hash(&template("a"), 1));
    }
}
