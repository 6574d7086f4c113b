//! Why a placement chose what it chose: the hub's own rules, asked about what is on the hub now.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use jiff::Timestamp;
use kube::{Api, Client, Resource, api::ListParams};
use ocm_api::{
    annotations,
    cluster::{
        AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
    },
};
use ocm_reconcile::Cache;
use placement::{
    hub::load::{Load, all_clusters, belongs_to},
    select::{Scores, World, explain, select},
};
use serde::de::DeserializeOwned;

use crate::connect::Target;

/// Sentences about the whole choice, then one about each cluster, or about this one.
pub async fn sentences(hub: &Target, namespace: &str, name: &str, cluster: Option<&str>) -> Result<Vec<String>> {
    let world = observe(hub, namespace, name).await?;
    let placement = &world.placement;
    let selection = select(&world);
    let mut sentences = Vec::new();
    if placement.metadata.deletion_timestamp.is_some() {
        sentences.push(format!(
            "Placement {name} is being deleted and decides nothing any more."
        ));
    }
    let switch = placement.metadata.annotations.as_ref();
    if switch.is_some_and(|it| it.get(annotations::SCHEDULING_DISABLED).is_some_and(|it| it == "true")) {
        let key = annotations::SCHEDULING_DISABLED;
        sentences.push(format!(
            "Its decisions stay as they are, because it has the annotation {key}=true."
        ));
    }
    sentences.extend(explain::placement(&world, &selection));
    let all = explain::clusters(&world, &selection);
    let line = |it: &explain::Explained| format!("Cluster {} {}.", it.cluster, it.because);
    match cluster {
        None => sentences.extend(all.iter().map(line)),
        Some(cluster) => match all.iter().find(|it| it.cluster == cluster) {
            Some(it) => sentences.push(line(it)),
            None => bail!("there is no cluster {cluster} on this hub; `drover get clusters` lists those there are"),
        },
    }
    Ok(sentences)
}

/// Everything on the hub that the choice depends on.
async fn observe(hub: &Target, namespace: &str, name: &str) -> Result<World> {
    let placements: Api<Placement> = Api::namespaced(hub.client.clone(), namespace);
    let placement = placements.get_opt(name).await;
    let placement = placement.map_err(|error| hub.explain(&format!("could not get placement {name}"), &error))?;
    let placement = placement.ok_or_else(|| anyhow!("there is no placement {name} in namespace {namespace}"))?;
    let world = gather(&hub.client, placement).await;
    world.map_err(|error| hub.explain("could not list what the choice depends on", &error))
}

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

async fn all<K>(api: Api<K>) -> kube::Result<Vec<Arc<K>>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut all = api.list(&ListParams::default()).await?.items;
    all.sort_by_key(|it| (it.meta().namespace.clone(), it.meta().name.clone()));
    Ok(all.into_iter().map(Arc::new).collect())
}
