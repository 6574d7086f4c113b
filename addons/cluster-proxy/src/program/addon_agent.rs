//! `/agent`: the heartbeat of the add-on on a cluster, and the local end of the entry point PortForward.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::Parser;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use ocm_addon_sdk::{
    AddOnAgent,
    agent::renew,
    k8s_openapi::api::core::v1::Pod,
    kube::{Api, Client, ResourceExt, api::ListParams},
    program::{self, Pages, Place},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{Logging, pod_namespace};
use crate::NAME;

/// Where the proxy-agent of the pod says whether it is connected.
const PROXY_AGENT: &str = ":8093";
/// The page for the probe of the proxy-agent.
const HEALTH: &str = ":8888";
/// Where the proxy-agent connects to with the entry point PortForward.
const LOCAL: &str = ":8091";
/// The port of the proxy servers for agents.
const REMOTE: u16 = 8091;
/// The pods of the proxy servers.
const SERVERS: &str = "proxy.open-cluster-management.io/component-name=proxy-server";
/// A page that has not answered by then does not.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
/// How long a beat waits for the tunnel, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(50);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Connections through the local end at once.
const CONNECTIONS_MAX: usize = 64;

/// Beat for the add-on cluster-proxy on a cluster
#[derive(Debug, Parser)]
#[command(name = "agent", disable_version_flag = true)]
pub struct AddonAgentFlags {
    /// The kubeconfig of the hub
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    hub_kubeconfig: PathBuf,
    /// The cluster's name
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    cluster_name: String,
    /// The namespace of the proxy servers on the hub
    #[arg(long, value_name = "NAMESPACE", default_value = "open-cluster-management-addon")]
    proxy_server_namespace: String,
    /// Whether the proxy-agent reaches the proxy servers through this process
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    enable_port_forward_proxy: bool,
    /// Whether the Lease is renewed only while the proxy-agent is connected
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    enable_proxy_agent_health_check: bool,
    #[command(flatten)]
    logging: Logging,
}

pub async fn run(flags: AddonAgentFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    let namespace = pod_namespace()?;
    if flags.cluster_name.is_empty() {
        anyhow::bail!("--cluster-name is missing: the name of the cluster on the hub");
    }
    let managed = place.client(None).await?;
    let forwards = Arc::new(AtomicBool::new(!flags.enable_port_forward_proxy));
    let of_page = forwards.clone();
    let unchanged = unchanged(vec![place.file("/etc/tls/tls.crt"), place.file("/etc/tls/tls.key")]);
    let pages = Pages::new().healthy(move || {
        unchanged()?;
        let forwards = of_page.load(Ordering::Relaxed);
        if forwards {
            Ok(())
        } else {
            Err("the port-forward proxy is not ready".to_owned())
        }
    });
    let address = |text: &str| program::address(text).map_err(anyhow::Error::msg);
    pages.serve(address(HEALTH)?, &stop).await?;
    let hub = if flags.hub_kubeconfig.as_os_str().is_empty() {
        place.client(None).await
    } else {
        place.hub_client(&flags.hub_kubeconfig, &stop).await
    };
    let hub = match hub {
        Ok(hub) => hub,
        // Told to stop while it waited for its credential.
        Err(_) if stop.is_cancelled() => return Ok(()),
        Err(error) => return Err(error),
    };
    if flags.enable_port_forward_proxy {
        let local = local_end(hub.clone(), &flags.proxy_server_namespace).await?;
        let stop = stop.clone();
        forwards.store(true, Ordering::Relaxed);
        tokio::spawn(async move {
            tokio::select! {
                () = local => {}
                () = stop.cancelled() => {}
            }
        });
    }
    let beats = AddOnAgent {
        add_on: NAME.to_owned(),
        cluster: flags.cluster_name,
        namespace,
        hub: Some(hub),
        managed: managed.clone(),
        home: managed,
        stop: stop.clone(),
    };
    let checks = flags.enable_proxy_agent_health_check;
    let proxy_agent = address(PROXY_AGENT)?;
    let proxy_agent = match program::pod_address() {
        Some(own) => (own, proxy_agent.port()).into(),
        None => ([127, 0, 0, 1], proxy_agent.port()).into(),
    };
    renew(&beats, async || !checks || is_connected(proxy_agent).await).await;
    Ok(())
}

/// Whether the proxy-agent is connected; one that is about to be is waited for.
async fn is_connected(proxy_agent: std::net::SocketAddr) -> bool {
    let connected = async {
        while !answers(proxy_agent).await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, connected).await.is_ok()
}

async fn answers(address: std::net::SocketAddr) -> bool {
    let asking = async {
        let stream = TokioIo::new(TcpStream::connect(address).await.ok()?);
        let (mut http, connection) = hyper::client::conn::http1::handshake(stream).await.ok()?;
        tokio::spawn(connection);
        let request = Request::get("/readyz").header(http::header::HOST, "localhost");
        let answer = http
            .send_request(request.body(Empty::<Bytes>::new()).ok()?)
            .await
            .ok()?;
        Some(answer.status() == StatusCode::OK)
    };
    let answered = tokio::time::timeout(ANSWERED_WITHIN, asking).await;
    answered.ok().flatten().unwrap_or_default()
}

/// Fails when a file is another than at the start: the containers are started anew. One that came later is none.
fn unchanged(files: Vec<PathBuf>) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let known: Vec<_> = files
        .into_iter()
        .map(|path| {
            let text = std::fs::read(&path).ok();
            (path, parking_lot::Mutex::new(text))
        })
        .collect();
    move || {
        for (path, before) in &known {
            let Ok(now) = std::fs::read(path) else { continue };
            let mut before = before.lock();
            match &*before {
                None => *before = Some(now),
                Some(before) if *before != now => return Err(format!("{} has changed", path.display())),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Listens for the proxy-agent; each connection goes to a proxy server by port-forward.
async fn local_end(hub: Client, namespace: &str) -> Result<impl Future<Output = ()> + Send + use<>> {
    let mut address = program::address(LOCAL).map_err(anyhow::Error::msg)?;
    if program::pod_address().is_none() {
        address.set_ip([127, 0, 0, 1].into());
    }
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("could not listen on {address}"))?;
    info!(%address, "running local port-forward proxy");
    let pods: Api<Pod> = Api::namespaced(hub, namespace);
    let room = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    Ok(async move {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = room.clone().try_acquire_owned() else {
                debug!("too many connections");
                continue;
            };
            let pods = pods.clone();
            tokio::spawn(async move {
                if let Err(error) = forward(stream, &pods).await {
                    warn!("a connection to the proxy servers has failed: {error:#}");
                }
                drop(permit);
            });
        }
    })
}

async fn forward(mut stream: TcpStream, pods: &Api<Pod>) -> Result<()> {
    let found = pods.list(&ListParams::default().labels(SERVERS)).await?;
    let is_running = |it: &Pod| {
        let phase = it.status.as_ref().and_then(|it| it.phase.as_deref());
        phase == Some("Running") && it.metadata.deletion_timestamp.is_none()
    };
    let running: Vec<Pod> = found.items.into_iter().filter(is_running).collect();
    // Any: the proxy-agent connects until it has seen each.
    let pod = rand::seq::IndexedRandom::choose(&*running, &mut rand::rng());
    let pod = pod.context("no pod of the proxy servers runs")?;
    let mut forwarding = pods.portforward(&pod.name_any(), &[REMOTE]).await?;
    let mut remote = forwarding.take_stream(REMOTE).context("the pod has no such port")?;
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut remote).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_lease_needs_a_proxy_agent_that_is_connected() {
        let connected = Arc::new(AtomicBool::new(false));
        let of_page = connected.clone();
        let pages = Pages::new().ready(move || {
            let is_connected = of_page.load(Ordering::Relaxed);
            is_connected.then_some(()).ok_or_else(|| "not connected".to_owned())
        });
        let stop = CancellationToken::new();
        let address = pages.serve(([127, 0, 0, 1], 0).into(), &stop).await.unwrap();
        assert!(!answers(address).await);
        connected.store(true, Ordering::Relaxed);
        assert!(answers(address).await);
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(!answers(nobody).await);
    }

    #[test]
    fn a_renewed_certificate_starts_the_containers_anew() {
        let folder = std::env::temp_dir().join(format!("addon-agent-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("tls.crt");
        let check = unchanged(vec![file.clone()]);
        assert_eq!(check(), Ok(()), "it may come later");
        std::fs::write(&file, "one").unwrap();
        assert_eq!(check(), Ok(()));
        std::fs::write(&file, "two").unwrap();
        assert!(check().unwrap_err().ends_with("tls.crt has changed"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
