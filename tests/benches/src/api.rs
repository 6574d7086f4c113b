//! The embedded Kubernetes API on its own: how soon it is ready, what it weighs, how fast it keeps, tells and lists.
//!
//! The server is the real binary, `drover kube up`, in a process of its own; what is promised relative to the machine
//! is measured beside it in the same run: the disk's own group commits, and the copying
//! of as many bytes over the same kind of connection.

pub(crate) mod connection;
mod lists;
mod load;
mod program;
mod watchers;

use crate::{
    Size,
    drover::{Drover, client, kubeconfig},
    probe,
    statistics::{mebibytes, median, milliseconds, percentile, round},
};
use anyhow::Result;
use connection::Door;
use http::Method;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use program::Program;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

pub use lists::serve_bytes;

/// The server's name in its data directory.
const NAME: &str = "kube";
/// Time for the process to settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(2);

/// How much is measured.
#[derive(Clone, Copy)]
pub struct ApiSize {
    /// Objects that are stored, and listed.
    pub objects: usize,
    /// Clients that create at once, and for how long.
    pub writers: usize,
    pub write_seconds: u64,
    /// Watches, over how many connections, and the writes that go in meanwhile.
    pub watchers: usize,
    pub watch_connections: usize,
    pub writes_per_second: usize,
    /// Connections that do nothing.
    pub idle_connections: usize,
    /// Server-side applies.
    pub applies: usize,
}

impl ApiSize {
    /// What was promised.
    pub const FULL: Self = Self {
        objects: 100_000,
        writers: 64,
        write_seconds: 10,
        watchers: 10_000,
        watch_connections: 100,
        writes_per_second: 1000,
        idle_connections: 1000,
        applies: 4000,
    };
    /// To see that everything works.
    pub const QUICK: Self = Self {
        objects: 500,
        writers: 8,
        write_seconds: 1,
        watchers: 100,
        watch_connections: 10,
        writes_per_second: 100,
        idle_connections: 20,
        applies: 200,
    };
}

/// All numbers of the API, and those of a real Kubernetes beside them if there is one.
pub async fn measure(binary: &Path, real: Option<&Path>, size: Size) -> Result<Value> {
    let mut ours = numbers(Program::Embedded(binary), size).await?;
    if let Some(real) = real {
        let real = numbers(Program::Real(real), size).await?;
        ours["besideRealKubernetes"] = program::ratios(&ours, &real);
    }
    Ok(ours)
}

async fn numbers(program: Program<'_>, size: Size) -> Result<Value> {
    let api = size.api;
    let data = tempfile::tempdir()?;
    let mut empty = Vec::new();
    for _ in 0..size.runs {
        let nothing = tempfile::tempdir()?;
        install_crds(program, nothing.path()).await?;
        let server = program.start(nothing.path())?;
        empty.push(milliseconds(server.ready_after));
        server.stop()?;
    }
    install_crds(program, data.path()).await?;
    let server = program.start(data.path())?;
    tokio::time::sleep(SETTLE).await;
    let resident_empty = server.resident()?;
    let door = Door::read(&kubeconfig(data.path(), NAME))?;

    let idle_connections = idle_connections(&server, &door, api.idle_connections).await?;
    let single = load::single_writer(&door, 300).await?;
    let creates = load::creates(&door, data.path(), api).await?;
    let applies = applies(&server, data.path(), api.applies).await?;
    let watches = watchers::measure(&server, &door, api).await?;
    server.stop()?;

    // The weight of objects, on a server that has nothing else.
    let data = tempfile::tempdir()?;
    install_crds(program, data.path()).await?;
    let server = program.start(data.path())?;
    let door = Door::read(&kubeconfig(data.path(), NAME))?;
    let bytes_each = load::fill(&door, api.objects).await?;
    server.stop()?;
    let mut full = Vec::new();
    for _ in 1..size.runs {
        let server = program.start(data.path())?;
        full.push(milliseconds(server.ready_after));
        server.stop()?;
    }
    let server = program.start(data.path())?;
    full.push(milliseconds(server.ready_after));
    tokio::time::sleep(SETTLE).await;
    let resident_full = server.resident()?;
    let beyond = resident_full.saturating_sub(resident_empty) as f64 / api.objects as f64 - bytes_each as f64;
    let door = Door::read(&kubeconfig(data.path(), NAME))?;
    let lists = lists::measure(&server, &door, api.objects, size.runs).await?;
    let file = program.files(data.path())?;
    server.stop()?;

    Ok(json!({
        "readyOnEmptyDataMilliseconds": median(empty, 150.0),
        "readyWithObjectsMilliseconds": median(full, 1000.0),
        "residentEmptyMebibytes": {"measured": mebibytes(resident_empty), "promised": 40},
        "objects": api.objects,
        "objectBytes": bytes_each,
        "residentBeyondBytesOfAnObject": {"measured": round(beyond), "promised": 1536},
        "fileMebibytes": mebibytes(file),
        "idleConnection": idle_connections,
        "singleWriter": single,
        "durableCreates": creates,
        "watches": watches,
        "list": lists,
        "serverSideApply": applies,
    }))
}

/// Starts a server once and gives it all definitions of a hub.
async fn install_crds(program: Program<'_>, data: &Path) -> Result<()> {
    let server = program.start(data)?;
    let client = client(data, NAME).await?;
    let kind = kube::api::ApiResource::erase::<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    >(&());
    let crds: Api<kube::api::DynamicObject> = Api::all_with(client, &kind);
    for crd in ocm_api::crds::hub() {
        crds.create(&PostParams::default(), &serde_json::from_value(crd)?)
            .await?;
    }
    server.stop()
}

/// What a TLS connection that does nothing weighs.
async fn idle_connections(server: &Drover, door: &Door, count: usize) -> Result<Value> {
    let before = server.resident()?;
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = door.open().await?;
        let (code, _) = connection.ask(Method::GET, "/readyz", None, "").await?;
        anyhow::ensure!(code == 200, "readyz answered {code}");
        held.push(connection);
    }
    tokio::time::sleep(SETTLE).await;
    let each = server.resident()?.saturating_sub(before) as f64 / count as f64 / 1024.0;
    drop(held);
    Ok(json!({"count": count, "kibibytesEach": {"measured": round(each), "promised": 60}}))
}

/// The server's CPU time of one apply of a Deployment of 5 KiB. Its clock ticks in hundredths of a second,
/// so that what is told is the mean of many.
async fn applies(server: &Drover, data: &Path, count: usize) -> Result<Value> {
    let client = client(data, NAME).await?;
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(client, "default");
    let environment: Vec<Value> = (0..60)
        .map(|number| json!({"name": format!("VARIABLE_{number}"), "value": format!("value number {number} of this")}))
        .collect();
    let deployment = |replicas: usize| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "measured", "labels": {"app": "measured"}, "annotations": {"text": "x".repeat(800)}},
            "spec": {
                // Nobody shall act on it: the server alone is measured.
                "paused": true, "replicas": replicas, "selector": {"matchLabels": {"app": "measured"}},
                "template": {
                    "metadata": {"labels": {"app": "measured"}},
                    "spec": {"containers": [{
                        "name": "main", "image": "example.com/measured:1", "env": environment,
                        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                        "ports": [{"containerPort": 80}],
                    }]},
                },
            },
        })
    };
    let bytes = deployment(1).to_string().len();
    let parameters = PatchParams::apply("bench").force();
    api.patch("measured", &parameters, &Patch::Apply(deployment(0))).await?;
    let apply = async |turn: usize| -> Result<()> {
        let replicas = turn % 2;
        let applied = api
            .patch("measured", &parameters, &Patch::Apply(deployment(replicas)))
            .await?;
        anyhow::ensure!(applied.spec.replicas == Some(replicas as i32), "an apply was not done");
        Ok(())
    };
    let changes = Cost::of(server, count, async |turn| apply(turn).await).await?;
    // What of it is not the apply: a request and an answer of the same size, with nothing merged,
    // and with nothing kept.
    let same = Cost::of(server, count, async |_| apply(0).await).await?;
    let read = Cost::of(server, count, async |_| {
        api.get("measured").await?;
        Ok(())
    })
    .await?;
    Ok(json!({
        "bytes": bytes, "serverMicroseconds": {"measured": round(changes.own + changes.kernel), "promised": 150},
        "program": round(changes.own), "kernel": round(changes.kernel),
        "unchanged": {"program": round(same.own), "kernel": round(same.kernel)},
        "get": {"program": round(read.own), "kernel": round(read.kernel)},
    }))
}

/// What one request costs the server, in microseconds of CPU time.
struct Cost {
    own: f64,
    kernel: f64,
}

impl Cost {
    async fn of(server: &Drover, count: usize, ask: impl AsyncFn(usize) -> Result<()>) -> Result<Self> {
        let before = server.cpu_by_side()?;
        for turn in 0..count {
            ask(turn).await?;
        }
        let after = server.cpu_by_side()?;
        let each = |before: Duration, after: Duration| (after - before).as_secs_f64() * 1e6 / count as f64;
        Ok(Self {
            own: each(before.0, after.0),
            kernel: each(before.1, after.1),
        })
    }
}

/// The promise of a percentile beside what was measured.
fn tail(values: &mut [f64], promised: f64) -> Value {
    json!({
        "p50": round(percentile(values, 0.5)), "p99": round(percentile(values, 0.99)),
        "max": round(percentile(values, 1.0)), "promisedP99": promised,
    })
}

/// The disk's own fdatasync, in milliseconds.
fn one_sync() -> Result<f64> {
    Ok(percentile(&mut probe::fdatasync()?, 0.5))
}
