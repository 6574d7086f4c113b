//! What came of an import, and what is said of it: the condition, and an Event when that changes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ocm_api::{
    cluster::ManagedCluster,
    condition::{self, ConditionUpdate, wanted},
    conditions::managed_cluster,
};
use ocm_reconcile::{EventKind, EventStep, Outcome, Plan, Site, Step, StepError, Target};
use serde_json::json;

use super::{
    failure::Failure,
    kubeconfig,
    plan::{Attempt, Decision, ImportRound, Seen},
    source::{DELETE_AFTER_IMPORT, Provider},
    values,
};

const SUCCEEDED: &str = "ImportSucceed";
/// A condition's message may have so many bytes.
const MESSAGE_MAX: usize = 32_768;
/// An Event's note may have so many bytes.
const NOTE_MAX: usize = 1_024;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The cluster is imported.
    Imported,
    /// It is not.
    Failed(Failure),
}

/// What came of a run; `None` when nothing was to be done, or it was not yet time.
pub fn of(seen: &Seen, outcome: &Outcome) -> Option<Verdict> {
    let failed = |failure: Failure| Some(Verdict::Failed(failure));
    match &seen.round {
        ImportRound::First => match seen.decide() {
            Decision::Failed(failure) => failed(failure),
            Decision::Leave | Decision::Later(_) | Decision::Go(_) => None,
        },
        ImportRound::Materials(materials) => match values::values(&seen.options, &seen.name, materials, "") {
            Err(why) => failed(Failure::no_manifests(why)),
            Ok(_) => failed(Failure::no_manifests(format!(
                "no token for ServiceAccount {}/{}: {}",
                seen.options.bootstrap_service_account.0,
                seen.options.bootstrap_service_account.1,
                outcome.error_text()
            ))),
        },
        ImportRound::Cluster(looked) => match looked.as_ref().as_ref().map_err(Clone::clone).and_then(|it| it.plan()) {
            Err(failure) => failed(failure),
            Ok(_) if outcome.succeeded() => Some(Verdict::Imported),
            Ok(_) => failed(Failure::not_applied(errors(seen, outcome))),
        },
    }
}

/// What went wrong on the cluster.
fn errors(seen: &Seen, outcome: &Outcome) -> String {
    let from = seen.source.as_ref().map(|it| it.name(&seen.name)).unwrap_or_default();
    let server = match &seen.round {
        ImportRound::Cluster(looked) => looked.as_ref().as_ref().map_or("the cluster", |it| it.server.as_str()),
        _ => "the cluster",
    };
    let told = outcome.errors().map(|(id, error)| {
        let step = outcome.plan().get(id).map(ToString::to_string).unwrap_or_default();
        let why = match error {
            StepError::Kube(error) => kubeconfig::explain(server, &from, error),
            other => other.to_string(),
        };
        format!("{step}: {why}")
    });
    told.collect::<Vec<_>>().join("; ")
}

/// Keeps what failed, for the next try of it.
pub fn remember(failed: &mut BTreeMap<String, Attempt>, seen: &Seen, outcome: &Outcome) {
    match of(seen, outcome) {
        Some(Verdict::Failed(failure)) => {
            failed.insert(seen.name.clone(), seen.attempt(&failure));
        }
        None if seen.cluster.is_some() => {}
        Some(Verdict::Imported) | None => {
            failed.remove(&seen.name);
        }
    }
}

/// Says what came of it.
pub fn say(seen: &Seen, verdict: &Verdict) -> Plan {
    let mut plan = Plan::new();
    let Some(cluster) = seen.cluster.as_deref() else {
        return plan;
    };
    let update = condition_of(verdict);
    let mut new = cluster.clone();
    if condition::set(&mut new.status.get_or_insert_default().conditions, update, seen.now) {
        plan.status(Site::Hub, cluster, &new);
        // Somebody else may have been faster, and then it is said with the next try.
        plan.stage().push(event(cluster, verdict, seen.now));
    }
    match verdict {
        Verdict::Imported => {
            if let Some(used) = used_up(seen) {
                plan.stage().push(used);
            }
        }
        Verdict::Failed(failure) => {
            if let Some(delay) = failure.delay(seen.failures()) {
                plan.look_again(delay);
            }
        }
    }
    plan
}

fn condition_of(verdict: &Verdict) -> ConditionUpdate {
    let (holds, reason, message) = match verdict {
        Verdict::Imported => (true, SUCCEEDED, ""),
        Verdict::Failed(it) => (false, it.reason, it.message.as_str()),
    };
    wanted(
        managed_cluster::IMPORT_SUCCEEDED,
        holds,
        reason,
        shortened(message, MESSAGE_MAX),
    )
}

fn event(cluster: &ManagedCluster, verdict: &Verdict, now: Timestamp) -> Step {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let (kind, reason, note) = match verdict {
        Verdict::Imported => (
            EventKind::Normal,
            "ManagedClusterImported",
            format!("managed cluster {name} is imported"),
        ),
        Verdict::Failed(it) => (
            EventKind::Warning,
            it.reason,
            format!("managed cluster {name} is not imported: {}", it.message),
        ),
    };
    Step::Event(EventStep {
        site: Site::Hub,
        // Where Kubernetes files events about what has no namespace; the cluster's own is made when it is accepted.
        namespace: "default".to_owned(),
        regarding: json!({
            "apiVersion": ManagedCluster::API_VERSION,
            "kind": ManagedCluster::KIND,
            "name": cluster.metadata.name,
            "uid": cluster.metadata.uid,
        }),
        related: None,
        kind,
        reason: reason.to_owned(),
        action: "Import".to_owned(),
        note: shortened(&note, NOTE_MAX),
        reporting_controller: "registration-controller".to_owned(),
        at: now,
    })
}

/// Deletes the Secret with the kubeconfig, if whoever put it there wants that.
fn used_up(seen: &Seen) -> Option<Step> {
    let source = seen.source.as_ref().filter(|it| it.provider == Provider::Secret)?;
    let secret = source.secret.as_ref().ok()?.as_ref()?;
    let annotations = secret.metadata.annotations.as_ref()?;
    (annotations.get(DELETE_AFTER_IMPORT)? == "true").then(|| Step::Delete {
        target: Target::of(Site::Hub, secret),
        uid: secret.metadata.uid.clone(),
        propagation: None,
    })
}

fn shortened(text: &str, bytes_max: usize) -> String {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
