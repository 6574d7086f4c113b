//! What is to be done about a HelmRelease, by what is there.

use std::sync::Arc;

use application_render::release::{
    PreparedRelease, ReleaseInfo, ReleaseRevision, ReleaseStatus, StoredRelease, manifest_objects, removed_objects,
    uninstall_order,
};
use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::apps::{HelmRelease, UNINSTALL_HELM_RELEASE},
};
use serde_json::{Map, Value};

use super::{
    ReleaseLook,
    eyes::{Eyes, ReleaseDraft, RevisionSeen},
    operation::{OperationKind, ReleaseOperation},
    pace::{self, PENDING_MAX},
    said::{ReleaseReason, ReleaseVerdict},
};
use crate::cluster::statuses;

/// How often a kind whose definition has just been made is looked for.
const KIND_ROUNDS_MAX: u32 = 12;

/// Two who change one release, in Helm's words.
pub(super) const IN_PROGRESS: &str = "another operation (install/upgrade/rollback) is in progress";

fn irreconcilable(message: impl ToString) -> ReleaseVerdict {
    ReleaseVerdict::Irreconcilable {
        message: message.to_string(),
    }
}

/// What is stored of a release.
struct Stored {
    history: Vec<ReleaseRevision>,
    last: Option<RevisionSeen>,
    deployed: Option<StoredRelease>,
}

impl Stored {
    async fn read(eyes: &Eyes, namespace: &str, name: &str) -> Result<Self, ReleaseVerdict> {
        let mut seen = eyes.history(namespace, name).await.map_err(irreconcilable)?;
        let history: Vec<_> = seen.iter().map(|it| it.revision.clone()).collect();
        let deployed = history.iter().rev().find(|it| it.status == ReleaseStatus::Deployed);
        let deployed = match deployed {
            Some(revision) => Some(eyes.revision(namespace, revision).await.map_err(irreconcilable)?),
            None => None,
        };
        Ok(Self {
            history,
            last: seen.pop(),
            deployed,
        })
    }

    fn next_version(&self) -> i64 {
        self.history.last().map_or(0, |it| it.version).saturating_add(1)
    }
}

/// What a HelmRelease needs that stays.
pub(super) async fn deployment(
    eyes: &Eyes,
    owner: &HelmRelease,
    now: Timestamp,
) -> Result<ReleaseLook, ReleaseVerdict> {
    let (namespace, name) = (owner.namespace().unwrap_or_default(), owner.name_any());
    let stored = Stored::read(eyes, &namespace, &name).await?;
    let last = stored.last.as_ref();
    // Its objects are there in part, and it is the revision before for what follows.
    let mut broken = None;
    if let Some(pending) = last.filter(|it| it.revision.status.is_pending()) {
        let since = pending.written.unwrap_or(now);
        if now.duration_since(since) < SignedDuration::try_from(PENDING_MAX).unwrap_or_default() {
            return Err(irreconcilable(IN_PROGRESS));
        }
        let revision = eyes.revision(&namespace, &pending.revision).await;
        let revision = revision.map_err(irreconcilable)?;
        broken = Some(ReleaseOperation::marked(
            &revision,
            ReleaseStatus::Failed,
            "it was given up",
        ));
    }
    let chart = Arc::new(eyes.chart(owner).await.map_err(irreconcilable)?);
    let draft = ReleaseDraft {
        values: values(owner)?,
        name: name.clone(),
        namespace: namespace.clone(),
        revision: stored.next_version(),
        is_upgrade: stored.deployed.is_some(),
        at: now,
        chart,
    };
    if let Some(deployed) = &stored.deployed
        && broken.is_none()
        && is_same(eyes, deployed, &draft).await?
    {
        return repair(eyes, owner, deployed.clone()).await;
    }
    let kind = if stored.deployed.is_some() {
        OperationKind::Upgrade
    } else {
        OperationKind::Install
    };
    let prepared = eyes.prepared(&draft).await.map_err(|message| match kind {
        OperationKind::Install => ReleaseVerdict::Failed {
            reason: ReleaseReason::InstallError,
            message,
        },
        _ => irreconcilable(message),
    })?;
    let failed = match last.filter(|it| it.revision.status == ReleaseStatus::Failed) {
        Some(it) if stored.deployed.is_none() => eyes.revision(&namespace, &it.revision).await.ok(),
        _ => None,
    };
    let before: Vec<_> = stored.deployed.iter().chain(&broken).chain(&failed).collect();
    let operation = rollout(eyes, owner, kind, &draft, prepared, &before, &stored).await?;
    Ok(ReleaseLook::Operation(Box::new(ReleaseOperation {
        broken,
        ..operation
    })))
}

/// Whether a revision is what a chart and values make. A chart that makes something else each time, such as a random
/// password, is known by itself and by the values.
async fn is_same(eyes: &Eyes, deployed: &StoredRelease, draft: &ReleaseDraft) -> Result<bool, ReleaseVerdict> {
    if !deployed.has_chart(&draft.chart) || deployed.config != draft.values {
        return Ok(false);
    }
    let mut again = ReleaseDraft {
        revision: deployed.version,
        is_upgrade: deployed.version > 1,
        ..draft.clone()
    };
    let made = eyes.prepared(&again).await.map_err(irreconcilable)?;
    if made.manifest == deployed.manifest {
        return Ok(true);
    }
    again.at += SignedDuration::from_hours(1);
    let once_more = eyes.prepared(&again).await.map_err(irreconcilable)?;
    Ok(once_more.manifest != made.manifest)
}

/// The values of a HelmRelease. An empty spec is stored with an empty key, because the API server keeps no empty one.
fn values(owner: &HelmRelease) -> Result<Map<String, Value>, ReleaseVerdict> {
    match &owner.spec {
        Value::Null => Ok(Map::new()),
        Value::Object(values) => {
            let mut values = values.clone();
            values.remove("");
            Ok(values)
        }
        _ => Err(irreconcilable("spec is no object with values of the chart")),
    }
}

async fn rollout(
    eyes: &Eyes,
    owner: &HelmRelease,
    kind: OperationKind,
    draft: &ReleaseDraft,
    prepared: PreparedRelease,
    before: &[&StoredRelease],
    stored: &Stored,
) -> Result<ReleaseOperation, ReleaseVerdict> {
    let namespace = &draft.namespace;
    let mut old = Vec::new();
    for revision in before {
        let objects = manifest_objects(&revision.manifest, &draft.name, namespace);
        old.extend(objects.map_err(irreconcilable)?);
    }
    let removed = removed_objects(&old, &prepared.objects, namespace);
    let first = stored.deployed.as_ref().and_then(|it| it.info.first_deployed);
    let release = StoredRelease {
        name: draft.name.clone(),
        namespace: namespace.clone(),
        version: draft.revision,
        chart: StoredRelease::chart_value(&draft.chart),
        config: draft.values.clone(),
        manifest: prepared.manifest,
        hooks: prepared.hooks,
        info: ReleaseInfo {
            first_deployed: first.or(Some(draft.at)),
            last_deployed: Some(draft.at),
            deleted: None,
            description: match kind {
                OperationKind::Install => "Initial install underway",
                _ => "Preparing upgrade",
            }
            .to_owned(),
            status: match kind {
                OperationKind::Install => ReleaseStatus::PendingInstall,
                _ => ReleaseStatus::PendingUpgrade,
            },
            notes: prepared.notes,
        },
        labels: stored.deployed.as_ref().map(|it| it.labels.clone()).unwrap_or_default(),
    };
    let mut operation = ReleaseOperation {
        kind,
        hooks: eyes.hooks(&release.hooks, namespace).await,
        definitions: Vec::new(),
        objects: eyes.objects(prepared.objects, &old, namespace).await,
        removed: eyes.objects(removed, &[], namespace).await,
        history: stored.history.clone(),
        deployed: stored.deployed.clone(),
        broken: None,
        problem: release.secret(None, None).err().map(|it| it.to_string()),
        failure: None,
        force: pace::is_forced(owner),
        round: 0,
        stored: false,
        release,
    };
    if kind == OperationKind::Install {
        let definitions = eyes.objects(prepared.crds, &[], namespace).await;
        operation.definitions = definitions.into_iter().filter(|it| it.live.is_none()).collect();
    }
    if operation.definitions.is_empty() {
        operation.problem = operation.problem.clone().or_else(|| operation.objection());
    }
    Ok(operation)
}

/// The operation, when the definitions are there that it had to wait for.
pub(super) async fn with_definitions(eyes: &Eyes, mut operation: ReleaseOperation) -> ReleaseOperation {
    operation.definitions.clear();
    operation.broken = None;
    let namespace = operation.release.namespace.clone();
    for round in 0..KIND_ROUNDS_MAX {
        tokio::time::sleep(super::wait(round)).await;
        operation.objects = eyes.again(operation.objects, &namespace).await;
        if operation.objects.iter().all(|it| it.kind.is_some()) {
            break;
        }
    }
    operation.hooks = eyes.hooks(&operation.release.hooks, &namespace).await;
    operation.problem = operation.objection();
    operation
}

async fn repair(eyes: &Eyes, owner: &HelmRelease, deployed: StoredRelease) -> Result<ReleaseLook, ReleaseVerdict> {
    let objects = manifest_objects(&deployed.manifest, &deployed.name, &deployed.namespace);
    let objects = objects.map_err(irreconcilable)?;
    let mut operation = ReleaseOperation {
        kind: OperationKind::Repair,
        definitions: Vec::new(),
        objects: eyes.objects(objects, &[], &deployed.namespace).await,
        removed: Vec::new(),
        hooks: Vec::new(),
        history: Vec::new(),
        deployed: None,
        broken: None,
        problem: None,
        failure: None,
        force: pace::is_forced(owner),
        round: 0,
        stored: false,
        release: deployed,
    };
    operation.problem = operation.objection();
    Ok(ReleaseLook::Operation(Box::new(operation)))
}

/// What a HelmRelease needs that goes.
pub(super) async fn removal(eyes: &Eyes, owner: &HelmRelease) -> Result<ReleaseLook, ReleaseVerdict> {
    if !owner.finalizers().iter().any(|it| it == UNINSTALL_HELM_RELEASE) {
        return Ok(ReleaseLook::Nothing);
    }
    let failed = |verdict| match verdict {
        ReleaseVerdict::Irreconcilable { message } => ReleaseVerdict::Failed {
            reason: ReleaseReason::UninstallError,
            message,
        },
        other => other,
    };
    let (namespace, name) = (owner.namespace().unwrap_or_default(), owner.name_any());
    let stored = Stored::read(eyes, &namespace, &name).await.map_err(failed)?;
    let Some(last) = &stored.last else {
        return Ok(ReleaseLook::Gone);
    };
    let release = eyes.revision(&namespace, &last.revision).await;
    let release = release.map_err(|it| failed(irreconcilable(it)))?;
    let operation = uninstallation(eyes, release, &stored).await.map_err(failed)?;
    Ok(ReleaseLook::Operation(Box::new(operation)))
}

async fn uninstallation(
    eyes: &Eyes,
    release: StoredRelease,
    stored: &Stored,
) -> Result<ReleaseOperation, ReleaseVerdict> {
    let mut objects = Vec::new();
    // What only the deployed revision has is there as long as a later one has failed.
    let deployed = stored.deployed.as_ref().filter(|it| it.version != release.version);
    for revision in std::iter::once(&release).chain(deployed) {
        let more = manifest_objects(&revision.manifest, &release.name, &release.namespace);
        let more = more.map_err(irreconcilable)?;
        let new = removed_objects(&more, &objects, &release.namespace);
        objects.extend(new);
    }
    let objects = uninstall_order(objects.into_iter().rev().collect());
    let mut operation = ReleaseOperation {
        kind: OperationKind::Uninstall,
        definitions: Vec::new(),
        objects: eyes.objects(objects, &[], &release.namespace).await,
        removed: Vec::new(),
        hooks: eyes.hooks(&release.hooks, &release.namespace).await,
        history: stored.history.clone(),
        deployed: None,
        broken: None,
        problem: None,
        failure: None,
        force: false,
        round: 0,
        stored: false,
        release,
    };
    operation.problem = operation.objection();
    Ok(operation)
}

/// What undoes an operation that has failed: a first revision goes, and in place of a later one comes the one before.
pub(super) async fn undoing(
    eyes: &Eyes,
    owner: &HelmRelease,
    failed: ReleaseOperation,
    why: &str,
) -> Result<ReleaseLook, ReleaseVerdict> {
    let release = &failed.release;
    let (namespace, name) = (release.namespace.clone(), release.name.clone());
    let (reason, description) = match failed.kind {
        OperationKind::Install => (ReleaseReason::InstallError, format!("Release {name:?} failed: {why}")),
        _ => (ReleaseReason::UpgradeError, format!("Upgrade {name:?} failed: {why}")),
    };
    let broken = ReleaseOperation::marked(release, ReleaseStatus::Failed, description);
    let failure = Some((reason, why.to_owned()));
    let verdict = |it: ReleaseVerdict| match it {
        ReleaseVerdict::Irreconcilable { message } => ReleaseVerdict::Failed {
            reason,
            message: format!("{why}; and it cannot be undone: {message}"),
        },
        other => other,
    };
    let stored = Stored::read(eyes, &namespace, &name).await.map_err(verdict)?;
    let was_there = statuses::has_deployed(owner);
    let undoing = match &failed.deployed {
        None if was_there => {
            // Somebody has deleted the revisions, and what is there may be all that is left of the data.
            ReleaseOperation {
                kind: OperationKind::Repair,
                definitions: Vec::new(),
                objects: Vec::new(),
                removed: Vec::new(),
                hooks: Vec::new(),
                problem: None,
                ..failed
            }
        }
        None => uninstallation(eyes, broken.clone(), &stored).await.map_err(verdict)?,
        Some(deployed) => {
            let mut target = ReleaseOperation::marked(
                deployed,
                ReleaseStatus::PendingRollback,
                format!("Rollback to {}", deployed.version),
            );
            target.version = stored.next_version();
            target.info.last_deployed = broken.info.last_deployed;
            let objects = |it: &StoredRelease| manifest_objects(&it.manifest, &name, &namespace);
            let old = objects(&broken).map_err(|it| verdict(irreconcilable(it)))?;
            let new = objects(&target).map_err(|it| verdict(irreconcilable(it)))?;
            let removed = removed_objects(&old, &new, &namespace);
            let mut operation = ReleaseOperation {
                kind: OperationKind::Rollback,
                definitions: Vec::new(),
                objects: eyes.objects(new, &old, &namespace).await,
                removed: eyes.objects(removed, &[], &namespace).await,
                hooks: eyes.hooks(&target.hooks, &namespace).await,
                history: stored.history.clone(),
                deployed: Some(deployed.clone()),
                broken: None,
                problem: None,
                failure: None,
                force: false,
                round: 0,
                stored: false,
                release: target,
            };
            operation.problem = operation.objection();
            operation
        }
    };
    Ok(ReleaseLook::Operation(Box::new(ReleaseOperation {
        broken: Some(broken),
        failure,
        ..undoing
    })))
}

/// What a chart says about its release, and which of its hooks were not run.
pub(super) fn notes(operation: &ReleaseOperation) -> String {
    let release = &operation.release;
    let moments = match release.version {
        1 => ["pre-install", "post-install"],
        _ => ["pre-upgrade", "post-upgrade"],
    };
    let mut left = Vec::new();
    for hook in release.hooks.iter().filter(|it| it.needs_pods()) {
        let moment = hook.events.iter().find(|it| moments.contains(&it.as_str()));
        left.extend(moment.map(|moment| format!("{} {} ({moment})", hook.kind, hook.name)));
    }
    let mut notes = release.info.notes.clone();
    if !left.is_empty() {
        if !notes.is_empty() && !notes.ends_with('\n') {
            notes.push('\n');
        }
        notes.push_str(&format!("Hooks that need pods were not run: {}", left.join(", ")));
    }
    notes
}
