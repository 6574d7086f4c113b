//! An installation as an administrator types it, on two embedded clusters: a hub is put on one and taken off again, and
//! the other joins it and leaves; and what the operators weigh while nothing happens.

use crate::{
    Size,
    drover::{Drover, client_of, cpu_of, resident_of},
    statistics::{mebibytes, median, milliseconds, round},
};
use anyhow::{Context, Result, ensure};
use kube::{Api, api::DeleteParams};
use ocm_api::{cluster::ManagedCluster, condition, conditions::managed_cluster::AVAILABLE};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// The cluster that joins.
const EDGE: &str = "edge";
/// Time for the processes to settle before they are watched.
const SETTLE: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(120);
const GLANCE: Duration = Duration::from_millis(5);

/// What one installation took.
#[derive(Default)]
struct Times {
    init: Vec<f64>,
    join: Vec<f64>,
    available: Vec<f64>,
    join_to_available: Vec<f64>,
    unjoin: Vec<f64>,
    clean: Vec<f64>,
}

/// All verbs, from nothing to nothing.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let mut times = Times::default();
    let mut idle = Value::Null;
    for run in 0..size.runs {
        let data = tempfile::tempdir()?;
        let (hub, of_hub) = cluster(binary, data.path(), "hub")?;
        let (edge, of_edge) = cluster(binary, data.path(), EDGE)?;
        times.init.push(timed(binary, &of_hub, &["init", "--wait"])?);
        let begun = Instant::now();
        let hub_of_join = of_hub.display().to_string();
        let join = [
            "join",
            "--wait",
            "--cluster-name",
            EDGE,
            "--hub-kubeconfig",
            &hub_of_join,
        ];
        times.join.push(timed(binary, &of_edge, &join)?);
        let accepted = Instant::now();
        timed(binary, &of_hub, &["accept", "--clusters", EDGE])?;
        let clusters: Api<ManagedCluster> = Api::all(client_of(&of_hub).await?);
        until_available(&clusters).await?;
        times.available.push(milliseconds(accepted.elapsed()));
        times.join_to_available.push(milliseconds(begun.elapsed()));
        if run == 0 {
            idle = watch_idle(data.path(), size.idle_seconds).await?;
        }
        times
            .unjoin
            .push(timed(binary, &of_edge, &["unjoin", "--cluster-name", EDGE])?);
        clusters.delete(EDGE, &DeleteParams::default()).await?;
        until_gone(&clusters).await?;
        times.clean.push(timed(binary, &of_hub, &["clean"])?);
        hub.stop()?;
        edge.stop()?;
    }
    Ok(json!({
        "initWaitMilliseconds": median(times.init, 3000.0),
        "joinWaitMilliseconds": median(times.join, 3000.0),
        "acceptToAvailableMilliseconds": median(times.available, 3000.0),
        "joinToAvailableMilliseconds": median(times.join_to_available, 3000.0),
        "unjoinMilliseconds": median(times.unjoin, 3000.0),
        "cleanMilliseconds": median(times.clean, 3000.0),
        "idle": idle,
    }))
}

/// An embedded cluster of its own process, and its kubeconfig.
fn cluster(binary: &Path, data: &Path, name: &str) -> Result<(Drover, PathBuf)> {
    let kubeconfig = data.join(format!("{name}.kubeconfig"));
    let path = kubeconfig.display().to_string();
    let command = ["kube", "up", "--write-kubeconfig", path.as_str()];
    Ok((Drover::until_ready(binary, &command, &data.join(name))?, kubeconfig))
}

/// Runs a verb to its end; how many milliseconds it took.
fn timed(binary: &Path, kubeconfig: &Path, words: &[&str]) -> Result<f64> {
    let begun = Instant::now();
    let done = Command::new(binary)
        .args(words)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()?;
    let verb = words.join(" ");
    ensure!(
        done.status.success(),
        "drover {verb}: {}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(milliseconds(begun.elapsed()))
}

async fn until_available(clusters: &Api<ManagedCluster>) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let cluster = clusters.get_opt(EDGE).await?;
        let status = cluster.and_then(|it| it.status);
        if status.is_some_and(|it| condition::is_true(&it.conditions, AVAILABLE)) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "cluster {EDGE} does not become available");
        tokio::time::sleep(GLANCE).await;
    }
}

async fn until_gone(clusters: &Api<ManagedCluster>) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    while clusters.get_opt(EDGE).await?.is_some() {
        ensure!(Instant::now() < deadline, "cluster {EDGE} does not go");
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}

/// What the pods' processes weigh and use while nothing is asked of them.
async fn watch_idle(data: &Path, seconds: u64) -> Result<Value> {
    tokio::time::sleep(SETTLE).await;
    let before = pods(data)?;
    let used: Vec<Duration> = before.iter().map(|it| cpu_of(it.process)).collect::<Result<_>>()?;
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let mut told = serde_json::Map::new();
    for (pod, used) in before.iter().zip(used) {
        let cpu = cpu_of(pod.process)?.saturating_sub(used);
        let is_operator = pod.program.starts_with("operator");
        told.insert(
            pod.program.clone(),
            json!({
                "residentMebibytes": {
                    "measured": mebibytes(resident_of(pod.process)?), "promised": if is_operator { json!(15) } else { Value::Null },
                },
                "percentOfACore": {
                    "measured": round(cpu.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0),
                    "promised": if is_operator { json!(0.2) } else { Value::Null },
                },
            }),
        );
    }
    ensure!(
        ["operator hub", "operator klusterlet"]
            .iter()
            .all(|it| told.contains_key(*it)),
        "the operators do not run as processes: there are {}",
        told.keys().cloned().collect::<Vec<_>>().join(", ")
    );
    Ok(Value::Object(told))
}

struct PodProcess {
    process: u32,
    /// The words that say what it is: `operator hub`.
    program: String,
}

/// The processes of pods that have their files in this directory.
fn pods(data: &Path) -> Result<Vec<PodProcess>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("there is no /proc")? {
        let Some(process) = entry?.file_name().to_str().and_then(|it| it.parse().ok()) else {
            continue;
        };
        // A process may end while we look; whose it is we may not be allowed to know.
        let Ok(line) = std::fs::read(format!("/proc/{process}/cmdline")) else {
            continue;
        };
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut words = line.split('\0').skip_while(|it| *it != "--in-pod").skip(1);
        if !words.next().is_some_and(|it| Path::new(it).starts_with(data)) {
            continue;
        }
        let named: Vec<&str> = words
            .take_while(|it| !it.starts_with('-'))
            .filter(|it| !it.is_empty())
            .collect();
        found.push(PodProcess {
            process,
            program: named.join(" "),
        });
    }
    Ok(found)
}
