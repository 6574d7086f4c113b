//! A cluster that begins to match a placement that has all the others, and ceases to, on an API server whose writes
//! take as long as those of one that keeps them on a disk beside others.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request, Response};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    client::Body,
};
use ocm_api::cluster::{ManagedCluster, PlacementDecision};
use ocm_reconcile::{Cache, Caches, Clients, controller::start_all};
use placement::hub::{controllers, load::clusters};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

use super::until;
use crate::statistics::{milliseconds, percentile, round};

/// What a write takes.
const WRITE: Duration = Duration::from_millis(5);
/// Creates under way at once.
const PARALLEL: usize = 16;
/// Its name comes before all others, so that it moves one of them from each decision to the next.
const NEWCOMER: &str = "cluster00000";

const PLACEMENT: &str = "
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: global},
 spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {}}}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSetBinding, metadata: {name: global, namespace: default},
 spec: {clusterSet: global}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: prod, namespace: default},
 spec: {predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {env: prod}}}}]}}
";

#[derive(Clone)]
struct Slow(Client);

impl Service<Request<Body>> for Slow {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            if request.method() != Method::GET {
                tokio::time::sleep(WRITE).await;
            }
            Ok(client.send(request).await?)
        })
    }
}

/// Measures so many times of each.
pub async fn measure(count: usize, runs: usize) -> Result<Value> {
    let hub = testkit::World::new(0).await.hub;
    let client = hub.client();
    let api: Api<ManagedCluster> = Api::all(client.clone());
    stream::iter(0..count)
        .map(|number| {
            let (api, environment) = (api.clone(), if number == 0 { "test" } else { "prod" });
            let cluster = json!({"metadata": {"name": format!("cluster{number:05}"), "labels": {"env": environment}}, "spec": {}});
            async move {
                let cluster = serde_json::from_value(cluster)?;
                anyhow::Ok(api.create(&PostParams::default(), &cluster).await?)
            }
        })
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<_>>()
        .await?;
    hub.apply(PLACEMENT).await;
    let cancel = CancellationToken::new();
    let caches = Caches::new(client.clone(), cancel.clone());
    let slow = Client::new(Slow(client), "default");
    let running = start_all(controllers(&caches), &Clients::hub(slow), &cancel);
    let queue = running[0].queue.clone();
    let decisions = caches.of::<PlacementDecision>();
    let chosen = |decisions: &Cache<PlacementDecision>| -> usize {
        decisions.list().iter().map(|it| clusters(it).count()).sum()
    };
    until(|| chosen(&decisions) == count - 1, "all are not chosen").await?;
    let (mut begins, mut ceases) = (Vec::new(), Vec::new());
    for run in 0..runs * 2 {
        let (environment, is_in) = if run % 2 == 0 { ("prod", true) } else { ("test", false) };
        until(|| queue.is_empty(), "the placement does not settle").await?;
        let since = Instant::now();
        let patch = json!({"metadata": {"labels": {"env": environment}}});
        api.patch(NEWCOMER, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        let is_there = || {
            let all = decisions.list();
            all.iter().any(|it| clusters(it).any(|it| it == NEWCOMER))
        };
        until(|| is_there() == is_in, "the change is not written").await?;
        let took = milliseconds(since.elapsed());
        if is_in { &mut begins } else { &mut ceases }.push(took);
    }
    cancel.cancel();
    let shown = |it: &mut [f64]| json!({"p50": round(percentile(it, 0.5)), "p99": round(percentile(it, 0.99))});
    Ok(json!({
        "clusters": count, "aWriteTakesMilliseconds": milliseconds(WRITE),
        "beginsMilliseconds": shown(&mut begins), "ceasesMilliseconds": shown(&mut ceases),
    }))
}
