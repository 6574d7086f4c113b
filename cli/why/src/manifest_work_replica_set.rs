//! What a ManifestWorkReplicaSet waits for: the hub's own rules, asked about what is on the hub now.

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use client::connect::ApiServer;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Api, api::ListParams};
use ocm_api::{
    cluster::{Placement, PlacementDecision},
    labels,
    work::{ManifestWork, ManifestWorkReplicaSet},
};
use work::hub::replica_set::{
    desired_state::{PlacementWithDecisions, Seen},
    explain, names,
    works_by_set::Member,
};

/// Sentences about the whole set, then one about each cluster that is not done, or about this one.
pub async fn sentences(hub: &ApiServer, namespace: &str, name: &str, cluster: Option<&str>) -> Result<Vec<String>> {
    let seen = observe(hub, namespace, name).await?;
    let set = seen.set.as_deref().ok_or_else(|| {
        anyhow!("there is no manifestworkreplicaset {name} in namespace {namespace}; its namespace is said with -n")
    })?;
    let mut sentences = explain::sentences(set, &seen);
    if set.metadata.deletion_timestamp.is_some() || names::refusal(set).is_some() {
        return Ok(sentences);
    }
    let all = explain::clusters(set, &seen);
    let line = |it: &explain::Explained| format!("Cluster {} {}.", it.cluster, it.because);
    match cluster {
        None => sentences.extend(all.iter().filter(|it| !it.is_done).map(line)),
        Some(cluster) => match all.iter().find(|it| it.cluster == cluster) {
            Some(it) => sentences.push(line(it)),
            None => bail!("no placement of {name} chooses cluster {cluster}; `drover why placement/...` says why"),
        },
    }
    Ok(sentences)
}

/// Everything on the hub that the set's works depend on.
async fn observe(hub: &ApiServer, namespace: &str, name: &str) -> Result<Seen> {
    let sets: Api<ManifestWorkReplicaSet> = Api::namespaced(hub.client.clone(), namespace);
    let set = sets.get_opt(name).await;
    let set = set.map_err(|error| hub.explain(&format!("could not get manifestworkreplicaset {name}"), &error))?;
    let mut seen = Seen {
        now: Timestamp::now(),
        set: set.map(Arc::new),
        ..Seen::default()
    };
    let Some(set) = seen.set.clone() else {
        return Ok(seen);
    };
    let placements: Api<Placement> = Api::namespaced(hub.client.clone(), namespace);
    let decisions: Api<PlacementDecision> = Api::namespaced(hub.client.clone(), namespace);
    let decisions = decisions.list(&ListParams::default()).await;
    let decisions = decisions.map_err(|error| hub.explain("could not list the placement decisions", &error))?;
    let decisions: Vec<_> = decisions.items.into_iter().map(Arc::new).collect();
    for it in &set.spec.placement_refs {
        let placement = placements.get_opt(&it.name).await;
        let placement =
            placement.map_err(|error| hub.explain(&format!("could not get placement {}", it.name), &error))?;
        let placement = placement.map(Arc::new);
        seen.placements
            .push(PlacementWithDecisions::of(placement, &decisions, &it.name));
    }
    if names::refusal(&set).is_none() {
        let its = format!("{}={}", labels::MANIFEST_WORK_REPLICA_SET, names::label_value(&set));
        let its = ListParams::default().labels(&its);
        let works: Api<ManifestWork> = Api::all(hub.client.clone());
        let works = works.list(&its).await;
        let works = works.map_err(|error| hub.explain("could not list the works", &error))?;
        let mut works: Vec<_> = works.items.into_iter().map(Arc::new).collect();
        works.sort_by_key(|it| (it.metadata.namespace.clone(), it.metadata.name.clone()));
        seen.members = works.iter().map(|it| Member::new(it, seen.now)).collect();
        let revisions: Api<ControllerRevision> = Api::namespaced(hub.client.clone(), namespace);
        let revisions = revisions.list(&its).await;
        let revisions = revisions.map_err(|error| hub.explain("could not list the templates before", &error))?;
        seen.revisions = Some(revisions.items.into_iter().map(Arc::new).collect());
        let named = ListParams::default().fields(&format!("metadata.name={}", names::work_name(&set)));
        let others: Api<ManifestWork> = Api::all(hub.client.clone());
        let others = others.list(&named).await;
        let others = others.map_err(|error| hub.explain("could not list the works", &error))?;
        let ours = names::label_value(&set);
        seen.strangers = others
            .items
            .into_iter()
            .filter(|it| names::label_of(it) != Some(&ours))
            .filter_map(|it| it.metadata.namespace)
            .collect();
    }
    Ok(seen)
}
