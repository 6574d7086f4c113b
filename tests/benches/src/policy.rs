//! Policies on a hub: how fast a new one is reported by all clusters, and how long many take to many clusters.
//!
//! The hub is the real binary with its disk. The agents are light ones in this process: each has a connection of its
//! own, watches the Policies of its cluster, and says at once that they comply. They share the machine with the hub, so
//! that the times are upper bounds.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client, Config,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    Size,
    configuration::{self, ConfigurationSize},
    drover::{Drover, client, kubeconfig},
    replica_set::{api, object, settle, until, world},
    statistics::{mebibytes, median, milliseconds, round},
};

const GROUP: &str = "policy.open-cluster-management.io";
const NAMESPACE: &str = "default";
/// A run that takes longer is broken, not slow.
const DEADLINE: Duration = Duration::from_secs(900);
const PARALLEL: usize = 32;
const RUNS: usize = 3;
/// A new policy over these clusters is to be reported within these milliseconds.
const REPORTED_WITHIN: f64 = 2_000.0;
/// Many policies are to be on many clusters within these milliseconds.
const PROPAGATED_WITHIN: f64 = 60_000.0;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct PolicySize {
    /// Clusters that report a new policy.
    pub reporting: usize,
    /// Policies on many clusters.
    pub policies: usize,
    /// The clusters that they are on.
    pub clusters: usize,
    /// ConfigurationPolicies on one cluster.
    pub configuration: ConfigurationSize,
}

/// All of it.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    Ok(json!({
        "newPolicy": reported(binary, size.policy.reporting).await?,
        "manyPolicies": propagated(binary, size.policy.policies, size.policy.clusters).await?,
        "configurationPolicies": configuration::measure(binary, size.policy.configuration).await?,
    }))
}

async fn hub(binary: &Path, data: &Path, count: usize) -> Result<(Drover, Client, Vec<String>)> {
    let up = ["up", "--clusters", "0", "--addons", "governance-policy-framework"];
    let hub = Drover::until_ready(binary, &up, data)?;
    let admin = client(data, "hub").await?;
    let names: Vec<String> = (0..count).map(|it| format!("agent{it:05}")).collect();
    world(&admin, &names).await?;
    Ok((hub, admin, names))
}

fn policies(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    api(client, GROUP, "v1", "Policy", namespace)
}

fn policy(name: &str) -> DynamicObject {
    let definition = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ConfigurationPolicy", "metadata": {"name": name},
        "spec": {
            "remediationAction": "inform", "severity": "low",
            "object-templates": [{
                "complianceType": "musthave",
                "objectDefinition": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            }],
        },
    });
    object(json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Policy", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"disabled": false, "remediationAction": "inform", "policy-templates": [{"objectDefinition": definition}]},
    }))
}

fn binding(name: &str, bound: &[String]) -> DynamicObject {
    let subjects: Vec<Value> = bound
        .iter()
        .map(|it| json!({"apiGroup": GROUP, "kind": "Policy", "name": it}))
        .collect();
    object(json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "PlacementBinding", "metadata": {"name": name, "namespace": NAMESPACE},
        "placementRef": {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "all"},
        "subjects": subjects,
    }))
}

/// From creating a Policy to its status that says that all clusters comply.
async fn reported(binary: &Path, count: usize) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let (hub, admin, names) = hub(binary, data.path(), count).await?;
    let stop = CancellationToken::new();
    let mut agents = start(data.path(), &names, &stop).await?;
    settle(&hub).await?;
    let bindings = api(&admin, GROUP, "v1", "PlacementBinding", Some(NAMESPACE));
    let roots = policies(&admin, Some(NAMESPACE));
    let mut times = Vec::new();
    for run in 0..RUNS {
        let name = format!("new{run}");
        bindings
            .create(&PostParams::default(), &binding(&name, std::slice::from_ref(&name)))
            .await?;
        let its = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut events = roots.watch(&its, "0").await?.boxed();
        let begun = Instant::now();
        roots.create(&PostParams::default(), &policy(&name)).await?;
        let complete = async {
            while let Some(event) = events.try_next().await? {
                if let WatchEvent::Added(it) | WatchEvent::Modified(it) = event {
                    let said = it.data["status"]["status"].as_array().map_or(0, Vec::len);
                    if said == count && it.data["status"]["compliant"] == "Compliant" {
                        return Ok(begun.elapsed());
                    }
                }
            }
            anyhow::bail!("the watch of the policy ended")
        };
        let took = tokio::time::timeout(DEADLINE, complete)
            .await
            .context("it was never reported by all clusters")??;
        times.push(milliseconds(took));
    }
    stop.cancel();
    while let Some(agent) = agents.join_next().await {
        agent?;
    }
    hub.stop()?;
    Ok(json!({"clusters": count, "createdToReportedMilliseconds": median(times, REPORTED_WITHIN)}))
}

/// From creating the first of many Policies to the last of their replicas.
async fn propagated(binary: &Path, count: usize, clusters: usize) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let (hub, admin, _) = hub(binary, data.path(), clusters).await?;
    settle(&hub).await?;
    let before = mebibytes(hub.resident()?);
    let names: Vec<String> = (0..count).map(|it| format!("policy{it:05}")).collect();
    let bindings = api(&admin, GROUP, "v1", "PlacementBinding", Some(NAMESPACE));
    let roots = policies(&admin, Some(NAMESPACE));
    let (begun, used) = (Instant::now(), hub.cpu()?);
    bindings
        .create(&PostParams::default(), &binding("many", &names))
        .await?;
    let create = |name: &String| {
        let (roots, policy) = (roots.clone(), policy(name));
        async move { roots.create(&PostParams::default(), &policy).await }
    };
    stream::iter(&names)
        .map(create)
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<_>>()
        .await?;
    let all = policies(&admin, None);
    // A server counts what is left of a list only where nothing is selected.
    let first = ListParams::default().limit(1);
    let wanted = count + count * clusters;
    let there = async || {
        let page = all.list_metadata(&first).await?;
        let rest = page
            .metadata
            .remaining_item_count
            .and_then(|it| usize::try_from(it).ok());
        Ok(page.items.len() + rest.unwrap_or_default() >= wanted)
    };
    until("the policies are not on all clusters", there).await?;
    let took = begun.elapsed();
    let used = hub.cpu()?.checked_sub(used).context("CPU time only grows")?;
    let after = mebibytes(hub.resident()?);
    hub.stop()?;
    Ok(json!({
        "policies": count,
        "clusters": clusters,
        "createdToPropagatedMilliseconds": {"measured": round(milliseconds(took)), "promised": PROPAGATED_WITHIN},
        "hubCpuSeconds": round(used.as_secs_f64()),
        "hubResidentMebibytes": {"before": before, "after": after},
    }))
}

/// Starts the agents, and returns when all of them watch.
async fn start(data: &Path, names: &[String], stop: &CancellationToken) -> Result<JoinSet<()>> {
    let file = Kubeconfig::read_from(kubeconfig(data, "hub"))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let watching: Vec<_> = stream::iter(names)
        .map(|name| {
            let config = &config;
            async move {
                let policies = policies(&credential::connection::client(config)?, Some(name));
                let events = policies.watch(&WatchParams::default().timeout(290), "0").await?.boxed();
                anyhow::Ok((policies, events))
            }
        })
        .buffered(PARALLEL)
        .try_collect()
        .await?;
    let mut agents = JoinSet::new();
    for (policies, mut events) in watching {
        let stop = stop.clone();
        agents.spawn(async move {
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = events.next() => event,
                };
                let Some(Ok(WatchEvent::Added(policy) | WatchEvent::Modified(policy))) = event else {
                    return;
                };
                if policy.data["status"]["compliant"] != "Compliant" {
                    let name = policy.metadata.name.unwrap_or_default();
                    let said = json!({"status": {"compliant": "Compliant"}});
                    // What the hub refuses it hears again: the policy has changed meanwhile.
                    let _ = policies
                        .patch_status(&name, &PatchParams::default(), &Patch::Merge(&said))
                        .await;
                }
            }
        });
    }
    Ok(agents)
}
