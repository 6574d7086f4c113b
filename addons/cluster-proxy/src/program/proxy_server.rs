//! `/proxy-server`: konnectivity's server with the identities of this add-on.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail};
use clap::Parser;
use konnectivity::{
    TunnelServer,
    peer::{self, Admit},
    server::{Limits, Port},
};
use ocm_addon_sdk::program::{self, Pages, Place};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Logging, required};
use crate::{
    hub::identities,
    tls_profile::ServingProfile,
    trust::{PairFiles, ServerFiles},
};

/// Hold the hub's end of the tunnel
#[derive(Debug, Parser)]
#[command(name = "proxy-server", disable_version_flag = true)]
pub struct ProxyServerFlags {
    /// What is shown to clients
    #[arg(long, value_name = "FILE")]
    server_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    server_key: Option<PathBuf>,
    /// The authority of clients
    #[arg(long, value_name = "FILE")]
    server_ca_cert: Option<PathBuf>,
    /// What is shown to agents
    #[arg(long, value_name = "FILE")]
    cluster_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    cluster_key: Option<PathBuf>,
    /// The authority of agents
    #[arg(long, value_name = "FILE")]
    cluster_ca_cert: Option<PathBuf>,
    /// Only grpc is served
    #[arg(long, value_name = "MODE", default_value = "grpc")]
    mode: String,
    /// The port for clients
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    server_port: u16,
    /// The address for clients
    #[arg(long, value_name = "IP", default_value = "", hide_default_value = true)]
    server_bind_address: String,
    /// The port for agents
    #[arg(long, value_name = "PORT", default_value_t = 8091)]
    agent_port: u16,
    /// The address for agents
    #[arg(long, value_name = "IP", default_value = "", hide_default_value = true)]
    agent_bind_address: String,
    /// The port of /healthz, /readyz and /metrics
    #[arg(long, value_name = "PORT", default_value_t = 8092)]
    health_port: u16,
    /// The address of /healthz, /readyz and /metrics
    #[arg(long, value_name = "IP", default_value = "", hide_default_value = true)]
    health_bind_address: String,
    /// Accepted: there is no admin server
    #[arg(long, value_name = "PORT", default_value_t = 8095)]
    admin_port: u16,
    /// Accepted: there is no admin server
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    admin_bind_address: String,
    /// What tells this server from others
    #[arg(
        long,
        value_name = "ID",
        env = "PROXY_SERVER_ID",
        default_value = "",
        hide_default_value = true
    )]
    server_id: String,
    /// How many servers there are
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    server_count: u32,
    /// How agents are selected; only destHost is served
    #[arg(long, value_name = "STRATEGIES", default_value = "destHost")]
    proxy_strategies: String,
    /// Cipher suites of TLS 1.2
    #[arg(long, value_name = "NAMES", default_value = "", hide_default_value = true)]
    cipher_suites: String,
    /// The lowest version of TLS
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS12")]
    tls_min_version: String,
    /// Accepted: silent connections are asked every 30 s whether they live
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    keepalive_time: String,
    /// Accepted: silent connections are asked every 30 s whether they live
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    frontend_keepalive_time: String,
    /// Accepted: open connections end with this process
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    graceful_shutdown_timeout: String,
    /// Accepted: windows of bytes are used instead
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    xfr_channel_size: u32,
    /// Accepted: there is no profiler
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    enable_profiling: Option<Option<String>>,
    /// Accepted: there is no profiler
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    enable_contention_profiling: Option<Option<String>>,
    /// Accepted: nothing is warned of
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    warn_on_channel_limit: Option<Option<String>>,
    #[command(flatten)]
    logging: Logging,
}

pub async fn run(flags: ProxyServerFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    if flags.mode != "grpc" {
        bail!("--mode={} is not served; clients speak grpc", flags.mode);
    }
    if !flags.proxy_strategies.split(',').any(|it| it == "destHost") {
        bail!(
            "--proxy-strategies={} is not served: an agent is selected by the host it serves, which is destHost",
            flags.proxy_strategies
        );
    }
    let profile = ServingProfile::of_flags(&flags.tls_min_version, &flags.cipher_suites).map_err(anyhow::Error::msg)?;
    let files = |certificate, key, clients, names: [&str; 3]| -> Result<_> {
        let files = ServerFiles {
            pair: PairFiles {
                certificate: required(certificate, names[0], place)?,
                key: required(key, names[1], place)?,
            },
            clients: Some(required(clients, names[2], place)?),
            profile: profile.clone(),
            http2: true,
        };
        files.serving().with_context(|| names[0].to_owned())
    };
    let front = files(
        flags.server_cert,
        flags.server_key,
        flags.server_ca_cert,
        ["--server-cert", "--server-key", "--server-ca-cert"],
    )?;
    let agents = files(
        flags.cluster_cert,
        flags.cluster_key,
        flags.cluster_ca_cert,
        ["--cluster-cert", "--cluster-key", "--cluster-ca-cert"],
    )?;
    let address = |ip: &str, port: u16| program::address(&format!("{ip}:{port}")).map_err(anyhow::Error::msg);
    let id = Some(flags.server_id).filter(|it| !it.is_empty());
    let id = id.unwrap_or_else(|| format!("{:016x}", rand::random::<u64>()));
    let server = TunnelServer::new(id, flags.server_count, Limits::default());
    let pages = Pages::new().healthy(|| Ok(())).ready({
        let server = server.clone();
        move || {
            let is_ready = server.agents() > 0;
            is_ready.then_some(()).ok_or_else(|| "no agent is connected".to_owned())
        }
    });
    let health = address(&flags.health_bind_address, flags.health_port)?;
    pages.metrics().serve(health, &stop).await?;
    let listen = async |address: std::net::SocketAddr| {
        let listener = TcpListener::bind(address).await;
        listener.with_context(|| format!("could not listen on {address}"))
    };
    let clients = listen(address(&flags.server_bind_address, flags.server_port)?).await?;
    let of_agents = listen(address(&flags.agent_bind_address, flags.agent_port)?).await?;
    info!(clients = %clients.local_addr()?, agents = %of_agents.local_addr()?, "serves the tunnel");
    let (for_clients, for_agents) = (stop.clone(), stop);
    tokio::join!(
        server.serve(Port::Front, clients, front, clients_only(), for_clients),
        server.serve(
            Port::Agents,
            of_agents,
            agents,
            peer::only(identities::PROXY_AGENT),
            for_agents,
        ),
    );
    Ok(())
}

/// Lets in the proxy client. Upstream's manager names its certificate after a host and puts it into no group; an agent
/// is in one, and is not let in.
fn clients_only() -> Admit {
    Arc::new(|peer| {
        let name = &peer.common_name;
        let is_host = peer.organizations.is_empty() && !name.is_empty() && !name.contains(':');
        if name == identities::PROXY_CLIENT && peer.organizations.is_empty() || is_host {
            return Ok(());
        }
        Err(format!(
            "certificate of {name:?}, wanted {:?}",
            identities::PROXY_CLIENT
        ))
    })
}

#[cfg(test)]
mod tests {
    use konnectivity::peer::Peer;

    use super::*;

    #[test]
    fn no_agent_comes_in_by_the_port_of_clients() {
        let admits = |name: &str, group: Option<&str>| {
            let peer = Peer {
                common_name: name.to_owned(),
                organizations: group.map(str::to_owned).into_iter().collect(),
            };
            clients_only()(&peer).is_ok()
        };
        assert!(admits(identities::PROXY_CLIENT, None));
        assert!(admits("127.0.0.1", None), "as upstream's manager names it");
        assert!(!admits(identities::PROXY_AGENT, Some(identities::GROUP)));
        assert!(!admits(identities::PROXY_AGENT, None));
        assert!(!admits("127.0.0.1", Some(identities::GROUP)));
        assert!(!admits("", None));
    }
}
