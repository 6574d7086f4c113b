//! `cluster-proxy controllers`.

use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use ocm_addon_sdk::{
    kube::{Api, Client},
    ocm_api::proxy::ManagedProxyConfiguration,
    program::{self, LeaderElection, Pages, Place},
    reconcile::{Caches, Clients, controller},
};
use tokio_util::sync::CancellationToken;

use super::Logging;
use crate::hub::{self, CONFIGURATION, HubOptions};

#[derive(Debug, Args)]
pub struct ControllersFlags {
    /// Where metrics are served
    #[arg(long, value_name = "HOST:PORT", default_value = ":8080")]
    metrics_addr: String,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "HOST:PORT", default_value = ":8081")]
    health_probe_addr: String,
    /// Whether one of several processes is elected to do the work
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    enable_leader_election: bool,
    /// The namespace that the certificate is written to
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    certificates_namespace: String,
    /// The Secret of the authority
    #[arg(long, value_name = "NAME", default_value = hub::SIGNER)]
    signer_secret_name: String,
    /// Its namespace
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    signer_secret_namespace: String,
    /// Accepted: nothing is rendered here
    #[arg(long, value_name = "IMAGE")]
    agent_image: Option<String>,
    #[command(flatten)]
    logging: Logging,
}

pub async fn run(flags: ControllersFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    let client = place.client(None).await?;
    configuration(&client).await?;
    let address = |flag: &str, text: &str| program::address(text).map_err(|it| anyhow::anyhow!("--{flag}: {it}"));
    let metrics = address("metrics-addr", &flags.metrics_addr)?;
    Pages::new().metrics().serve(metrics, &stop).await?;
    let probes = address("health-probe-addr", &flags.health_probe_addr)?;
    let pages = Pages::new().healthy(|| Ok(())).ready(|| Ok(()));
    pages.serve(probes, &stop).await?;
    let options = Arc::new(HubOptions {
        signer_namespace: flags.signer_secret_namespace,
        signer_name: flags.signer_secret_name,
        certificates_namespace: flags.certificates_namespace.clone(),
        ..HubOptions::default()
    });
    let work = move |client: Client, end: CancellationToken| {
        let options = options.clone();
        async move {
            let caches = Caches::new(client.clone(), end.clone());
            let all = vec![hub::of_service_proxies(&caches, &options)];
            for one in controller::start_all(all, &Clients::hub(client), &end) {
                let _ = one.finished.await;
            }
        }
    };
    if !flags.enable_leader_election {
        work(client, stop).await;
        return Ok(());
    }
    let namespace = std::env::var("POD_NAMESPACE").unwrap_or(flags.certificates_namespace);
    program::lead(
        client,
        LeaderElection::new(namespace, "cluster-proxy-service-proxy"),
        work,
        stop,
    )
    .await
}

/// The one configuration, without which nothing starts.
pub async fn configuration(client: &Client) -> Result<ManagedProxyConfiguration> {
    let found = Api::<ManagedProxyConfiguration>::all(client.clone())
        .get(CONFIGURATION)
        .await;
    found.with_context(|| format!("failed to get ManagedProxyConfiguration '{CONFIGURATION}'"))
}
