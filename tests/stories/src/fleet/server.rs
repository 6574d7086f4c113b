//! An API server that is there: its address, its CA and a client.

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::path::Path;

/// One that a kubeconfig names.
pub struct Server {
    pub client: Client,
    pub url: String,
    ca_pem: String,
}

impl Server {
    /// Reads an administrator's kubeconfig.
    pub async fn read(kubeconfig: &Path) -> Result<Self> {
        let read = Kubeconfig::read_from(kubeconfig).with_context(|| kubeconfig.display().to_string())?;
        let cluster = read.clusters.first().and_then(|it| it.cluster.clone());
        let cluster = cluster.context("the kubeconfig has no cluster")?;
        let url = cluster.server.context("the cluster has no server")?;
        let ca = cluster.certificate_authority_data.context("the cluster has no CA")?;
        let ca_pem = String::from_utf8(BASE64_STANDARD.decode(ca)?)?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
        Ok(Self {
            client: Client::try_from(config)?,
            url,
            ca_pem,
        })
    }

    /// What pods are told of it.
    pub fn for_pods(&self) -> Result<kube_node::ApiServer> {
        let url = url::Url::parse(&self.url)?;
        Ok(kube_node::ApiServer {
            host: url.host_str().context("the server has no host")?.to_owned(),
            port: url.port_or_known_default().context("the server has no port")?,
            ca_pem: self.ca_pem.clone(),
        })
    }
}

/// The port in a kubeconfig that an earlier run has left.
pub fn port_of(kubeconfig: &Path) -> Option<u16> {
    let read = Kubeconfig::read_from(kubeconfig).ok()?;
    let server = read.clusters.first()?.cluster.as_ref()?.server.clone()?;
    url::Url::parse(&server).ok()?.port()
}
