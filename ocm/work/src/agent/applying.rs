//! What a work that is wanted has applied next: plain functions.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use ocm_api::{
    finalizers,
    work::{AppliedManifestWork, AppliedManifestWorkSpec, ManifestWork},
};
use ocm_reconcile::{Plan, Site, Step};

use super::{
    manifest::{self, ObjectKey},
    objects::Id,
    records, removing,
    seen::{Item, Seen},
    strategy::{self, ApplyDecision, ManifestToApply},
};

/// What the writes of a round are writes of, to remember them by. Where a work names an object twice only the first
/// counts: two that undo each other would otherwise both look like what the spec says anew.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteHashes(Arc<HashMap<Id, String>>);

impl WriteHashes {
    /// The one of the object, whatever the version it is reached by.
    pub(super) fn of(&self, key: &ObjectKey) -> Option<&String> {
        self.0.get(&Id::from(key))
    }
}

/// The next round of applying a work.
pub(super) fn apply(plan: &mut Plan, seen: &Seen, work: &ManifestWork) {
    if prepare(plan, seen, work) {
        return;
    }
    let Some(trace) = &seen.trace else { return };
    let (mut writes, mut hashes): (Vec<(u16, Step)>, _) = (Vec::new(), HashMap::new());
    let (mut named, mut is_replacing) = (HashSet::new(), false);
    for item in &seen.items {
        let is_first = item.key.as_ref().is_some_and(|it| named.insert(Id::from(it)));
        let Some(decision) = decide(seen, trace, item) else {
            continue;
        };
        if let ApplyDecision::Wait(why) = &decision {
            plan.wait(why);
            is_replacing = true;
        }
        if let ApplyDecision::Write { step, hash } = decision {
            if let Some(key) = item.key.as_ref().filter(|_| is_first && !hash.is_empty()) {
                hashes.insert(Id::from(key), hash.clone());
            }
            // Only a repair can be undone once more; what the spec says anew nobody has objected to.
            let repairs = item.written.as_ref().is_some_and(|it| it.hash == hash);
            match item.hold.filter(|_| repairs) {
                Some(hold) => {
                    let key = item.key.as_ref().map(ToString::to_string).unwrap_or_default();
                    plan.wait(format!(
                        "another writer keeps changing {key}; it is repaired again in {}s",
                        hold.as_secs() + 1
                    ));
                    plan.look_again(hold);
                }
                None => {
                    let kind = item
                        .manifest
                        .as_ref()
                        .map(|it| it.gvk.kind.as_str())
                        .unwrap_or_default();
                    writes.push((manifest::rank(kind), *step));
                }
            }
        }
    }
    writes.sort_by_key(|(rank, _)| *rank);
    intend(plan, trace, writes.iter().map(|(_, step)| step));
    let mut last = writes.first().map(|(rank, _)| *rank);
    for (rank, step) in writes {
        if last.is_some_and(|it| it != rank) {
            plan.stage();
        }
        last = Some(rank);
        plan.push(step);
    }
    plan.work_out(WriteHashes(Arc::new(hashes)));
    // What is new is there before what is old goes.
    if plan.is_empty() && !is_replacing {
        removing::remove(plan, seen, trace);
    }
}

/// Puts what is about to be made on record before it is made, so that an agent that dies in between leaves nothing
/// behind that nobody knows of. The step goes out first, in the same stage as what it announces: no round trip is lost.
fn intend<'s>(plan: &mut Plan, trace: &AppliedManifestWork, steps: impl Iterator<Item = &'s Step>) {
    let mut next = trace.clone();
    let mut status = trace.status.clone().unwrap_or_default();
    let known = status.applied_resources.len();
    for step in steps {
        let (Step::Apply { target, .. } | Step::Create { target, .. }) = step else {
            continue;
        };
        let Some(key) = records::key_of_target(target) else {
            continue;
        };
        if !status
            .applied_resources
            .iter()
            .any(|it| records::key_of(it).same_object(&key))
        {
            status.applied_resources.push(records::of_object(&key, String::new()));
        }
    }
    if status.applied_resources.len() == known {
        return;
    }
    records::sort(&mut status.applied_resources);
    next.status = Some(status);
    plan.status(Site::Cluster, trace, &next);
}

/// The finalizer and the trace, without which nothing may be applied. Whether there is anything to prepare.
fn prepare(plan: &mut Plan, seen: &Seen, work: &ManifestWork) -> bool {
    plan.add_finalizer(Site::Hub, work, finalizers::MANIFEST_WORK);
    let spec = AppliedManifestWorkSpec {
        hub_hash: seen.identity.hub_hash.clone(),
        agent_id: seen.identity.agent_id.clone(),
        manifest_work_name: work.metadata.name.clone().unwrap_or_default(),
    };
    match seen.trace.as_deref() {
        None => {
            let mut trace = AppliedManifestWork::new(&seen.key, spec);
            trace.metadata.labels = work.metadata.labels.clone();
            trace.metadata.finalizers = Some(vec![finalizers::APPLIED_MANIFEST_WORK.to_owned()]);
            plan.create(Site::Cluster, &trace);
        }
        Some(trace) => {
            let mut next = trace.clone();
            next.spec = spec;
            if !seen.keeps_agent_id && trace.spec.agent_id.is_empty() {
                next.spec.agent_id.clear();
            }
            let list = next.metadata.finalizers.get_or_insert_default();
            if !list.iter().any(|it| it == finalizers::APPLIED_MANIFEST_WORK) {
                list.push(finalizers::APPLIED_MANIFEST_WORK.to_owned());
            }
            if next.metadata.finalizers == Some(vec![]) {
                next.metadata.finalizers = None;
            }
            plan.change(Site::Cluster, trace, &next);
        }
    }
    !plan.is_empty()
}

/// What to do about a manifest; nothing where it may not or cannot be applied.
pub(super) fn decide(seen: &Seen, trace: &AppliedManifestWork, item: &Item) -> Option<ApplyDecision> {
    let (Ok(manifest), Ok(resource), Some(key), Ok(()), false) = (
        &item.manifest,
        &item.resource,
        &item.key,
        &item.permitted,
        item.complete,
    ) else {
        return None;
    };
    let former = former_manager(seen);
    Some(strategy::decide(&ManifestToApply {
        manifest: &manifest.object,
        resource,
        key,
        config: &item.config,
        owned: item.owned,
        trace: (&seen.key, trace.metadata.uid.as_deref().unwrap_or_default()),
        former: &former,
        others: &item.others,
        live: &item.live,
        written: item.written.as_ref(),
        tried: &item.tried,
    }))
}

/// The field manager that earlier releases had for the work.
pub(super) fn former_manager(seen: &Seen) -> String {
    let work = seen.identity.work_name(&seen.key).unwrap_or_default();
    strategy::former_manager(&seen.identity.hub_hash, work)
}
