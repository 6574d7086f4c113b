//! `/proxy-agent`: konnectivity's agent.

use std::{io, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use clap::Parser;
use konnectivity::{TunnelAgent, agent};
use ocm_addon_sdk::program::{self, Pages, Place};
use rustls_pki_types::ServerName;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::{Logging, required};
use crate::trust::{ClientFiles, PairFiles};

/// Connections of one server at once.
const CONNECTIONS_MAX: usize = 100_000;
/// How long open connections may go on after SIGTERM.
const GRACE: Duration = Duration::from_secs(25);
/// Behind this are the hosts of service-proxies, which are in this very pod.
const SERVICE_PROXIES: &str = ".open-cluster-management.proxy";

/// Open the tunnel from a cluster to its hub
#[derive(Debug, Parser)]
#[command(name = "proxy-agent", disable_version_flag = true)]
pub struct ProxyAgentFlags {
    /// What is shown to proxy servers
    #[arg(long, value_name = "FILE")]
    agent_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    agent_key: Option<PathBuf>,
    /// The authority of the proxy servers
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    /// The host of the proxy servers
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    proxy_server_host: String,
    /// Their port for agents
    #[arg(long, value_name = "PORT", default_value_t = 8091)]
    proxy_server_port: u16,
    /// Protocols that are offered besides h2
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    alpn_proto: Vec<String>,
    /// The address of /healthz, /readyz and /metrics
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true)]
    health_server_host: String,
    /// The port of /healthz, /readyz and /metrics
    #[arg(long, value_name = "PORT", default_value_t = 8093)]
    health_server_port: u16,
    /// Accepted: there is no admin server
    #[arg(long, value_name = "PORT", default_value_t = 8094)]
    admin_server_port: u16,
    /// Accepted: there is no admin server
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    admin_bind_address: String,
    /// What tells this agent from others
    #[arg(
        long,
        value_name = "ID",
        env = "PROXY_AGENT_ID",
        default_value = "",
        hide_default_value = true
    )]
    agent_id: String,
    /// What it serves, such as host=a&host=b
    #[arg(long, value_name = "QUERY", default_value = "", hide_default_value = true)]
    agent_identifiers: String,
    /// Accepted: servers are looked for at once, then with longer and longer waits up to 10 s
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    sync_interval: String,
    /// Accepted: a server that has gone is noticed at once
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    probe_interval: String,
    /// Accepted: servers are looked for at once, then with longer and longer waits up to 10 s
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    sync_interval_cap: String,
    /// Accepted: a silent connection is asked every 30 s whether it lives
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    keepalive_time: String,
    /// Accepted: servers know agents by their certificates
    #[arg(long, value_name = "FILE")]
    service_account_token_path: Option<PathBuf>,
    /// Accepted: nothing is warned of
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    warn_on_channel_limit: Option<Option<String>>,
    /// Accepted: servers are looked for as long as one is missing
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    sync_forever: Option<Option<String>>,
    /// Accepted: windows of bytes are used instead
    #[arg(long, value_name = "NUMBER", default_value_t = 150)]
    xfr_channel_size: u32,
    /// Accepted: there is no profiler
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    enable_profiling: Option<Option<String>>,
    /// Accepted: there is no profiler
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    enable_contention_profiling: Option<Option<String>>,
    #[command(flatten)]
    logging: Logging,
}

pub async fn run(flags: ProxyAgentFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    let mut alpn = vec![b"h2".to_vec()];
    alpn.extend(flags.alpn_proto.iter().map(|it| it.clone().into_bytes()));
    let files = ClientFiles {
        pair: Some(PairFiles {
            certificate: required(flags.agent_cert, "--agent-cert", place)?,
            key: required(flags.agent_key, "--agent-key", place)?,
        }),
        trusted: required(flags.ca_cert, "--ca-cert", place)?,
        alpn,
    };
    let tls = files.following().context("the certificate of the agent")?;
    let (host, port) = (flags.proxy_server_host, flags.proxy_server_port);
    let name = ServerName::try_from(host.clone()).context("--proxy-server-host is no name of a host")?;
    let own = program::pod_address();
    let id = Some(flags.agent_id).filter(|it| !it.is_empty());
    let agent = TunnelAgent::new(agent::Options {
        id: id.unwrap_or_else(|| format!("{:016x}", rand::random::<u64>())),
        identifiers: flags.agent_identifiers,
        server: Arc::new(move || {
            let (host, name, tls) = (host.clone(), name.clone(), tls());
            Box::pin(async move {
                let stream = open(&host, port, own, &tls).await.map_err(io::Error::other)?;
                let stream = TlsConnector::from(tls).connect(name, stream).await?;
                Ok(Box::new(stream) as Box<dyn agent::Io>)
            })
        }),
        target: Arc::new(move |address| agent::tcp(target(address, own))),
        connections: CONNECTIONS_MAX,
    });
    let of_page = agent.clone();
    let pages = Pages::new().healthy(|| Ok(())).ready(move || {
        let is_ready = of_page.is_ready();
        is_ready
            .then_some(())
            .ok_or_else(|| "not connected to a proxy server".to_owned())
    });
    let health = format!("{}:{}", flags.health_server_host, flags.health_server_port);
    let health = program::address(&health).map_err(anyhow::Error::msg)?;
    let ends = CancellationToken::new();
    pages.metrics().serve(health, &ends).await?;
    agent.run(stop, GRACE).await;
    ends.cancel();
    Ok(())
}

/// A connection to a proxy server. On an embedded node the local end of the entry point PortForward has the pod's
/// address; a proxy server on the node's own machine has the same name.
async fn open(host: &str, port: u16, own: Option<IpAddr>, tls: &rustls::ClientConfig) -> Result<Box<dyn program::Io>> {
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback());
    if let Some(own) = own.filter(|_| is_here)
        && let Ok(stream) = program::dial(&own.to_string(), port, tls).await
    {
        return Ok(stream);
    }
    program::dial(host, port, tls).await
}

/// The service-proxy of the pod is found by the host of the pod, which on an embedded node is an address of its own.
fn target(address: String, own: Option<IpAddr>) -> String {
    match (address.rsplit_once(':'), own) {
        (Some((host, port)), Some(own)) if host.ends_with(SERVICE_PROXIES) => format!("{own}:{port}"),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_proxy_of_an_embedded_pod_has_its_address() {
        let own: Option<IpAddr> = Some([127, 1, 2, 3].into());
        let of = |address: &str, own| target(address.to_owned(), own);
        assert_eq!(
            of("cluster-a.open-cluster-management.proxy:7443", own),
            "127.1.2.3:7443"
        );
        assert_eq!(of("c1:443", own), "c1:443");
        let host = "cluster-a.open-cluster-management.proxy:7443";
        assert_eq!(of(host, None), host);
    }
}
