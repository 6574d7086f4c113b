//! Many watches of one kind, each of one name as agents have them, while writes go in.

use super::{
    ApiSize, SETTLE,
    connection::{Connection, Door},
    tail,
};
use crate::{drover::Drover, statistics::round};
use anyhow::{Result, ensure};
use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SECONDS: usize = 10;
/// How long the last events may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a watch tells: its number and the moment that it found in the object, in microseconds since the beginning.
type Told = (usize, u64, Instant);

async fn watch(
    mut connection: Connection,
    number: usize,
    told: UnboundedSender<Told>,
    begun: Arc<AtomicUsize>,
) -> Result<()> {
    let path = format!("{SECRETS}?watch=1&fieldSelector=metadata.name%3Dw{number}");
    let response = connection.begin(Method::GET, &path, None, "").await?;
    ensure!(response.status() == 200, "a watch answered {}", response.status());
    begun.fetch_add(1, Ordering::SeqCst);
    let mut chunks = response.into_body().into_data_stream();
    let mut rest = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let now = Instant::now();
        rest.extend_from_slice(&chunk?);
        while let Some(end) = rest.iter().position(|it| *it == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            // The moment is in an annotation; the whole event would cost the client more than the server.
            const MARK: &[u8] = b"\"moment\":\"";
            let Some(at) = line.windows(MARK.len()).position(|it| it == MARK) else {
                continue;
            };
            let digits = line[at + MARK.len()..].iter().take_while(|it| it.is_ascii_digit());
            let moment = digits.fold(0, |sum, it| sum * 10 + u64::from(it - b'0'));
            let _ = told.send((number, moment, now));
        }
    }
    Ok(())
}

fn secret(number: usize, moment: u64) -> String {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("w{number}"), "annotations": {"moment": moment.to_string()}},
        "stringData": {"text": "x".repeat(500)},
    })
    .to_string()
}

/// How far watches are behind, whether they miss anything, and what one weighs.
pub async fn measure(server: &Drover, door: &Door, size: ApiSize) -> Result<Value> {
    let mut connections = Vec::new();
    for _ in 0..size.watch_connections {
        connections.push(door.open().await?);
    }
    tokio::time::sleep(SETTLE).await;
    let before = server.resident()?;
    let (sender, mut told) = unbounded_channel();
    let begun = Arc::new(AtomicUsize::new(0));
    let mut watches = tokio::task::JoinSet::new();
    for number in 0..size.watchers {
        let connection = connections[number % connections.len()].clone();
        watches.spawn(watch(connection, number, sender.clone(), begun.clone()));
    }
    while begun.load(Ordering::SeqCst) < size.watchers {
        ensure!(watches.try_join_next().is_none(), "a watch ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(SETTLE).await;
    let each = server.resident()?.saturating_sub(before) as f64 / size.watchers as f64 / 1024.0;

    let wanted = SECONDS * size.writes_per_second;
    let start = Instant::now();
    let lanes = 20;
    let writers = (0..lanes).map(|lane| {
        let door = door.clone();
        tokio::spawn(async move {
            let mut connection = door.open().await?;
            let mut late = 0usize;
            for turn in (lane..wanted).step_by(lanes) {
                let due = Duration::from_secs_f64(turn as f64 / size.writes_per_second as f64);
                match due.checked_sub(start.elapsed()) {
                    Some(left) => tokio::time::sleep(left).await,
                    None => late += 1,
                }
                // Each name once after the other; one that is there is written over.
                let number = turn % size.watchers;
                let moment = start.elapsed().as_micros() as u64;
                let body = secret(number, moment);
                let (method, path) = match turn < size.watchers {
                    true => (Method::POST, SECRETS.to_owned()),
                    false => (Method::PUT, format!("{SECRETS}/w{number}")),
                };
                let (code, _) = connection.ask(method, &path, Some("application/json"), body).await?;
                ensure!(code < 300, "a write answered {code}");
            }
            anyhow::Ok(late)
        })
    });
    let mut late = 0;
    for writer in futures::future::join_all(writers).await {
        late += writer??;
    }
    let took = start.elapsed();
    let mut lags = Vec::with_capacity(wanted);
    let mut last = vec![0u64; size.watchers];
    while lags.len() < wanted {
        let Ok(Some((number, moment, now))) = tokio::time::timeout(PATIENCE, told.recv()).await else {
            break;
        };
        ensure!(moment >= last[number], "watch {number} went backwards");
        last[number] = moment;
        let lag = (now - start).saturating_sub(Duration::from_micros(moment));
        lags.push(lag.as_secs_f64() * 1000.0);
    }
    watches.shutdown().await;
    Ok(json!({
        "watchers": size.watchers, "connections": size.watch_connections,
        "writesPerSecond": {"asked": size.writes_per_second, "made": round(wanted as f64 / took.as_secs_f64()), "late": late},
        "lagFromSendingTheWriteMilliseconds": tail(&mut lags, 100.0),
        "missed": {"measured": wanted - lags.len(), "promised": 0},
        "kibibytesPerWatcher": {"measured": round(each), "promised": 40},
    }))
}
