//! From what a Git server says of a commit, by a webhook, to its objects on two clusters.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use kube::api::{Patch, PatchParams};
use ocm_api::apps::{GROUP, annotations};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{ApplicationSize, NAMESPACE, Served, appear, version_now};
use crate::{
    drover::{Drover, client, kubeconfig},
    replica_set::api,
    statistics::{median, milliseconds},
};

const CLUSTERS: [&str; 2] = ["cluster1", "cluster2"];
const DEADLINE: Duration = Duration::from_secs(120);
/// A commit is to be on both clusters within these milliseconds.
const APPLIED_WITHIN: f64 = 1_000.0;

/// The real binary is hub and clusters.
pub async fn measure(binary: &Path, size: ApplicationSize) -> Result<Value> {
    let data = tempfile::tempdir()?;
    let shop = Served::start().await;
    shop.commit(&[("web.yaml".to_owned(), config_map(0))]);
    let up = Drover::until_ready(binary, &["up", "--addons", "application-manager"], data.path())?;
    let said = |arguments: &[&str]| command(binary, data.path(), arguments);
    said(&["create", "channel", "shop", "--git", &shop.url()])?;
    let both = CLUSTERS.join(",");
    said(&[
        "create",
        "subscription",
        "shop",
        "--channel",
        "shop",
        "--clusters",
        &both,
    ])?;
    let hub = client(data.path(), "hub").await?;
    let channels = api(&hub, GROUP, "v1", "Channel", Some(NAMESPACE));
    let heard = json!({"metadata": {"annotations": {annotations::WEBHOOK_ENABLED: "true"}}});
    channels
        .patch("shop", &PatchParams::default(), &Patch::Merge(heard))
        .await?;
    let ports: Value = serde_json::from_slice(&std::fs::read(data.path().join("ports.json"))?)?;
    let port = ports["git-webhooks"].as_u64().context("there is a port for webhooks")?;
    let mut maps = Vec::new();
    for cluster in CLUSTERS {
        maps.push(api(
            &client(data.path(), cluster).await?,
            "",
            "v1",
            "ConfigMap",
            Some(NAMESPACE),
        ));
    }
    for its in &maps {
        tokio::time::timeout(DEADLINE, appear(its, "0", 1, |it| has(it, 0)))
            .await
            .context("the application is not deployed")??;
    }
    let mut times = Vec::new();
    for commit in 1..=size.changes {
        shop.commit(&[("web.yaml".to_owned(), config_map(commit))]);
        let (one, two) = (version_now(&maps[0]).await?, version_now(&maps[1]).await?);
        let begun = Instant::now();
        push(u16::try_from(port)?, &shop.url()).await?;
        let applied = async {
            tokio::try_join!(
                appear(&maps[0], &one, 1, |it| has(it, commit)),
                appear(&maps[1], &two, 1, |it| has(it, commit)),
            )
        };
        tokio::time::timeout(DEADLINE, applied)
            .await
            .with_context(|| format!("commit {commit} is not applied"))??;
        times.push(milliseconds(begun.elapsed()));
    }
    up.stop()?;
    Ok(json!({"clusters": CLUSTERS.len(), "milliseconds": median(times, APPLIED_WITHIN)}))
}

fn config_map(commit: usize) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\ndata: {{commit: \"{commit}\"}}\n")
}

fn has(map: &kube::api::DynamicObject, commit: usize) -> bool {
    let said = map.data["data"]["commit"].as_str();
    said.and_then(|it| it.parse().ok()) == Some(commit)
}

/// What GitHub sends when somebody pushes.
async fn push(port: u16, url: &str) -> Result<()> {
    let body = json!({"repository": {"clone_url": url, "html_url": url, "full_name": "a/shop"}}).to_string();
    let request = format!(
        "POST /webhook HTTP/1.1\r\nHost: localhost\r\nX-Github-Event: push\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    anyhow::ensure!(
        answer.starts_with("HTTP/1.1 200 "),
        "the webhook is answered with {answer}"
    );
    Ok(())
}

fn command(binary: &Path, data: &Path, arguments: &[&str]) -> Result<()> {
    let output = std::process::Command::new(binary)
        .args(arguments)
        .env("KUBECONFIG", kubeconfig(data, "hub"))
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "drover {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
