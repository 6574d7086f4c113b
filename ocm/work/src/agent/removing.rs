//! How objects, the AppliedManifestWork and at last the work itself go: plain functions.
//! Upstream: ocm pkg/work/spoke/controllers/{finalizercontroller,appliedcontroller}.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use ocm_api::{
    condition::{self, wanted},
    conditions::manifest_work as types,
    finalizers,
    work::{AppliedManifestWork, ManifestWork},
};
use ocm_reconcile::{Plan, Propagation, Site, Step};

use super::{
    applying,
    ownership::{self, LettingGo},
    seen::Seen,
    strategy::{self, SharedObject},
};

/// A grace period this long means that nothing is ever evicted, as upstream.
pub(super) const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// While an object that nobody watches for us is going, look again this soon.
const PENDING_AGAIN: Duration = Duration::from_millis(500);

/// Removes what is leaving. Whether any of it is still there.
pub(super) fn remove(plan: &mut Plan, seen: &Seen, trace: &AppliedManifestWork) -> bool {
    let uid = trace.metadata.uid.as_deref().unwrap_or_default();
    let mut pending = false;
    for it in &seen.leaving {
        let key = it.key();
        if let Some(problem) = &it.problem {
            plan.wait(format!("{key} cannot be removed: {problem}"));
            pending = true;
            continue;
        }
        match ownership::let_go(&it.record.uid, it.live.object(), &seen.key, uid) {
            LettingGo::Forget => {}
            LettingGo::Disown => {
                let live = it.live.object().expect("only an object that is there has other owners");
                let former = applying::former_manager(seen);
                let shared = SharedObject {
                    key: &key,
                    live,
                    trace: (&seen.key, uid),
                    managers: [&former, &it.manager],
                    others: &it.others,
                };
                let step = strategy::let_go_of_shared(&shared, it.release);
                if let Some(step) = step {
                    plan.push(step);
                }
            }
            LettingGo::Wait => {
                plan.wait(format!("{key} is being deleted and waits for its finalizers"));
                if !it.watched {
                    plan.look_again(PENDING_AGAIN);
                }
                pending = true;
            }
            LettingGo::Delete { uid } => {
                let kind = it.live.object().and_then(|it| it["kind"].as_str()).unwrap_or_default();
                plan.push(Step::Delete {
                    target: strategy::target(&key, kind),
                    uid: Some(uid),
                    propagation: Some(Propagation::Background),
                });
                pending = true;
            }
        }
    }
    pending
}

/// Removes what the trace has on record, then lets the trace go.
pub(super) fn finish(plan: &mut Plan, seen: &Seen, trace: &AppliedManifestWork) {
    let pending = remove(plan, seen, trace);
    if !pending && plan.is_empty() {
        plan.remove_finalizer(Site::Cluster, trace, finalizers::APPLIED_MANIFEST_WORK);
    }
}

/// The work is being deleted: it says so, and its trace goes with its objects; then it is let go.
pub(super) fn leave(plan: &mut Plan, seen: &Seen, work: &ManifestWork, trace: Option<&AppliedManifestWork>) {
    let Some(trace) = trace else {
        plan.remove_finalizer(Site::Hub, work, finalizers::MANIFEST_WORK);
        return;
    };
    if trace.metadata.deletion_timestamp.is_some() {
        finish(plan, seen, trace);
        return;
    }
    let mut next = work.clone();
    let deleting = wanted(
        types::DELETING,
        true,
        types::reason::DELETING,
        "ManifestWork is being deleted",
    )
    .at_generation(work.metadata.generation);
    condition::set(&mut next.status.get_or_insert_default().conditions, deleting, seen.now);
    plan.status(Site::Hub, work, &next);
    plan.delete(Site::Cluster, trace);
}

/// The work is gone from the hub: its objects stay for a grace period, in case it comes back or another hub takes them
/// over.
pub(super) fn evict(plan: &mut Plan, seen: &Seen, trace: &AppliedManifestWork) {
    let grace = seen.identity.eviction_grace;
    let started = trace
        .status
        .as_ref()
        .and_then(|it| it.eviction_start_time.as_ref())
        .map(|it| it.0);
    if grace >= NEVER {
        set_eviction(plan, trace, None);
        plan.remark("its work is gone from the hub; eviction is off, so its objects stay");
        return;
    }
    let Some(started) = started else {
        set_eviction(plan, trace, Some(seen.now));
        return;
    };
    let waited = Duration::try_from(seen.now.duration_since(started)).unwrap_or_default();
    match grace.checked_sub(waited).filter(|it| !it.is_zero()) {
        Some(remainder) => {
            plan.wait(format!(
                "its work is gone from the hub; its objects are removed in {}s",
                remainder.as_secs()
            ));
            plan.look_again(remainder);
        }
        None => {
            plan.delete(Site::Cluster, trace);
        }
    }
}

fn set_eviction(plan: &mut Plan, trace: &AppliedManifestWork, at: Option<Timestamp>) {
    let mut next = trace.clone();
    next.status.get_or_insert_default().eviction_start_time = at.map(Time);
    plan.status(Site::Cluster, trace, &next);
}
