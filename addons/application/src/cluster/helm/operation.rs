//! What is done about a release: the operation as it was seen, and the steps of it. Pure.
//! Upstream: helm.sh/helm/v3 pkg/action.
//!
//! ```text
//! store (pending) -> hooks before -> objects, kind by kind -> what is no longer there -> hooks after -> store (deployed)
//! ```
//!
//! A stage begins when the one before has succeeded; what failed is recorded and undone in a round of its own.

use application_render::release::{
    HISTORY_MAX, HookRun, ReleaseHook, ReleaseRevision, ReleaseStatus, StoredRelease, dropped_fields, hooks_of_event,
    is_kept, owned_by_other, superfluous_revisions,
};
use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::ResourceExt,
    ocm_api::apps::{HelmRelease, UNINSTALL_HELM_RELEASE},
    reconcile::{Plan, Propagation, Site, Step, Target, agreement, discovery::DiscoveredKind},
};
use serde_json::{Value, json};

use super::said::ReleaseReason;

/// The field manager of what charts make: Helm's, so that `kubectl` shows one name whoever has written last.
pub(super) const FIELD_MANAGER: &str = "helm";
/// The name of the step that stores a revision which must not be there.
pub(super) const STORE: &str = "store";
/// How often a release that goes is looked at before it is left for later.
pub(super) const GOING_ROUNDS_MAX: u32 = 12;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// The first revision.
    Install,
    /// A later one.
    Upgrade,
    /// An earlier one again, because a later one has failed.
    Rollback,
    /// Objects of the deployed revision that somebody has changed.
    Repair,
    /// All of it goes.
    Uninstall,
}

/// An object of a release.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReleaseObject {
    /// As the chart has it, with its namespace.
    pub wanted: Value,
    /// How its kind is served; `None` where it is not.
    pub kind: Option<DiscoveredKind>,
    /// As it is.
    pub live: Option<Value>,
    /// As the revision before had it.
    pub before: Option<Value>,
    /// Why nobody knows how it is.
    pub unseen: Option<String>,
}

/// A hook of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct HookObject {
    /// The hook.
    pub hook: ReleaseHook,
    /// Its object.
    pub object: ReleaseObject,
}

/// What is done about a release, with everything that it is decided by.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseOperation {
    /// What is done.
    pub kind: OperationKind,
    /// The revision that is made, or the one that is repaired or goes.
    pub release: StoredRelease,
    /// Definitions that are not there yet and come first.
    pub definitions: Vec<ReleaseObject>,
    /// Its objects, in order.
    pub objects: Vec<ReleaseObject>,
    /// Objects of the revision before that go.
    pub removed: Vec<ReleaseObject>,
    /// Its hooks.
    pub hooks: Vec<HookObject>,
    /// The revisions that are stored.
    pub history: Vec<ReleaseRevision>,
    /// The revision that was deployed until now.
    pub deployed: Option<StoredRelease>,
    /// A revision that has failed.
    pub broken: Option<StoredRelease>,
    /// Why it is not tried.
    pub problem: Option<String>,
    /// What has failed before, and is undone by this.
    pub failure: Option<(ReleaseReason, String)>,
    /// Whether objects are replaced rather than patched.
    pub force: bool,
    /// How often it was looked at.
    pub round: u32,
    /// Whether its revision is stored, as one under way.
    pub stored: bool,
}

impl ReleaseObject {
    /// Where it is; `None` where its kind is not served.
    pub fn target(&self) -> Option<Target> {
        let kind = self.kind.as_ref()?;
        let metadata = &self.wanted["metadata"];
        Some(Target {
            site: Site::Cluster,
            api_resource: kind.api_resource.clone(),
            namespace: metadata["namespace"]
                .as_str()
                .filter(|_| kind.namespaced)
                .map(str::to_owned),
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
        })
    }

    fn kind_name(&self) -> &str {
        self.wanted["kind"].as_str().unwrap_or_default()
    }

    /// `ConfigMap ns/name`.
    pub fn told(&self) -> String {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let metadata = &self.wanted["metadata"];
        let namespace = text(&metadata["namespace"]);
        let name = text(&metadata["name"]);
        if namespace.is_empty() {
            format!("{} {name}", self.kind_name())
        } else {
            format!("{} {namespace}/{name}", self.kind_name())
        }
    }

    fn unmatched(&self) -> String {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let metadata = &self.wanted["metadata"];
        format!(
            "unable to build kubernetes objects from release manifest: resource mapping not found for name: {:?} \
             namespace: {:?} from \"\": no matches for kind {:?} in version {:?}",
            text(&metadata["name"]),
            text(&metadata["namespace"]),
            self.kind_name(),
            text(&self.wanted["apiVersion"])
        )
    }
}

impl ReleaseOperation {
    /// What of the objects keeps it from being tried, in Helm's words.
    pub fn objection(&self) -> Option<String> {
        let (name, namespace) = (&self.release.name, &self.release.namespace);
        let word = match self.kind {
            OperationKind::Install => "install",
            _ => "update",
        };
        for object in &self.objects {
            if let Some(why) = &object.unseen {
                let object = object.told();
                return Some(format!("could not get information about the resource {object}: {why}"));
            }
            if self.kind == OperationKind::Uninstall {
                continue;
            }
            if object.kind.is_none() {
                return Some(object.unmatched());
            }
            let taken = match (&object.live, &object.before, self.kind) {
                (Some(live), None, OperationKind::Install | OperationKind::Upgrade) => {
                    owned_by_other(live, name, namespace)
                }
                _ => None,
            };
            if let Some(why) = taken {
                return Some(format!("Unable to continue with {word}: {why}"));
            }
        }
        let hooks = self.moments().into_iter().flat_map(|(before, after)| [before, after]);
        let unserved = hooks
            .flat_map(|it| self.hooks_at(it))
            .find(|it| it.object.kind.is_none());
        unserved
            .filter(|_| self.kind != OperationKind::Uninstall)
            .map(|it| it.object.unmatched())
    }

    /// The moments before and after it.
    fn moments(&self) -> Option<(&'static str, &'static str)> {
        Some(match self.kind {
            OperationKind::Install => ("pre-install", "post-install"),
            OperationKind::Upgrade => ("pre-upgrade", "post-upgrade"),
            OperationKind::Rollback => ("pre-rollback", "post-rollback"),
            OperationKind::Uninstall => ("pre-delete", "post-delete"),
            OperationKind::Repair => return None,
        })
    }

    /// The hooks of a moment that need no pods, in order.
    fn hooks_at(&self, moment: &str) -> Vec<&HookObject> {
        let hooks: Vec<ReleaseHook> = self.hooks.iter().map(|it| it.hook.clone()).collect();
        let ordered = hooks_of_event(&hooks, moment).into_iter().filter(|it| !it.needs_pods());
        ordered
            .filter_map(|hook| self.hooks.iter().find(|it| it.hook == *hook))
            .collect()
    }

    /// Objects that are still there and go.
    pub fn going(&self) -> impl Iterator<Item = &ReleaseObject> {
        self.objects
            .iter()
            .filter(|it| it.live.as_ref().is_some_and(|live| self.goes(it, live)))
    }

    fn goes(&self, object: &ReleaseObject, live: &Value) -> bool {
        let annotations = &live["metadata"]["annotations"];
        let is_of = |key: &str, value: &str| annotations[key].as_str().is_none_or(|it| it == value);
        !is_kept(live)
            && !is_kept(&object.wanted)
            && is_of("meta.helm.sh/release-name", &self.release.name)
            && is_of("meta.helm.sh/release-namespace", &self.release.namespace)
    }

    /// The revision with this status and sentence.
    pub fn marked(release: &StoredRelease, status: ReleaseStatus, description: impl Into<String>) -> StoredRelease {
        let mut release = release.clone();
        release.info.status = status;
        release.info.description = description.into();
        release
    }
}

/// The Secret of a revision. Its owner is the HelmRelease, as upstream's.
pub(super) fn secret(owner: &HelmRelease, release: &StoredRelease, now: Timestamp, is_new: bool) -> Option<Value> {
    let (created, modified) = if is_new { (Some(now), None) } else { (None, Some(now)) };
    let mut secret = release.secret(created, modified).ok()?;
    secret["metadata"]["ownerReferences"] = json!([{
        "apiVersion": HelmRelease::API_VERSION,
        "kind": HelmRelease::KIND,
        "name": owner.name_any(),
        "uid": owner.uid().unwrap_or_default(),
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    Some(secret)
}

/// The steps of an operation on the release of this HelmRelease.
pub(super) fn plan(plan: &mut Plan, owner: &HelmRelease, operation: &ReleaseOperation, now: Timestamp) {
    if let Some(broken) = &operation.broken {
        store(plan, owner, broken, now);
        plan.stage();
    }
    if let Some(problem) = &operation.problem {
        plan.refuse(problem.clone());
        return;
    }
    if !matches!(operation.kind, OperationKind::Rollback | OperationKind::Uninstall) {
        plan.add_finalizer(Site::Cluster, owner, UNINSTALL_HELM_RELEASE);
        plan.stage();
    }
    match operation.kind {
        OperationKind::Repair => apply(plan, operation),
        OperationKind::Uninstall => uninstall(plan, owner, operation, now),
        OperationKind::Install | OperationKind::Upgrade | OperationKind::Rollback => {
            deploy(plan, owner, operation, now);
        }
    }
}

fn deploy(plan: &mut Plan, owner: &HelmRelease, operation: &ReleaseOperation, now: Timestamp) {
    let release = &operation.release;
    if !operation.definitions.is_empty() {
        for definition in &operation.definitions {
            let Some(target) = definition.target() else { continue };
            plan.push(Step::Create {
                target,
                object: definition.wanted.clone(),
            });
        }
        return;
    }
    if !operation.stored {
        // Who is second has lost, and goes no further.
        if let Some(object) = secret(owner, release, now, true) {
            let step = plan.push(Step::Create {
                target: secret_target(release),
                object,
            });
            plan.name(STORE, step);
        }
        return;
    }
    let moments = operation.moments();
    if let Some((before, _)) = moments {
        run_hooks(plan, operation, before);
    }
    apply(plan, operation);
    plan.stage();
    for object in &operation.removed {
        delete(plan, operation, object);
    }
    if let Some((_, after)) = moments {
        run_hooks(plan, operation, after);
    }
    plan.stage();
    let description = match operation.kind {
        OperationKind::Install => "Install complete",
        OperationKind::Upgrade => "Upgrade complete",
        _ => release.info.description.as_str(),
    };
    let mut done = ReleaseOperation::marked(release, ReleaseStatus::Deployed, description);
    if let Some((before, after)) = moments {
        for hook in &mut done.hooks {
            if !hook.needs_pods() && hook.events.iter().any(|it| it == before || it == after) {
                hook.last_run = HookRun {
                    started_at: Some(now),
                    completed_at: Some(now),
                    phase: "Succeeded".to_owned(),
                };
            }
        }
    }
    store(plan, owner, &done, now);
    if let Some(deployed) = &operation.deployed {
        let description = deployed.info.description.clone();
        let superseded = ReleaseOperation::marked(deployed, ReleaseStatus::Superseded, description);
        store(plan, owner, &superseded, now);
    }
    for revision in superfluous_revisions(&operation.history, HISTORY_MAX) {
        forget(plan, &release.namespace, &revision);
    }
}

fn uninstall(plan: &mut Plan, owner: &HelmRelease, operation: &ReleaseOperation, now: Timestamp) {
    let release = &operation.release;
    if operation.round == 0 {
        let mut going = ReleaseOperation::marked(
            release,
            ReleaseStatus::Uninstalling,
            "Deletion in progress (or silently failed)",
        );
        going.info.deleted = Some(now);
        store(plan, owner, &going, now);
        run_hooks(plan, operation, "pre-delete");
        let mut kind = "";
        for object in &operation.objects {
            if object.kind_name() != kind {
                plan.stage();
                kind = object.kind_name();
            }
            delete(plan, operation, object);
        }
        return;
    }
    if operation.going().next().is_some() {
        return;
    }
    run_hooks(plan, operation, "post-delete");
    plan.stage();
    for revision in &operation.history {
        forget(plan, &release.namespace, revision);
    }
}

fn run_hooks(plan: &mut Plan, operation: &ReleaseOperation, moment: &str) {
    let hooks = operation.hooks_at(moment);
    let gone = |target| Step::Delete {
        target,
        uid: None,
        propagation: Some(Propagation::Background),
    };
    for hook in &hooks {
        let Some(target) = hook.object.target() else { continue };
        if hook.hook.is_deleted_at("before-hook-creation") {
            plan.stage().push(gone(target.clone()));
        }
        plan.stage().push(Step::Apply {
            target,
            object: hook.object.wanted.clone(),
            field_manager: FIELD_MANAGER.to_owned(),
            force: true,
        });
    }
    plan.stage();
    for hook in hooks.iter().rev().filter(|it| it.hook.is_deleted_at("hook-succeeded")) {
        if let Some(target) = hook.object.target() {
            plan.push(gone(target));
        }
    }
    plan.stage();
}

fn apply(plan: &mut Plan, operation: &ReleaseOperation) {
    for objects in operation.objects.chunk_by(|a, b| a.kind_name() == b.kind_name()) {
        let decided: Vec<_> = objects.iter().filter_map(|it| decide(it, operation)).collect();
        plan.stage();
        for step in decided.iter().filter_map(|it| it.0.clone()) {
            plan.push(step);
        }
        plan.stage();
        for (_, step) in decided {
            plan.push(step);
        }
    }
}

/// What is written for an object: what takes away fields that nobody asks for any more, and the object.
fn decide(object: &ReleaseObject, operation: &ReleaseOperation) -> Option<(Option<Step>, Step)> {
    let target = object.target()?;
    let mut wanted = object.wanted.clone();
    let mut dropped = None;
    if let Some(live) = &object.live {
        let applied = agreement::was_applied_by(live, FIELD_MANAGER);
        if !applied {
            let before = object.before.as_ref();
            dropped = before.and_then(|before| dropped_fields(before, &wanted, live));
        }
        let left_over = dropped.is_some() || applied && agreement::has_leftover(live, FIELD_MANAGER, &wanted);
        if !left_over && agreement::agrees(live, &wanted) {
            return None;
        }
        if operation.force && operation.kind == OperationKind::Upgrade {
            wanted["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            let replace = Step::Replace {
                target,
                subresource: None,
                object: wanted,
            };
            return Some((None, replace));
        }
    }
    let patch = dropped.map(|patch| Step::MergePatch {
        target: target.clone(),
        subresource: None,
        patch,
    });
    let apply = Step::Apply {
        target,
        object: wanted,
        field_manager: FIELD_MANAGER.to_owned(),
        force: true,
    };
    Some((patch, apply))
}

fn delete(plan: &mut Plan, operation: &ReleaseOperation, object: &ReleaseObject) {
    let (Some(live), Some(target)) = (&object.live, object.target()) else {
        return;
    };
    if !operation.goes(object, live) || !live["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    plan.push(Step::Delete {
        target,
        uid: live["metadata"]["uid"].as_str().map(str::to_owned),
        propagation: Some(Propagation::Background),
    });
}

fn store(plan: &mut Plan, owner: &HelmRelease, release: &StoredRelease, now: Timestamp) {
    let Some(object) = secret(owner, release, now, false) else {
        return;
    };
    plan.push(Step::Replace {
        target: secret_target(release),
        subresource: None,
        object,
    });
}

fn secret_target(release: &StoredRelease) -> Target {
    Target::namespaced::<Secret>(Site::Cluster, &release.namespace, &release.secret_name())
}

fn forget(plan: &mut Plan, namespace: &str, revision: &ReleaseRevision) {
    plan.push(Step::Delete {
        target: Target::namespaced::<Secret>(Site::Cluster, namespace, &revision.secret_name()),
        uid: None,
        propagation: None,
    });
}

#[cfg(test)]
#[path = "operation_tests.rs"]
mod tests;
