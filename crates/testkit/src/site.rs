//! One Kubernetes in memory, with a client inside and TLS on loopback.

use std::net::SocketAddr;

use anyhow::Context;
use kube::Client;
use kube_api::{
    Options, Server,
    identity::{MASTERS, User},
};
use tokio::{net::TcpListener, task::JoinHandle};

/// A Kubernetes that forgets everything when it is dropped.
pub struct Site {
    /// The server.
    pub server: Server,
    /// Where it listens.
    pub address: SocketAddr,
    listening: JoinHandle<()>,
}

impl Site {
    /// Starts one on a free port.
    pub async fn start() -> anyhow::Result<Self> {
        credential::connection::install_crypto_provider();
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .context("could not listen on loopback")?;
        let address = listener.local_addr()?;
        let server = Server::open(Options {
            address: Some(address),
            ..Options::default()
        })
        .await?;
        let listening = server.listen(listener)?;
        Ok(Self {
            server,
            address,
            listening,
        })
    }

    /// A client in the same process that may do everything.
    pub fn client(&self) -> Client {
        Client::new(self.server.service(User::new("admin", &[MASTERS])), "default")
    }

    /// A kubeconfig with a client certificate for this user, who goes through TLS and RBAC like anybody else.
    pub fn kubeconfig(&self, user: &str, groups: &[&str]) -> anyhow::Result<String> {
        let pair = self
            .server
            .pki()
            .issue_client_certificate(user, groups, 3600, jiff::Timestamp::now())?;
        Ok(self
            .server
            .pki()
            .kubeconfig(&format!("https://{}", self.address), "hub", user, &pair))
    }

    /// Stops it.
    pub async fn stop(self) {
        self.server.stop(Some(self.listening)).await;
    }
}
