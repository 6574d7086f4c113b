//! The one list of what runs on a hub.

use std::{sync::Arc, time::Duration};

use addon::{hub::Shared, template::InManager};
use kube::{Api, Client};
use ocm_addon_sdk::{
    AddOn,
    hub::{self as sdk, Manager},
};
use ocm_reconcile::Cache;
use registration::hub::Caches;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::Options;

/// How long to wait before the hub is asked again who it is.
const RETRY: Duration = Duration::from_secs(1);

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
        works: Cache::start_shaped(
            Api::all(client.clone()),
            cancel.clone(),
            work::hub::replica_set::sharing::shape(),
        ),
        placements: Cache::start(Api::all(client.clone()), cancel.clone()),
        decisions: Cache::start(Api::all(client.clone()), cancel.clone()),
    };
    let of_placements = placement::hub::Shared {
        clusters: caches.clusters.clone(),
        sets: caches.sets.clone(),
        set_bindings: caches.set_bindings.clone(),
        placements: shared.placements.clone(),
        decisions: shared.decisions.clone(),
    };
    let of_placements = placement::hub::Caches::start(of_placements, &client, &cancel);
    let of_works = work::hub::Shared {
        works: shared.works.clone(),
        placements: shared.placements.clone(),
        decisions: shared.decisions.clone(),
    };
    let of_works = work::hub::controllers(client.clone(), of_works, options.works, cancel.clone()).await;
    let of_clusters =
        registration::hub::controllers(client.clone(), caches, options.registration, cancel.clone()).await;
    let of_clusters = of_clusters.into_iter().map(|it| it.finished);
    let of_placements = placement::hub::controllers(client.clone(), &of_placements, cancel.clone()).await;
    let manager = manager(&client, &shared, options.addons, &cancel).await;
    let templates = manager.clone().map(|it| Arc::new(InManager(it)) as _);
    let addons = addon::hub::Caches::start(shared, &client, &cancel);
    let of_addons = addon::hub::controllers(client, &addons, templates, cancel).await;
    let others = of_works
        .into_iter()
        .chain(of_placements)
        .chain(of_addons)
        .map(|it| it.finished);
    let manager = manager.map(|it| tokio::spawn(async move { it.finished().await }));
    of_clusters.chain(others).chain(manager).collect()
}

/// What runs the add-ons of this process: those that were handed in, and later those that are made of templates. `None` when
/// the hub stops before it has said who it is.
async fn manager(
    client: &Client,
    shared: &Shared,
    addons: Vec<Arc<dyn AddOn>>,
    cancel: &CancellationToken,
) -> Option<Manager> {
    let caches = sdk::Caches::start_with(client, shared.of_sdk(), cancel);
    let manager = loop {
        let started = Manager::start(client.clone(), caches.clone(), sdk::Options::default(), cancel.clone());
        match started.await {
            Ok(manager) => break manager,
            Err(error) => warn!(%error, "add-ons cannot run yet, will retry"),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = cancel.cancelled() => return None,
        }
    };
    for add_on in addons {
        let name = add_on.name().to_owned();
        if let Err(error) = manager.add(add_on) {
            warn!(%name, %error, "the add-on does not run");
        }
    }
    Some(manager)
}
