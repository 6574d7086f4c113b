//! The agent as a process of its own, on a cluster without a hub: a repository with many manifests, what a look at it
//! costs when nothing has changed, and many Subscriptions.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use kube::{
    Client,
    api::{DynamicObject, ListParams, PostParams},
};
use ocm_api::{
    apps::{GROUP, annotations},
    crds,
};
use ocm_reconcile::install::install_crds;
use serde_json::{Value, json};

use super::{ApplicationSize, NAMESPACE, Served, appear, version_now};
use crate::{
    drover::{Drover, client, kubeconfig},
    replica_set::{api, object, settle, until},
    statistics::{mebibytes, milliseconds, round},
};

const DEADLINE: Duration = Duration::from_secs(300);
/// Between two looks at a repository, with rate medium.
const INTERVAL: Duration = Duration::from_secs(180);
/// Manifests of each of many Subscriptions.
const EACH: usize = 5;
/// All manifests are to be applied within these milliseconds.
const APPLIED_WITHIN: f64 = 5_000.0;
/// A look at a repository that has not changed is to take so many milliseconds of CPU time.
const LOOK_WITHIN: f64 = 50.0;
/// Many Subscriptions are to weigh at most so many mebibytes.
const MEBIBYTES: f64 = 60.0;

/// A cluster with an agent.
struct Cluster {
    _data: tempfile::TempDir,
    api_server: Drover,
    agent: Drover,
    admin: Client,
}

impl Cluster {
    async fn start(binary: &Path) -> Result<Self> {
        let data = tempfile::tempdir()?;
        let api_server = Drover::until_ready(binary, &["up", "--clusters", "0"], data.path())?;
        let admin = client(data.path(), "hub").await?;
        install_crds(&admin, crds::add_on(GROUP)).await?;
        let agent = Command::new(binary)
            .args([
                "multicluster-operators-subscription",
                "--standalone",
                "--metrics-addr=0",
            ])
            .env("KUBECONFIG", kubeconfig(data.path(), "hub"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self {
            _data: data,
            api_server,
            agent: agent.into(),
            admin,
        })
    }

    async fn channel(&self, repository: &Served) -> Result<()> {
        let channel = object(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Channel", "metadata": {"name": "shop", "namespace": NAMESPACE},
            "spec": {"type": "Git", "pathname": repository.url()},
        }));
        let channels = api(&self.admin, GROUP, "v1", "Channel", Some(NAMESPACE));
        channels.create(&PostParams::default(), &channel).await?;
        Ok(())
    }

    async fn subscription(&self, name: &str, folder: &str) -> Result<()> {
        let subscription = object(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Subscription",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {annotations::GIT_PATH: folder}},
            "spec": {"channel": format!("{NAMESPACE}/shop"), "placement": {"local": true}},
        }));
        let subscriptions = api(&self.admin, GROUP, "v1", "Subscription", Some(NAMESPACE));
        subscriptions.create(&PostParams::default(), &subscription).await?;
        Ok(())
    }

    /// Returns when so many Subscriptions have said what they have deployed.
    async fn reported(&self, count: usize) -> Result<()> {
        let statuses = api(&self.admin, GROUP, "v1alpha1", "SubscriptionStatus", Some(NAMESPACE));
        until("not all Subscriptions are deployed", async || {
            let all = statuses.list(&ListParams::default()).await?.items;
            let deployed = all.iter().filter(|it| {
                let packages = it.data["statuses"]["packages"].as_array();
                packages.is_some_and(|all| !all.is_empty() && all.iter().all(|it| it["phase"] == "Deployed"))
            });
            Ok(deployed.count() == count)
        })
        .await
    }

    fn stop(self) -> Result<()> {
        self.agent.stop()?;
        self.api_server.stop()
    }
}

fn file(folder: &str, name: &str) -> (String, String) {
    let map = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{key: value}}\n");
    (format!("{folder}/{name}.yaml"), map)
}

fn is_of_application(map: &DynamicObject) -> bool {
    map.data["data"]["key"] == "value"
}

/// Waits until the agent has used no CPU time at all for a while: a deployment has an aftermath, such as reports.
async fn idle(agent: &Drover) -> Result<()> {
    let mut before = agent.cpu()?;
    until("the agent is never idle", async || {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let now = agent.cpu()?;
        Ok(std::mem::replace(&mut before, now) == now)
    })
    .await
}

/// Many manifests in one repository, and looks at it when nothing has changed.
pub async fn manifests(binary: &Path, size: ApplicationSize) -> Result<Value> {
    let repository = Served::start().await;
    let files: Vec<_> = (0..size.manifests)
        .map(|it| file("shop", &format!("map{it:04}")))
        .collect();
    repository.commit(&files);
    let cluster = Cluster::start(binary).await?;
    cluster.channel(&repository).await?;
    let maps = api(&cluster.admin, "", "v1", "ConfigMap", Some(NAMESPACE));
    let from = version_now(&maps).await?;
    let (begun, before) = (Instant::now(), cluster.agent.cpu()?);
    cluster.subscription("shop", "shop").await?;
    let all = appear(&maps, &from, size.manifests, is_of_application);
    tokio::time::timeout(DEADLINE, all)
        .await
        .context("not all manifests are applied")??;
    let applied = begun.elapsed();
    cluster.reported(1).await?;
    settle(&cluster.agent).await?;
    let used = cluster.agent.cpu()? - before;
    let resident = mebibytes(cluster.agent.resident()?);
    let look = match size.unchanged_looks {
        0 => Value::Null,
        looks => {
            idle(&cluster.agent).await?;
            let from = cluster.agent.cpu()?;
            tokio::time::sleep(INTERVAL * looks).await;
            // What else the agent does in this time counts, too.
            let used = milliseconds(cluster.agent.cpu()? - from) / f64::from(looks);
            let polled = Instant::now();
            let (at, changed) = file("shop", "map0000");
            repository.commit(&[(at, changed.replace("value", "changed"))]);
            let from = version_now(&maps).await?;
            let is_changed = |it: &DynamicObject| it.data["data"]["key"] == "changed";
            tokio::time::timeout(INTERVAL * 2, appear(&maps, &from, 1, is_changed))
                .await
                .context("the commit is not applied")??;
            json!({
                "unchangedLookCpuMilliseconds": {"measured": round(used), "promised": LOOK_WITHIN, "looks": looks},
                "commitToAppliedByPollingSeconds": {
                    "measured": round(polled.elapsed().as_secs_f64()), "promised": INTERVAL.as_secs(),
                },
            })
        }
    };
    cluster.stop()?;
    Ok(json!({
        "manifests": size.manifests,
        "createdToAppliedMilliseconds": {"measured": round(milliseconds(applied)), "promised": APPLIED_WITHIN},
        "agentCpuMilliseconds": round(milliseconds(used)),
        "agentResidentMebibytes": resident,
        "polling": look,
    }))
}

/// Many Subscriptions, each with a folder of one repository.
pub async fn subscriptions(binary: &Path, size: ApplicationSize) -> Result<Value> {
    let repository = Served::start().await;
    let names: Vec<String> = (0..size.subscriptions).map(|it| format!("shop{it:03}")).collect();
    let files: Vec<_> = names
        .iter()
        .flat_map(|name| (0..EACH).map(move |it| file(name, &format!("{name}-{it}"))))
        .collect();
    repository.commit(&files);
    let cluster = Cluster::start(binary).await?;
    cluster.channel(&repository).await?;
    settle(&cluster.agent).await?;
    let idle = mebibytes(cluster.agent.resident()?);
    let begun = Instant::now();
    let peak = cluster.agent.watch_resident();
    for name in &names {
        cluster.subscription(name, name).await?;
    }
    cluster.reported(names.len()).await?;
    let deployed = begun.elapsed();
    settle(&cluster.agent).await?;
    let resident = mebibytes(cluster.agent.resident()?);
    let peak = mebibytes(peak.highest()?);
    cluster.stop()?;
    Ok(json!({
        "subscriptions": size.subscriptions, "manifestsEach": EACH,
        "agentResidentMebibytes": {"measured": resident, "promised": MEBIBYTES, "before": idle, "highest": peak},
        "allDeployedMilliseconds": round(milliseconds(deployed)),
    }))
}
