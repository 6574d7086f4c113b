//! The program of upstream's image on the hub: `governance-policy-propagator`, with its flags.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use clap::Parser;
use ocm_addon_sdk::{
    kube::Client,
    program::{self, LeaderElection, LoggingFlags, PageAddresses, Pages, Place},
    reconcile::{Caches, Clients, async_trait, controller},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{HubConnection, PropagatorSettings, controllers};

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["governance-policy-propagator"];

const LEASE: &str = "policy-propagator.open-cluster-management.io";
/// No flag changes the port, as upstream.
const WEBHOOKS: &str = ":9443";
/// Where upstream's webhook server looks for tls.crt and tls.key.
const CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";

/// Brings Policies to the clusters that they are bound to
#[derive(Debug, Parser)]
#[command(name = "governance-policy-propagator", disable_version_flag = true)]
struct Flags {
    /// The kubeconfig of the hub [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where metrics are served; 0 turns them off
    #[arg(long, value_name = "HOST:PORT", default_value = ":8383")]
    metrics_bind_address: String,
    /// Accepted: metrics are served without encryption, on the address of the pod
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    secure_metrics: bool,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "HOST:PORT", default_value = ":8081")]
    health_probe_bind_address: String,
    /// Whether one of several processes is elected to do the work
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Whether the API server's webhooks for Policies and PolicySets are answered, on port 9443
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    enable_webhooks: bool,
    /// After how many days the key of a cluster is changed
    #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    encryption_key_rotation: u32,
    /// How many keys are changed at a time
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    key_rotation_max_concurrency: u16,
    /// Functions that hub templates may not use, besides env and expandenv
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    template_function_denylist: Vec<String>,
    /// Whether PlacementRules are left alone [default: whether their definition is missing]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    disable_placementrule: bool,
    /// How many replicas are worked on at a time
    #[arg(long, value_name = "N", default_value_t = 10)]
    replicated_policy_max_concurrency: u16,
    /// How many Policies' states are worked on at a time
    #[arg(long, value_name = "N", default_value_t = 5)]
    policy_status_max_concurrency: u16,
    /// Accepted: what binds Policies is worked on with their replicas
    #[arg(long, value_name = "N", default_value_t = 2)]
    root_policy_max_concurrency: u16,
    /// Accepted: metrics are told when they are asked for
    #[arg(long, value_name = "N", default_value_t = 5)]
    policy_metrics_max_concurrency: u16,
    /// The oldest TLS that webhooks are answered with
    #[arg(long, value_name = "VERSION", default_value = "")]
    tls_min_version: String,
    /// The cipher suites of TLS 1.2 that webhooks are answered with [default: all that are safe]
    #[arg(long, value_name = "SUITES", default_value = "")]
    tls_cipher_suites: String,
    #[command(flatten)]
    logging: LoggingFlags,
}

/// What of the propagator's webhooks its command line and its place say; [`REVIEWS`](super::admission::REVIEWS) says
/// what they answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropagatorWebhooks {
    /// Where to listen.
    pub address: SocketAddr,
    /// The folder of the certificate, if somebody keeps one.
    pub certificates: PathBuf,
    /// The namespace of the pod; `None` outside of one.
    pub namespace: Option<String>,
    /// As the flag has it; empty for what is usual.
    pub tls_min_version: String,
    /// As the flag has it; empty for all.
    pub tls_cipher_suites: String,
}

/// Whoever answers webhooks over TLS. A binary with webhooks of its own answers them all in one way.
#[async_trait]
pub trait WebhookServer: Send + Sync {
    /// Answers until `stop`, in tasks of its own.
    ///
    /// # Errors
    /// When they cannot be answered there, or so.
    async fn start(&self, hub: &Client, webhooks: PropagatorWebhooks, stop: &CancellationToken) -> Result<()>;
}

/// Runs the program with its arguments, without its name, until it is told to stop.
pub fn run(_: &str, arguments: Vec<OsString>, place: &Place, webhooks: &dyn WebhookServer) -> ExitCode {
    let words = std::iter::once("governance-policy-propagator".into()).chain(program::with_two_dashes(arguments));
    match program::parsed(Flags::try_parse_from(words)) {
        Ok(flags) => program::run(async |stop| serve(flags, place, webhooks, stop).await),
        Err(code) => code,
    }
}

async fn serve(flags: Flags, place: &Place, webhooks: &dyn WebhookServer, stop: CancellationToken) -> Result<()> {
    // As upstream: whoever forgets the variable does not get all namespaces by mistake.
    let namespaces = std::env::var("WATCH_NAMESPACE").map_err(|_| anyhow::anyhow!("WATCH_NAMESPACE must be set"))?;
    if !namespaces.trim().is_empty() {
        bail!("WATCH_NAMESPACE names namespaces ({namespaces}): leave it empty, replicas are in those of all clusters");
    }
    let pages = PageAddresses {
        metrics: &flags.metrics_bind_address,
        // The flag is accepted, and metrics are served as they are.
        secure_metrics: false,
        probes: &flags.health_probe_bind_address,
    };
    let probes = Pages::new().healthy(|| Ok(())).ready(|| Ok(()));
    pages.serve(probes, &stop).await?;
    let client = place.client(flags.kubeconfig.as_deref()).await?;
    let namespace = place.namespace();
    if flags.enable_webhooks {
        // Whoever is not elected answers, too.
        let asked = PropagatorWebhooks {
            address: program::address(WEBHOOKS).map_err(anyhow::Error::msg)?,
            certificates: place.file(CERTIFICATES),
            namespace: namespace.clone(),
            tls_min_version: flags.tls_min_version,
            tls_cipher_suites: flags.tls_cipher_suites,
        };
        webhooks.start(&client, asked, &stop).await?;
    }
    let settings = PropagatorSettings {
        placement_rules: !flags.disable_placementrule,
        metrics_of_states: !std::env::var("DISABLE_REPORT_METRICS").is_ok_and(|it| it.eq_ignore_ascii_case("true")),
        replicas_at_once: flags.replicated_policy_max_concurrency.into(),
        statuses_at_once: flags.policy_status_max_concurrency.into(),
        days_of_keys: flags.encryption_key_rotation,
        keys_at_once: flags.key_rotation_max_concurrency.into(),
        denied_functions: flags.template_function_denylist,
        connection: Some(HubConnection(place.config(flags.kubeconfig.as_deref()).await?)),
    };
    info!("propagates policies");
    let work = move |client: Client, end: CancellationToken| {
        let settings = settings.clone();
        async move {
            let caches = Caches::new(client.clone(), end.clone());
            let running = controller::start_all(controllers(&caches, &settings), &Clients::hub(client), &end);
            for one in running {
                let _ = one.finished.await;
            }
        }
    };
    let elected_in = namespace.filter(|_| flags.leader_elect);
    let election = elected_in.map(|it| LeaderElection::new(it, LEASE));
    program::lead_if(client, election, work, stop).await
}
