//! What small writes cost a hub: renewals of Leases as thousands of clusters send them,
//! and collections that are deleted.
//!
//! Renewals come at the pace of 5,000 clusters (83 a second), each by itself, and then from many clients at once.
//! Beside them, at the same pace, the reading of a Lease, which writes nothing: what a request costs at all; and the
//! creation of a ConfigMap, with which the hub has nothing to do.

use crate::{
    Size,
    api::connection::{Connection, Door},
    drover::{Drover, kubeconfig},
    statistics::{milliseconds, round},
};
use anyhow::{Result, ensure};
use futures::future::join_all;
use http::Method;
use ocm_api::labels;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// Renewals of 5,000 clusters in a second: each once a minute.
const PER_SECOND: usize = 83;
/// Connections, and the most requests at once.
const CLIENTS: usize = 64;
/// Leases that are renewed, each in a namespace of its own.
const LEASES: usize = 256;
const JSON: Option<&str> = Some("application/json");
const CONFIGMAPS: &str = "/api/v1/namespaces/lease-0/configmaps";

/// What is asked.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Read,
    Renew,
    Create,
}

struct Load {
    hub: Drover,
    connections: Vec<Connection>,
    /// Each as it was answered last.
    leases: Vec<Mutex<Value>>,
}

/// Measures all.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let load = Arc::new(Load::start(binary, data.path()).await?);
    let paced = PER_SECOND * size.paced_seconds as usize;
    let mut report = json!({"pace": {"perSecond": PER_SECOND}, "atOnce": {"clients": CLIENTS}});
    for (name, what) in [
        ("leaseReads", What::Read),
        ("leaseRenewals", What::Renew),
        ("configMapCreates", What::Create),
    ] {
        report["pace"][name] = load.clone().paced(what, paced).await?;
        report["atOnce"][name] = load.clone().at_once(what, size.writes).await?;
    }
    report["pace"]["leaseRenewals"]["promisedCpuMilliseconds"] = json!(0.2);
    report["deleteCollection"] = load.collection(size.writes).await?;
    Ok(report)
}

impl Load {
    async fn start(binary: &Path, data: &Path) -> Result<Self> {
        let hub = Drover::up(binary, data, 0)?;
        let door = Door::read(&kubeconfig(data, "hub"))?;
        let mut connections = Vec::new();
        for _ in 0..CLIENTS {
            connections.push(door.open().await?);
        }
        let mut leases = Vec::new();
        let first = &mut connections[0];
        for number in 0..LEASES {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("lease-{number}")}});
            first
                .ask(Method::POST, "/api/v1/namespaces", JSON, namespace.to_string())
                .await?;
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "agent"},
                // As the hub labels those that it looks at.
                "metadata": {"name": "lease", "labels": {labels::CLUSTER_NAME: format!("lease-{number}")}},
            });
            let path = format!("/apis/coordination.k8s.io/v1/namespaces/lease-{number}/leases");
            let (code, made) = first.read(Method::POST, &path, JSON, lease.to_string()).await?;
            ensure!(code == 201, "a Lease answered {code}");
            leases.push(Mutex::new(serde_json::from_slice(&made)?));
        }
        Ok(Self {
            hub,
            connections,
            leases,
        })
    }

    async fn one(&self, what: What, number: usize, run: &str) -> Result<()> {
        let mut connection = self.connections[number % CLIENTS].clone();
        if what == What::Create {
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
                "metadata": {"name": format!("{run}-{number}"), "labels": {"run": run}},
            });
            let (code, _) = connection.ask(Method::POST, CONFIGMAPS, JSON, map.to_string()).await?;
            ensure!(code == 201, "a ConfigMap answered {code}");
            return Ok(());
        }
        let at = number % LEASES;
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/lease-{at}/leases/lease");
        if what == What::Read {
            let (code, _) = connection.ask(Method::GET, &path, None, "").await?;
            ensure!(code == 200, "a Lease answered {code}");
            return Ok(());
        }
        let mut lease = self.leases[at].lock().await;
        lease["spec"]["renewTime"] = json!(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string());
        let (code, answer) = connection.read(Method::PUT, &path, JSON, lease.to_string()).await?;
        ensure!(code == 200, "a renewal answered {code}");
        *lease = serde_json::from_slice(&answer)?;
        Ok(())
    }

    async fn paced(self: Arc<Self>, what: What, count: usize) -> Result<Value> {
        let (since, cpu) = (Instant::now(), self.hub.cpu()?);
        let mut tick = tokio::time::interval(Duration::from_secs(1) / PER_SECOND as u32);
        let mut tasks = Vec::new();
        for number in 0..count {
            tick.tick().await;
            let load = self.clone();
            tasks.push(tokio::spawn(async move { load.one(what, number, "paced").await }));
        }
        for task in join_all(tasks).await {
            task??;
        }
        self.report(count, since, cpu)
    }

    async fn at_once(self: Arc<Self>, what: What, count: usize) -> Result<Value> {
        let (since, cpu) = (Instant::now(), self.hub.cpu()?);
        let clients = (0..CLIENTS).map(|client| {
            let load = self.clone();
            tokio::spawn(async move {
                for number in (client..count).step_by(CLIENTS) {
                    load.one(what, number, "at-once").await?;
                }
                anyhow::Ok(())
            })
        });
        for client in join_all(clients).await {
            client??;
        }
        self.report(count, since, cpu)
    }

    /// Deletes what was created at once, with one request.
    async fn collection(&self, count: usize) -> Result<Value> {
        let (since, cpu) = (Instant::now(), self.hub.cpu()?);
        let path = format!("{CONFIGMAPS}?labelSelector=run%3Dat-once");
        let (code, _) = self.connections[0].clone().ask(Method::DELETE, &path, None, "").await?;
        ensure!(code == 200, "a collection answered {code}");
        self.report(count, since, cpu)
    }

    fn report(&self, count: usize, since: Instant, cpu: Duration) -> Result<Value> {
        let each = milliseconds(self.hub.cpu()? - cpu) / count as f64;
        Ok(json!({
            "count": count, "seconds": round(since.elapsed().as_secs_f64()), "cpuMilliseconds": (each * 1e4).round() / 1e4,
        }))
    }
}
