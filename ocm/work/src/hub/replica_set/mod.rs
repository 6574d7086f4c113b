//! ManifestWorkReplicaSets: one work on every cluster of some placements.
//!
//! [`Fleet`](fleet::Fleet) knows the works by set and counts them; [`Spread`] makes, changes and removes them; [`Report`] says
//! how far they are. [`desired_state`], [`standing`], [`revision`] and [`names`] are the rules, as plain functions.

pub mod desired_state;
pub mod explain;
pub mod fingerprint;
pub mod fleet;
pub mod names;
pub mod report;
pub mod revision;
pub mod rollout_status;
pub mod sharing;
pub mod spread;
pub mod standing;

#[cfg(test)]
mod model;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Api, Client, ResourceExt, runtime::watcher};
use ocm_api::{
    cluster::{Placement, PlacementDecision},
    labels,
    work::{ManifestWork, ManifestWorkReplicaSet},
};
use ocm_reconcile::{
    Cache, Clients, Queue, Reconciler, Running,
    awaited::{self, Need},
    cache::{Watching, key_of},
    spawn,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use fleet::{Change, Fleet};
use report::Report;
use rollout_status::RolloutStatuses;
use spread::Spread;

/// How many sets are looked after at a time.
const WORKERS: usize = 4;

/// Watches that others in the process have started already.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Shared {
    /// All works, best shaped by [`sharing::shape`].
    pub works: Cache<ManifestWork>,
    pub placements: Cache<Placement>,
    pub decisions: Cache<PlacementDecision>,
}

/// What sets of works depend on.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Caches {
    pub sets: Cache<ManifestWorkReplicaSet>,
    pub works: Cache<ManifestWork>,
    pub placements: Cache<Placement>,
    pub decisions: Cache<PlacementDecision>,
    /// The templates that sets had; it never arrives where nobody may look at them.
    pub revisions: Cache<ControllerRevision>,
    pub(crate) fleet: Fleet,
}

/// Starts the reconcilers. They stop with `cancel`.
pub async fn controllers(hub: Client, shared: Shared, cancel: CancellationToken) -> Vec<Running> {
    let ours = watcher::Config::default().labels(labels::MANIFEST_WORK_REPLICA_SET);
    let sets = Cache::start(Api::all(hub.clone()), cancel.clone());
    let watching = Watching {
        selection: ours,
        forbidden_at_first: true,
        ..Watching::default()
    };
    let revisions = Cache::start_watching(Api::all(hub.clone()), watching, cancel.clone());
    start(hub, shared, sets, revisions, cancel).await
}

async fn start(
    hub: Client,
    shared: Shared,
    sets: Cache<ManifestWorkReplicaSet>,
    revisions: Cache<ControllerRevision>,
    cancel: CancellationToken,
) -> Vec<Running> {
    // Nobody may decide before everything has arrived: what is not there yet looks like what is gone.
    tokio::select! {
        () = cancel.cancelled() => return Vec::new(),
        () = async {
            let needs = vec![
                Need::of(&sets),
                Need::if_allowed(&revisions),
                Need::of(&shared.works),
                Need::of(&shared.placements),
                Need::of(&shared.decisions),
            ];
            awaited::arrived(Spread::NAME, needs).await;
            // Upstream's role for this part knows nothing of them; all but going back works without.
            if !revisions.is_synced() {
                warn!(
                    "there is no right to list ControllerRevisions, so the templates that sets had are not kept and roll-back \
                     is held up; list, watch, create, patch and delete are wanted"
                );
            }
        } => {}
    }
    let (board, spread) = (RolloutStatuses::default(), Queue::new());
    let fleet = Fleet::over(&shared.works, Timestamp::now, {
        let (board, spread) = (board.clone(), spread.clone());
        move |key, change| {
            board.report.add(key);
            if change == Change::Wish || change == Change::Standing && board.waits(key) {
                spread.add(key);
            }
        }
    });
    let caches = Caches {
        sets,
        works: shared.works,
        placements: shared.placements,
        decisions: shared.decisions,
        revisions,
        fleet,
    };
    subscribe(&caches, &board, &spread);
    let report = Report::new(&caches, &board);
    let told = board.report.clone();
    let clients = Clients::hub(hub);
    vec![
        spawn(
            Spread { caches, board },
            clients.clone(),
            spread,
            WORKERS,
            cancel.clone(),
        ),
        spawn(report, clients, told, WORKERS, cancel),
    ]
}

fn subscribe(caches: &Caches, board: &RolloutStatuses, spread: &Queue) {
    caches.sets.subscribe(spread, |old, new| match (old, new) {
        (Some(old), Some(new)) if is_same_wish(old, new) => None,
        (old, new) => new.or(old).map(key_of),
    });
    caches.sets.subscribe(&board.report, |_, new| new.map(key_of));
    let met = board.clone();
    caches.works.subscribe(spread, move |old, new| {
        let of = |work: Option<&ManifestWork>| work.and_then(|it| met.in_the_way_of(it));
        of(new).or_else(|| of(old))
    });
    let sets = caches.sets.clone();
    let of_placement = move |namespace: Option<String>, placement: Option<String>| {
        let namespace = namespace.unwrap_or_default();
        let mut keys = Vec::new();
        if let Some(placement) = placement {
            for set in sets.list_in(&namespace) {
                if set.spec.placement_refs.iter().any(|it| it.name == placement) {
                    keys.push(key_of(&*set));
                }
            }
        }
        keys
    };
    let keys = of_placement.clone();
    caches.placements.subscribe(spread, move |old, new| {
        let counted = |it: &Placement| {
            let status = it.status.as_ref();
            status.map(|it| (it.number_of_selected_clusters, it.decision_groups.len()))
        };
        match (old, new) {
            (Some(old), Some(new)) if counted(old) == counted(new) && is_leaving(old) == is_leaving(new) => Vec::new(),
            (old, new) => new
                .or(old)
                .map(|it| keys(it.namespace(), it.metadata.name.clone()))
                .unwrap_or_default(),
        }
    });
    caches.decisions.subscribe(spread, move |old, new| match (old, new) {
        (Some(old), Some(new)) if old.status == new.status && old.metadata.labels == new.metadata.labels => Vec::new(),
        (old, new) => {
            let placement = |it: &PlacementDecision| it.labels().get(labels::PLACEMENT).cloned();
            new.or(old)
                .map(|it| of_placement(it.namespace(), placement(it)))
                .unwrap_or_default()
        }
    });
    let revised = |it: &ControllerRevision| {
        let label = it.labels().get(labels::MANIFEST_WORK_REPLICA_SET)?;
        names::key_of_label(label)
    };
    // Somebody removed one, or one of a set before of the same name is gone at last.
    caches.revisions.subscribe(spread, move |old, new| match (old, new) {
        (Some(old), None) => revised(old),
        _ => None,
    });
}

fn is_leaving(placement: &Placement) -> bool {
    placement.metadata.deletion_timestamp.is_some()
}

/// Whether a set that changed still wants the same: our own reports are changes of it, too.
fn is_same_wish(old: &ManifestWorkReplicaSet, new: &ManifestWorkReplicaSet) -> bool {
    let (before, after) = (&old.metadata, &new.metadata);
    before.uid == after.uid
        && before.generation == after.generation
        && before.generation.is_some()
        && before.deletion_timestamp == after.deletion_timestamp
        && before.finalizers == after.finalizers
        && before.labels == after.labels
        && before.annotations == after.annotations
}
