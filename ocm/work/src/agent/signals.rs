//! What wakes the reconciler of works besides the works and their AppliedManifestWorks.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use ocm_api::work::{AppliedManifestWork, ManifestWork};
use ocm_reconcile::{Cache, Queue};
use tokio_util::sync::CancellationToken;

use super::{
    executor::Executors, manifest_works::ManifestWorks, objects::WatchedObjects, records, seen::AgentIdentity,
};

/// A watch that nobody needs is kept for this long, in case the next work needs it again.
const IDLE_WATCH: Duration = Duration::from_secs(120);

/// How often all works with an executor are looked at again at most because rights have changed.
const RIGHTS_AGAIN: Duration = Duration::from_secs(1);

impl ManifestWorks {
    /// The objects that works have applied; they are followed before anything is decided, for what a work may take off
    /// an object depends on who else has it.
    pub(super) fn follow_objects(&self) -> impl FnOnce(&Queue) + Send + use<> {
        let (objects, traces, stop) = (self.objects.clone(), self.traces.clone(), self.stop.clone());
        move |_| {
            for trace in traces.list() {
                let keys = records::of(Some(&*trace)).map(records::key_of);
                objects.follow(&trace.name_any(), keys.collect());
            }
            tokio::spawn(tidy(objects, stop));
        }
    }

    /// Works whose executor may have got or lost a right are looked at anew.
    pub(super) fn hear_of_rights(&self) -> impl FnOnce(&Queue) + Send + use<> {
        let (executors, works, identity) = (self.executors.clone(), self.works.clone(), self.identity.clone());
        let stop = self.stop.clone();
        move |queue| {
            tokio::spawn(look_when_rights_change(executors, works, queue.clone(), identity, stop));
        }
    }

    /// A work may be gone before it is known why.
    pub(super) fn hear_of_leaving(&self) -> impl FnOnce(&Queue) + Send + use<> {
        let (leaving, traces, stop) = (self.leaving.clone(), self.traces.clone(), self.stop.clone());
        move |queue| {
            tokio::spawn(look_at_all_when_leaving(leaving, traces, queue.clone(), stop));
        }
    }
}

async fn look_at_all_when_leaving(
    leaving: CancellationToken,
    traces: Cache<AppliedManifestWork>,
    queue: Queue,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = leaving.cancelled() => traces.list().iter().for_each(|it| queue.add(it.name_any())),
    }
}

async fn look_when_rights_change(
    executors: Arc<Executors>,
    works: Cache<ManifestWork>,
    queue: Queue,
    identity: Arc<AgentIdentity>,
    cancel: CancellationToken,
) {
    // Answers end at once; looking at every work again for each of many changes is what has to wait.
    let mut rounds = tokio::time::interval(RIGHTS_AGAIN);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = async { rounds.tick().await; executors.changed().await } => {}
        }
        let with_executor = works.list().into_iter().filter(|it| it.spec.executor.is_some());
        with_executor.for_each(|it| queue.add(identity.trace_name(&it.name_any())));
    }
}

async fn tidy(objects: WatchedObjects, cancel: CancellationToken) {
    let mut ticks = tokio::time::interval(IDLE_WATCH);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = ticks.tick() => objects.rest(IDLE_WATCH),
        }
    }
}
