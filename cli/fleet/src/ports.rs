//! Which port each embedded API server listens on. Always on loopback: nothing of `drover up` is meant for a network.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
};

use anyhow::{Context, Result, bail};
use tokio::net::TcpListener;

/// How ports are chosen.
#[derive(Debug, Clone, Default)]
pub struct Ports {
    /// What the user fixed: the first server's port, the next ones follow it.
    pub first: Option<u16>,
    /// What each server had last time; kept if still free, so that kubeconfigs stay good.
    pub before: BTreeMap<String, u16>,
}

impl Ports {
    /// Takes the port of the server `name`, which is the `index`-th to ask.
    pub async fn take(&self, name: &str, index: u16) -> Result<TcpListener> {
        if let Some(first) = self.first {
            let Some(port) = first.checked_add(index) else {
                bail!("--port {first} leaves no port for {name}; choose a lower one");
            };
            return match bind(port).await {
                Ok(listener) => Ok(listener),
                Err(error) => Err(refused(name, port, &error)),
            };
        }
        if let Some(port) = self.before.get(name)
            && let Ok(listener) = bind(*port).await
        {
            return Ok(listener);
        }
        bind(0)
            .await
            .with_context(|| format!("could not find a free port for {name}"))
    }
}

async fn bind(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}

fn refused(name: &str, port: u16, error: &std::io::Error) -> anyhow::Error {
    let fix = "stop who uses it, choose another with --port, or leave --port out to take a free one";
    match error.kind() {
        ErrorKind::AddrInUse => anyhow::anyhow!("port {port}, wanted for {name}, is in use; {fix}"),
        ErrorKind::PermissionDenied => {
            anyhow::anyhow!("port {port}, wanted for {name}, is reserved for the administrator; use one from 1024 on")
        }
        _ => anyhow::anyhow!("could not listen on port {port} for {name}: {error}; {fix}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_requested_port_in_use_is_an_error() {
        let taken = bind(0).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let ports = Ports {
            first: Some(port),
            ..Ports::default()
        };
        let error = ports.take("hub", 0).await.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("port {port}, wanted for hub, is in use; ")),
            "{error}"
        );
    }

    #[tokio::test]
    async fn the_previous_port_is_reused_only_if_it_is_free() {
        let taken = bind(0).await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let ports = Ports {
            before: [("hub".to_owned(), port)].into(),
            ..Ports::default()
        };
        let other = ports.take("hub", 0).await.unwrap();
        assert_ne!(other.local_addr().unwrap().port(), port);
        drop(taken);
        assert_eq!(ports.take("hub", 0).await.unwrap().local_addr().unwrap().port(), port);
    }

    #[tokio::test]
    async fn ports_beyond_the_last_one_are_refused() {
        let ports = Ports {
            first: Some(u16::MAX),
            ..Ports::default()
        };
        assert!(
            ports
                .take("cluster1", 1)
                .await
                .unwrap_err()
                .to_string()
                .contains("choose a lower one")
        );
    }
}
