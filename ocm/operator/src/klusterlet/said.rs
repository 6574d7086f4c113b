//! What a Klusterlet is told of what was put in place for it.

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    condition::{self, ConditionUpdate, wanted},
    conditions::klusterlet as conditions,
    operator::{Klusterlet, KlusterletStatus},
};
use ocm_reconcile::{EventKind, EventStep, Outcome, Plan, Site, Step};
use serde_json::json;

use super::{
    install::Prospect,
    klusterlets::Seen,
    scene::Finding,
    settings,
    wanted::{self, reason},
};
use crate::{
    feature_gates::{self, AGENT_REGISTRATION, AGENT_WORK},
    objects,
};

/// The longest note that the API server takes.
const NOTE_BYTES_MAX: usize = 1000;

/// One status patch, and an event when something is wrong that was not wrong before.
pub fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
    let mut plan = Plan::new();
    let Some(klusterlet) = seen.klusterlet.as_deref() else {
        return plan;
    };
    // Somebody else has just written what we had read: the next look is made at once, and is worth telling of.
    if outcome.errors().any(|(_, error)| error.is_conflict()) {
        return plan;
    }
    let latest = outcome.latest::<Klusterlet>(Site::Management, None, &klusterlet.name_any());
    let before = latest.as_ref().unwrap_or(klusterlet);
    let mut after = before.clone();
    let status = after.status.get_or_insert_default();
    let applied = applied(seen, outcome);
    fill(
        status,
        klusterlet,
        seen,
        outcome,
        applied.status == condition::Status::True,
    );
    condition::set(&mut status.conditions, applied, seen.now);
    plan.status(Site::Management, before, &after);
    // To wait is nothing to warn of.
    if !outcome.worked_out::<Prospect>().is_some_and(|it| it.waits.is_some()) {
        tell(&mut plan, before, &after, seen.now);
    }
    plan
}

fn fill(status: &mut KlusterletStatus, klusterlet: &Klusterlet, seen: &Seen, outcome: &Outcome, is_applied: bool) {
    let gates = feature_gates::condition(&[
        (AGENT_REGISTRATION, settings::registration_gates(klusterlet)),
        (AGENT_WORK, settings::work_gates(klusterlet)),
    ]);
    condition::set(&mut status.conditions, gates, seen.now);
    match ready(seen) {
        Some(ready) => condition::set(&mut status.conditions, ready, seen.now),
        None if settings::is_hosted(klusterlet) => false,
        None => condition::remove(&mut status.conditions, conditions::READY_TO_APPLY),
    };
    status.observed_generation = klusterlet.metadata.generation.unwrap_or_default();
    if let (Finding::Scene(scene), true) = (&seen.found, is_applied) {
        let deployments = outcome.worked_out::<Prospect>().map(|it| it.deployments.as_slice());
        status.generations = objects::generations(deployments.unwrap_or_default(), &scene.current, outcome);
        status.related_resources = wanted::related(&scene.settings, seen.layout);
    }
}

/// Whether everything is in place, and if not, why.
fn applied(seen: &Seen, outcome: &Outcome) -> ConditionUpdate {
    let failed = |reason: &str, message: String| wanted(conditions::APPLIED, false, reason, message);
    match &seen.found {
        Finding::Refused(why) => return failed(reason::FAILED, why.join("; ")),
        Finding::Unreadable(why) => return failed(reason::FAILED, why.clone()),
        Finding::NotReady { why, .. } => return failed(reason::FAILED, why.clone()),
        Finding::Nothing | Finding::Scene(_) => {}
    }
    if let Some((reason, what)) = objects::failure(outcome) {
        return failed(&reason, what);
    }
    match outcome.worked_out::<Prospect>().and_then(|it| it.waits.clone()) {
        Some(why) => failed(reason::FAILED, why),
        None => wanted(
            conditions::APPLIED,
            true,
            reason::APPLIED,
            "Klusterlet Component Applied",
        ),
    }
}

/// Whether another managed cluster can be written to.
fn ready(seen: &Seen) -> Option<ConditionUpdate> {
    const PREPARED: &str = "KlusterletPrepared";
    const FAILED: &str = "KlusterletPrepareFailed";
    match &seen.found {
        Finding::NotReady { why, .. } => Some(wanted(
            conditions::READY_TO_APPLY,
            false,
            FAILED,
            format!("Failed to build managed cluster clients: {why}"),
        )),
        Finding::Scene(scene) => {
            let message = match scene.external.as_ref()?.since {
                Some(since) => format!(
                    "Klusterlet is ready to apply, the external managed kubeconfig secret was created at: {}",
                    since.strftime("%Y-%m-%dT%H:%M:%SZ")
                ),
                None => "Klusterlet is ready to apply".to_owned(),
            };
            Some(wanted(conditions::READY_TO_APPLY, true, PREPARED, message))
        }
        _ => None,
    }
}

/// An event for each condition that says that something is wrong, when it begins to say so or says something else.
fn tell(plan: &mut Plan, before: &Klusterlet, after: &Klusterlet, now: Timestamp) {
    let of = |it: &Klusterlet, name: &str| {
        let status = it.status.as_ref()?;
        status.conditions.iter().find(|it| it.type_ == name).cloned()
    };
    for name in [conditions::APPLIED, conditions::VALID_FEATURE_GATES] {
        let Some(said) = of(after, name).filter(|it| it.status == "False") else {
            continue;
        };
        let is_new = of(before, name).is_none_or(|it| (it.status, it.message) != (said.status, said.message.clone()));
        if is_new {
            plan.push(warning(after, &said.reason, said.message, now));
        }
    }
}

/// A warning about a Klusterlet.
pub fn warning(klusterlet: &Klusterlet, reason: &str, mut note: String, now: Timestamp) -> Step {
    note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX));
    Step::Event(EventStep {
        site: Site::Management,
        // Of what has no namespace, events are in this one.
        namespace: "default".to_owned(),
        regarding: json!({
            "apiVersion": format!("{}/{}", Klusterlet::GROUP, Klusterlet::VERSION),
            "kind": Klusterlet::KIND,
            "name": klusterlet.name_any(),
            "uid": klusterlet.uid(),
        }),
        related: None,
        kind: EventKind::Warning,
        reason: reason.to_owned(),
        action: "Apply".to_owned(),
        note,
        reporting_controller: "klusterlet".to_owned(),
        at: now,
    })
}
