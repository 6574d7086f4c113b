//! The rules for who writes clusters, sets, works and add-ons, brought to API servers, and the conversion of the add-on
//! kinds. The rules themselves are plain functions of `registration` and `work`. The embedded API asks them in process
//! ([`admission`]); a Kubernetes that is not ours asks the hub by webhooks ([`reviews`]), for which the hub makes its
//! own certificate and tells the API server where to ask.
//! Upstream: three Deployments that registration-operator sets up; names, paths and rules are theirs.

pub mod add_on;
pub mod admission;
mod certificate;
mod certificate_times;
mod configurations;
pub mod reviews;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use arc_swap::ArcSwap;
use clap::Args;
use jiff::Timestamp;
use kube::Client;
use process::{
    certificate_files::CertificateFiles,
    serving::{self, Tls},
};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::certificate::{Held, Keeper, SecretPlace};

/// After a look that failed.
const RETRY: Duration = Duration::from_secs(10);

/// What a hub leaves on an API server for its webhooks, as manifests without content: to take it away.
pub fn configurations() -> Vec<serde_json::Value> {
    configurations::names()
}

/// What says where webhooks are answered.
#[derive(Debug, Clone, Default, Args)]
pub struct WebhookFlags {
    /// Answer the API server's webhooks here: the rules for who writes clusters, sets and works, and the conversion of
    /// the add-on kinds. A `drover up` needs none, its API has them
    #[arg(long, value_name = "HOST:PORT", value_parser = serving::address, requires = "reached", help_heading = "Webhooks")]
    webhook_listen: Option<SocketAddr>,
    /// The Service in the namespace open-cluster-management-hub by which the API server reaches them
    #[arg(
        long,
        value_name = "NAME",
        group = "reached",
        requires = "webhook_listen",
        help_heading = "Webhooks"
    )]
    webhook_service: Option<String>,
    /// Where the API server reaches them when it is not by a Service
    #[arg(long, value_name = "https://HOST:PORT", group = "reached", requires = "webhook_listen", value_parser = client::bootstrap::parse_server, help_heading = "Webhooks")]
    webhook_url: Option<String>,
    /// Show the certificate tls.crt with the key tls.key of this folder, as they are at any time, and leave it to
    /// others to tell the API server
    #[arg(
        long,
        value_name = "DIR",
        group = "reached",
        requires = "webhook_listen",
        help_heading = "Webhooks"
    )]
    webhook_certificates: Option<PathBuf>,
}

/// How an API server comes to the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reached {
    /// By a Service in the hub's namespace.
    Service(String),
    /// By a URL without a path.
    Url(String),
}

impl Reached {
    /// The names that the certificate is for.
    fn names(&self) -> Result<Vec<String>> {
        let namespace = ocm_api::namespaces::HUB;
        match self {
            Self::Service(name) => Ok(names_of_service(namespace, name)),
            Self::Url(url) => {
                let parsed = url::Url::parse(url)?;
                let host = parsed.host_str().unwrap_or_default();
                Ok(vec![host.trim_matches(['[', ']']).to_owned()])
            }
        }
    }
}

/// What an API server calls a Service by.
fn names_of_service(namespace: &str, name: &str) -> Vec<String> {
    ["svc", "svc.cluster.local"]
        .map(|domain| format!("{name}.{namespace}.{domain}"))
        .to_vec()
}

impl WebhookFlags {
    /// Whether webhooks are to be answered.
    pub fn are_wanted(&self) -> bool {
        self.webhook_listen.is_some()
    }

    /// Answers webhooks until `stop`, if that was asked for. Returns when the API server has been told. The hub's
    /// namespace and kinds are there: [`hub::prepare`] has put them there.
    ///
    /// # Errors
    /// When the address is taken, or the certificate cannot be kept.
    pub async fn start(
        &self,
        hub: &Client,
        options: &hub::Options,
        rules: &Tls,
        stop: &CancellationToken,
    ) -> Result<()> {
        let Some(address) = self.webhook_listen else {
            return Ok(());
        };
        if let Some(folder) = &self.webhook_certificates {
            let files = CertificateFiles::in_directory(folder);
            let tls = Arc::new(ArcSwap::from(files.read(rules)?));
            let listener = listen(address).await?;
            tokio::spawn(files.follow(rules.clone(), tls.clone(), stop.clone()));
            tokio::spawn(serving::serve(
                listener,
                tls,
                reviews::of_hub(hub, options),
                stop.clone(),
            ));
            return Ok(());
        }
        let reached = match (&self.webhook_service, &self.webhook_url) {
            (Some(name), _) => Reached::Service(name.clone()),
            (None, Some(url)) => Reached::Url(url.clone()),
            (None, None) => bail!("--webhook-listen wants --webhook-service or --webhook-url as well"),
        };
        let times = certificate_times::serving_certificate()?;
        let names = reached.names()?;
        let keeper = Keeper::new(hub.clone(), SecretPlace::of_hub(), names, times.life, rules.clone());
        let held = keeper.hold(Timestamp::now()).await?;
        let listener = listen(address).await?;
        let tls = Arc::new(ArcSwap::from(held.config.clone()));
        let pages = reviews::of_hub(hub, options);
        tokio::spawn(serving::serve(listener, tls.clone(), pages, stop.clone()));
        let kept = Kept {
            hub: hub.clone(),
            asks: Asks::Ours(reached),
            keeper,
            look_again: times.look_again,
        };
        let pause = kept.tell(&held.authorities).await?;
        tokio::spawn(follow(kept, held.authorities, pause, tls, stop.clone()));
        Ok(())
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("--webhook-listen {address}"))?;
    info!(address = %listener.local_addr()?, "answers webhooks");
    Ok(listener)
}

/// What makes an API server ask.
enum Asks {
    /// The configurations that a hub writes itself.
    Ours(Reached),
    /// Configurations, by kind and name, that were installed with the Service that they name.
    Installed {
        configurations: &'static [(&'static str, &'static str)],
        namespace: String,
        service: &'static str,
    },
}

/// What is looked after.
struct Kept {
    hub: Client,
    asks: Asks,
    keeper: Keeper,
    /// How often it is looked whether the certificate was renewed by another process,
    /// and whether the API server still knows.
    look_again: Duration,
}

impl Kept {
    /// The certificate to show, and when to look again. The API server is told first: it trusts the authority of the
    /// certificate before, too.
    async fn look(&self) -> Result<(Held, Duration)> {
        let held = self.keeper.hold(Timestamp::now()).await?;
        let pause = self.tell(&held.authorities).await?;
        Ok((held, pause))
    }

    /// Tells the API server; when to look again.
    async fn tell(&self, authorities: &str) -> Result<Duration> {
        let is_told = match &self.asks {
            Asks::Ours(reached) => {
                configurations::configure(&self.hub, reached, authorities).await?;
                true
            }
            Asks::Installed {
                configurations,
                namespace,
                service,
            } => {
                let mut are_told = true;
                for it in *configurations {
                    are_told &= configurations::trust(&self.hub, *it, (namespace, service), authorities).await?;
                }
                are_told
            }
        };
        // A configuration that is installed later has to work soon.
        Ok(if is_told { self.look_again } else { RETRY })
    }
}

/// Renews the certificate in time, takes up what another process has renewed, and tells the API server again.
async fn follow(
    kept: Kept,
    mut told: String,
    mut pause: Duration,
    tls: Arc<ArcSwap<ServerConfig>>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = match kept.look().await {
            Ok((held, pause)) => {
                if held.authorities != told {
                    tls.store(held.config);
                    told = held.authorities;
                    info!("took up a renewed certificate for webhooks");
                }
                pause
            }
            Err(error) => {
                warn!(
                    error = format!("{error:#}"),
                    "could not look after the webhooks, will retry"
                );
                RETRY
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use hub::rbac;
    use k8s_openapi::api::rbac::v1::PolicyRule;
    use ocm_reconcile::rbac::Right;
    use serde_json::json;
    use testkit::{Ask, Asked, Site, site};

    use super::*;

    /// A right, and the verb and resource that its lack refuses.
    async fn refused_without(lacks: Option<&Ask>) -> (Asked, anyhow::Result<()>) {
        let site = Site::start().await.unwrap();
        let admin = site.client();
        hub::prepare(&admin).await.unwrap();
        let account = (ocm_api::namespaces::HUB, rbac::SERVICE_ACCOUNT);
        let user = site.user_of_hub().await;
        let left = |all: &[Right]| {
            let rules = site::rules(all).into_iter().flat_map(|it| {
                let (resources, verbs) = (it.resources.clone().unwrap_or_default(), it.verbs.clone());
                let pairs = resources
                    .into_iter()
                    .flat_map(move |resource| verbs.clone().into_iter().map(move |verb| (resource.clone(), verb)));
                pairs.map(move |(resource, verb)| PolicyRule {
                    resources: Some(vec![resource]),
                    verbs: vec![verb],
                    ..it.clone()
                })
            });
            let is_left = |it: &PolicyRule| {
                let group = it.api_groups.as_ref().map_or("", |it| it[0].as_str());
                let resource = it.resources.as_ref().map_or("", |it| it[0].as_str());
                lacks != Some(&Ask::new(group, resource, &it.verbs[0]))
            };
            rules.filter(is_left).collect::<Vec<_>>()
        };
        site.user_with(account, rbac::WEBHOOKS_ROLE, &left(rbac::WEBHOOKS))
            .await;
        let group = "rbac.authorization.k8s.io";
        let metadata = json!({"name": rbac::CERTIFICATE_ROLE, "namespace": account.0});
        let role = json!({
            "apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": metadata, "rules": left(rbac::CERTIFICATE),
        });
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": rbac::CERTIFICATE_ROLE},
            "subjects": [{"kind": "ServiceAccount", "name": account.1, "namespace": account.0}],
        });
        site.apply(&format!("{role}\n---\n{binding}")).await;
        let asked = Asked::default();
        let client = asked.over(Client::new(site.server.service(user), "default"));
        let stop = CancellationToken::new();
        let flags = WebhookFlags {
            webhook_listen: Some(([127, 0, 0, 1], 0).into()),
            webhook_service: Some("drover-hub-webhook".to_owned()),
            ..WebhookFlags::default()
        };
        let work = async {
            let rules = Tls::read("", "")?;
            flags.start(&client, &hub::Options::default(), &rules, &stop).await?;
            // The certificate of today is renewed in time.
            let keeper = Keeper::new(
                client.clone(),
                SecretPlace::of_hub(),
                Reached::Service("drover-hub-webhook".to_owned()).names()?,
                Duration::from_secs(30 * 24 * 3600),
                rules,
            );
            let later = Timestamp::now() + jiff::SignedDuration::from_hours(29 * 24);
            keeper.hold(later).await.map(drop)
        };
        let ended = work.await;
        stop.cancel();
        (asked, ended)
    }

    /// As of the hub's other rights, but that its webhooks are not a library's: they are sufficient, because nothing is
    /// refused, and minimal, because nothing works without one of them.
    #[tokio::test(flavor = "multi_thread")]
    async fn webhooks_need_exactly_their_permissions() {
        let (asked, ended) = refused_without(None).await;
        ended.unwrap();
        assert!(asked.heard().refused.is_empty(), "{:?}", asked.heard().refused);
        for right in rbac::WEBHOOKS.iter().chain(rbac::CERTIFICATE) {
            for resource in right.resources.split_whitespace() {
                for verb in right.verbs.split_whitespace() {
                    let lacks = Ask::new(right.group, resource, verb);
                    let (asked, ended) = refused_without(Some(&lacks)).await;
                    assert!(ended.is_err(), "nothing needs {lacks}");
                    assert!(!asked.heard().refused.is_empty(), "{lacks}");
                }
            }
        }
    }

    #[test]
    fn the_certificate_names_match_what_the_api_server_calls() {
        let names = |it: Reached| it.names().unwrap();
        assert_eq!(
            names(Reached::Service("a".into())),
            [
                "a.open-cluster-management-hub.svc",
                "a.open-cluster-management-hub.svc.cluster.local"
            ]
        );
        assert_eq!(names(Reached::Url("https://127.0.0.1:9443".into())), ["127.0.0.1"]);
        assert_eq!(names(Reached::Url("https://[::1]:9443".into())), ["::1"]);
        assert_eq!(names(Reached::Url("https://hub.example:9443".into())), ["hub.example"]);
    }
}
