//! The world of one placement, listed through a client: for who asks once and watches nothing.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Api, Client, Resource, api::ListParams};
use ocm_api::cluster::{
    AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
};
use ocm_reconcile::Cache;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    debug::{self, Asked},
    hub::load::{Load, all_clusters, belongs_to},
    select::{Scores, World, select},
};

/// Everything on a hub that the choice of this placement depends on.
pub async fn gather(hub: &Client, placement: Placement) -> kube::Result<World> {
    let namespace = placement.metadata.namespace.clone().unwrap_or_default();
    let name = placement.metadata.name.clone().unwrap_or_default();
    let bindings: Vec<Arc<ManagedClusterSetBinding>> = all(Api::namespaced(hub.clone(), &namespace)).await?;
    let sets: Vec<Arc<ManagedClusterSet>> = all(Api::all(hub.clone())).await?;
    let clusters: Vec<Arc<ManagedCluster>> = all(Api::all(hub.clone())).await?;
    let decisions: Vec<Arc<PlacementDecision>> = all(Api::all(hub.clone())).await?;
    let scores: Vec<Arc<AddOnPlacementScore>> = all(Api::all(hub.clone())).await?;
    let is_own = |it: &PlacementDecision| it.metadata.namespace.as_ref() == Some(&namespace) && belongs_to(it, &name);
    let own: Vec<_> = decisions.iter().filter(|it| is_own(it)).cloned().collect();
    let load = Load::over(&Cache::holding(decisions.iter().map(|it| (**it).clone())));
    let (load, load_max) = load.besides(&own, &clusters);
    Ok(World {
        now: Timestamp::now(),
        placement: Arc::new(placement),
        bindings,
        lost_bindings: Vec::new(),
        sets,
        has: all_clusters(&own),
        load,
        load_max,
        clusters,
        scores: Arc::new(Scores::of_all(scores)),
    })
}

/// What the placement asked for would choose; a code and a body.
pub async fn simulate(client: &Client, asked: Asked) -> kube::Result<(u16, Value)> {
    let placement = match asked {
        Asked::Imagined(it) => *it,
        Asked::Present { namespace, name } => {
            let placements: Api<Placement> = Api::namespaced(client.clone(), &namespace);
            match placements.get_opt(&name).await? {
                Some(it) => it,
                None => return Ok((404, debug::failure(&format!("placement '{name}' not found")))),
            }
        }
    };
    let world = gather(client, placement).await?;
    Ok((200, debug::answer(&world.placement, &select(&world))))
}

async fn all<K>(api: Api<K>) -> kube::Result<Vec<Arc<K>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut all = api.list(&ListParams::default()).await?.items;
    all.sort_by_key(|it| (it.meta().namespace.clone(), it.meta().name.clone()));
    Ok(all.into_iter().map(Arc::new).collect())
}
