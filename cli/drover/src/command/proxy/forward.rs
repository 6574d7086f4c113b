//! A port of a pod as a port of this machine, as `kubectl port-forward` has it.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A port of this machine, on loopback, that leads to a pod as long as this lives.
pub struct LocalPort {
    /// Where it is.
    pub address: SocketAddr,
    _stop: DropGuard,
}

impl LocalPort {
    /// Leads to `port` of a running pod with these labels.
    pub async fn open(client: &Client, namespace: &str, labels: &str, port: u16) -> Result<Self> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let pod = running(&pods, labels).await?;
        if pod.is_none() {
            bail!("no pod with labels {labels} runs in namespace {namespace} of the hub");
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let (ends, labels) = (stop.clone(), labels.to_owned());
        tokio::spawn(async move {
            while let Some(Ok((stream, _))) = tokio::select! {
                it = listener.accept() => Some(it),
                () = ends.cancelled() => None,
            } {
                let (pods, labels) = (pods.clone(), labels.clone());
                tokio::spawn(async move {
                    if let Err(error) = forward(stream, &pods, &labels, port).await {
                        eprintln!("a connection to the hub's pod has failed: {error:#}");
                    }
                });
            }
        });
        Ok(Self {
            address,
            _stop: stop.drop_guard(),
        })
    }
}

async fn running(pods: &Api<Pod>, labels: &str) -> Result<Option<Pod>> {
    let found = pods.list(&ListParams::default().labels(labels)).await;
    let found = found.context("could not look for the pods of the add-on")?;
    let is_running = |it: &Pod| it.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Running");
    Ok(found.items.into_iter().find(is_running))
}

async fn forward(mut stream: TcpStream, pods: &Api<Pod>, labels: &str, port: u16) -> Result<()> {
    let pod = running(pods, labels).await?.context("the pod has gone")?;
    let mut forwarding = pods.portforward(&pod.name_any(), &[port]).await?;
    let mut remote = forwarding.take_stream(port).context("the pod has no such port")?;
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut remote).await;
    Ok(())
}
