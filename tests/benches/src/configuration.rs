//! The controller of ConfigurationPolicies as a process of its own: what many policies cost, how fast all are evaluated
//! again, how fast drift is repaired, and how long `drover policy dryrun` takes.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use ocm_api::crds;
use ocm_reconcile::install::install_crds;
use serde_json::{Value, json};

use crate::{
    drover::{Drover, client, kubeconfig},
    replica_set::{api, object, until},
    statistics::{mebibytes, median, milliseconds, round},
};

const GROUP: &str = "policy.open-cluster-management.io";
const NAMESPACE: &str = "default";
const METRICS: &str = "127.0.0.1:18383";
const PARALLEL: usize = 32;
const RUNS: usize = 20;

/// So many policies are to cost at most so many mebibytes, and this part of a core while nothing changes.
const MEBIBYTES: f64 = 60.0;
const IDLE_CORE: f64 = 0.01;
/// All of them are to be evaluated again within these milliseconds.
const EVALUATED_WITHIN: f64 = 2_000.0;
/// Drift is to be repaired within these milliseconds.
const REPAIRED_WITHIN: f64 = 50.0;
/// A dry run is to take at most so many milliseconds.
const DRY_RUN_WITHIN: f64 = 50.0;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct ConfigurationSize {
    /// Policies on one cluster.
    pub policies: usize,
    /// Seconds over which an idle controller is watched.
    pub idle_seconds: u64,
}

fn policy(name: &str) -> DynamicObject {
    object(json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ConfigurationPolicy",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "remediationAction": "enforce", "severity": "low",
            "object-templates": [{
                "complianceType": "musthave",
                "objectDefinition": {
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE},
                    // All of them read one object: a change of it evaluates all of them.
                    "data": {"wanted": "{{ fromConfigMap \"default\" \"source\" \"key\" }}"},
                },
            }],
        },
    }))
}

/// All of it.
pub async fn measure(binary: &Path, size: ConfigurationSize) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let cluster = Drover::until_ready(binary, &["up", "--clusters", "0"], data.path())?;
    let admin = client(data.path(), "hub").await?;
    let mut kinds = crds::add_on(GROUP);
    kinds.retain(|it| it["spec"]["names"]["kind"] == "ConfigurationPolicy");
    install_crds(&admin, kinds).await?;
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), NAMESPACE);
    let source: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "source"}, "data": {"key": "v"}}))?;
    maps.create(&PostParams::default(), &source).await?;
    let controller = controller(binary, data.path())?;
    let begun = Instant::now();
    let policies = api(&admin, GROUP, "v1", "ConfigurationPolicy", Some(NAMESPACE));
    let names: Vec<String> = (0..size.policies).map(|it| format!("policy{it:05}")).collect();
    let create = |name: &String| {
        let (policies, policy) = (policies.clone(), policy(name));
        async move { policies.create(&PostParams::default(), &policy).await }
    };
    stream::iter(&names)
        .map(create)
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<_>>()
        .await?;
    let compliant = async || {
        let all = policies.list(&ListParams::default()).await?;
        Ok(all
            .items
            .iter()
            .filter(|it| it.data["status"]["compliant"] == "Compliant")
            .count()
            == size.policies)
    };
    until("the policies do not comply", compliant).await?;
    let enforced = begun.elapsed();
    quiet().await?;
    let resident = mebibytes(controller.resident()?);
    let (from, used) = (Instant::now(), controller.cpu()?);
    tokio::time::sleep(Duration::from_secs(size.idle_seconds)).await;
    let idle = (controller.cpu()? - used).as_secs_f64() / from.elapsed().as_secs_f64();
    let evaluated = evaluated_again(&maps, size.policies).await?;
    let drift = drift(&admin, &names[0]).await?;
    let after = mebibytes(controller.resident()?);
    controller.stop()?;
    cluster.stop()?;
    Ok(json!({
        "policies": size.policies,
        "createdToCompliantMilliseconds": round(milliseconds(enforced)),
        "residentMebibytes": {"measured": resident, "promised": MEBIBYTES, "atTheEnd": after},
        "idleCores": {"measured": (idle * 10_000.0).round() / 10_000.0, "promised": IDLE_CORE},
        "allEvaluatedAgainMilliseconds": median(evaluated, EVALUATED_WITHIN),
        "driftToRepairedMilliseconds": median(drift, REPAIRED_WITHIN),
        "dryRunMilliseconds": median(dry_runs(binary, data.path())?, DRY_RUN_WITHIN),
    }))
}

fn controller(binary: &Path, data: &Path) -> Result<Drover> {
    let child = Command::new(binary)
        .args([
            "config-policy-controller",
            "controller",
            "--leader-elect=false",
            "--health-probe-bind-address=0",
        ])
        .arg(format!("--metrics-bind-address={METRICS}"))
        .env("KUBECONFIG", kubeconfig(data, "hub"))
        .env("WATCH_NAMESPACE", NAMESPACE)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(child.into())
}

/// How often policies were evaluated until now.
async fn evaluations() -> Result<u64> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(METRICS).await?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let lines = text
        .lines()
        .filter(|it| it.starts_with("config_policy_evaluation_total{"));
    let counts = lines.filter_map(|it| it.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(counts.sum())
}

/// Returns when no policy is evaluated any more.
async fn quiet() -> Result<()> {
    let mut before = evaluations().await?;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = evaluations().await?;
        if now == before {
            return Ok(());
        }
        before = now;
    }
}

/// From a change that changes nothing for the policies to the last evaluation.
async fn evaluated_again(maps: &Api<ConfigMap>, count: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for run in 0..3 {
        quiet().await?;
        let before = evaluations().await?;
        let begun = Instant::now();
        let change = Patch::Merge(json!({"data": {"other": run.to_string()}}));
        maps.patch("source", &PatchParams::default(), &change).await?;
        let deadline = begun + Duration::from_secs(120);
        while evaluations().await? < before + count as u64 {
            ensure!(Instant::now() < deadline, "not all policies are evaluated");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        times.push(milliseconds(begun.elapsed()));
    }
    Ok(times)
}

/// From a change by hand to the object as it is wanted.
async fn drift(admin: &Client, name: &str) -> Result<Vec<f64>> {
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), NAMESPACE);
    let wanted = maps.get(name).await?.data;
    let mut times = Vec::new();
    for run in 0..RUNS {
        // Longer than what a policy that is evaluated often has to wait.
        tokio::time::sleep(Duration::from_millis(if run % 4 == 3 { 21_000 } else { 200 })).await;
        let its = WatchParams::default().fields(&format!("metadata.name={name}"));
        let change = Patch::Merge(json!({"data": {"wanted": format!("by hand {run}")}}));
        let begun = Instant::now();
        let changed = maps.patch(name, &PatchParams::default(), &change).await?;
        let version = changed.metadata.resource_version.context("it has a version")?;
        let mut events = maps.watch(&its, &version).await?.boxed();
        let repaired = async {
            while let Some(event) = events.try_next().await? {
                if let WatchEvent::Modified(map) = event
                    && map.data == wanted
                {
                    return Ok(begun.elapsed());
                }
            }
            anyhow::bail!("the watch of the object ended")
        };
        let took = tokio::time::timeout(Duration::from_secs(60), repaired)
            .await
            .context("it was never repaired")??;
        times.push(milliseconds(took));
    }
    Ok(times)
}

fn dry_runs(binary: &Path, folder: &Path) -> Result<Vec<f64>> {
    let (policy_file, input) = (folder.join("policy.yaml"), folder.join("input.yaml"));
    let mut document = serde_json::to_value(policy("p"))?;
    document["spec"]["object-templates"][0]["objectDefinition"]["data"] = json!({"a": "b"});
    std::fs::write(&policy_file, document.to_string())?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p", "namespace": NAMESPACE}});
    std::fs::write(&input, map.to_string())?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begun = Instant::now();
        let status = Command::new(binary)
            .args(["policy", "dryrun", "--policy"])
            .args([&policy_file, &input])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.code() == Some(2), "the policy does not comply");
        times.push(milliseconds(begun.elapsed()));
    }
    Ok(times)
}
