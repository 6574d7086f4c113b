//! Whether a hub or an agent lives and is ready, and what it has done, for whoever runs it: `/healthz`, `/livez`,
//! `/readyz` and `/metrics`. They are served as upstream's programs serve them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use clap::Args;
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::serving::{self, ControllerPages, Tls};

/// What says where they are served.
#[derive(Debug, Clone, Default, Args)]
pub struct HealthFlags {
    /// Serve /healthz, /livez, /readyz and /metrics here, over TLS with a certificate of its own making; metrics are
    /// for whom the API server lets see them
    #[arg(long, value_name = "HOST:PORT", value_parser = serving::address, help_heading = "Health")]
    health_listen: Option<SocketAddr>,
    /// The lowest version of TLS that is served, here and where webhooks are: VersionTLS12 (the default) or
    /// VersionTLS13
    #[arg(
        long,
        value_name = "VERSION",
        default_value = "",
        hide_default_value = true,
        help_heading = "Health"
    )]
    tls_min_version: String,
    /// The cipher suites that are served, here and where webhooks are, by their IANA names; those of TLS 1.3 are always
    #[arg(
        long,
        value_name = "NAMES",
        default_value = "",
        hide_default_value = true,
        help_heading = "Health"
    )]
    tls_cipher_suites: String,
}

/// Whether the program does what it was started for. Not ready until it is said.
#[derive(Clone, Default)]
pub struct Ready(Arc<AtomicBool>);

impl Ready {
    /// From now on it is ready.
    pub fn say(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn is_said(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl HealthFlags {
    /// How TLS is served.
    ///
    /// # Errors
    /// When a version or a cipher suite is none.
    pub fn tls(&self) -> Result<Tls> {
        Tls::read(&self.tls_min_version, &self.tls_cipher_suites)
    }

    /// Serves until `stop`, if that was asked for. `api` says who may see the metrics.
    ///
    /// # Errors
    /// When the address is taken.
    pub async fn start(&self, api: &Client, stop: &CancellationToken) -> Result<Ready> {
        let ready = Ready::default();
        let Some(address) = self.health_listen else {
            return Ok(ready);
        };
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("--health-listen {address}"))?;
        info!(address = %listener.local_addr()?, "health and metrics");
        let site = ControllerPages {
            api: Arc::new(ArcSwap::from_pointee(api.clone())),
            page: None,
            ready: Some(ready.clone()),
        };
        let tls = self.tls()?.self_signed(stop)?;
        tokio::spawn(serving::serve(listener, tls, Arc::new(site), stop.clone()));
        Ok(ready)
    }
}
