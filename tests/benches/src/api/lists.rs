//! A large list, and as many bytes that nobody has to make.

use super::connection::Door;
use crate::{
    drover::Drover,
    statistics::{mebibytes, milliseconds, percentile, round},
};
use anyhow::{Context, Result, ensure};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube_api::{identity::MASTERS, listen, pki::Pki, tls};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const LIST: &str = "/api/v1/namespaces/default/configmaps";
/// As the server hands a list to its connections.
const PIECE_BYTES: usize = 128 * 1024;
const READY: &str = "ready";

async fn times(door: &Door, path: &str, runs: usize) -> Result<(Vec<f64>, usize)> {
    let mut connection = door.open().await?;
    let mut samples = Vec::new();
    let mut length = 0;
    // The first one finds windows small and caches cold.
    for run in 0..=2 * runs {
        let begun = Instant::now();
        let (code, bytes) = connection.ask(Method::GET, path, None, "").await?;
        ensure!(code == 200, "{path} answered {code}");
        length = bytes;
        if run > 0 {
            samples.push(milliseconds(begun.elapsed()));
        }
    }
    Ok((samples, length))
}

/// The time of a list of everything, against that of copying as many bytes.
pub async fn measure(server: &Drover, door: &Door, objects: usize, runs: usize) -> Result<Value> {
    let before = server.resident()?;
    let peak = server.watch_resident();
    let (mut listed, length) = times(door, LIST, runs).await?;
    let extra = peak.highest()?.saturating_sub(before);
    let dir = tempfile::tempdir()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--serve-bytes", &length.to_string(), "--serve-dir"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("the output is piped")?;
    let copier = Drover::from(child);
    let first = BufReader::new(output).lines().next();
    ensure!(
        first.transpose()?.is_some_and(|it| it == READY),
        "the bytes' server ended"
    );
    let (mut copied, copied_length) = times(&Door::read(&dir.path().join("kubeconfig"))?, "/", runs).await?;
    ensure!(length == copied_length, "{length} bytes listed, {copied_length} copied");
    copier.stop()?;
    let (list, copy) = (percentile(&mut listed, 0.5), percentile(&mut copied, 0.5));
    Ok(json!({
        "objects": objects, "mebibytes": mebibytes(length as u64),
        "p50Milliseconds": round(list), "copyP50Milliseconds": round(copy),
        "timesACopy": {"measured": round(list / copy), "promised": 1.5},
        "extraMebibytes": {"measured": mebibytes(extra), "promised": 32},
    }))
}

/// What the process that only copies does: TLS and HTTP of the server, and always the same bytes.
pub async fn serve_bytes(length: usize, dir: &Path) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let now = jiff::Timestamp::now();
    let pki = Pki::open(None, &[], now)?;
    let pair = pki.issue_client_certificate("copier", &[MASTERS], 3600, now)?;
    let kubeconfig = pki.kubeconfig(&format!("https://{address}"), "bytes", "copier", &pair);
    std::fs::write(dir.join("kubeconfig"), kubeconfig)?;
    let config = Arc::new(ArcSwap::new(tls::server_config(&pki, &[])?));
    let piece = Bytes::from(vec![b'x'; PIECE_BYTES]);
    let handler = move |_, _| {
        let piece = piece.clone();
        async move {
            let whole = length / PIECE_BYTES;
            let pieces = std::iter::repeat_n(piece.clone(), whole).chain([piece.slice(..length % PIECE_BYTES)]);
            let frames = futures::stream::iter(pieces).map(|it| Ok::<_, Infallible>(Frame::data(it)));
            Response::new(StreamBody::new(frames))
        }
    };
    let stop = CancellationToken::new();
    let serving = tokio::spawn(listen::serve(listener, config, handler, stop.clone()));
    println!("{READY}");
    let mut asked = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    asked.recv().await;
    stop.cancel();
    serving.await?;
    Ok(())
}
