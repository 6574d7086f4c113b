//! Says in an Event that somebody has reached a bound, where an administrator sees it: in `default`, as of everything
//! that is in no namespace. One Event for each identity and bound, at most once a minute.

use crate::{local::Local, object_meta, reports::Report};
use kube_store::status::Status;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

/// Between two writes of one Event.
const PAUSE: Duration = Duration::from_secs(60);
/// Identities and bounds that are remembered.
const KNOWN_MAX: usize = 4096;
const NAMESPACE: &str = "default";

/// What was said about one identity and bound.
struct Said {
    at: Instant,
    /// All refusals, said or not.
    count: u64,
    first: jiff::Timestamp,
}

/// Writes down what is told until the server stops.
pub async fn run(mut told: Receiver<Report>, local: Local, stop: CancellationToken) {
    let mut known: HashMap<(String, &'static str), Said> = HashMap::new();
    while let Some(Some(report)) = stop.run_until_cancelled(told.recv()).await {
        if known.len() >= KNOWN_MAX {
            known.retain(|_, it| it.at.elapsed() < PAUSE);
            if known.len() >= KNOWN_MAX {
                continue;
            }
        }
        let mut is_due = false;
        let said = known.entry((report.identity.clone(), report.bound)).or_insert_with(|| {
            is_due = true;
            Said {
                at: Instant::now(),
                count: 0,
                first: jiff::Timestamp::now(),
            }
        });
        said.count += 1;
        if !is_due && said.at.elapsed() < PAUSE {
            continue;
        }
        said.at = Instant::now();
        tracing::warn!(identity = report.identity, bound = report.bound, "{}", report.message);
        if let Err(error) = write(&local, &report, said).await {
            tracing::warn!(error = error.message, "an Event about a bound could not be written");
        }
    }
}

async fn write(local: &Local, report: &Report, said: &Said) -> Result<(), Status> {
    let hash = Sha256::digest(format!("{}\0{}", report.identity, report.bound));
    let hash: String = hash.iter().take(8).map(|it| format!("{it:02x}")).collect();
    let name = format!("limit-reached.{hash}");
    let changes = json!({
        "message": report.message,
        "count": i32::try_from(said.count).unwrap_or(i32::MAX),
        "lastTimestamp": object_meta::seconds(jiff::Timestamp::now()),
    });
    let patched = local.merge_patch("events", NAMESPACE, &name, "", changes.clone()).await;
    match patched {
        Err(status) if status.is_not_found() => {}
        other => return other.map(drop),
    }
    let mut event = json!({
        "metadata": {"name": name},
        "type": "Warning",
        "reason": format!("LimitReached{}", report.bound),
        "involvedObject": {"kind": "User", "apiVersion": "rbac.authorization.k8s.io/v1", "name": report.identity},
        "source": {"component": "kube-apiserver"},
        "reportingComponent": "kube-apiserver",
        "firstTimestamp": object_meta::seconds(said.first),
    });
    if let (Value::Object(event), Value::Object(changes)) = (&mut event, changes) {
        event.extend(changes);
    }
    local.create("events", NAMESPACE, event).await.map(drop)
}
