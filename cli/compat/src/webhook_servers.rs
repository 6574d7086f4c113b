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
use async_trait::async_trait;
use kube::Client;
use process::{
    certificate_files::CertificateFiles,
    pod,
    serving::{self, PageRequest, PageResponse, Pages, Tls},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;
use webhooks::reviews;
use work::hub::admission::AdmissionOptions;

use crate::{api, read::FlagValues};

/// A prober that takes longer to ask is none.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);

/// `registration webhook-server`.
pub async fn registration(values: FlagValues) -> Result<()> {
    let default_sets = values.gate("DefaultClusterSet");
    serve(&values, |hub| reviews::of_clusters(hub, default_sets)).await
}

/// `work webhook-server`.
pub async fn work(values: FlagValues) -> Result<()> {
    let rules = AdmissionOptions {
        manifests_bytes_max: usize::try_from(values.number("manifestLimit")).unwrap_or_default(),
        nil_executor_is_checked: values.gate("NilExecutorValidating"),
        replica_sets_are_taken: values.gate("ManifestWorkReplicaSet"),
    };
    serve(&values, |hub| reviews::of_works(hub, rules)).await
}

/// `addon webhook-server`. It asks the hub nothing.
pub async fn add_ons(values: FlagValues) -> Result<()> {
    let stop = CancellationToken::new();
    process::stop_on_signals(stop.clone())?;
    listen(&values, reviews::conversions(), stop).await
}

async fn serve(values: &FlagValues, reviews: impl FnOnce(Client) -> Arc<dyn Pages>) -> Result<()> {
    let stop = CancellationToken::new();
    process::stop_on_signals(stop.clone())?;
    let hub = api::reach(values.text("kubeconfig"), &stop).await?;
    listen(values, reviews(hub.client), stop).await
}

/// Serves reviews over TLS, and health and metrics beside them, until `stop`.
async fn listen(values: &FlagValues, pages: Arc<dyn Pages>, stop: CancellationToken) -> Result<()> {
    process::raise_open_files();
    let rules = Tls::read(values.text("tls-min-version"), values.text("tls-cipher-suites"))?;
    let directory = match values.some("certdir") {
        Some(directory) => PathBuf::from(directory),
        None => pod::lookup("/tmp/k8s-webhook-server/serving-certs")
            .unwrap_or_else(|| std::env::temp_dir().join("k8s-webhook-server/serving-certs")),
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
        let address = SocketAddr::new(serving::of_pod(host), port);
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
        let page = PlainPage(|path| {
            ["/healthz", "/readyz", "/livez"]
                .iter()
                .any(|it| path.trim_end_matches('/').starts_with(it))
                .then(|| PageResponse::text(200, "ok"))
        });
        tokio::spawn(serving::serve_plain(probes, Arc::new(page), PROBE_DEADLINE));
    }
    if let Some(metrics) = bind("metrics-port").await? {
        let page = PlainPage(|path| (path == "/metrics").then(serving::all_metrics));
        tokio::spawn(serving::serve_plain(metrics, Arc::new(page), PROBE_DEADLINE));
    }
    tokio::spawn(files.follow(rules, tls.clone(), stop.clone()));
    info!(address = %listener.local_addr()?, "answers reviews");
    serving::serve(listener, tls, pages, stop).await;
    Ok(())
}

/// A page of plain HTTP; `None` for a path that it does not know.
struct PlainPage(fn(&str) -> Option<PageResponse>);

#[async_trait]
impl Pages for PlainPage {
    async fn answer(&self, request: PageRequest) -> PageResponse {
        (self.0)(&request.path).unwrap_or_else(|| PageResponse::text(404, "404 page not found\n"))
    }
}
