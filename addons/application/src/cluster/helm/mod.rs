//! Installs what HelmReleases say, as Helm does.
//!
//! Root: HelmRelease on the cluster. Reads: its chart, the revisions of its release, the objects of the chart. Writes:
//! those objects, the Secrets of the revisions, its finalizer and its status. Never: objects of another release.
//! Upstream: multicloud-operators-subscription pkg/helmrelease, on Helm's own packages.
//!
//! ```text
//! HelmRelease --eyes--> chart, revisions, objects --look--> ReleaseOperation --operation--> steps
//!                                                              ^                       |
//!                     definitions came, something failed, still going <--- next round -+---> said: conditions
//! ```
//!
//! Ours differs from upstream's:
//!
//! 1. Objects are applied on the server's side, with force: what a chart no longer says goes, what others set stays.
//! 2. Objects that somebody has changed are repaired, whether or not the HelmRelease says that they are watched.
//! 3. A chart with random passwords is upgraded when it or its values change, and not at every look.
//! 4. The history stays, ten revisions of it; upstream deletes all but the deployed one.
//! 5. Hooks that need pods are not run. The condition says which.

mod chart;
mod eyes;
mod look;
mod operation;
mod pace;
mod said;

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::{Client, ResourceExt},
    ocm_api::apps::{DeployedRelease, HelmRelease, UNINSTALL_HELM_RELEASE},
    reconcile::{
        Cache, Caches, Done, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait,
        cache::{key_of, split_key},
        caches::put_written,
        execute::sentence,
        rbac::Right,
    },
};
use parking_lot::Mutex;

pub use chart::{ChartContent, ChartPlace, ChartReader};
pub use operation::{HookObject, OperationKind, ReleaseObject, ReleaseOperation};
pub(super) use said::{IRRECONCILABLE, RELEASE_FAILED};
pub use said::{ReleaseReason, ReleaseVerdict};

use eyes::Eyes;
use operation::{GOING_ROUNDS_MAX, STORE};
use pace::{ReleaseLooks, TRY_AGAIN};

/// How long the first wait for what comes or goes is; each next one is twice as long, up to a second.
const FIRST_WAIT: Duration = Duration::from_millis(25);

/// The reconciler.
pub struct HelmReleaseInstallation {
    eyes: Eyes,
    releases: Cache<HelmRelease>,
    memory: Mutex<HashMap<String, ReleaseLooks>>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The HelmRelease; `None` when it is gone.
    pub release: Option<Arc<HelmRelease>>,
    /// What is to be done about it.
    pub look: ReleaseLook,
    inputs: u64,
    looks: ReleaseLooks,
}

/// What a look has found.
#[derive(Debug, PartialEq)]
pub enum ReleaseLook {
    /// It is not there, or none of our business.
    Nothing,
    /// It is not time.
    Later(Duration),
    /// It is going, and nothing of it is there.
    Gone,
    /// Nothing can be done.
    Failed(ReleaseVerdict),
    /// This is to be done.
    Operation(Box<ReleaseOperation>),
}

impl HelmReleaseInstallation {
    /// Over the caches of the cluster.
    pub fn new(caches: &Caches, cluster: Client, charts: Arc<dyn ChartReader>) -> Self {
        Self {
            eyes: Eyes::new(cluster, charts),
            releases: caches.of(),
            memory: Mutex::default(),
        }
    }

    async fn look(&self, release: &HelmRelease, now: Timestamp) -> ReleaseLook {
        let found = if release.metadata.deletion_timestamp.is_some() {
            look::removal(&self.eyes, release).await
        } else {
            look::deployment(&self.eyes, release, now).await
        };
        found.unwrap_or_else(ReleaseLook::Failed)
    }
}

fn wait(round: u32) -> Duration {
    (FIRST_WAIT * 2_u32.pow(round.min(6))).min(Duration::from_secs(1))
}

#[async_trait]
impl Reconciler for HelmReleaseInstallation {
    const NAME: &'static str = "helm-release";
    const WORKERS: usize = 4;
    const AT_ONCE: usize = 8;
    const STATUS: &'static [StatusField] = &[
        StatusField::new(HelmRelease::KIND, "conditions"),
        StatusField::new(HelmRelease::KIND, "deployedRelease"),
    ];
    const RIGHTS: &'static [Right] = &[Right::new(
        "*",
        "*",
        "*",
        "Charts hold whatever their authors like; who may make Subscriptions decides the hub.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.releases);
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let now = Timestamp::now();
        let mut seen = Seen {
            now,
            release: self.releases.get(namespace, name),
            look: ReleaseLook::Nothing,
            inputs: 0,
            looks: self.memory.lock().get(key).cloned().unwrap_or_default(),
        };
        let Some(release) = seen.release.clone() else {
            return Ok(seen);
        };
        seen.inputs = pace::inputs(&release);
        seen.look = match seen.looks.wait(seen.inputs, now) {
            Some(wait) => ReleaseLook::Later(wait),
            None => self.look(&release, now).await,
        };
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        match (&seen.release, &seen.look) {
            (_, ReleaseLook::Later(wait)) => {
                plan.look_again(*wait);
            }
            (Some(release), ReleaseLook::Operation(operation)) => {
                operation::plan(&mut plan, release, operation, seen.now);
            }
            _ => {}
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.releases, outcome);
    }

    fn failure(_: &Seen, _: &Outcome) -> Option<String> {
        // What failed is said in the status, and its pace is that of the HelmRelease.
        None
    }

    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        let ReleaseLook::Operation(operation) = &seen.look else {
            return false;
        };
        if operation.problem.is_some() {
            return false;
        }
        match operation.kind {
            // The rest follows when the definitions are there, and when the revision is.
            OperationKind::Install | OperationKind::Upgrade if !operation.stored => {
                outcome.succeeded() && !is_taken(outcome)
            }
            OperationKind::Rollback if !operation.stored => outcome.succeeded() && !is_taken(outcome),
            OperationKind::Install | OperationKind::Upgrade => !outcome.succeeded(),
            OperationKind::Uninstall => {
                let is_going = operation.round == 0 || operation.going().next().is_some();
                outcome.succeeded() && is_going && operation.round < GOING_ROUNDS_MAX
            }
            OperationKind::Rollback | OperationKind::Repair => false,
        }
    }

    async fn observe_again(&self, _: &str, mut before: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        let (Some(release), ReleaseLook::Operation(mut operation)) = (
            before.release.clone(),
            std::mem::replace(&mut before.look, ReleaseLook::Nothing),
        ) else {
            return Ok(before);
        };
        before.release = Some(latest(&release, outcome));
        let failed = (!outcome.succeeded()).then(|| failures(outcome));
        before.look = match (operation.kind, failed) {
            (OperationKind::Uninstall, _) => {
                tokio::time::sleep(wait(operation.round)).await;
                operation.round += 1;
                let namespace = operation.release.namespace.clone();
                operation.objects = self.eyes.again(operation.objects, &namespace).await;
                operation.broken = None;
                operation.problem = operation.objection();
                ReleaseLook::Operation(operation)
            }
            (_, Some(why)) => {
                let undone = look::undoing(&self.eyes, &release, *operation, &why).await;
                undone.unwrap_or_else(ReleaseLook::Failed)
            }
            (_, None) if operation.definitions.is_empty() => {
                operation.stored = true;
                operation.broken = None;
                ReleaseLook::Operation(operation)
            }
            (_, None) => {
                self.eyes.forget_capabilities();
                ReleaseLook::Operation(Box::new(look::with_definitions(&self.eyes, *operation).await))
            }
        };
        Ok(before)
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(release) = &seen.release else {
            return plan;
        };
        let verdict = match &seen.look {
            ReleaseLook::Nothing | ReleaseLook::Later(_) => return plan,
            ReleaseLook::Gone => ReleaseVerdict::Uninstalled,
            ReleaseLook::Failed(verdict) => verdict.clone(),
            ReleaseLook::Operation(operation) => verdict(operation, outcome),
        };
        let is_failure = !matches!(verdict, ReleaseVerdict::Deployed { .. } | ReleaseVerdict::Uninstalled);
        let looks = ReleaseLooks {
            inputs: seen.inputs,
            last: Some(seen.now),
            failures: match is_failure {
                true if seen.looks.inputs == seen.inputs => seen.looks.failures + 1,
                true => 1,
                false => 0,
            },
        };
        plan.look_again(looks.interval());
        let release = latest(release, outcome);
        plan.status(Site::Cluster, &*release, &said::told(&release, &verdict, seen.now));
        if verdict == ReleaseVerdict::Uninstalled {
            // The status moves its version on. That nobody adds a finalizer meanwhile, the API server sees to.
            let mut any_version = (*release).clone();
            any_version.metadata.resource_version = None;
            plan.stage();
            plan.remove_finalizer(Site::Cluster, &any_version, UNINSTALL_HELM_RELEASE);
        }
        plan.work_out((key_of(&*release), looks));
        plan
    }

    fn concluded(&self, outcome: &Outcome) {
        put_written(&self.releases, outcome);
        let mut memory = self.memory.lock();
        if let (Some((key, looks)), true) = (outcome.worked_out::<(String, ReleaseLooks)>(), outcome.succeeded()) {
            memory.insert(key.clone(), looks.clone());
        }
        memory.retain(|key, _| {
            let (namespace, name) = split_key(key);
            self.releases.get(namespace, name).is_some()
        });
    }
}

/// The HelmRelease as the plan has left it.
fn latest(release: &Arc<HelmRelease>, outcome: &Outcome) -> Arc<HelmRelease> {
    let (namespace, name) = (release.namespace(), release.name_any());
    let written = outcome.latest::<HelmRelease>(Site::Cluster, namespace.as_deref(), &name);
    written.map_or_else(|| release.clone(), Arc::new)
}

/// Whether somebody else has stored the revision meanwhile.
fn is_taken(outcome: &Outcome) -> bool {
    matches!(outcome.named(STORE), Some(Ok(Done::AlreadyExists)))
}

fn failures(outcome: &Outcome) -> String {
    let all: Vec<String> = outcome
        .results()
        .filter_map(|(step, result)| {
            let error = result.as_ref().err()?;
            Some(match step.target() {
                Some(target) => format!("{} {:?}: {}", target.api_resource.kind, target.name, sentence(error)),
                None => sentence(error),
            })
        })
        .collect();
    all.join("; ")
}

fn verdict(operation: &ReleaseOperation, outcome: &Outcome) -> ReleaseVerdict {
    let trouble = operation
        .problem
        .clone()
        .or_else(|| (!outcome.succeeded()).then(|| failures(outcome)))
        .or_else(|| is_taken(outcome).then(|| look::IN_PROGRESS.to_owned()));
    if let Some((reason, why)) = &operation.failure {
        let undone = match operation.kind {
            OperationKind::Rollback => "failed rollback:",
            _ => "failed uninstall rollback",
        };
        let tried = match reason {
            ReleaseReason::InstallError => "failed installation",
            _ => "failed upgrade",
        };
        let message = match trouble {
            None => why.clone(),
            Some(more) => format!("{tried} {why} and {undone} {more}"),
        };
        return ReleaseVerdict::Failed {
            reason: *reason,
            message,
        };
    }
    let (failed, reason) = match operation.kind {
        OperationKind::Install => (ReleaseReason::InstallError, ReleaseReason::InstallSuccessful),
        OperationKind::Upgrade | OperationKind::Rollback => {
            (ReleaseReason::UpgradeError, ReleaseReason::UpgradeSuccessful)
        }
        OperationKind::Repair if operation.release.version == 1 => {
            (ReleaseReason::ReconcileError, ReleaseReason::InstallSuccessful)
        }
        OperationKind::Repair => (ReleaseReason::ReconcileError, ReleaseReason::UpgradeSuccessful),
        OperationKind::Uninstall => {
            let left = operation.going().next();
            let left = left.filter(|_| trouble.is_none()).map(|it| {
                format!(
                    "Failed to delete HelmRelease due to resource: {} is not deleted yet. Checking again after {} minute.",
                    it.told(),
                    TRY_AGAIN.as_secs() / 60
                )
            });
            return match trouble.or(left) {
                None => ReleaseVerdict::Uninstalled,
                Some(message) => ReleaseVerdict::Failed {
                    reason: ReleaseReason::UninstallError,
                    message,
                },
            };
        }
    };
    match trouble {
        Some(message) => ReleaseVerdict::Failed {
            reason: failed,
            message,
        },
        None => ReleaseVerdict::Deployed {
            reason,
            message: look::notes(operation),
            release: DeployedRelease {
                name: operation.release.name.clone(),
                manifest: operation.release.manifest.clone(),
            },
        },
    }
}
