//! Creating objects: one client, many, and the disk without a server.

use super::{ApiSize, connection::Door, one_sync};
use crate::statistics::{milliseconds, percentile, round};
use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use std::{
    io::Write,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: Option<&str> = Some("application/json");
/// What one object of the writers weighs.
const CREATE_BYTES: usize = 2048;
/// What one of the stored ones does.
const STORED_BYTES: usize = 1024;
const PROBE: Duration = Duration::from_secs(2);

fn config_map(name: &str, bytes: usize) -> String {
    let text = |padding: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": padding}})
            .to_string()
    };
    text(&"x".repeat(bytes.saturating_sub(text("").len())))
}

/// How long one client waits for one create, and the disk for one sync.
pub async fn single_writer(door: &Door, count: usize) -> Result<Value> {
    let mut connection = door.open().await?;
    let mut samples = Vec::with_capacity(count);
    let before = one_sync()?;
    for number in 0..count {
        let body = config_map(&format!("single-{number}"), CREATE_BYTES);
        let begun = Instant::now();
        let (code, _) = connection.ask(Method::POST, CONFIGMAPS, JSON, body).await?;
        samples.push(milliseconds(begun.elapsed()));
        ensure!(code == 201, "a create answered {code}");
    }
    let sync = (before + one_sync()?) / 2.0;
    Ok(json!({
        "p50Milliseconds": {"measured": round(percentile(&mut samples, 0.5)), "promised": round(sync + 2.0)},
        "p99Milliseconds": round(percentile(&mut samples, 0.99)),
        "fdatasyncMilliseconds": round(sync),
    }))
}

/// How many groups of as many writes the disk itself keeps.
fn group_commits(dir: &Path, group: usize) -> Result<f64> {
    let path = dir.join("probe");
    let mut file = std::fs::File::create(&path)?;
    let bytes = vec![7u8; CREATE_BYTES * group];
    let begun = Instant::now();
    let mut groups = 0;
    while begun.elapsed() < PROBE {
        file.write_all(&bytes)?;
        file.sync_data()?;
        groups += 1;
    }
    let rate = (groups * group) as f64 / begun.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// Creates from many clients at once, and what the disk would give for the same groups.
pub async fn creates(door: &Door, dir: &Path, size: ApiSize) -> Result<Value> {
    let before = group_commits(dir, size.writers)?;
    let until = Instant::now() + Duration::from_secs(size.write_seconds);
    let begun = Instant::now();
    let writers = (0..size.writers).map(|writer| {
        let door = door.clone();
        tokio::spawn(async move {
            let mut connection = door.open().await?;
            let mut samples = Vec::new();
            while Instant::now() < until {
                let body = config_map(&format!("w{writer}-{}", samples.len()), CREATE_BYTES);
                let begun = Instant::now();
                let (code, _) = connection.ask(Method::POST, CONFIGMAPS, JSON, body).await?;
                samples.push(milliseconds(begun.elapsed()));
                ensure!(code == 201, "a create answered {code}");
            }
            anyhow::Ok(samples)
        })
    });
    let mut samples = Vec::new();
    for writer in futures::future::join_all(writers).await {
        samples.extend(writer??);
    }
    let rate = samples.len() as f64 / begun.elapsed().as_secs_f64();
    let disk = f64::midpoint(before, group_commits(dir, size.writers)?);
    Ok(json!({
        "writers": size.writers, "bytes": CREATE_BYTES, "creates": samples.len(),
        "perSecond": {"measured": round(rate), "promised": round((0.6 * disk).min(10_000.0))},
        "diskPerSecond": round(disk),
        "p50Milliseconds": round(percentile(&mut samples, 0.5)),
        "p99Milliseconds": round(percentile(&mut samples, 0.99)),
    }))
}

/// Stores so many objects; says how many bytes one of them is when it is stored.
pub async fn fill(door: &Door, count: usize) -> Result<usize> {
    let next = Arc::new(AtomicUsize::new(0));
    let writers = (0..64).map(|_| {
        let (door, next) = (door.clone(), next.clone());
        tokio::spawn(async move {
            let mut connection = door.open().await?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(());
                }
                let body = config_map(&format!("stored-{number:06}"), STORED_BYTES);
                let (code, _) = connection.ask(Method::POST, CONFIGMAPS, JSON, body).await?;
                ensure!(code == 201, "a create answered {code}");
            }
        })
    });
    for writer in futures::future::join_all(writers).await {
        writer??;
    }
    let path = format!("{CONFIGMAPS}/stored-000000");
    let (_, bytes) = door.open().await?.ask(Method::GET, &path, None, "").await?;
    Ok(bytes)
}
