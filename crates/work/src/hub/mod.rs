//! The hub half: what may be asked for, and when a completed work is removed.

pub mod admission;
pub mod completed;

use ocm_api::work::ManifestWork;
use ocm_reconcile::{Cache, Clients, Queue, Running, spawn};
use tokio_util::sync::CancellationToken;

use completed::CompletedWorks;

/// Starts the hub's controllers for works on the hub's one cache of them. They stop with `cancel`.
pub fn controllers(hub: kube::Client, works: &Cache<ManifestWork>, cancel: CancellationToken) -> Vec<Running> {
    let queue = Queue::new();
    works.subscribe(&queue, |_, new| {
        new.filter(|it| completed::concerns(it))
            .map(ocm_reconcile::cache::key_of)
    });
    let reconciler = CompletedWorks { works: works.clone() };
    vec![spawn(reconciler, Clients::hub(hub), queue, 5, cancel)]
}
