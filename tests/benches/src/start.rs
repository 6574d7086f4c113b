//! From exec to available, and what it weighs.

use crate::{
    Size,
    drover::{ADMIN, Drover, kubeconfig},
    statistics::{mebibytes, median, milliseconds},
};
use anyhow::Result;
use serde_json::{Value, json};
use std::{path::Path, process::Command, time::Duration};

/// Time for the process to settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(3);
const LONE: &str = "lone";

/// `up` from nothing and on existing data, its memory, and the memory of an agent alone.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let (mut fresh, mut again, mut whole, mut lone) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..size.runs {
        let data = tempfile::tempdir()?;
        let first = Drover::up(binary, data.path(), 2)?;
        fresh.push(milliseconds(first.ready_after));
        first.stop()?;
        let second = Drover::up(binary, data.path(), 2)?;
        again.push(milliseconds(second.ready_after));
        tokio::time::sleep(SETTLE).await;
        whole.push(mebibytes(second.resident()?));
        // The hub's own API serves as the cluster of an agent in a process of its own.
        let hub = kubeconfig(data.path(), "hub");
        let agent = Drover::run(
            binary,
            [
                "agent".as_ref(),
                "--cluster-name".as_ref(),
                LONE.as_ref(),
                "--kubeconfig".as_ref(),
                hub.as_os_str(),
                "--bootstrap-kubeconfig".as_ref(),
                hub.as_os_str(),
            ],
        )?;
        let accepted = Command::new(binary)
            .args([
                "accept",
                "--clusters",
                LONE,
                "--wait",
                "--requesters",
                ADMIN,
                "--kubeconfig",
            ])
            .arg(&hub)
            .output()?;
        anyhow::ensure!(
            accepted.status.success(),
            "{}",
            String::from_utf8_lossy(&accepted.stderr)
        );
        tokio::time::sleep(SETTLE).await;
        lone.push(mebibytes(agent.resident()?));
        agent.stop()?;
        second.stop()?;
    }
    Ok(json!({
        "upFromNothingMilliseconds": median(fresh, 2000.0),
        "upOnExistingDataMilliseconds": median(again, 1000.0),
        "upResidentMebibytes": median(whole, 120.0),
        "loneAgentResidentMebibytes": median(lone, 12.0),
    }))
}
