//! The one list of what runs on a hub.

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
    let works = Cache::start(Api::all(client.clone()), cancel.clone());
    let of_works = work::hub::controllers(client.clone(), &works, cancel.clone());
    let of_clusters = registration::hub::controllers(client, caches, options.registration, cancel).await;
    let of_clusters = of_clusters.into_iter().map(|it| it.finished);
    of_clusters.chain(of_works.into_iter().map(|it| it.finished)).collect()
}
