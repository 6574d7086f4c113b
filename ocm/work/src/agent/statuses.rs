//! What is said of a work and of what it has applied when every round is over: plain functions.

use std::collections::BTreeSet;

use ocm_api::work::{
    AppliedManifestResourceMeta, AppliedManifestWork, AppliedManifestWorkStatus, ManifestResourceMeta,
};
use ocm_reconcile::{Plan, Site};

use super::{
    applying,
    executor::{ExecutorRefusal, REFUSED_FOR},
    manifest::ObjectKey,
    ownership::{self, LettingGo},
    phase::Phase,
    records,
    report::{Applied, ObservedManifest, ObservedObject, report},
    seen::{Item, Leaving, Seen},
    strategy::{ApplyDecision, Live},
};

/// What to say about it when every round is over: the status of the work and of its trace, side by side.
pub fn conclude(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    let reported = match seen.phase() {
        Phase::Applying | Phase::Complete => true,
        // As long as the trace holds it, somebody may wait for what its last jobs say.
        Phase::Leaving => seen.trace.is_some() && !seen.items.is_empty(),
        _ => false,
    };
    if let (true, Some(work)) = (reported, &seen.work) {
        let mut next = (**work).clone();
        let old = next.status.take().unwrap_or_default();
        let looked: Vec<ObservedManifest> = seen.items.iter().map(|it| looked(seen, it)).collect();
        next.status = Some(report(
            &old,
            &looked,
            work.metadata.generation,
            seen.identity.raw,
            seen.now,
        ));
        plan.status(Site::Hub, &**work, &next);
        if seen
            .items
            .iter()
            .any(|it| matches!(it.permitted, Err(ExecutorRefusal::NotAllowed(_))))
        {
            plan.look_again(REFUSED_FOR);
        }
    }
    if let Some(trace) = &seen.trace {
        let mut next = (**trace).clone();
        next.status = match seen.phase() {
            Phase::Applying if seen.attempts.blocked.is_none() => Some(record(seen, trace)),
            Phase::Renewing | Phase::Leaving | Phase::Finishing => Some(still_there(seen, trace)),
            // The work is there, so nothing is evicted; what is on record stays.
            Phase::Complete => next.status.map(|it| AppliedManifestWorkStatus {
                eviction_start_time: None,
                ..it
            }),
            _ => next.status,
        };
        if next.metadata.deletion_timestamp.is_none() || !seen.leaving.is_empty() {
            plan.status(Site::Cluster, &**trace, &next);
        }
    }
    plan
}

fn looked(seen: &Seen, item: &Item) -> ObservedManifest {
    let meta = meta(item);
    let complete = meta.resource.is_empty() || meta.version.is_empty() || meta.name.is_empty();
    let found = match (&item.live, &item.unreadable) {
        _ if complete => ObservedObject::Unknowable,
        (Live::Present(object), _) => ObservedObject::Present((**object).clone()),
        (Live::Absent, _) => ObservedObject::Absent,
        (Live::Unknown, Some(why)) => ObservedObject::Unreadable(why.clone()),
        (Live::Unknown, None) => ObservedObject::Unreadable("it was not looked for yet".to_owned()),
    };
    ObservedManifest {
        meta,
        applied: applied(seen, item),
        found,
        feedback: item.config.feedback.clone(),
        conditions: item.config.conditions.clone(),
    }
}

fn applied(seen: &Seen, item: &Item) -> Applied {
    if matches!(seen.phase(), Phase::Complete | Phase::Leaving) {
        return Applied::AsBefore;
    }
    if let Some(why) = &seen.attempts.blocked {
        return Applied::No(why.clone());
    }
    if item.complete {
        return Applied::Yes;
    }
    if let Err(unreadable) = &item.manifest {
        return Applied::No(unreadable.why.clone());
    }
    if let Err(why) = &item.resource {
        return Applied::No(why.clone());
    }
    if let Err(refusal) = &item.permitted {
        return Applied::No(refusal.message().to_owned());
    }
    match seen
        .trace
        .as_deref()
        .and_then(|trace| applying::decide(seen, trace, item))
    {
        Some(ApplyDecision::Agrees) => Applied::Yes,
        Some(ApplyDecision::Failed(why)) => Applied::No(why),
        Some(ApplyDecision::BadIgnoreFields(why)) => Applied::BadIgnoreFields(why),
        // Held back because somebody keeps undoing it or its finalizers keep it, or out of rounds.
        Some(ApplyDecision::Write { .. } | ApplyDecision::Wait(_)) | None => Applied::AsBefore,
    }
}

/// How the status names a manifest.
pub fn meta(item: &Item) -> ManifestResourceMeta {
    let (ordinal, gvk, namespace, name) = match &item.manifest {
        Ok(it) => (it.ordinal, &it.gvk, &it.namespace, &it.name),
        Err(it) => (it.ordinal, &it.gvk, &it.namespace, &it.name),
    };
    ManifestResourceMeta {
        ordinal: i32::try_from(ordinal).unwrap_or(i32::MAX),
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        kind: gvk.kind.clone(),
        resource: item.key.as_ref().map(|it| it.resource.clone()).unwrap_or_default(),
        name: name.clone(),
        namespace: item.key.as_ref().map_or(namespace.clone(), |it| it.namespace.clone()),
    }
}

/// What the trace records after applying: what is there, what could not be looked at and was recorded before, and what
/// is still going.
fn record(seen: &Seen, trace: &AppliedManifestWork) -> AppliedManifestWorkStatus {
    let old = trace.status.clone().unwrap_or_default();
    let before = |key: &ObjectKey| {
        old.applied_resources
            .iter()
            .find(|it| records::key_of(it).same_object(key))
            .cloned()
    };
    let mut all: BTreeSet<AppliedManifestResourceMeta> = BTreeSet::new();
    for item in &seen.items {
        match (&item.key, &item.live) {
            (Some(key), Live::Present(object)) => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                all.insert(records::of_object(key, uid));
            }
            (Some(key), Live::Unknown) => all.extend(before(key)),
            // What could not be made stays on record as intended, or each try would write the record twice.
            (Some(key), Live::Absent) if item.tried.failure.is_some() => all.extend(before(key)),
            (Some(_), Live::Absent) => {}
            (None, _) => all.extend(
                old.applied_resources
                    .iter()
                    .filter(|it| records::wants(item, it))
                    .cloned(),
            ),
        }
    }
    all.extend(still_there(seen, trace).applied_resources);
    let mut applied_resources: Vec<_> = all.into_iter().collect();
    records::sort(&mut applied_resources);
    AppliedManifestWorkStatus {
        applied_resources,
        eviction_start_time: None,
    }
}

fn still_there(seen: &Seen, trace: &AppliedManifestWork) -> AppliedManifestWorkStatus {
    let uid = trace.metadata.uid.as_deref().unwrap_or_default();
    let stays = |it: &&Leaving| {
        it.problem.is_some() || ownership::let_go(&it.record.uid, it.live.object(), &seen.key, uid) != LettingGo::Forget
    };
    let mut applied_resources: Vec<_> = seen.leaving.iter().filter(stays).map(|it| it.record.clone()).collect();
    records::sort(&mut applied_resources);
    let eviction_start_time = trace.status.as_ref().and_then(|it| it.eviction_start_time.clone());
    AppliedManifestWorkStatus {
        applied_resources,
        eviction_start_time,
    }
}
