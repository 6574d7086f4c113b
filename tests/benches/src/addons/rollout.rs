//! A changed configuration that goes to a quarter of the clusters at a time: how many are ever under way, and how long
//! a cluster whose turn it is waits for its work.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::TryStreamExt;
use kube::{
    Client,
    api::{DynamicObject, ListParams, Patch, PatchParams, WatchEvent},
};
use serde_json::{Value, json};

use super::{objects, single::watch};
use crate::{
    statistics::{milliseconds, percentile, round},
    works::works,
};

const DEADLINE: Duration = Duration::from_secs(300);
const HASHES: &str = "open-cluster-management.io/config-spec-hash";

/// Changes the configuration of one add-on that all clusters have, and watches.
pub async fn measure(client: &Client, add_on: &str, clusters: usize) -> Result<Value> {
    let mut old = HashSet::new();
    for it in objects::of_clusters(client, None)
        .list(&ListParams::default())
        .await?
        .items
    {
        old.extend(hash(&it, "desiredConfig"));
    }
    let mut of_add_ons = watch(&objects::of_clusters(client, None)).await?;
    let mut of_works = watch(&works(client.clone(), "")).await?;
    let wanted = objects::configuration(add_on, "blue");
    let begun = Instant::now();
    let api = objects::api_of(client, &wanted)?;
    api.patch(add_on, &PatchParams::default(), &Patch::Merge(&wanted))
        .await?;

    let (mut may, mut written) = (HashMap::new(), HashMap::new());
    let (mut under_way, mut done) = (HashSet::new(), HashSet::new());
    let mut most = 0;
    let all = async {
        while done.len() < clusters || written.len() < clusters {
            tokio::select! {
                event = of_add_ons.try_next() => {
                    let event = event?.context("the watch of add-ons ended")?;
                    let (WatchEvent::Added(it) | WatchEvent::Modified(it)) = event else { continue };
                    if it.metadata.name.as_deref() != Some(add_on) { continue }
                    let cluster = it.metadata.namespace.clone().unwrap_or_default();
                    let Some(desired) = hash(&it, "desiredConfig").filter(|it| !old.contains(it)) else { continue };
                    may.entry(cluster.clone()).or_insert_with(Instant::now);
                    if hash(&it, "lastAppliedConfig").as_ref() == Some(&desired) {
                        under_way.remove(&cluster);
                        done.insert(cluster);
                    } else {
                        under_way.insert(cluster);
                    }
                    most = most.max(under_way.len());
                }
                event = of_works.try_next() => {
                    let event = event?.context("the watch of works ended")?;
                    let (WatchEvent::Added(it) | WatchEvent::Modified(it)) = event else { continue };
                    let of_it = format!("addon-{add_on}-deploy-");
                    if !it.metadata.name.as_deref().is_some_and(|it| it.starts_with(&of_it)) { continue }
                    let hashes = it.metadata.annotations.as_ref().and_then(|it| it.get(HASHES)).cloned();
                    let hashes: HashMap<String, String> = serde_json::from_str(&hashes.unwrap_or_default()).unwrap_or_default();
                    let key = format!("addondeploymentconfigs.addon.open-cluster-management.io/{}/{add_on}", objects::NAMESPACE);
                    if hashes.get(&key).is_some_and(|it| !old.contains(it)) {
                        written.entry(it.metadata.namespace.unwrap_or_default()).or_insert_with(Instant::now);
                    }
                }
            }
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(DEADLINE, all)
        .await
        .with_context(|| format!("a rollout over {clusters} clusters never ended"))??;
    let mut waited: Vec<f64> = may
        .iter()
        .filter_map(|(cluster, since)| Some(milliseconds(written.get(cluster)?.saturating_duration_since(*since))))
        .collect();
    Ok(json!({
        "mostUnderWay": {"measured": most, "promised": clusters.div_ceil(4)},
        "mayChangeToWorkWrittenMilliseconds": {
            "p50": round(percentile(&mut waited, 0.5)),
            "p99": {"measured": round(percentile(&mut waited, 0.99)), "promised": 100},
        },
        "wholeMilliseconds": round(milliseconds(begun.elapsed())),
    }))
}

/// The hash of the deployment configuration that the add-on wants or has.
fn hash(it: &DynamicObject, which: &str) -> Option<String> {
    let references = it.data["status"]["configReferences"].as_array()?;
    let of_it = references
        .iter()
        .find(|it| it["resource"] == "addondeploymentconfigs")?;
    of_it[which]["specHash"]
        .as_str()
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
}
