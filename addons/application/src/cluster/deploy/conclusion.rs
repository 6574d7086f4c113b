//! What became of a deployment: what the next run has to know, and what is said. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::apps::{HelmRelease, Subscription, SubscriptionUnitStatus},
    reconcile::{
        Done, Outcome, Plan, Site, Step,
        execute::{StepError, sentence},
    },
};

use super::{Deployment, DeploymentItem, DeploymentMemory, ItemStep, Seen, SourceLook, Steps};
use crate::cluster::{
    decide::{self, LastDeployed},
    desired::RefusedObject,
    due::LooksBefore,
    statuses,
};

/// What became of each item in this round; `None` for those that had no step.
pub(super) fn results(deployment: &Deployment, outcome: &Outcome) -> Vec<Option<Result<Option<LastDeployed>, String>>> {
    let Some(steps) = outcome.worked_out::<Steps>() else {
        return deployment.items.iter().map(|_| None).collect();
    };
    let of = |(item, step): (&DeploymentItem, &Option<ItemStep>)| match step.as_ref()? {
        ItemStep::Agrees => Some(Ok(None)),
        // It may be found in the next round.
        ItemStep::Failed(_) if item.has_no_kind() => None,
        ItemStep::Failed(why) => Some(Err(why.clone())),
        ItemStep::Write(id) => {
            let written = outcome.plan().get(*id)?;
            match outcome.get(*id) {
                None => Some(Err("it was not tried".to_owned())),
                Some(Err(error)) if decide::is_swallowed(written, error.code()) => Some(Ok(None)),
                Some(Err(error)) if decide::is_overtaken(written, error.code()) && deployment.may_go_on() => None,
                Some(Err(error)) => Some(Err(sentence(error))),
                Some(Ok(Done::Object(object))) => {
                    let sent = match written {
                        Step::Apply { object, .. } | Step::Replace { object, .. } => decide::digest(object),
                        _ => return Some(Ok(None)),
                    };
                    let resource_version = object.metadata.resource_version.clone().unwrap_or_default();
                    Some(Ok(Some(LastDeployed {
                        digest: sent,
                        resource_version,
                    })))
                }
                Some(Ok(_)) => Some(Ok(None)),
            }
        }
    };
    deployment.items.iter().zip(&steps.items).map(of).collect()
}

/// Whether somebody has written an object of this round between our look at it and our write.
pub(super) fn is_any_overtaken(outcome: &Outcome) -> bool {
    let is_overtaken = |(step, result): (&Step, &Result<Done, StepError>)| {
        let refused = result.as_ref().err();
        refused.is_some_and(|error| decide::is_overtaken(step, error.code()))
    };
    outcome.results().any(is_overtaken)
}

/// What is known after the run.
pub(super) fn concluded(seen: &Seen, outcome: &Outcome) -> DeploymentMemory {
    let mut memory = seen.memory.clone();
    let looks = &mut memory.looks;
    let tried = |looks: &mut LooksBefore| {
        looks.inputs = seen.inputs;
        looks.last = Some(seen.now);
        looks.channel_missing = false;
    };
    match &seen.looked {
        SourceLook::Not => {}
        SourceLook::NoChannel(why) => {
            tried(looks);
            looks.channel_missing = true;
            looks.failures += 1;
            memory.source_says(Some(why));
        }
        SourceLook::Failed(why) => {
            tried(looks);
            looks.failures += 1;
            memory.source_says(Some(why));
        }
        SourceLook::Unchanged => {
            tried(looks);
            looks.unchanged += 1;
            looks.failures = 0;
            memory.source_says(None);
        }
        SourceLook::Content(deployment) => {
            tried(looks);
            (looks.rate, looks.channel) = (deployment.rate.clone(), deployment.channel);
            looks.unchanged = 0;
            settle(&mut memory, seen, deployment, outcome);
        }
    }
    memory
}

fn settle(memory: &mut DeploymentMemory, seen: &Seen, deployment: &Deployment, outcome: &Outcome) {
    let mut written = HashMap::new();
    let mut units = Vec::new();
    let mut releases = BTreeSet::new();
    let this_round = results(deployment, outcome);
    for (item, result) in deployment.items.iter().zip(this_round) {
        let id = item.id();
        let failure = match (item.done.as_ref().or(result.as_ref()), &item.wanted) {
            (Some(Ok(last)), _) => {
                let last = last.clone().or_else(|| seen.memory.written.get(&id).cloned());
                written.extend(last.map(|it| (id, it)));
                None
            }
            (Some(Err(why)), _) => Some(why.clone()),
            (None, Err(refused)) => Some(refused.message.clone()),
            (None, Ok(_)) => Some("it was not tried".to_owned()),
        };
        match &item.wanted {
            Ok(wanted) => {
                if wanted.api_resource.kind == HelmRelease::KIND && wanted.api_resource.group == HelmRelease::GROUP {
                    releases.insert((wanted.namespace.clone(), wanted.name.clone()));
                }
                units.push(statuses::unit(wanted, failure));
            }
            Err(refused) => units.push(statuses::refused_unit(&RefusedObject {
                message: failure.unwrap_or_default(),
                ..refused.clone()
            })),
        }
    }
    units.extend(left_over(deployment, outcome));
    let failures: Vec<&str> = units
        .iter()
        .filter(|it| it.phase != statuses::DEPLOYED)
        .map(|it| it.message.as_str())
        .collect();
    let failures: Vec<&str> = deployment.problems.iter().map(String::as_str).chain(failures).collect();
    memory.source_failure = (!deployment.problems.is_empty()).then(|| deployment.problems.join(", "));
    memory.failure = (!failures.is_empty()).then(|| failures.join(", "));
    memory.looks.failures = if failures.is_empty() {
        0
    } else {
        memory.looks.failures + 1
    };
    memory.looks.revision = failures.is_empty().then(|| deployment.revision.clone());
    memory.written = Arc::new(written);
    memory.units = Arc::new(units);
    memory.releases = Arc::new(releases);
}

/// What was to be deleted and is still there, and, where the source could not be read whole, all of what it had.
fn left_over(deployment: &Deployment, outcome: &Outcome) -> Vec<SubscriptionUnitStatus> {
    let steps = outcome.worked_out::<Steps>();
    let mut left = Vec::new();
    for (position, stale) in deployment.stale.iter().enumerate() {
        if !deployment.is_whole() {
            left.push(stale.unit.clone());
            continue;
        }
        let step = steps.and_then(|it| it.stale.get(position).copied().flatten());
        let failure = match step.and_then(|it| outcome.get(it)) {
            Some(Err(error)) => Some(sentence(error)),
            _ => stale.unseen.clone(),
        };
        if let Some(message) = failure {
            left.push(SubscriptionUnitStatus {
                phase: statuses::FAILED.to_owned(),
                message,
                ..stale.unit.clone()
            });
        }
    }
    left
}

/// The SubscriptionStatus.
pub(super) fn say(plan: &mut Plan, seen: &Seen, subscription: &Subscription, memory: &DeploymentMemory) {
    let is_release =
        |it: &SubscriptionUnitStatus| it.kind == HelmRelease::KIND && it.api_version == HelmRelease::API_VERSION;
    let of_source = |it: &&Arc<HelmRelease>| {
        let id = (it.namespace().unwrap_or_default(), it.name_any());
        memory.releases.contains(&id)
    };
    let releases: Vec<_> = seen.releases.iter().filter(of_source).collect();
    let mut packages: Vec<_> = memory.units.to_vec();
    // Of a chart that could not be installed there is nothing else to say.
    for unit in packages.iter_mut().filter(|it| is_release(it)) {
        let of_unit = |it: &&&Arc<HelmRelease>| {
            it.name_any() == unit.name && it.namespace().unwrap_or_default() == unit.namespace
        };
        let release = releases.iter().find(of_unit).filter(|it| !statuses::has_deployed(it));
        if let Some(why) = release.and_then(|it| statuses::failure_of_release(it)) {
            statuses::FAILED.clone_into(&mut unit.phase);
            why.clone_into(&mut unit.message);
        }
    }
    if packages.iter().all(is_release) {
        // A Subscription of charts lists what they have made.
        packages.retain(|it| it.phase != statuses::DEPLOYED);
    }
    let is_of_charts = packages.is_empty() && !memory.releases.is_empty();
    packages.extend(releases.iter().flat_map(|it| statuses::units_of_release(it)));
    let before = seen.status.as_deref();
    if packages.is_empty() && !is_of_charts {
        if let (Some(before), SourceLook::Content(_)) = (before, &seen.looked) {
            plan.delete(Site::Cluster, before);
        }
        return;
    }
    if packages.is_empty() {
        return;
    }
    let said = (memory.source_failure.as_deref(), packages);
    let status = statuses::status_of(subscription, &seen.site.cluster, before, said, seen.now);
    match before {
        None => drop(plan.create(Site::Cluster, &status)),
        Some(before) => {
            let mut new = before.clone();
            new.statuses = status.statuses;
            new.metadata.labels = status.metadata.labels;
            plan.change(Site::Cluster, before, &new);
        }
    }
}
