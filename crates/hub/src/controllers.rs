//! The one list of what runs on a hub.

use addon::hub::Shared;
use kube::{Api, Client};
use ocm_reconcile::Cache;
use registration::hub::Caches;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Options;

/// Starts all of them, when the caches have arrived.
pub async fn start(
    client: Client,
    caches: &Caches,
    options: Options,
    cancel: CancellationToken,
) -> Vec<JoinHandle<()>> {
    // One watch per kind, whoever reads it.
    let shared = Shared {
        clusters: caches.clusters.clone(),
        addons: Cache::start(Api::all(client.clone()), cancel.clone()),
        cluster_management_addons: Cache::start(Api::all(client.clone()), cancel.clone()),
        works: Cache::start(Api::all(client.clone()), cancel.clone()),
        placements: Cache::start(Api::all(client.clone()), cancel.clone()),
        decisions: Cache::start(Api::all(client.clone()), cancel.clone()),
    };
    let of_works = work::hub::controllers(client.clone(), &shared.works, cancel.clone());
    let of_clusters =
        registration::hub::controllers(client.clone(), caches, options.registration, cancel.clone()).await;
    let of_clusters = of_clusters.into_iter().map(|it| it.finished);
    let addons = addon::hub::Caches::start(shared, &client, &cancel);
    let of_addons = addon::hub::controllers(client, &addons, None, cancel).await;
    let others = of_works.into_iter().chain(of_addons).map(|it| it.finished);
    of_clusters.chain(others).collect()
}
