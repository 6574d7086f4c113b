//! An embedded Kubernetes API: its objects, its port, its administrator's kubeconfig.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow};
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Client,
    config::{Context as KubeContext, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedContext},
};
use kube_api::{
    admission::Admission,
    authn::TrustedProxies,
    clock::Clock,
    identity::{AUTHENTICATED, MASTERS, User},
    pages::ServedPage,
    pki::{self, Pki},
    pod_logs::PodLogs,
    pod_streams::PodStreams,
    server::{Options, Server},
};
use output::private_file;
use serde_json::json;
use tokio::{net::TcpListener, task::JoinHandle};
use tracing::warn;

use crate::addon_versions::AddOnVersions;

/// How long the certificates in our kubeconfigs are valid. Nothing takes one back, so that a copy which got lost should
/// not open the API for ever; the files are made anew with each start, and while a process runs when two thirds
/// of that are over.
const CERTIFICATE_SECONDS: i64 = 365 * 24 * 60 * 60;
/// How often it is looked whether a kubeconfig has to be made anew.
const LOOK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// What one embedded API server has and another has not.
#[derive(Default)]
pub struct Settings {
    /// Admission plug-ins, in order.
    pub admission: Vec<Arc<dyn Admission>>,
    /// How long Events live after they were last written; an hour by default.
    pub event_ttl: Option<Duration>,
    /// Proxies in front that are believed about who asks; none by default.
    pub front_proxy: Option<TrustedProxies>,
}

/// Reads `--event-ttl`: a duration as Go writes it.
///
/// # Errors
/// What is wrong with the text, for whoever typed it.
pub fn event_ttl(text: &str) -> Result<Duration, String> {
    match kube_primitives::duration::parse(text) {
        Some(it) if it.is_positive() => Ok(it.unsigned_abs()),
        _ => Err("not a duration above nothing, such as 1h, 90m or 30s".to_owned()),
    }
}

/// A running embedded API server.
pub struct Embedded {
    name: String,
    server: Server,
    address: SocketAddr,
    url: String,
    listening: JoinHandle<()>,
}

impl Embedded {
    /// Opens the objects and serves them on `listener`. Without a directory they are in memory only.
    pub async fn start(
        name: &str,
        data_dir: Option<PathBuf>,
        listener: TcpListener,
        settings: Settings,
    ) -> Result<Self> {
        let address = listener.local_addr().context("the listener has no address")?;
        let options = Options {
            data_dir,
            address: Some(address),
            admission: settings.admission,
            event_ttl: settings.event_ttl,
            front_proxy: settings.front_proxy,
            conversion: vec![Arc::new(AddOnVersions)],
            parties: Some(Arc::new(crate::parties::of)),
            ..Options::default()
        };
        let server = Server::open(options)
            .await
            .with_context(|| format!("could not start the API server of {name}"))?;
        let listening = server
            .listen(listener)
            .with_context(|| format!("could not serve the API of {name} over TLS"))?;
        Ok(Self {
            name: name.to_owned(),
            server,
            address,
            url: format!("https://{address}"),
            listening,
        })
    }

    /// The name it was started under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whom it asks for the logs of pods.
    pub fn set_pod_logs(&self, logs: Arc<dyn PodLogs>) {
        self.server.set_pod_logs(logs);
    }

    /// Who reaches into its pods.
    pub fn set_pod_streams(&self, streams: Arc<dyn PodStreams>) {
        self.server.set_pod_streams(streams);
    }

    /// Whom it asks for all paths that begin so.
    pub fn set_page(&self, prefix: &str, page: Arc<dyn ServedPage>) {
        self.server.set_page(prefix, page);
    }

    /// Its objects.
    pub fn store(&self) -> &Arc<kube_store::Store> {
        self.server.store()
    }

    /// A client that speaks to it in process, as an administrator.
    pub fn client(&self, user: &str) -> Client {
        Client::new(
            self.server.service(User::new(user, &[MASTERS, AUTHENTICATED])),
            "default",
        )
    }

    /// A client that speaks to it in process, as somebody with no rights but those of these groups.
    #[cfg(test)]
    pub fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        Client::new(self.server.service(User::new(user, groups)), "default")
    }

    /// The CA that signed its certificate, in PEM.
    pub fn ca(&self) -> &str {
        self.server.pki().ca_pem()
    }

    /// Keeps the kubeconfig of an administrator in these files: it is written now,
    /// and anew well before its certificate ends, until the server stops.
    ///
    /// # Errors
    /// When it cannot be written now.
    pub fn keep_admin_kubeconfig(&self, files: Vec<PathBuf>, clock: Clock) -> Result<()> {
        let issuer = self.issuer();
        let mut renew_at = match issuer.write_admin(&files, clock.now()) {
            Ok(it) => it,
            // Who has started before starts again on a full disk too.
            Err(error) if files.iter().all(|it| it.exists()) => {
                not_renewed(&error);
                clock.now()
            }
            Err(error) => return Err(error),
        };
        let stop = self.server.stopping().clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = clock.wait(LOOK_AGAIN) => {}
                }
                let now = clock.now();
                if now < renew_at {
                    continue;
                }
                match issuer.write_admin(&files, now) {
                    Ok(next) => renew_at = next,
                    Err(error) => not_renewed(&error),
                }
            }
        });
        Ok(())
    }

    /// Makes kubeconfigs for it.
    pub fn issuer(&self) -> Issuer {
        Issuer {
            pki: self.server.pki().clone(),
            name: self.name.clone(),
            url: self.url.clone(),
        }
    }

    /// A kubeconfig that says where the server is and what its CA is, and nothing else.
    pub fn public_kubeconfig(&self) -> Result<String> {
        client::bootstrap::public_kubeconfig(&self.url, self.ca())
    }

    /// How a program reaches the server that brings a credential of its own.
    ///
    /// # Errors
    /// When the CA cannot be read.
    pub async fn connection(&self) -> Result<kube::Config> {
        let mut config = Kubeconfig::from_yaml(&self.public_kubeconfig()?)?;
        config.auth_infos.push(NamedAuthInfo::default());
        config.contexts.push(NamedContext {
            context: Some(KubeContext {
                user: Some(String::new()),
                ..KubeContext::default()
            }),
            ..NamedContext::default()
        });
        Ok(kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?)
    }

    /// Lets connections drain and closes the objects.
    pub async fn stop(self) {
        self.server.stop(Some(self.listening)).await;
    }
}

fn not_renewed(error: &anyhow::Error) {
    warn!(
        error = format!("{error:#}"),
        "could not renew the administrator's kubeconfig, will retry"
    );
}

/// Makes kubeconfigs for an embedded API server.
pub struct Issuer {
    pki: Arc<Pki>,
    name: String,
    url: String,
}

impl Issuer {
    /// A kubeconfig with a client certificate for this user, which the server's CA signs here and now.
    ///
    /// # Errors
    /// When the certificate cannot be made.
    pub fn kubeconfig(&self, user: &str, groups: &[&str], now: Timestamp) -> Result<String> {
        let made = self
            .pki
            .issue_client_certificate(user, groups, CERTIFICATE_SECONDS, now);
        let made = made.map_err(|error| anyhow!("could not make a client certificate of {}: {error}", self.name))?;
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": self.name, "cluster": {
                "server": self.url,
                "certificate-authority-data": BASE64_STANDARD.encode(self.pki.ca_pem()),
            } }],
            "contexts": [{ "name": self.name, "context": { "cluster": self.name, "user": user } }],
            "current-context": self.name,
            "users": [{ "name": user, "user": {
                "client-certificate-data": BASE64_STANDARD.encode(&made.certificate_pem),
                "client-key-data": BASE64_STANDARD.encode(&made.key_pem),
            } }],
        });
        output::yaml(&kubeconfig)
    }

    /// Writes that of an administrator; says when to do so again.
    fn write_admin(&self, files: &[PathBuf], now: Timestamp) -> Result<Timestamp> {
        let text = self.kubeconfig("kubernetes-admin", &[MASTERS], now)?;
        for file in files {
            private_file::write(file, &text)?;
        }
        Ok(pki::renew_at(now, now + SignedDuration::from_secs(CERTIFICATE_SECONDS)))
    }
}

#[cfg(test)]
#[path = "embedded_tests.rs"]
mod tests;
