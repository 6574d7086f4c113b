//! `cluster-proxy user-server`.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use clap::Args;
use futures::StreamExt;
use ocm_addon_sdk::{kube::Client, program::Place};
use parking_lot::RwLock;
use rustls_pki_types::ServerName;
use tokio::{net::TcpStream, sync::Mutex};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Drain, Logging, pod_namespace, required, serving, tls_profile};
use crate::{
    allow_list::AllowList,
    followed,
    forward::AnyIo,
    trust::{ClientFiles, PairFiles, ServerFiles},
    user_server::{Tunnel, UserServer},
};

#[derive(Debug, Args)]
pub struct UserServerFlags {
    /// The host of the proxy servers
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Their port for clients
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    port: u16,
    /// The authority that the proxy servers are trusted by
    #[arg(long, value_name = "FILE", default_value = "/run/ca/ca.crt")]
    proxy_ca_cert: PathBuf,
    /// What is shown to the proxy servers
    #[arg(long, value_name = "FILE", default_value = "/run/tls/tls.crt")]
    proxy_cert: PathBuf,
    /// Its key
    #[arg(long, value_name = "FILE", default_value = "/run/tls/tls.key")]
    proxy_key: PathBuf,
    /// What is shown to users
    #[arg(long, value_name = "FILE")]
    server_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    server_key: Option<PathBuf>,
    /// The port for users
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    server_port: u16,
    /// The authority that service-proxies are trusted by
    #[arg(long, value_name = "FILE")]
    service_proxy_ca_cert: Option<PathBuf>,
    /// Accepted: the host of a service-proxy does not depend on it
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "open-cluster-management-agent-addon"
    )]
    agent_install_namespace: String,
    /// The ConfigMap of Services that may be reached, in $POD_NAMESPACE
    #[arg(long, value_name = "NAME", default_value = "cluster-proxy-exposed-services")]
    exposed_services_configmap: String,
    #[command(flatten)]
    drain: Drain,
    #[command(flatten)]
    logging: Logging,
}

pub async fn run(flags: UserServerFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    let pair = PairFiles {
        certificate: required(flags.server_cert, "the server-cert", place)?,
        key: required(flags.server_key, "the server-key", place)?,
    };
    if flags.server_port == 0 {
        anyhow::bail!("the server-port is required");
    }
    let service_proxies = required(flags.service_proxy_ca_cert, "the serviceproxy-ca-cert", place)?;
    let drain = flags.drain.read()?;
    let namespace = pod_namespace()?;
    let client = place.client(None).await?;
    let profile = tls_profile(client.clone(), &namespace, &stop).await;
    let tls = ServerFiles {
        pair,
        clients: None,
        profile,
        http2: false,
    };
    let tls = tls.serving().context("the certificate of the user-server")?;
    let front = Front::new(
        &flags.host,
        flags.port,
        ClientFiles {
            pair: Some(PairFiles {
                certificate: place.file(flags.proxy_cert),
                key: place.file(flags.proxy_key),
            }),
            trusted: place.file(flags.proxy_ca_cert),
            alpn: vec![b"h2".to_vec()],
        },
    )?;
    let trusted = ClientFiles {
        pair: None,
        trusted: service_proxies,
        alpn: vec![b"http/1.1".to_vec()],
    };
    let trusted = trusted.following().context("failed to load service proxy ca cert")?;
    let allowed: Arc<RwLock<AllowList>> = Arc::default();
    let name = &flags.exposed_services_configmap;
    follow_allow_list(client, &namespace, name, &allowed, &stop).await;
    let users = UserServer::new(front.tunnel(), trusted, allowed);
    let address = format!(":{}", flags.server_port);
    serving::serve(&address, tls, Arc::new(users), drain, stop).await
}

/// Follows the ConfigMap of Services that may be reached, from when this returns until `stop`.
pub async fn follow_allow_list(
    client: Client,
    namespace: &str,
    name: &str,
    allowed: &Arc<RwLock<AllowList>>,
    stop: &CancellationToken,
) {
    let mut states = followed::states(client, namespace, name);
    let what = format!("ConfigMap {namespace}/{name}");
    let take = move |data: Option<followed::ConfigMapData>, allowed: &RwLock<AllowList>| {
        let Some(data) = data else {
            info!("{what} is not there: no Service may be reached");
            *allowed.write() = AllowList::default();
            return;
        };
        match AllowList::read(&data) {
            Ok(list) => *allowed.write() = list,
            Err(why) => warn!("{what} cannot be used, the last good one still counts: {why}"),
        }
    };
    tokio::select! {
        first = states.next() => take(first.flatten(), allowed),
        () = stop.cancelled() => return,
    }
    let (allowed, stop) = (allowed.clone(), stop.clone());
    tokio::spawn(async move {
        while let Some(data) = tokio::select! { it = states.next() => it, () = stop.cancelled() => None } {
            take(data, &allowed);
        }
    });
}

/// A way to the proxy servers, which is opened again when it has gone.
#[derive(Clone)]
struct Front {
    host: String,
    port: u16,
    tls: Arc<dyn Fn() -> Arc<rustls::ClientConfig> + Send + Sync>,
    open: Arc<Mutex<Option<konnectivity::Client>>>,
}

impl Front {
    fn new(host: &str, port: u16, files: ClientFiles) -> Result<Self> {
        Ok(Self {
            host: host.to_owned(),
            port,
            tls: files.following().context("the certificate for the proxy servers")?,
            open: Arc::default(),
        })
    }

    fn tunnel(self) -> Tunnel {
        Arc::new(move |address| {
            let front = self.clone();
            Box::pin(async move {
                let unreachable = |error| std::io::Error::new(std::io::ErrorKind::NotConnected, error);
                let client = front.client().await.map_err(unreachable)?;
                let stream = client.dial(&address).await?;
                Ok(Box::new(stream) as Box<dyn AnyIo>)
            })
        })
    }

    async fn client(&self) -> std::io::Result<konnectivity::Client> {
        let mut open = self.open.lock().await;
        if let Some(client) = open.as_ref().filter(|it| it.is_open()) {
            return Ok(client.clone());
        }
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(self.host.clone()).map_err(std::io::Error::other)?;
        let stream = TlsConnector::from((self.tls)()).connect(name, stream).await?;
        let client = konnectivity::Client::connect(stream).await?;
        *open = Some(client.clone());
        Ok(client)
    }
}
