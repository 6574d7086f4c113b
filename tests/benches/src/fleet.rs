//! Many agents on one hub: what the hub weighs and what it does when nothing happens.

use crate::{
    Size,
    apis::Apis,
    drover::{ADMIN, Drover, client, kubeconfig},
    statistics::{mebibytes, milliseconds, round},
    works::{is, work, works},
};
use agent::Agent;
use anyhow::{Context, Result};
use credential::KubeconfigSource;
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Client,
    api::{ListParams, PostParams},
};
use registration::agent::AgentOptions;
use serde_json::{Value, json};
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

const WORKS_EACH: usize = 5;
const DEADLINE: Duration = Duration::from_secs(300);
/// Creates under way at once.
const PARALLEL: usize = 16;

/// One hub process, one with the clusters' own APIs, and the agents in this one.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let hub = Drover::up(binary, data.path(), 0)?;
    let stop = CancellationToken::new();
    let begun = Instant::now();
    let names: Vec<String> = (1..=size.agents).map(|it| format!("agent{it}")).collect();
    let clusters = Apis::start(size.agents, data.path()).await?;
    let agents = join(
        binary,
        &kubeconfig(data.path(), "hub"),
        &names,
        &clusters.clients,
        &stop,
    )
    .await?;
    let client = client(data.path(), "hub").await?;
    let pairs = names
        .iter()
        .flat_map(|name| (0..WORKS_EACH).map(move |index| (name, format!("work{index}"))));
    stream::iter(pairs)
        .map(|(name, work_name)| {
            let api = works(client.clone(), name);
            async move {
                // The cluster namespace is made when the cluster is accepted, which was answered a moment before.
                let deadline = Instant::now() + DEADLINE;
                loop {
                    match api.create(&PostParams::default(), &work(&work_name, name)).await {
                        Ok(_) => return Ok(()),
                        Err(kube::Error::Api(error)) if error.code == 404 && Instant::now() < deadline => {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        })
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<()>>()
        .await?;
    let all = works(client.clone(), "");
    let wanted = size.agents * WORKS_EACH;
    loop {
        let available = all
            .list(&ListParams::default())
            .await?
            .items
            .iter()
            .filter(|it| is(it, "Available"))
            .count();
        if available == wanted {
            break;
        }
        anyhow::ensure!(
            begun.elapsed() < DEADLINE,
            "{available} of {wanted} works are available"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let settled = begun.elapsed();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = hub.cpu()?;
    tokio::time::sleep(Duration::from_secs(size.idle_seconds)).await;
    let used = hub.cpu()?.checked_sub(before).context("CPU time only grows")?;
    let share = used.as_secs_f64() / size.idle_seconds as f64 * 100.0;
    let resident = mebibytes(hub.resident()?);
    stop.cancel();
    for agent in agents {
        agent.finished().await;
    }
    clusters.stop()?;
    hub.stop()?;
    Ok(json!({
        "agents": size.agents, "worksEach": WORKS_EACH,
        "hubResidentMebibytes": {"measured": resident, "promised": 150},
        "hubIdleCpuPercentOfOneCore": {"measured": round(share), "promised": 3},
        "joinedAndAvailableMilliseconds": round(milliseconds(settled)),
    }))
}

/// Joins the clusters to the hub of the kubeconfig, under these names, and has the hub accept them.
pub async fn join(
    binary: &Path,
    admin: &Path,
    names: &[String],
    clusters: &[Client],
    stop: &CancellationToken,
) -> Result<Vec<Agent>> {
    let mut agents = Vec::new();
    for (name, cluster) in names.iter().zip(clusters) {
        let options = AgentOptions {
            cluster_name: Some(name.clone()),
            ..AgentOptions::new(KubeconfigSource::Path(admin.to_owned()), cluster.clone())
        };
        agents.push(agent::start(options, stop.child_token()).await?);
    }
    let (binary, admin, list) = (binary.to_owned(), admin.to_owned(), names.join(","));
    let accepted = tokio::task::spawn_blocking(move || {
        Command::new(binary)
            .args([
                "accept",
                "--wait",
                "--requesters",
                ADMIN,
                "--clusters",
                &list,
                "--kubeconfig",
            ])
            .arg(admin)
            .output()
    });
    let accepted = accepted.await??;
    anyhow::ensure!(
        accepted.status.success(),
        "{}",
        String::from_utf8_lossy(&accepted.stderr)
    );
    Ok(agents)
}
