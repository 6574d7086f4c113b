//! Where the Secret is, and whether there is anything to do: most clusters have no such Secret, and cost one watch that
//! is silent.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::ListParams};
use ocm_api::namespaces::PULL_SECRET;
use ocm_reconcile::{
    Caches, Clients, Controller,
    install::{DROVER, MANAGED_BY},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span, warn};

use super::{PullSecret, sources};

/// Where the Secret is, and where its copies go.
pub struct Options {
    /// The managed cluster.
    pub cluster: Client,
    /// The cluster that holds the agent's own objects.
    pub management: Client,
    /// The namespace of those objects.
    pub component_namespace: String,
    /// Whether the two clusters are not the same.
    pub is_hosted: bool,
}

/// Runs until `stop`.
pub async fn run(options: Options, stop: CancellationToken) {
    let span = info_span!("pull_secret");
    serve(options, stop).instrument(span).await;
}

async fn serve(options: Options, stop: CancellationToken) {
    let management = Caches::new(options.management.clone(), stop.clone());
    let sources = sources(&management, &options);
    tokio::select! {
        () = stop.cancelled() => return,
        () = sources.synced() => {}
    }
    let is_needed = async {
        if sources.list().is_empty() && !has_copies(&options.cluster).await {
            sources.until(|it| (!it.list().is_empty()).then_some(())).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => return,
        () = is_needed => {}
    }
    let cluster = Caches::new(options.cluster.clone(), stop.clone());
    let controller = Controller::new(PullSecret::new(&management, &cluster, &options));
    let running = controller.start(Clients::cluster(options.cluster), stop);
    // It ends by the token; a panic in it was reported when it happened.
    let _ = running.finished.await;
}

/// Whether there are copies from a former run, whose Secret may have gone meanwhile.
async fn has_copies(cluster: &Client) -> bool {
    let copies: Api<Secret> = Api::all(cluster.clone());
    let ours = ListParams::default()
        .fields(&format!("metadata.name={PULL_SECRET}"))
        .labels(&format!("{MANAGED_BY}={DROVER}"));
    match copies.list_metadata(&ours).await {
        Ok(found) => !found.items.is_empty(),
        Err(error) => {
            warn!(%error, "could not look for copies of the pull secret that were left behind");
            false
        }
    }
}
