//! One add-on on one cluster: until its agent's credential is there, and until its agent says that it lives.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::{Stream, StreamExt, TryStreamExt};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};

use super::objects;
use crate::{
    Size,
    drover::{Drover, client},
    statistics::{milliseconds, percentile, round},
    works::is,
};

const CLUSTER: &str = "cluster1";
const INSTALL_NAMESPACE: &str = "default";
const ADD_ON: &str = "helloworld";
const SECRET: &str = "helloworld-hub-kubeconfig";
const DEADLINE: Duration = Duration::from_secs(60);

/// The example add-on, its agent a process, put on a cluster and taken off again several times.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let up = Drover::up(binary, data.path(), 1)?;
    let hub = client(data.path(), "hub").await?;
    let cluster = client(data.path(), CLUSTER).await?;
    let offered = objects::by_hand(ADD_ON);
    objects::api_of(&hub, &offered)?
        .create(&PostParams::default(), &offered)
        .await?;
    let add_ons = objects::of_clusters(&hub, Some(CLUSTER));
    let secrets = objects::secrets(&cluster, INSTALL_NAMESPACE);
    let requests = objects::requests(&hub);
    let (mut ready, mut available) = (Vec::new(), Vec::new());
    for _ in 0..size.add_on_runs {
        let mut of_add_ons = watch(&add_ons).await?;
        let mut of_secrets = watch(&secrets).await?;
        let begun = Instant::now();
        let wanted = objects::on_cluster(ADD_ON, CLUSTER, INSTALL_NAMESPACE);
        add_ons.create(&PostParams::default(), &wanted).await?;
        let credential = async {
            until(&mut of_secrets, "the credential", |it| {
                it.metadata.name.as_deref() == Some(SECRET) && !it.data["data"]["kubeconfig"].is_null()
            })
            .await?;
            anyhow::Ok(begun.elapsed())
        };
        let applied_then_available = async {
            until(&mut of_add_ons, "ManifestApplied", |it| is(it, "ManifestApplied")).await?;
            let applied = begun.elapsed();
            // The event that brings the one may bring the other, so the object is asked for first.
            if !is(&add_ons.get(ADD_ON).await?, "Available") {
                until(&mut of_add_ons, "Available", |it| is(it, "Available")).await?;
            }
            anyhow::Ok((applied, begun.elapsed()))
        };
        let (credential, (applied, lives)) = tokio::try_join!(credential, applied_then_available)?;
        ready.push(milliseconds(credential.max(applied)));
        available.push(milliseconds(lives));
        add_ons.delete(ADD_ON, &DeleteParams::default()).await?;
        gone(&add_ons, ADD_ON).await?;
        gone(&secrets, SECRET).await?;
        // With ten of them on the hub an agent asks for no more.
        let of_add_on = ListParams::default().labels(&format!("open-cluster-management.io/addon-name={ADD_ON}"));
        requests.delete_collection(&DeleteParams::default(), &of_add_on).await?;
    }
    up.stop()?;
    Ok(json!({
        "createdToAppliedAndCredentialMilliseconds": {
            "p50": {"measured": round(percentile(&mut ready, 0.5)), "promised": 150},
            "p99": round(percentile(&mut ready, 0.99)),
        },
        "createdToAvailableMilliseconds": {
            "p50": round(percentile(&mut available, 0.5)),
            "worst": {"measured": round(percentile(&mut available, 1.0)), "promised": 2000},
        },
        "samples": ready.len(),
    }))
}

type Events = std::pin::Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Send>>;

/// What happens from now on.
pub async fn watch(api: &Api<DynamicObject>) -> Result<Events> {
    let start = api
        .list(&ListParams::default().limit(1))
        .await?
        .metadata
        .resource_version;
    let events = api.watch(&WatchParams::default(), &start.unwrap_or_default()).await?;
    Ok(events.boxed())
}

async fn until(events: &mut Events, what: &str, is_it: impl Fn(&DynamicObject) -> bool) -> Result<()> {
    let found = tokio::time::timeout(DEADLINE, async {
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(it) | WatchEvent::Modified(it) = event
                && is_it(&it)
            {
                return Ok(());
            }
        }
        anyhow::bail!("the watch ended")
    });
    found.await.with_context(|| format!("{what} never came"))?
}

async fn gone(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    while api.get_opt(name).await?.is_some() {
        anyhow::ensure!(Instant::now() < deadline, "{name} is never removed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
