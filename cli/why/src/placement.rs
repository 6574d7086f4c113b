//! Why a placement chose what it chose: the hub's own rules, asked about what is on the hub now.

use anyhow::{Result, anyhow, bail};
use client::connect::ApiServer;
use kube::Api;
use ocm_api::cluster::Placement;
use placement::{
    gather::{Gathered, gather},
    select::{explain, select},
};

use crate::note;

/// Sentences about the whole choice, then one about each cluster, or about this one.
pub async fn sentences(hub: &ApiServer, namespace: &str, name: &str, cluster: Option<&str>) -> Result<Vec<String>> {
    let gathered = observe(hub, namespace, name).await?;
    let world = &gathered.world;
    let selection = select(world);
    let mut sentences: Vec<String> = gathered.notes().iter().map(note).collect();
    sentences.extend(explain::placement(world, &selection));
    let all = explain::clusters(world, &selection);
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
async fn observe(hub: &ApiServer, namespace: &str, name: &str) -> Result<Gathered> {
    let placements: Api<Placement> = Api::namespaced(hub.client.clone(), namespace);
    let placement = placements.get_opt(name).await;
    let placement = placement.map_err(|error| hub.explain(&format!("could not get placement {name}"), &error))?;
    let placement = placement.ok_or_else(|| anyhow!("there is no placement {name} in namespace {namespace}"))?;
    let gathered = gather(&hub.client, placement).await;
    gathered.map_err(|error| hub.explain("could not list what the choice depends on", &error))
}
