//! The one list of what runs on a hub.

use kube::Client;
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
    let controllers = registration::hub::controllers(client, caches, options.registration, cancel).await;
    controllers.into_iter().map(|it| it.finished).collect()
}
