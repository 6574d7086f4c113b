//! Clusters that come: from the ManagedClusters to the namespaces and rights of all of them.
//!
//! Once on the embedded hub, in thousands one after the other, to see whether the last thousand costs more than the
//! first; and once on an API server in a process of its own, to see what the hub costs that.

use crate::{
    Size,
    apis::Apis,
    drover::{Drover, client, client_of, cpu_of},
    statistics::{milliseconds, round},
};
use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{Api, Client, api::PostParams, runtime::watcher};
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSpec},
    labels,
};
use ocm_reconcile::Cache;
use serde_json::{Value, json};
use std::{
    ops::Range,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// Creates under way at once.
const PARALLEL: usize = 16;
const DEADLINE: Duration = Duration::from_secs(900);
const GLANCE: Duration = Duration::from_millis(20);

/// An API server that is not ours, empty, and its processes.
pub struct Other {
    /// How to speak to it.
    pub kubeconfig: PathBuf,
    /// Its processes: API server, etcd.
    pub processes: Vec<u32>,
}

/// Measures both, or on another API server alone.
pub async fn measure(binary: &Path, size: Size, other: Option<&Other>) -> Result<Value> {
    if let Some(other) = other {
        return Ok(json!({"other": on_other(binary, size.bringup_beside, other).await?}));
    }
    Ok(json!({
        "embedded": embedded(binary, size).await?,
        "beside": beside(binary, size.bringup_beside).await?,
    }))
}

async fn embedded(binary: &Path, size: Size) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let hub = Drover::up(binary, data.path(), 0)?;
    let client = client(data.path(), "hub").await?;
    let stop = CancellationToken::new();
    let seen = There::watch(&client, &stop);
    let begun = Instant::now();
    let mut rounds = Vec::new();
    let mut there = 0;
    while there < size.bringup {
        let (since, cpu) = (Instant::now(), hub.cpu()?);
        let next = size.bringup.min(there + size.bringup_round);
        bring_up(&client, &seen, there..next).await?;
        rounds.push(json!({
            "clusters": next,
            "millisecondsEach": round(milliseconds(since.elapsed()) / (next - there) as f64),
            "cpuMillisecondsEach": round(milliseconds(hub.cpu()? - cpu) / (next - there) as f64),
        }));
        there = next;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = hub.cpu()?.as_secs_f64();
    stop.cancel();
    hub.stop()?;
    Ok(json!({
        "clusters": there, "seconds": round(seconds), "cpuSeconds": round(cpu),
        "first": rounds.first(), "last": rounds.last(), "rounds": rounds,
    }))
}

async fn beside(binary: &Path, clusters: usize) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let api = Apis::start(1, data.path()).await?;
    let kubeconfig = data.path().join("cluster0.kubeconfig");
    let report = hub_beside(binary, clusters, &kubeconfig, &api.clients[0], || api.cpu()).await?;
    api.stop()?;
    Ok(report)
}

async fn on_other(binary: &Path, clusters: usize, other: &Other) -> Result<Value> {
    let client = client_of(&other.kubeconfig).await?;
    let used = || other.processes.iter().map(|it| cpu_of(*it)).sum();
    hub_beside(binary, clusters, &other.kubeconfig, &client, used).await
}

async fn hub_beside(
    binary: &Path,
    clusters: usize,
    kubeconfig: &Path,
    client: &Client,
    cpu_of_api: impl Fn() -> Result<Duration>,
) -> Result<Value> {
    let kubeconfig = kubeconfig.display().to_string();
    let hub = Drover::run(binary, ["hub", "--kubeconfig", kubeconfig.as_str()])?;
    let sets: Api<ManagedClusterSet> = Api::all(client.clone());
    let deadline = Instant::now() + DEADLINE;
    while !matches!(sets.get_opt("global").await, Ok(Some(_))) {
        ensure!(Instant::now() < deadline, "the hub does not work");
        tokio::time::sleep(GLANCE).await;
    }
    let stop = CancellationToken::new();
    let seen = There::watch(client, &stop);
    let (since, of_api, of_hub) = (Instant::now(), cpu_of_api()?, hub.cpu()?);
    bring_up(client, &seen, 0..clusters).await?;
    let report = json!({
        "clusters": clusters,
        "seconds": round(since.elapsed().as_secs_f64()),
        "apiServerCpuMillisecondsEach": round(milliseconds(cpu_of_api()? - of_api) / clusters as f64),
        "hubCpuMillisecondsEach": round(milliseconds(hub.cpu()? - of_hub) / clusters as f64),
    });
    stop.cancel();
    hub.stop()?;
    Ok(report)
}

/// Makes these clusters and waits until each has everything that a cluster has.
async fn bring_up(client: &Client, there: &There, numbers: Range<usize>) -> Result<()> {
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let all = numbers.end;
    stream::iter(numbers)
        .map(|number| {
            let clusters = clusters.clone();
            let spec = ManagedClusterSpec {
                hub_accepts_client: true,
                ..ManagedClusterSpec::default()
            };
            let cluster = ManagedCluster::new(&format!("cluster{number}"), spec);
            async move { clusters.create(&PostParams::default(), &cluster).await }
        })
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<_>>()
        .await?;
    let deadline = Instant::now() + DEADLINE;
    while !there.are(all) {
        ensure!(
            Instant::now() < deadline,
            "{} namespaces, {} bindings and {} leases of {all} clusters are there",
            there.namespaces.len(),
            there.role_bindings.len(),
            there.leases.len()
        );
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}

/// What has a cluster's label, as watches tell it: to list ten thousand again and again would be most
/// of what is measured.
struct There {
    leases: Cache<Lease>,
    namespaces: Cache<Namespace>,
    role_bindings: Cache<RoleBinding>,
}

impl There {
    fn watch(client: &Client, stop: &CancellationToken) -> Self {
        let of_clusters = || watcher::Config::default().labels(labels::CLUSTER_NAME);
        Self {
            leases: Cache::start_with(Api::all(client.clone()), of_clusters(), stop.clone()),
            namespaces: Cache::start_with(Api::all(client.clone()), of_clusters(), stop.clone()),
            role_bindings: Cache::start_with(Api::all(client.clone()), of_clusters(), stop.clone()),
        }
    }

    /// A cluster's lease is made last; two bindings come with each.
    fn are(&self, clusters: usize) -> bool {
        self.leases.len() >= clusters && self.namespaces.len() >= clusters && self.role_bindings.len() >= 2 * clusters
    }
}
