//! From a ManagedServiceAccount to its token on the hub.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use kube::{Api, Client, api::PostParams};
use ocm_api::authentication::ManagedServiceAccount;
use serde_json::{Value, json};

use super::elapsed;
use crate::{
    Size,
    drover::{Drover, client_of},
    statistics::median,
};

const CLUSTER: &str = "cluster1";
const DEADLINE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(1);

/// One by one, and a hundred at once.
pub async fn measure(binary: &Path, size: Size) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let command = ["up", "--clusters", "1", "--addons", "managed-serviceaccount"];
    let drover = Drover::until_ready(binary, &command, data.path())?;
    let client = client_of(&data.path().join("hub.kubeconfig")).await?;
    let (singles, burst) = if size.runs == 1 { (5, 20) } else { (50, 100) };
    let mut times = Vec::new();
    for number in 0..singles {
        let begun = Instant::now();
        ready(&client, &format!("one-{number}")).await?;
        times.push(elapsed(begun));
    }
    let begun = Instant::now();
    let names: Vec<String> = (0..burst).map(|it| format!("burst-{it}")).collect();
    try_join_all(names.iter().map(|it| ready(&client, it))).await?;
    let all = elapsed(begun);
    drover.stop()?;
    Ok(json!({
        "newAccountToTokenMilliseconds": median(times, 50.0),
        "atOnce": {"count": burst, "milliseconds": median(vec![all], 2000.0)},
    }))
}

/// Creates an account and waits for its token.
async fn ready(client: &Client, name: &str) -> Result<()> {
    let api: Api<ManagedServiceAccount> = Api::namespaced(client.clone(), CLUSTER);
    let account = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"rotation": {}}}))?;
    api.create(&PostParams::default(), &account).await?;
    let deadline = Instant::now() + DEADLINE;
    loop {
        let status = api.get(name).await?.status;
        if status.is_some_and(|it| it.token_secret_ref.is_some()) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{name} has no token");
        tokio::time::sleep(GLANCE).await;
    }
}
