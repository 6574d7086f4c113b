//! One ManifestWork from create to Applied, and many at once to Available.

use crate::{
    Size,
    drover::{Drover, client},
    statistics::{median, milliseconds, percentile, round},
};
use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream::FuturesUnordered};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    path::Path,
    time::{Duration, Instant},
};

const NAMESPACE: &str = "cluster1";
/// A run that takes longer is broken, not slow.
const DEADLINE: Duration = Duration::from_secs(120);

/// An untyped API of ManifestWorks in a cluster namespace.
pub fn works(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
    Api::namespaced_with(client, namespace, &ApiResource::from_gvk(&kind))
}

/// A work with one ConfigMap.
pub fn work(name: &str, namespace: &str) -> DynamicObject {
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"key": "value"},
    });
    serde_json::from_value(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"workload": {"manifests": [manifest]}},
    }))
    .expect("a literal is an object")
}

/// Whether a condition of the work is True.
pub fn is(work: &DynamicObject, condition: &str) -> bool {
    let conditions = work.data["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .any(|it| it["type"] == condition && it["status"] == "True")
}

/// Both measurements on one `up` with one cluster.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let up = Drover::up(binary, data.path(), 1)?;
    let api = works(client(data.path(), "hub").await?, NAMESPACE);
    // The first works pay for what is set up once.
    one_by_one(&api, 5, "warm").await?;
    let mut single = one_by_one(&api, size.works, "one").await?;
    let mut bursts = Vec::new();
    for run in 0..size.runs {
        bursts.push(burst(&api, size.burst, &format!("burst{run}")).await?);
    }
    up.stop()?;
    Ok(json!({
        "createToAppliedMilliseconds": {
            "p50": {"measured": round(percentile(&mut single, 0.5)), "promised": 10},
            "p99": {"measured": round(percentile(&mut single, 0.99)), "promised": 50},
            "samples": single.len(),
        },
        "burstToAvailableMilliseconds": median(bursts, 2000.0),
        "burstWorks": size.burst,
    }))
}

async fn one_by_one(api: &Api<DynamicObject>, count: usize, prefix: &str) -> Result<Vec<f64>> {
    let start = api
        .list(&ListParams::default().limit(1))
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let mut events = api.watch(&WatchParams::default(), &start).await?.boxed();
    let mut samples = Vec::with_capacity(count);
    for index in 0..count {
        let name = format!("{prefix}{index}");
        let begun = Instant::now();
        api.create(&PostParams::default(), &work(&name, NAMESPACE)).await?;
        tokio::time::timeout(DEADLINE, async {
            while let Some(event) = events.try_next().await? {
                if let WatchEvent::Added(it) | WatchEvent::Modified(it) = event
                    && it.metadata.name.as_deref() == Some(&name)
                    && is(&it, "Applied")
                {
                    return Ok(());
                }
            }
            anyhow::bail!("the watch ended")
        })
        .await
        .with_context(|| format!("work {name} was never applied"))??;
        samples.push(milliseconds(begun.elapsed()));
    }
    remove(api).await?;
    Ok(samples)
}

async fn burst(api: &Api<DynamicObject>, count: usize, prefix: &str) -> Result<f64> {
    let start = api
        .list(&ListParams::default().limit(1))
        .await?
        .metadata
        .resource_version
        .unwrap_or_default();
    let mut events = api.watch(&WatchParams::default(), &start).await?.boxed();
    let mut missing: HashSet<String> = (0..count).map(|it| format!("{prefix}-{it}")).collect();
    let begun = Instant::now();
    let creates: FuturesUnordered<_> = missing
        .iter()
        .map(|name| {
            let object = work(name, NAMESPACE);
            async move { api.create(&PostParams::default(), &object).await }
        })
        .collect();
    let created = creates.try_collect::<Vec<_>>();
    let seen = async {
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(it) | WatchEvent::Modified(it) = event
                && is(&it, "Available")
                && let Some(name) = &it.metadata.name
            {
                missing.remove(name);
                if missing.is_empty() {
                    return Ok(());
                }
            }
        }
        anyhow::bail!("the watch ended")
    };
    let (created, seen) = tokio::join!(created, tokio::time::timeout(DEADLINE, seen));
    created?;
    seen.context("not all works became available")??;
    let took = milliseconds(begun.elapsed());
    remove(api).await?;
    Ok(took)
}

/// Deletes all works and waits until the agent has let go of them.
async fn remove(api: &Api<DynamicObject>) -> Result<()> {
    api.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    let deadline = Instant::now() + DEADLINE;
    while !api.list(&ListParams::default().limit(1)).await?.items.is_empty() {
        anyhow::ensure!(Instant::now() < deadline, "works are not deleted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
