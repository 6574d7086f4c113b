//! `drover up` under churn: whether its memory and its files stay as they are when everything
//! that was made is taken away again, over and over.

use crate::{
    drover::{Drover, client},
    statistics::{mebibytes, round},
    works::{is, work, works},
};
use anyhow::{Context, Result, bail};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

const CLUSTERS: usize = 2;
/// Events live so long instead of an hour, so that a short run sees as many go as come.
const EVENT_TTL: &str = "2m";
/// Works of a round on each cluster.
const WORKS: usize = 20;
/// A step that takes longer is broken, not slow.
const DEADLINE: Duration = Duration::from_secs(120);
/// Between two samples.
const SAMPLE: Duration = Duration::from_secs(60);
/// Nothing goes on when a sample is taken.
const REST: Duration = Duration::from_secs(3);

struct Soak {
    hub: Client,
    writes: usize,
}

/// Churns for so many minutes.
pub async fn measure(binary: &Path, minutes: u64) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let up = Drover::until_ready(
        binary,
        &["up", "--clusters", &CLUSTERS.to_string(), "--event-ttl", EVENT_TTL],
        data.path(),
    )?;
    let mut soak = Soak {
        hub: client(data.path(), "hub").await?,
        writes: 0,
    };
    soak.prepare().await?;
    let (begun, cpu) = (Instant::now(), up.cpu()?);
    let (mut samples, mut rounds) = (Vec::new(), 0);
    let mut next = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(minutes * 60) {
        soak.round(rounds).await?;
        rounds += 1;
        if begun.elapsed() >= next {
            tokio::time::sleep(REST).await;
            samples.push(json!({
                "minute": round(begun.elapsed().as_secs_f64() / 60.0),
                "residentMebibytes": mebibytes(up.resident()?), "filesMebibytes": mebibytes(size(data.path())?),
                "rounds": rounds, "writes": soak.writes, "objects": objects(data.path()).await?,
            }));
            next = begun.elapsed() + SAMPLE;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu = (up.cpu()? - cpu).as_secs_f64();
    up.stop()?;
    Ok(json!({
        "minutes": minutes, "rounds": rounds, "writesOfThisClient": soak.writes,
        "cpuPercentOfOneCore": round(cpu / seconds * 100.0),
        "eventTtl": EVENT_TTL,
        "residentMebibytes": halves(&samples, "residentMebibytes"),
        "filesMebibytes": halves(&samples, "filesMebibytes"),
        "samples": samples,
    }))
}

/// The highest of the second and of the last quarter: what still grows is higher in the end.
fn halves(samples: &[Value], name: &str) -> Value {
    let highest = |of: &[Value]| of.iter().filter_map(|it| it[name].as_f64()).fold(0.0, f64::max);
    let quarter = samples.len() / 4;
    let second = samples.get(quarter..2 * quarter).unwrap_or_default();
    let last = samples.get(samples.len() - quarter..).unwrap_or_default();
    json!({"secondQuarter": highest(second), "lastQuarter": highest(last), "ever": highest(samples)})
}

/// How many objects all servers hold.
async fn objects(data: &Path) -> Result<u64> {
    let mut sum = 0.0;
    for server in ["hub", "cluster1", "cluster2"] {
        let metrics = http::Request::get("/metrics").body(Vec::new())?;
        let metrics = client(data, server).await?.request_text(metrics).await?;
        let told = metrics
            .lines()
            .filter(|it| it.starts_with("apiserver_storage_objects{"));
        sum += told
            .filter_map(|it| it.rsplit(' ').next()?.parse::<f64>().ok())
            .sum::<f64>();
    }
    Ok(sum as u64)
}

fn size(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Files come and go meanwhile.
        let Ok(about) = entry.metadata() else { continue };
        sum += if about.is_dir() {
            size(&entry.path()).unwrap_or(0)
        } else {
            about.len()
        };
    }
    Ok(sum)
}

fn api(hub: &Client, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(hub.clone(), namespace, &kind),
        None => Api::all_with(hub.clone(), &kind),
    }
}

const ADD_ONS: &str = "addon.open-cluster-management.io";
const CLUSTER: &str = "cluster.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";

impl Soak {
    async fn create(&mut self, api: &Api<DynamicObject>, object: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await?;
        self.writes += 1;
        Ok(())
    }

    async fn delete(&mut self, api: &Api<DynamicObject>, name: &str) -> Result<()> {
        api.delete(name, &DeleteParams::default()).await?;
        self.writes += 1;
        Ok(())
    }

    async fn until(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        holds: fn(Option<&DynamicObject>) -> bool,
    ) -> Result<()> {
        let waiting = await_condition(api.clone(), name, holds);
        match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(done) => done.map(|_| ()).with_context(|| name.to_owned()),
            Err(_) => {
                let found = api.get_opt(name).await?.map(|it| it.data["status"].to_string());
                bail!(
                    "{name} is not as it should be after {} s: {found:?}",
                    DEADLINE.as_secs()
                )
            }
        }
    }

    /// What stays.
    async fn prepare(&mut self) -> Result<()> {
        let bindings = api(
            &self.hub,
            CLUSTER,
            "v1beta2",
            "ManagedClusterSetBinding",
            Some("default"),
        );
        let binding = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "global"}, "spec": {"clusterSet": "global"},
        });
        self.create(&bindings, binding).await?;
        let add_ons = api(&self.hub, ADD_ONS, "v1alpha1", "ClusterManagementAddOn", None);
        let add_on = json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": "helloworld"}, "spec": {"addOnMeta": {"displayName": "helloworld"}},
        });
        self.create(&add_ons, add_on).await
    }

    /// Makes, changes and takes away works, an add-on, a placement with a replica set, and a label.
    async fn round(&mut self, number: usize) -> Result<()> {
        let hub = self.hub.clone();
        let clusters: Vec<String> = (1..=CLUSTERS).map(|it| format!("cluster{it}")).collect();
        for cluster in &clusters {
            let api = works(hub.clone(), cluster);
            for index in 0..WORKS {
                let name = format!("soak-{index}");
                self.create(&api, serde_json::to_value(work(&name, cluster))?).await?;
            }
            for index in 0..WORKS {
                let name = format!("soak-{index}");
                self.until(&api, &name, |it| it.is_some_and(|it| is(it, "Available")))
                    .await?;
                let mut changed = work(&name, cluster).data["spec"].take();
                changed["workload"]["manifests"][0]["data"]["key"] = number.to_string().into();
                let patch = Patch::Merge(json!({"spec": changed}));
                api.patch(&name, &PatchParams::default(), &patch).await?;
                self.writes += 1;
            }
        }
        let enabled = api(&hub, ADD_ONS, "v1alpha1", "ManagedClusterAddOn", Some("cluster1"));
        let add_on = json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": "helloworld"}, "spec": {},
        });
        self.create(&enabled, add_on).await?;
        let placements = api(&hub, CLUSTER, "v1beta1", "Placement", Some("default"));
        let placement = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "soak"},
            "spec": {"clusterSets": ["global"], "predicates": [{"requiredClusterSelector": {"labelSelector": {
                "matchExpressions": [{"key": "soak", "operator": "NotIn", "values": ["out"]}],
            }}}]},
        });
        self.create(&placements, placement).await?;
        let sets = api(&hub, WORK, "v1alpha1", "ManifestWorkReplicaSet", Some("default"));
        let template = work("soak-set", "default");
        let set = json!({
            "apiVersion": "work.open-cluster-management.io/v1alpha1", "kind": "ManifestWorkReplicaSet",
            "metadata": {"name": "soak"},
            "spec": {"placementRefs": [{"name": "soak"}], "manifestWorkTemplate": template.data["spec"]},
        });
        self.create(&sets, set).await?;
        self.until(&sets, "soak", |it| {
            it.is_some_and(|it| it.data["status"]["summary"]["applied"] == CLUSTERS)
        })
        .await?;
        let managed = api(&hub, CLUSTER, "v1", "ManagedCluster", None);
        for value in [json!("out"), Value::Null] {
            let patch = Patch::Merge(json!({"metadata": {"labels": {"soak": value}}}));
            managed.patch("cluster2", &PatchParams::default(), &patch).await?;
            self.writes += 1;
        }
        self.until(&enabled, "helloworld", |it| it.is_some_and(|it| is(it, "Available")))
            .await?;
        self.delete(&enabled, "helloworld").await?;
        self.delete(&sets, "soak").await?;
        self.delete(&placements, "soak").await?;
        self.until(&enabled, "helloworld", |it| it.is_none()).await?;
        // Kubernetes forgets requests an hour after they were signed, and an agent that finds ten
        // of its own asks no more.
        let requests = api(&hub, "certificates.k8s.io", "v1", "CertificateSigningRequest", None);
        let of_add_ons = ListParams::default().labels("open-cluster-management.io/addon-name");
        requests
            .delete_collection(&DeleteParams::default(), &of_add_ons)
            .await?;
        self.writes += 1;
        self.until(&sets, "soak", |it| it.is_none()).await?;
        for cluster in &clusters {
            let api = works(hub.clone(), cluster);
            for index in 0..WORKS {
                self.delete(&api, &format!("soak-{index}")).await?;
            }
            for index in 0..WORKS {
                self.until(&api, &format!("soak-{index}"), |it| it.is_none()).await?;
            }
        }
        Ok(())
    }
}
