//! User-server, proxy server, proxy agent and service-proxy in this process, each at ports of its own.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use addon_cluster_proxy::{
    forward::{AnyIo, roots},
    hub::identities,
    service_proxy::{ClusterApi, ServiceProxy, callers::Callers},
    service_proxy_host, trust,
    user_server::{self, Serving, Tunnel, UserServer},
};
use anyhow::{Context, Result, ensure};
use konnectivity::{
    TunnelAgent, TunnelServer, agent, peer,
    server::{Limits, Port},
};
use kube::{Client, Config};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{elapsed, target};

/// The cluster.
const CLUSTER: &str = "cluster1";

/// An authority, and what it has issued for `127.0.0.1` and the service-proxy.
pub struct Keys {
    authority: String,
    serving: (String, String),
    agent: (String, String),
    client: (String, String),
}

impl Keys {
    pub fn new() -> Result<Self> {
        use ocm_addon_sdk::hub::authority::{Authority, Leaf, LeafUsage};
        let now = jiff::Timestamp::now();
        let day = Duration::from_secs(24 * 3600);
        let (authority, key) = Authority::create("bench", day * 2, now)?;
        let signer = Authority::read(authority.as_bytes(), key.as_bytes())?;
        let issue = |name: &str, usage| -> Result<_> {
            let leaf = Leaf {
                common_name: name.to_owned(),
                names: vec!["127.0.0.1".to_owned(), service_proxy_host(CLUSTER)],
                usage,
            };
            let issued = signer.issue(&leaf, day, now)?;
            Ok((issued.certificate_pem, issued.key_pem))
        };
        Ok(Self {
            serving: issue("server", LeafUsage::Server)?,
            agent: issue(identities::PROXY_AGENT, LeafUsage::Client)?,
            client: issue(identities::PROXY_CLIENT, LeafUsage::Client)?,
            authority,
        })
    }

    /// Everything as files: `ca.crt`, `server.crt`, `server.key`, `agent.crt` and so on.
    pub fn write(&self, folder: &std::path::Path) -> Result<()> {
        std::fs::write(folder.join("ca.crt"), &self.authority)?;
        for (name, (certificate, key)) in [
            ("server", &self.serving),
            ("agent", &self.agent),
            ("client", &self.client),
        ] {
            std::fs::write(folder.join(format!("{name}.crt")), certificate)?;
            std::fs::write(folder.join(format!("{name}.key")), key)?;
        }
        Ok(())
    }

    fn server(&self, clients: bool, http2: bool) -> Result<Arc<rustls::ServerConfig>> {
        let (certificate, key) = &self.serving;
        let pair = trust::pair(certificate.as_bytes(), key.as_bytes())?;
        let clients = clients.then_some(self.authority.as_bytes());
        Ok(Arc::new(trust::server(pair, clients, &Default::default(), http2)?))
    }

    pub fn trusting(&self) -> Result<Arc<ClientConfig>> {
        Ok(trust::client(roots(self.authority.as_bytes())?))
    }

    /// A client of the tunnel, or an agent.
    pub fn tunnel(&self, agent: bool) -> Result<Arc<ClientConfig>> {
        let (certificate, key) = if agent { &self.agent } else { &self.client };
        let (chain, key) = trust::pair(certificate.as_bytes(), key.as_bytes())?;
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots(self.authority.as_bytes())?)
            .with_client_auth_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config))
    }
}

/// An agent that serves these hosts, and leads to where `target` says.
pub fn agent(keys: &Keys, server: u16, hosts: &str, target: u16) -> Result<TunnelAgent> {
    let tls = keys.tunnel(true)?;
    Ok(TunnelAgent::new(agent::Options {
        id: hosts.to_owned(),
        identifiers: format!("host={hosts}"),
        server: Arc::new(move || {
            let tls = tls.clone();
            Box::pin(async move {
                let stream = connect(server, tls).await?;
                Ok(Box::new(stream) as Box<dyn agent::Io>)
            })
        }),
        target: Arc::new(move |_| agent::tcp(format!("127.0.0.1:{target}"))),
        connections: 10_000,
    }))
}

pub async fn connect(port: u16, tls: Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("127.0.0.1").map_err(io::Error::other)?;
    TlsConnector::from(tls).connect(name, stream).await
}

/// The way, and the same target without it.
pub struct TunnelWorld {
    trusting: Arc<ClientConfig>,
    users: u16,
    target: u16,
    _stop: DropGuard,
}

impl TunnelWorld {
    pub async fn start() -> Result<Self> {
        let keys = Keys::new()?;
        let stop = CancellationToken::new();
        let target = target::serve(keys.server(false, false)?).await?;
        let proxy = ServiceProxy::new(
            ClusterApi {
                address: format!("127.0.0.1:{target}"),
                name: "127.0.0.1".to_owned(),
                tls: keys.trusting()?,
                token: Arc::new(|| Ok(String::new())),
            },
            keys.trusting()?,
            // Nobody is asked who the caller is: what is measured is the way.
            Callers::new(
                Client::try_from(Config::new("http://127.0.0.1:1".parse()?))?,
                None,
                Duration::ZERO,
            ),
        );
        let (proxy_listener, ends) = (TcpListener::bind("127.0.0.1:0").await?, stop.clone());
        let proxy_port = proxy_listener.local_addr()?.port();
        let serving = always(keys.server(false, false)?);
        tokio::spawn(async move {
            user_server::serve(proxy_listener, serving, ends.clone(), ends, Arc::new(proxy)).await;
        });
        let tunnel = TunnelServer::new("bench", 1, Limits::default());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let agents = listener.local_addr()?.port();
        let (serves, ends, tls) = (tunnel.clone(), stop.clone(), always(keys.server(true, true)?));
        tokio::spawn(async move {
            serves
                .serve(Port::Agents, listener, tls, peer::only(identities::PROXY_AGENT), ends)
                .await;
        });
        let (agent, ends) = (
            agent(&keys, agents, &service_proxy_host(CLUSTER), proxy_port)?,
            stop.clone(),
        );
        tokio::spawn(async move { agent.run(ends, Duration::ZERO).await });
        let of_tunnel = tunnel.clone();
        let dial: Tunnel = Arc::new(move |address| {
            let tunnel = of_tunnel.clone();
            Box::pin(async move { Ok(Box::new(tunnel.dial(&address).await?) as Box<dyn AnyIo>) })
        });
        let trusted = keys.trusting()?;
        let server = UserServer::new(dial, Arc::new(move || trusted.clone()), Arc::default());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let users = listener.local_addr()?.port();
        let (tls, ends) = (always(keys.server(false, false)?), stop.clone());
        tokio::spawn(async move { server.serve(listener, tls, ends.clone(), ends).await });
        while tunnel.agents() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(Self {
            trusting: keys.trusting()?,
            users,
            target,
            _stop: stop.drop_guard(),
        })
    }

    async fn connect(&self, through: bool) -> Result<(TlsStream<TcpStream>, &'static str)> {
        let (port, prefix) = if through {
            (self.users, "/cluster1")
        } else {
            (self.target, "")
        };
        Ok((connect(port, self.trusting.clone()).await?, prefix))
    }

    /// Reads one answer of so many bytes.
    pub async fn download(&self, through: bool, length: usize) -> Result<()> {
        let (mut stream, prefix) = self.connect(through).await?;
        let request = format!("GET {prefix}/bytes/{length} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        // Otherwise TLS may keep it.
        stream.flush().await?;
        let mut piece = vec![0; 256 << 10];
        let mut read = 0;
        loop {
            match stream.read(&mut piece).await {
                Ok(0) => break,
                Ok(count) => read += count,
                // Some servers end without the last word of TLS.
                Err(_) if read > length => break,
                Err(error) => {
                    return Err(error).with_context(|| format!("after {read} of {length} bytes, through={through}"));
                }
            }
        }
        ensure!(read > length, "only {read} bytes came");
        Ok(())
    }

    /// How long small requests take, one after the other on one connection, in milliseconds.
    pub async fn latencies(&self, through: bool, count: usize) -> Result<Vec<f64>> {
        let (mut stream, prefix) = self.connect(through).await?;
        let request = format!("GET {prefix}/healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut times = Vec::new();
        let mut answer = Vec::new();
        for _ in 0..count {
            let begun = Instant::now();
            stream.write_all(request.as_bytes()).await?;
            stream.flush().await?;
            answer.clear();
            while !answer.ends_with(b"ok") {
                let read = stream.read_buf(&mut answer).await?;
                ensure!(read > 0, "the connection has ended");
            }
            times.push(elapsed(begun));
        }
        let text = String::from_utf8_lossy(&answer).into_owned();
        text.starts_with("HTTP/1.1 200").then_some(()).context(text)?;
        Ok(times)
    }
}

fn always(config: Arc<rustls::ServerConfig>) -> Serving {
    Arc::new(move || config.clone())
}
