//! What a ClusterManager says when everything was tried: its status, and events of what a user has to act on.

use std::sync::Arc;

use kube::ResourceExt;
use ocm_api::{
    condition::{self, Condition, ConditionUpdate, wanted},
    conditions::cluster_manager::{APPLIED, PROGRESSING, VALID_FEATURE_GATES},
    operator::{ClusterManager, ClusterManagerStatus},
};
use ocm_reconcile::{EventKind, EventStep, Outcome, Plan, Site, Step};
use serde_json::json;

use super::{
    super::{
        deployments, install,
        status::{self, Component},
        wanted::HubObjects,
    },
    FINALIZER, Seen,
    seen::Course,
};
use crate::{
    OCM_VERSION, crds, feature_gates,
    objects::{self, now, target},
};

/// Who says so.
const CONTROLLER: &str = "cluster-manager";
/// An API server takes no longer ones.
const NOTE_MAX: usize = 1000;
/// Events of what has no namespace are filed here.
const EVENTS: &str = "default";

pub(super) fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
    let mut plan = Plan::new();
    let Some(before) = &seen.manager else {
        return plan;
    };
    let latest = outcome.latest::<ClusterManager>(Site::Management, None, &before.name_any());
    let manager = latest.map_or_else(|| before.clone(), Arc::new);
    let is_released = !manager.finalizers().iter().any(|it| it == FINALIZER);
    if manager.metadata.deletion_timestamp.is_some() && is_released {
        return plan;
    }
    let mut new = (*manager).clone();
    let status = new.status.get_or_insert_default();
    let hub = HubObjects::of(&manager, &seen.options, &seen.facts);
    for update in conditions(seen, &hub, status, outcome) {
        let update = update.at_generation(manager.metadata.generation);
        condition::set(&mut status.conditions, update, seen.now);
    }
    if let Course::Kept | Course::Refused(..) = seen.course() {
        status.observed_generation = manager.metadata.generation.unwrap_or_default();
    }
    let old = manager
        .status
        .as_ref()
        .map(|it| it.conditions.as_slice())
        .unwrap_or_default();
    events(&mut plan, seen, &manager, old, &status.conditions);
    plan.stage();
    plan.status(Site::Management, &*manager, &new);
    plan
}

/// The conditions; what was applied is noted in the status.
fn conditions(
    seen: &Seen,
    hub: &HubObjects<'_>,
    status: &mut ClusterManagerStatus,
    outcome: &Outcome,
) -> Vec<ConditionUpdate> {
    let gates = feature_gates::condition(&hub.gates());
    match seen.course() {
        Course::Nothing => Vec::new(),
        Course::Refused(reason, message) => vec![wanted(APPLIED, false, reason, message), gates],
        Course::Removal => removal(seen, outcome).into_iter().collect(),
        Course::Kept => {
            let failure = objects::failure(outcome);
            if failure.is_none() && (seen.facts.authorities.is_empty() || !hosted_is_through(seen, hub)) {
                return vec![gates];
            }
            let (install, _) = seen.install(hub);
            let components = components(seen, hub, &install, outcome);
            let applied = match failure {
                Some((reason, message)) => wanted(APPLIED, false, &reason, format!("Failed to apply: {message}")),
                None => {
                    status.related_resources = related(hub, &install);
                    status.generations = objects::generations(&install.stages, &seen.current, outcome);
                    wanted(APPLIED, true, "ClusterManagerApplied", applied(seen, &install))
                }
            };
            let mut all = vec![gates, applied, status::progressing(&components)];
            all.extend(status::degraded(hub, &components));
            all
        }
    }
}

/// Whether there was nothing more to ask for before the components of a hub on another cluster could be made.
fn hosted_is_through(seen: &Seen, hub: &HubObjects<'_>) -> bool {
    seen.install(hub).1.is_empty()
}

fn applied(seen: &Seen, install: &install::Install) -> String {
    let mut plan = Plan::new();
    let newer = crds::keep(&mut plan, "", &install.crds, &seen.current, OCM_VERSION);
    let mut message = "Components of cluster manager are applied".to_owned();
    if !newer.is_empty() {
        let names: Vec<String> = newer
            .iter()
            .map(|(name, version)| format!("{name} ({version})"))
            .collect();
        message += &format!(
            "; a newer operator than this one, of {OCM_VERSION}, has written CRDs, which are left as they are: {}",
            names.join(", ")
        );
    }
    message
}

/// Everything that was made, and the Deployments that upstream's tools look for and that one process has not.
fn related(hub: &HubObjects<'_>, install: &install::Install) -> Vec<ocm_api::operator::RelatedResourceMeta> {
    let mut related = objects::related(
        install
            .kept()
            .filter(|it| it.api_resource.kind != "Secret" && it.api_resource.kind != "NetworkPolicy"),
    );
    if hub.is_compact() {
        for name in deployments::ALL.iter().filter(|it| **it != deployments::GRPC) {
            let name = format!("{}-{name}", hub.name);
            let meta = objects::meta(&target(Site::Management, "Deployment", Some(&hub.namespace), &name));
            if !related.contains(&meta) {
                related.push(meta);
            }
        }
    }
    related
}

fn components<'a>(
    seen: &'a Seen,
    hub: &HubObjects<'_>,
    install: &install::Install,
    outcome: &Outcome,
) -> Vec<Component<'a>> {
    let wanted = deployments::wanted(hub).into_iter();
    let components = wanted.map(|manifest| {
        let object = objects::WantedObject::new(Site::Management, manifest);
        let found = now(&object.target, &seen.current, outcome);
        let is_ready = found
            .as_ref()
            .is_some_and(|it| objects::is_as_wanted(it, &object.manifest) && install::runs(it));
        let app = object.manifest["spec"]["template"]["metadata"]["labels"]["app"].as_str();
        Component {
            app: app.unwrap_or_default().to_owned(),
            is_ready: is_ready && !install.rolling.contains(&object.target.name),
            name: object.target.name,
            found,
            pods: &seen.pods,
        }
    });
    components.collect()
}

/// What is said while a hub goes.
fn removal(seen: &Seen, outcome: &Outcome) -> Option<ConditionUpdate> {
    if let Some((reason, message)) = objects::failure(outcome) {
        return Some(wanted(APPLIED, false, &reason, format!("Failed to remove: {message}")));
    }
    let waits = outcome.plan().notes.iter().filter_map(|it| match it {
        ocm_reconcile::Note::Wait(why) => Some(why.as_str()),
        _ => None,
    });
    let waits: Vec<&str> = waits.collect();
    let reason = if seen.obstacle.is_some() {
        "HubUnreachable"
    } else {
        "RemainingCRDs"
    };
    (!waits.is_empty()).then(|| {
        let mut message = format!("The hub is being removed: {}", waits.join("; "));
        if !seen.holders.is_empty() {
            message += &format!(
                "; what holds them: {}. Whoever put the finalizers there has to take them off",
                seen.holders.join(", ")
            );
        }
        wanted(APPLIED, false, reason, message)
    })
}

/// Tells of what has become wrong, once.
fn events(plan: &mut Plan, seen: &Seen, manager: &ClusterManager, old: &[Condition], new: &[Condition]) {
    for r#type in [APPLIED, PROGRESSING, VALID_FEATURE_GATES] {
        let Some(condition) = condition::find(new, r#type) else {
            continue;
        };
        let before = condition::find(old, r#type);
        let is_wrong = match r#type {
            PROGRESSING => condition.message.contains("; "),
            APPLIED => condition.status == "False" || condition.message.contains("; "),
            _ => condition.status == "False",
        };
        let is_told = before.is_some_and(|it| (&it.reason, &it.message) == (&condition.reason, &condition.message));
        if !is_wrong || is_told {
            continue;
        }
        plan.push(Step::Event(EventStep {
            site: Site::Management,
            namespace: EVENTS.to_owned(),
            regarding: json!({
                "apiVersion": "operator.open-cluster-management.io/v1", "kind": ClusterManager::KIND,
                "name": manager.name_any(), "uid": manager.metadata.uid,
            }),
            related: None,
            kind: EventKind::Warning,
            reason: condition.reason.clone(),
            action: r#type.to_owned(),
            note: condition.message.chars().take(NOTE_MAX).collect(),
            reporting_controller: CONTROLLER.to_owned(),
            at: seen.now,
        }));
    }
}
