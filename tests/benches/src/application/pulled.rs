//! From what a cluster's Argo CD says of an Application to its status on the hub.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{ApplicationSize, appear, version_now};
use crate::{
    drover::{Drover, client},
    replica_set::{api, object, until},
    statistics::{milliseconds, percentile, round},
};

const GROUP: &str = "argoproj.io";
const NAMESPACE: &str = "argocd";
const CLUSTER: &str = "cluster1";
const NAME: &str = "guestbook";
const DEADLINE: Duration = Duration::from_secs(60);
/// A status is to be on the hub within these milliseconds.
const BACK_WITHIN: f64 = 50.0;

/// No Argo CD runs: what it would write is written here.
pub async fn measure(binary: &Path, size: ApplicationSize) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let up = Drover::until_ready(binary, &["up", "--clusters", "1", "--addons", "argocd"], data.path())?;
    let (hub, cluster) = (client(data.path(), "hub").await?, client(data.path(), CLUSTER).await?);
    let of_hub = api(&hub, GROUP, "v1alpha1", "Application", Some(NAMESPACE));
    let of_cluster = api(&cluster, GROUP, "v1alpha1", "Application", Some(NAMESPACE));
    let application = object(json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Application",
        "metadata": {
            "name": NAME, "namespace": NAMESPACE,
            "labels": {"apps.open-cluster-management.io/pull-to-ocm-managed-cluster": "true"},
            "annotations": {"apps.open-cluster-management.io/ocm-managed-cluster": CLUSTER},
        },
        "spec": {"project": "default", "destination": {"namespace": NAME}, "source": {
            "repoURL": "https://example.com/apps.git", "path": NAME, "targetRevision": "HEAD",
        }},
    }));
    until("the hub has no namespace for Applications", async || {
        Ok(of_hub.create(&PostParams::default(), &application).await.is_ok())
    })
    .await?;
    until("the Application is not on its cluster", async || {
        // Its kind comes with the add-on.
        Ok(matches!(of_cluster.get_opt(NAME).await, Ok(Some(_))))
    })
    .await?;
    let mut times = Vec::new();
    for change in 0..=size.changes {
        let revision = format!("revision{change}");
        let from = version_now(&of_hub).await?;
        let said = json!({"status": {
            "health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": revision},
        }});
        let begun = Instant::now();
        of_cluster
            .patch(NAME, &PatchParams::default(), &Patch::Merge(said))
            .await?;
        let back = appear(&of_hub, &from, 1, |it| {
            it.data["status"]["sync"]["revision"] == revision
        });
        tokio::time::timeout(DEADLINE, back)
            .await
            .context("the status does not come back")??;
        times.push(milliseconds(begun.elapsed()));
    }
    // The first one waits until the work agent watches the kind.
    times.remove(0);
    up.stop()?;
    Ok(json!({
        "milliseconds": {
            "p50": {"measured": round(percentile(&mut times, 0.5)), "promised": BACK_WITHIN},
            "worst": round(percentile(&mut times, 1.0)),
        },
        "samples": times.len(),
    }))
}
