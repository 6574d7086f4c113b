//! The program of upstream's image: `multicluster-operators-subscription`, with its flags. Without a kubeconfig of the
//! hub it is the hub's half, with one the cluster's, and with `--standalone` a cluster of its own.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser};
use ocm_addon_sdk::{
    AddOnAgent,
    agent::renew,
    hub::{Manager, Options},
    kube::Client,
    program::{self, LeaderElection, PageAddresses, Pages, Place},
    reconcile::{Caches, Clients, async_trait, controller},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    NAME,
    addon::{ApplicationManager, IMAGE},
    cluster::{self, ClusterClients, ClusterReaders},
    hub::{
        self, HubSettings,
        admission::ChannelAdmission,
        webhook::{self, PendingEvents, WebhookListener, WebhookTls},
    },
    source::SourceFetcher,
};

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["multicluster-operators-subscription"];

/// Where liveness is asked for; no flag changes the port.
const HEALTH: &str = ":8000";
/// Where Git servers tell of changes.
const WEBHOOKS: &str = ":8443";
/// The folder of the certificate for them, where no flag names another.
const WEBHOOK_CERTIFICATES: &str = "/etc/subscription";
/// The Service by which they come.
const WEBHOOK_SERVICE: &str = "multicluster-operators-subscription";
/// Where API servers ask.
const REVIEWS: &str = ":9443";
/// The folder of the certificate for them, if somebody keeps one.
const REVIEW_CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";
/// The namespace of leases outside of a pod.
const NAMESPACE: &str = "open-cluster-management-agent-addon";

/// Applications from Git, Helm repositories and buckets
#[derive(Debug, Parser)]
#[command(name = "multicluster-operators-subscription", disable_version_flag = true)]
struct SubscriptionFlags {
    /// Where metrics are served; 0 turns them off [default: port 8381 on a hub, 8388 on a cluster, 8389 standalone]
    #[arg(long, value_name = "HOST:PORT")]
    metrics_addr: Option<String>,
    /// The kubeconfig of the cluster [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig of the hub, on a managed cluster
    #[arg(long, value_name = "FILE")]
    hub_cluster_configfile: Option<PathBuf>,
    /// The name of the managed cluster
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    cluster_name: String,
    /// On the hub: how often reports are looked at even if nothing happens, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    sync_interval: u64,
    /// There is no hub: Subscriptions and Channels are here
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    standalone: bool,
    /// On the hub: the image of the agent
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    agent_image: String,
    /// The key of the listener for webhooks of Git servers [default: /etc/subscription/tls.key, or one of its own]
    #[arg(long, value_name = "FILE", requires = "tls_crt_file")]
    tls_key_file: Option<PathBuf>,
    /// The certificate of the listener for webhooks of Git servers [default: /etc/subscription/tls.crt, or one of its
    /// own]
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    tls_crt_file: Option<PathBuf>,
    /// The listener for webhooks of Git servers speaks plain HTTP
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    disable_tls: bool,
    /// There are no listeners for webhooks, of Git servers or of the API server
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    debug: bool,
    /// Channels may name Git repositories in this folder of the machine; may be repeated
    #[arg(long, value_name = "FOLDER")]
    git_folder: Vec<PathBuf>,
    #[command(flatten)]
    accepted: SubscriptionAcceptedFlags,
}

/// Flags of upstream's program that ours has no use for.
#[derive(Debug, Args)]
struct SubscriptionAcceptedFlags {
    /// Accepted: the Lease says how long it holds
    #[arg(long, value_name = "SECONDS")]
    lease_duration: Option<String>,
    /// Accepted
    #[arg(long, value_name = "DURATION")]
    leader_election_lease_duration: Option<String>,
    /// Accepted
    #[arg(long, value_name = "DURATION")]
    leader_election_renew_deadline: Option<String>,
    /// Accepted
    #[arg(long, value_name = "DURATION")]
    leader_election_retry_period: Option<String>,
    /// Accepted: what is logged goes to stderr, $RUST_LOG says how much
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    alsologtostderr: Option<String>,
    /// Accepted
    #[arg(long, short, value_name = "N", allow_hyphen_values = true)]
    v: Option<String>,
}

/// What of the API server's webhooks the program's place says.
pub struct ApplicationWebhooks {
    /// Where to listen.
    pub address: SocketAddr,
    /// The folder of the certificate, if somebody keeps one.
    pub certificates: PathBuf,
    /// The namespace of the pod; `None` outside of one.
    pub namespace: Option<String>,
    /// Who judges Channels.
    pub channels: ChannelAdmission,
}

/// Whoever answers the API server's webhooks over TLS, with what [`hub::admission`] and [`hub::identity`] say. A binary
/// with webhooks of its own answers them all in one way.
#[async_trait]
pub trait ApplicationWebhookServer: Send + Sync {
    /// Answers until `stop`, in tasks of its own.
    ///
    /// # Errors
    /// When they cannot be answered there, or so.
    async fn start(&self, hub: &Client, asked: ApplicationWebhooks, stop: &CancellationToken) -> Result<()>;
}

/// What the program is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Half {
    Hub,
    Cluster { hub: PathBuf, name: String },
    Standalone,
}

/// Runs the program with its arguments, without its name, until it ends or is told to stop.
pub fn run(name: &str, arguments: Vec<OsString>, place: &Place, webhooks: &dyn ApplicationWebhookServer) -> ExitCode {
    let words = std::iter::once(name.into()).chain(program::with_two_dashes(arguments));
    match program::parsed(SubscriptionFlags::try_parse_from(words)) {
        // Sources are read on threads of their own; one thread would have them wait for each other.
        Ok(flags) => program::run_threaded(async |stop| serve(flags, place, webhooks, stop).await),
        Err(code) => code,
    }
}

fn half(flags: &SubscriptionFlags) -> Result<Half> {
    match (&flags.hub_cluster_configfile, flags.standalone) {
        (Some(_), true) => bail!("--standalone and --hub-cluster-configfile cannot be used together"),
        (None, true) => Ok(Half::Standalone),
        (None, false) => Ok(Half::Hub),
        (Some(_), false) if flags.cluster_name.is_empty() => {
            bail!("--cluster-name must be the name of the managed cluster when there is --hub-cluster-configfile")
        }
        (Some(hub), false) => Ok(Half::Cluster {
            hub: hub.clone(),
            name: flags.cluster_name.clone(),
        }),
    }
}

async fn serve(
    flags: SubscriptionFlags,
    place: &Place,
    webhooks: &dyn ApplicationWebhookServer,
    stop: CancellationToken,
) -> Result<()> {
    let half = half(&flags)?;
    let (metrics, lease) = match &half {
        Half::Hub => (":8381", "hub"),
        Half::Cluster { .. } => (":8388", "remote"),
        Half::Standalone => (":8389", "standalone"),
    };
    let addresses = PageAddresses {
        metrics: flags.metrics_addr.as_deref().unwrap_or(metrics),
        secure_metrics: false,
        probes: HEALTH,
    };
    addresses
        .serve(Pages::new().healthy(|| Ok(())).ready(|| Ok(())), &stop)
        .await?;
    let client = place.client(flags.kubeconfig.as_deref()).await?;
    let opened = [&flags.git_folder[..], place.opened_folders()].concat();
    let sources = Arc::new(SourceFetcher::in_folder(place.file("/tmp"), &opened));
    let lease = format!("multicloud-operators-{lease}-subscription-leader.open-cluster-management.io");
    let election = place
        .namespace()
        .map(|_| LeaderElection::new("kube-system", lease.as_str()));
    info!(?half, "deploys applications");
    match half {
        Half::Hub => {
            if !flags.debug {
                // Whoever is not elected answers, too.
                let asked = ApplicationWebhooks {
                    address: program::address(REVIEWS).map_err(anyhow::Error::msg)?,
                    certificates: place.file(REVIEW_CERTIFICATES),
                    namespace: place.namespace(),
                    channels: ChannelAdmission::new(&Caches::new(client.clone(), stop.clone())),
                };
                webhooks.start(&client, asked, &stop).await?;
            }
            let settings = HubRun {
                tls: tls(&flags, place)?,
                flags: Arc::new(flags),
                sources,
                own_namespace: place.namespace(),
            };
            let work = move |client: Client, stop: CancellationToken| hub_half(client, settings.clone(), stop);
            program::lead_if(client, election, work, stop).await
        }
        Half::Standalone => {
            let work = move |client: Client, stop: CancellationToken| {
                let clients = ClusterClients {
                    hub: None,
                    cluster: client,
                };
                cluster_half(clients, String::new(), sources.clone(), stop)
            };
            program::lead_if(client, election, work, stop).await
        }
        Half::Cluster { hub, name } => {
            let hub = match place.hub_client(&hub, &stop).await {
                Ok(hub) => hub,
                // Told to stop while it waited for its credential.
                Err(_) if stop.is_cancelled() => return Ok(()),
                Err(error) => return Err(error),
            };
            let beats = AddOnAgent {
                add_on: NAME.to_owned(),
                cluster: name.clone(),
                namespace: place.namespace().unwrap_or_else(|| NAMESPACE.to_owned()),
                hub: Some(hub.clone()),
                managed: client.clone(),
                home: client.clone(),
                stop: stop.clone(),
            };
            let beats = async move { renew(&beats, async || true).await };
            let work = move |client: Client, stop: CancellationToken| {
                let clients = ClusterClients {
                    hub: Some(hub.clone()),
                    cluster: client,
                };
                cluster_half(clients, name.clone(), sources.clone(), stop)
            };
            let (led, ()) = tokio::join!(program::lead_if(client, election, work, stop), beats);
            led
        }
    }
}

#[derive(Clone)]
struct HubRun {
    flags: Arc<SubscriptionFlags>,
    /// With what Git servers are spoken to; `None` for plain HTTP.
    tls: Option<WebhookTls>,
    sources: Arc<SourceFetcher>,
    own_namespace: Option<String>,
}

async fn hub_half(client: Client, run: HubRun, stop: CancellationToken) {
    let caches = Caches::new(client.clone(), stop.clone());
    let settings = HubSettings {
        reader: run.sources.clone(),
        sync_interval: Duration::from_secs(run.flags.sync_interval.max(1)),
        trusted_identities: false,
        own_namespace: run.own_namespace.clone(),
        events: PendingEvents::default(),
    };
    if !run.flags.debug {
        let listener = WebhookListener::new(&caches, settings.events.clone());
        let listening = async {
            let address = program::address(WEBHOOKS).map_err(anyhow::Error::msg)?;
            anyhow::Ok(webhook::serve(address, run.tls.clone(), listener, &stop).await?)
        };
        match listening.await {
            Ok(address) => info!(%address, "hears webhooks of Git servers"),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "webhooks of Git servers are not heard"),
        }
    }
    let add_on = ApplicationManager {
        image: run.flags.agent_image.clone(),
    };
    let clients = Clients::hub(client.clone());
    let running = controller::start_all(hub::controllers(&caches, &settings), &clients, &stop);
    match Manager::start(client, &caches, Options::default(), stop.clone()).await {
        Ok(manager) => {
            if let Err(error) = manager.add(Arc::new(add_on)) {
                tracing::error!(%error, "the add-on is not delivered");
            }
            manager.finished().await;
        }
        Err(error) => tracing::error!(%error, "the add-on is not delivered"),
    }
    for one in running {
        let _ = one.finished.await;
    }
}

/// With what Git servers are spoken to. As upstream's, the program makes a certificate where nobody brings one.
fn tls(flags: &SubscriptionFlags, place: &Place) -> Result<Option<WebhookTls>> {
    let named = flags.tls_crt_file.clone().zip(flags.tls_key_file.clone());
    Ok(match named {
        _ if flags.disable_tls || flags.debug => None,
        Some((certificate, key)) => {
            let tls = webhook::tls::from_files(certificate, key);
            Some(tls.context("--tls-crt-file and --tls-key-file cannot be used")?)
        }
        None => {
            let folder = place.file(WEBHOOK_CERTIFICATES);
            let mut names = vec!["localhost".to_owned()];
            if let Some(namespace) = place.namespace() {
                names.extend(["svc", "svc.cluster.local"].map(|it| format!("{WEBHOOK_SERVICE}.{namespace}.{it}")));
            }
            let own = webhook::tls::from_files_or_own(folder.join("tls.crt"), folder.join("tls.key"), &names);
            Some(own.context("could not make a certificate for webhooks of Git servers")?)
        }
    })
}

async fn cluster_half(clients: ClusterClients, name: String, sources: Arc<SourceFetcher>, stop: CancellationToken) {
    let readers = ClusterReaders {
        sources: sources.clone(),
        charts: sources,
    };
    let running: Vec<_> = cluster::controllers(&clients, &name, &readers, &stop)
        .into_iter()
        .map(|(it, clients)| it.start(clients, stop.clone()))
        .collect();
    for one in running {
        let _ = one.finished.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> SubscriptionFlags {
        let words = program::with_two_dashes(words.iter().map(OsString::from));
        SubscriptionFlags::try_parse_from(std::iter::once("x".into()).chain(words)).unwrap()
    }

    #[test]
    fn command_lines_of_upstreams_manifests_are_read() {
        let agent = flags(&[
            "--alsologtostderr",
            "--cluster-name=c1",
            "--hub-cluster-configfile=/var/run/klusterlet/kubeconfig",
            "--leader-election-lease-duration=137s",
            "--leader-election-renew-deadline=107s",
            "--leader-election-retry-period=26s",
            "-v=4",
        ]);
        let cluster = Half::Cluster {
            hub: "/var/run/klusterlet/kubeconfig".into(),
            name: "c1".to_owned(),
        };
        assert_eq!(half(&agent).unwrap(), cluster);
        assert_eq!(half(&flags(&["--sync-interval=60"])).unwrap(), Half::Hub);
        assert_eq!(half(&flags(&["--standalone"])).unwrap(), Half::Standalone);
    }

    #[test]
    fn half_a_certificate_is_refused() {
        let error = SubscriptionFlags::try_parse_from(["x", "--tls-key-file=/k"]).unwrap_err();
        assert!(error.to_string().contains("--tls-crt-file"), "{error}");
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        let error = half(&flags(&["--hub-cluster-configfile=/f"])).unwrap_err();
        assert!(error.to_string().contains("--cluster-name"), "{error}");
        assert!(half(&flags(&["--hub-cluster-configfile=/f", "--standalone"])).is_err());
    }
}
