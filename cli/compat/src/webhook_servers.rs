//! Upstream's webhook servers: their flags, and the ports on which they tell whether they live.
//! Upstream: ocm `pkg/{registration,work,addon}/webhook`.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use kube::Client;
use process::{
    certificate_files::CertificateFiles,
    serving::{self, Answer, Pages, Tls},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;
use tracing::info;
use webhooks::reviews;
use work::hub::admission::AdmissionOptions;

use crate::{api, read::Values};

/// A prober that takes longer to ask is none.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);

/// `registration webhook-server`.
pub async fn registration(values: Values) -> Result<()> {
    let default_sets = values.gate("DefaultClusterSet");
    serve(&values, |hub| reviews::of_clusters(hub, default_sets)).await
}

/// `work webhook-server`.
pub async fn work(values: Values) -> Result<()> {
    let rules = AdmissionOptions {
        manifests_bytes_max: usize::try_from(values.number("manifestLimit")).unwrap_or_default(),
        nil_executor_is_checked: values.gate("NilExecutorValidating"),
        replica_sets_are_taken: values.gate("ManifestWorkReplicaSet"),
    };
    serve(&values, |hub| reviews::of_works(hub, rules)).await
}

/// `addon webhook-server`. It asks the hub nothing.
pub async fn add_ons(values: Values) -> Result<()> {
    let stop = CancellationToken::new();
    process::stop_on_signals(stop.clone())?;
    listen(&values, reviews::conversions(), stop).await
}

async fn serve(values: &Values, reviews: impl FnOnce(Client) -> Arc<dyn Pages>) -> Result<()> {
    let stop = CancellationToken::new();
    process::stop_on_signals(stop.clone())?;
    let hub = api::reach(values.text("kubeconfig"), &stop).await?;
    listen(values, reviews(hub.client), stop).await
}

/// Serves reviews over TLS, and health and metrics beside them, until `stop`.
async fn listen(values: &Values, pages: Arc<dyn Pages>, stop: CancellationToken) -> Result<()> {
    process::raise_open_files();
    let rules = Tls::read(values.text("tls-min-version"), values.text("tls-cipher-suites"))?;
    let directory = match values.some("certdir") {
        Some(directory) => PathBuf::from(directory),
        None => std::env::temp_dir().join("k8s-webhook-server/serving-certs"),
    };
    let host: IpAddr = values
        .text("bind-address")
        .parse()
        .with_context(|| format!("--bind-address {}", values.text("bind-address")))?;
    let bind = async |flag: &str| -> Result<Option<TcpListener>> {
        let port = u16::try_from(values.number(flag)).with_context(|| format!("--{flag} {}", values.text(flag)))?;
        // Only the port of the reviews may be any that is free.
        if port == 0 && flag != "port" {
            return Ok(None);
        }
        let address = SocketAddr::new(host, port);
        let listener = TcpListener::bind(address).await;
        Ok(Some(
            listener.with_context(|| format!("could not listen on {address}"))?,
        ))
    };
    let files = CertificateFiles::in_directory(&directory);
    let tls = Arc::new(ArcSwap::from(files.read(&rules)?));
    let Some(listener) = bind("port").await? else {
        return Ok(());
    };
    if let Some(probes) = bind("health-probe-port").await? {
        tokio::spawn(answer_plainly(probes, |path| {
            ["/healthz", "/readyz", "/livez"]
                .iter()
                .any(|it| path.trim_end_matches('/').starts_with(it))
                .then(|| Answer::text(200, "ok"))
        }));
    }
    if let Some(metrics) = bind("metrics-port").await? {
        tokio::spawn(answer_plainly(metrics, |path| {
            (path == "/metrics").then(serving::all_metrics)
        }));
    }
    tokio::spawn(files.follow(rules, tls.clone(), stop.clone()));
    info!(address = %listener.local_addr()?, "answers reviews");
    serving::serve(listener, tls, pages, stop).await;
    Ok(())
}

/// Answers plain HTTP, one short request for each connection.
async fn answer_plainly(listener: TcpListener, answer: fn(&str) -> Option<Answer>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let answered = async {
                let mut request = Vec::new();
                // The first line is all that matters, in however many pieces it comes.
                while !request.contains(&b'\n') && request.len() < 4096 {
                    if stream.read_buf(&mut request).await? == 0 {
                        return Ok(());
                    }
                }
                let line = String::from_utf8_lossy(&request).into_owned();
                let path = line.split_whitespace().nth(1).unwrap_or("/");
                let path = path.split('?').next().unwrap_or_default();
                let answer = answer(path).unwrap_or_else(|| Answer::text(404, "404 page not found\n"));
                let head = format!(
                    "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    answer.code,
                    if answer.code == 200 { "OK" } else { "Not Found" },
                    answer.content_type,
                    answer.body.len(),
                );
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(answer.body.as_bytes()).await?;
                stream.shutdown().await
            };
            // Whoever asks and does not listen to the answer is not worth a word.
            let _: Result<std::io::Result<()>, _> = tokio::time::timeout(PROBE_DEADLINE, answered).await;
        });
    }
}
