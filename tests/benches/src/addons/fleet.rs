//! Many add-ons on many clusters: from nothing to all available, what that weighs,
//! and what it costs when nothing happens.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::TryStreamExt;
use kube::{
    Client,
    api::{DynamicObject, ListParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{objects, rollout};
use crate::{
    Size,
    apis::Apis,
    drover::{Drover, client, kubeconfig},
    fleet,
    statistics::{mebibytes, round},
    works::is,
};

const DEADLINE: Duration = Duration::from_secs(300);

/// One hub process, one with the clusters' own APIs, and the agents in this one.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let hub = Drover::up(binary, data.path(), 0)?;
    let admin = kubeconfig(data.path(), "hub");
    let stop = CancellationToken::new();
    let names: Vec<String> = (1..=size.add_on_clusters).map(|it| format!("edge{it}")).collect();
    let clusters = Apis::start(names.len(), data.path()).await?;
    let bare = resident()?;
    let agents = fleet::join(binary, &admin, &names, &clusters.clients, &stop).await?;
    let client = client(data.path(), "hub").await?;
    joined(&client, names.len()).await?;

    let begun = Instant::now();
    let add_ons: Vec<String> = (1..=size.add_ons).map(|it| format!("addon{it}")).collect();
    create(&client, objects::binding()).await?;
    create(&client, objects::everywhere()).await?;
    for name in &add_ons {
        create(&client, objects::configuration(name, "red")).await?;
        create(&client, objects::template(name)).await?;
        create(&client, objects::of_template(name)).await?;
    }
    available(&client, names.len() * add_ons.len()).await?;
    let settled = begun.elapsed();
    let at_once = (hub.resident()?, resident()?.saturating_sub(bare));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let weight = (hub.resident()?, resident()?.saturating_sub(bare));

    let rollout = rollout::measure(&client, &add_ons[0], names.len()).await?;

    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = hub.cpu()? + own_cpu()?;
    tokio::time::sleep(Duration::from_secs(size.idle_seconds)).await;
    let used = (hub.cpu()? + own_cpu()?).saturating_sub(before);
    let share = used.as_secs_f64() / size.idle_seconds as f64 * 100.0;
    stop.cancel();
    for agent in agents {
        agent.finished().await;
    }
    clusters.stop()?;
    hub.stop()?;
    Ok(json!({
        "addOns": add_ons.len(), "clusters": names.len(),
        "fromNothingToAllAvailableSeconds": {"measured": round(settled.as_secs_f64()), "promised": 60},
        "residentMebibytes": {
            "hub": mebibytes(weight.0), "agents": mebibytes(weight.1),
            "measured": mebibytes(weight.0 + weight.1), "promised": 400,
            // While what made the last one available was still under way.
            "whenTheLastIsAvailable": {"hub": mebibytes(at_once.0), "agents": mebibytes(at_once.1)},
        },
        "idleCpuPercentOfOneCore": {"measured": round(share), "promised": 5},
        "rollout": rollout,
    }))
}

async fn create(client: &Client, object: DynamicObject) -> Result<()> {
    objects::api_of(client, &object)?
        .create(&PostParams::default(), &object)
        .await?;
    Ok(())
}

/// Waits until so many add-ons are available. It watches: thousands of objects listed over
/// and over would be a good part of the load.
async fn available(client: &Client, wanted: usize) -> Result<()> {
    let events = watcher(objects::of_clusters(client, None), watcher::Config::default()).applied_objects();
    let mut events = std::pin::pin!(events);
    let (mut seen, mut available) = (HashSet::new(), HashSet::new());
    let all = async {
        while available.len() < wanted {
            let it = events.try_next().await?.context("the watch of add-ons ended")?;
            let key = (it.metadata.namespace.clone(), it.metadata.name.clone());
            if is(&it, "Available") {
                available.insert(key.clone());
            } else {
                available.remove(&key);
            }
            seen.insert(key);
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(DEADLINE, all).await {
        Ok(done) => done,
        Err(_) => anyhow::bail!(
            "{} of {wanted} add-ons are available, {} exist",
            available.len(),
            seen.len()
        ),
    }
}

/// Waits until all clusters are available.
async fn joined(client: &Client, wanted: usize) -> Result<()> {
    let clusters =
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {}});
    let clusters = objects::api_of(client, &serde_json::from_value(clusters)?)?;
    let begun = Instant::now();
    loop {
        let listed = clusters.list(&ListParams::default()).await?;
        let available = listed
            .items
            .iter()
            .filter(|it| is(it, "ManagedClusterConditionAvailable"))
            .count();
        if available == wanted {
            return Ok(());
        }
        anyhow::ensure!(
            begun.elapsed() < DEADLINE,
            "{available} of {wanted} clusters are available"
        );
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// Resident memory of this process in bytes.
fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|it| it.starts_with("VmRSS:"));
    let kibibytes = line.and_then(|it| it.split_whitespace().nth(1));
    Ok(kibibytes.context("the kernel tells resident memory")?.parse::<u64>()? << 10)
}

/// CPU time of this process, in which the agents run.
fn own_cpu() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok());
    let used = ticks(11).zip(ticks(12)).context("the kernel tells CPU time")?;
    // Linux counts in hundredths of a second for user space, whatever it uses inside.
    Ok(Duration::from_millis((used.0 + used.1) * 10))
}
