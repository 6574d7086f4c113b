//! One ManifestWorkReplicaSet over many clusters: from created to applied everywhere, as its own summary tells it.
//!
//! The hub is the real binary with its disk. The agents are light ones that live in this process: each has one HTTP/2
//! connection of its own to the hub, watches its works, and writes what the real agent writes about a work that it
//! could apply at once: its finalizer, then one status; and when the work is deleted, the finalizer comes off. They
//! share the machine with the hub, so that the time is an upper bound.

use crate::{
    Size,
    drover::{Drover, client, kubeconfig},
    statistics::{mebibytes, median, milliseconds, round},
    works::works,
};
use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client, Config,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
    },
    config::{KubeConfigOptions, Kubeconfig},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "default";
const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
/// A run that takes longer is broken, not slow.
const DEADLINE: Duration = Duration::from_secs(900);
/// Writes under way at once while the world is made.
const PARALLEL: usize = 32;
const RUNS: usize = 3;

/// Every number of clusters, each on a hub of its own.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let mut all = Vec::new();
    for (clusters, promised) in size.replica_set_clusters {
        all.push(one(binary, *clusters, *promised).await?);
    }
    Ok(Value::Array(all))
}

async fn one(binary: &Path, count: usize, promised: f64) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let hub = Drover::up(binary, data.path(), 0)?;
    let admin = client(data.path(), "hub").await?;
    let names: Vec<String> = (0..count).map(|it| format!("agent{it:05}")).collect();
    let begun = Instant::now();
    world(&admin, &names).await?;
    let stop = CancellationToken::new();
    let mut agents = start(data.path(), &names, &stop).await?;
    let ready = begun.elapsed();
    // What the clusters' own controllers of the hub do when they have just come must be over.
    settle(&hub).await?;
    let before = mebibytes(hub.resident()?);
    let (mut times, mut shares, mut peak) = (Vec::new(), Vec::new(), before);
    for run in 0..RUNS {
        let used = hub.cpu()?;
        let took = spread(&admin, &format!("web{run}"), count).await?;
        let used = hub.cpu()?.checked_sub(used).context("CPU time only grows")?;
        peak = f64::max(peak, mebibytes(hub.resident()?));
        times.push(milliseconds(took));
        shares.push(round(used.as_secs_f64()));
        remove(&admin, &format!("web{run}")).await?;
    }
    stop.cancel();
    while let Some(agent) = agents.join_next().await {
        agent?;
    }
    hub.stop()?;
    Ok(json!({
        "clusters": count,
        "createdToAppliedMilliseconds": median(times, promised),
        "hubCpuSeconds": shares,
        "hubResidentMebibytes": {"before": before, "after": peak},
        "worldReadyMilliseconds": round(milliseconds(ready)),
    }))
}

/// The objects of a kind.
pub fn api(client: &Client, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

const CLUSTERS: &str = "cluster.open-cluster-management.io";

/// A literal as an object.
pub fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).expect("a literal is an object")
}

/// Accepted clusters with their namespaces, and a placement that chooses all of them.
pub async fn world(admin: &Client, names: &[String]) -> Result<()> {
    let clusters = api(admin, CLUSTERS, "v1", "ManagedCluster", None);
    stream::iter(names)
        .map(|name| {
            let cluster = object(json!({
                "apiVersion": format!("{CLUSTERS}/v1"), "kind": "ManagedCluster",
                "metadata": {"name": name}, "spec": {"hubAcceptsClient": true},
            }));
            let clusters = clusters.clone();
            async move { clusters.create(&PostParams::default(), &cluster).await }
        })
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<_>>()
        .await?;
    let binding = object(json!({
        "apiVersion": format!("{CLUSTERS}/v1beta2"), "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "global", "namespace": NAMESPACE}, "spec": {"clusterSet": "global"},
    }));
    let bindings = api(admin, CLUSTERS, "v1beta2", "ManagedClusterSetBinding", Some(NAMESPACE));
    bindings.create(&PostParams::default(), &binding).await?;
    let placement = object(json!({
        "apiVersion": format!("{CLUSTERS}/v1beta1"), "kind": "Placement",
        "metadata": {"name": "all", "namespace": NAMESPACE},
        // Nobody hears from these clusters; the hub taints them for it.
        "spec": {"tolerations": [{"operator": "Exists"}]},
    }));
    let placements = api(admin, CLUSTERS, "v1beta1", "Placement", Some(NAMESPACE));
    placements.create(&PostParams::default(), &placement).await?;
    let chosen = async || {
        let it = placements.get("all").await?;
        Ok(it.data["status"]["numberOfSelectedClusters"].as_u64() == Some(names.len() as u64))
    };
    until("the placement does not choose all clusters", chosen).await?;
    let namespaces = api(admin, "", "v1", "Namespace", None);
    let of_clusters = ListParams::default().labels("open-cluster-management.io/cluster-name");
    let there = async || Ok(namespaces.list_metadata(&of_clusters).await?.items.len() >= names.len());
    until("the clusters do not have their namespaces", there).await
}

/// Waits for a state.
pub async fn until(otherwise: &str, mut state: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    while !state().await? {
        anyhow::ensure!(Instant::now() < deadline, "{otherwise}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Waits until the hub has next to nothing to do.
pub async fn settle(hub: &Drover) -> Result<()> {
    let mut last = hub.cpu()?;
    let idle = async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = hub.cpu()?;
        let used = now.checked_sub(last).unwrap_or_default();
        last = now;
        Ok(used < Duration::from_millis(100))
    };
    until("the hub does not settle", idle).await
}

/// Starts the agents, and returns when all of them watch.
async fn start(data: &Path, names: &[String], stop: &CancellationToken) -> Result<JoinSet<()>> {
    let file = Kubeconfig::read_from(kubeconfig(data, "hub"))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let watching: Vec<_> = stream::iter(names)
        .map(|name| {
            let config = &config;
            async move {
                let works = works(credential::connection::client(config)?, name);
                let events = works.watch(&WatchParams::default().timeout(290), "0").await?.boxed();
                anyhow::Ok((works, events))
            }
        })
        .buffered(PARALLEL)
        .try_collect()
        .await?;
    let mut agents = JoinSet::new();
    for (works, mut events) in watching {
        let stop = stop.clone();
        agents.spawn(async move {
            let mut said = 0;
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = events.next() => event,
                };
                match event {
                    Some(Ok(WatchEvent::Added(work) | WatchEvent::Modified(work))) => {
                        // What the hub refuses it hears again: the work has changed meanwhile.
                        let _ = answer(&works, &work, &mut said).await;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => {
                        let version = "0";
                        if let Ok(again) = works.watch(&WatchParams::default().timeout(290), version).await {
                            events = again.boxed();
                        }
                    }
                }
            }
        });
    }
    Ok(agents)
}

/// What an agent writes about a work.
async fn answer(works: &Api<DynamicObject>, work: &DynamicObject, said: &mut i64) -> Result<()> {
    let name = work.metadata.name.as_deref().unwrap_or_default();
    let held = work.metadata.finalizers.iter().flatten().any(|it| it == FINALIZER);
    let params = PatchParams::default();
    if work.metadata.deletion_timestamp.is_some() {
        if held {
            *said = 0;
            let patch = json!({"metadata": {"finalizers": null}});
            works.patch(name, &params, &Patch::Merge(&patch)).await?;
        }
        return Ok(());
    }
    if !held {
        let patch = json!({"metadata": {"finalizers": [FINALIZER], "resourceVersion": work.metadata.resource_version}});
        works.patch(name, &params, &Patch::Merge(&patch)).await?;
    }
    let generation = work.metadata.generation.unwrap_or_default();
    if *said == generation {
        return Ok(());
    }
    *said = generation;
    let condition = |r#type: &str, reason: &str, message: &str| {
        json!({"type": r#type, "status": "True", "reason": reason, "message": message,
               "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let manifest = json!({
        "resourceMeta": {
            "ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
            "name": "web", "namespace": "default"
        },
        "conditions": [
            condition("Applied", "AppliedManifestComplete", "Apply manifest complete"),
            condition("Available", "ResourceAvailable", "Resource is available"),
        ],
        "statusFeedback": {},
    });
    let status = json!({"status": {
        "conditions": [
            condition("Applied", "AppliedManifestWorkComplete", "Apply manifest work complete"),
            condition("Available", "ResourcesAvailable", "All resources are available"),
        ],
        "resourceStatus": {"manifests": [manifest]},
    }});
    works.patch_status(name, &params, &Patch::Merge(&status)).await?;
    Ok(())
}

fn sets(admin: &Client) -> Api<DynamicObject> {
    let (group, kind) = ("work.open-cluster-management.io", "ManifestWorkReplicaSet");
    api(admin, group, "v1alpha1", kind, Some(NAMESPACE))
}

/// From creating the set to the summary that says it is applied everywhere.
async fn spread(admin: &Client, name: &str, count: usize) -> Result<Duration> {
    let sets = sets(admin);
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": "default"}, "data": {"key": "value"},
    });
    let set = object(json!({
        "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "placementRefs": [{"name": "all"}],
            "manifestWorkTemplate": {"workload": {"manifests": [manifest]}},
        },
    }));
    let its = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = sets.watch(&its, "0").await?.boxed();
    let begun = Instant::now();
    sets.create(&PostParams::default(), &set).await?;
    let applied = async {
        let mut last = 0;
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(it) | WatchEvent::Modified(it) = event {
                last = it.data["status"]["summary"]["applied"].as_u64().unwrap_or_default();
                if last == count as u64 {
                    return Ok(begun.elapsed());
                }
            }
        }
        anyhow::bail!("the watch ended at {last} of {count} applied")
    };
    tokio::time::timeout(DEADLINE, applied)
        .await
        .context("it was never applied everywhere")?
}

/// Deletes the set and waits until its works are gone.
async fn remove(admin: &Client, name: &str) -> Result<()> {
    sets(admin).delete(name, &DeleteParams::default()).await?;
    let works = works(admin.clone(), "");
    let left = ListParams::default().limit(1);
    let gone = async || Ok(works.list_metadata(&left).await?.items.is_empty());
    until("its works are not deleted", gone).await
}
