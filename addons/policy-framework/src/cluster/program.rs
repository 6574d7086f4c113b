//! The program of upstream's image: `governance-policy-framework-addon`, with its flags, and `trigger-uninstall`.
//! Upstream: `main.go`, `tool/options.go`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Result, bail};
use clap::Parser;
use ocm_addon_sdk::{
    AddOnAgent,
    agent::renew,
    kube::Client,
    program::{self, LeaderElection, LoggingFlags, PageAddresses, Pages, Place},
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{ADD_ON, SyncClients, SyncSite, synchronize, uninstall};

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["governance-policy-framework-addon"];

const DEPLOYMENT: &str = "governance-policy-framework-addon";
const NAMESPACE: &str = "open-cluster-management-agent-addon";
const LEASE: &str = "governance-policy-framework-addon.open-cluster-management.io";

/// Brings the policies of a cluster from its hub, and back what they say
#[derive(Debug, Parser)]
#[command(name = "governance-policy-framework-addon", disable_version_flag = true)]
struct Flags {
    /// The namespace of policies on the cluster
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    cluster_namespace: String,
    /// The namespace of the cluster on the hub [default: that of --cluster-namespace]
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    cluster_namespace_on_hub: String,
    /// The kubeconfig of the hub
    #[arg(long, value_name = "FILE", env = "HUB_CONFIG")]
    hub_cluster_configfile: Option<PathBuf>,
    /// The kubeconfig of the cluster [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE", env = "MANAGED_CONFIG")]
    managed_cluster_configfile: Option<PathBuf>,
    /// Whether the add-on's Lease is renewed
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    enable_lease: bool,
    /// The old spelling of --on-multicluster-hub
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    disable_spec_sync: bool,
    /// The cluster is the hub itself, and nothing is brought from it
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    on_multicluster_hub: bool,
    /// Kinds of Gatekeeper are left alone
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    disable_gatekeeper_sync: bool,
    /// Whether one of several processes is elected to do the work
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "HOST:PORT", default_value = ":8080")]
    health_probe_bind_address: String,
    /// Where metrics are served; 0 turns them off
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:8383")]
    metrics_bind_address: String,
    /// Metrics are to be served with TLS only, which this program cannot: it serves none
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    secure_metrics: bool,
    /// How many policies are worked on at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    evaluation_concurrency: u8,
    /// Accepted: the API server says how fast it can be asked
    #[arg(long, value_name = "N", default_value_t = 30.0)]
    client_max_qps: f32,
    /// Accepted, as --client-max-qps
    #[arg(long, value_name = "N", default_value_t = 45)]
    client_burst: u32,
    /// Accepted: nothing is served with TLS
    #[arg(long, value_name = "VERSION")]
    tls_min_version: Option<String>,
    /// Accepted: nothing is served with TLS
    #[arg(long, value_name = "SUITES")]
    tls_cipher_suites: Option<String>,
    #[command(flatten)]
    logging: LoggingFlags,
}

/// Prepares the removal of the add-on: all policies of the cluster are deleted
#[derive(Debug, Parser)]
#[command(
    name = "governance-policy-framework-addon trigger-uninstall",
    disable_version_flag = true
)]
struct TriggerFlags {
    /// The Deployment of the controllers
    #[arg(long, value_name = "NAME", default_value = DEPLOYMENT)]
    deployment_name: String,
    /// Its namespace
    #[arg(long, value_name = "NAMESPACE", default_value = NAMESPACE)]
    deployment_namespace: String,
    /// The namespace of the policies
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    policy_namespace: String,
    /// After this time it gives up; at least 30
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout_seconds: u32,
    /// The kubeconfig of the cluster [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    logging: LoggingFlags,
}

/// Runs the program with its arguments, without its name, until it ends or is told to stop.
pub fn run(_: &str, arguments: Vec<OsString>, place: &Place) -> ExitCode {
    let mut arguments = arguments.into_iter().peekable();
    if arguments.next_if(|it| it == "trigger-uninstall").is_some() {
        let words = std::iter::once("trigger-uninstall".into()).chain(arguments);
        return match program::parsed(TriggerFlags::try_parse_from(words)) {
            Ok(flags) => program::run(async |_| trigger(flags, place).await),
            Err(code) => code,
        };
    }
    let words = std::iter::once(DEPLOYMENT.into()).chain(arguments);
    match program::parsed(Flags::try_parse_from(words)) {
        Ok(flags) => program::run(async |stop| serve(flags, place, stop).await),
        Err(code) => code,
    }
}

async fn trigger(flags: TriggerFlags, place: &Place) -> Result<()> {
    if [
        &flags.deployment_name,
        &flags.deployment_namespace,
        &flags.policy_namespace,
    ]
    .iter()
    .any(|it| it.is_empty())
    {
        bail!("--deployment-name, --deployment-namespace, --policy-namespace must all have values");
    }
    if flags.timeout_seconds < 30 {
        bail!("--timeout-seconds must be set to at least 30 seconds");
    }
    let client = place.client(flags.kubeconfig.as_deref()).await?;
    let it = uninstall::Trigger {
        deployment: flags.deployment_name,
        deployment_namespace: flags.deployment_namespace,
        policy_namespace: flags.policy_namespace,
        settle: uninstall::SETTLE,
        timeout: Duration::from_secs(flags.timeout_seconds.into()),
    };
    uninstall::trigger(&client, &it).await
}

/// The namespace of the pod; `None` when it runs in none.
fn pod_namespace(place: &Place) -> Option<String> {
    if std::env::var("OSDK_FORCE_RUN_MODE").is_ok_and(|it| it == "local") {
        return None;
    }
    place.namespace()
}

async fn serve(flags: Flags, place: &Place, stop: CancellationToken) -> Result<()> {
    if flags.cluster_namespace.is_empty() {
        bail!("the --cluster-namespace flag must be provided");
    }
    let namespace_on_hub = match flags.cluster_namespace_on_hub.as_str() {
        "" => flags.cluster_namespace.clone(),
        given => given.to_owned(),
    };
    let said = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    let own_namespace = pod_namespace(place);
    let site = SyncSite {
        on_hub: flags.on_multicluster_hub
            || flags.disable_spec_sync
            || said("ON_MULTICLUSTERHUB").as_deref() == Some("true"),
        gatekeeper: !flags.disable_gatekeeper_sync,
        own_namespace: own_namespace.clone().unwrap_or_else(|| NAMESPACE.to_owned()),
        deployment: said("DEPLOYMENT_NAME").unwrap_or_else(|| DEPLOYMENT.to_owned()),
        instance: said("HOSTNAME").unwrap_or_default(),
        namespace: flags.cluster_namespace.clone(),
        namespace_on_hub: namespace_on_hub.clone(),
    };
    let pages = PageAddresses {
        metrics: &flags.metrics_bind_address,
        secure_metrics: flags.secure_metrics,
        probes: &flags.health_probe_bind_address,
    };
    let probes = Pages::new()
        .healthy(unchanged(flags.hub_cluster_configfile.as_deref()))
        .ready(|| Ok(()));
    pages.serve(probes, &stop).await?;
    let cluster = place.client(flags.managed_cluster_configfile.as_deref()).await?;
    let hub = match &flags.hub_cluster_configfile {
        Some(path) => place.hub_client(path, &stop).await,
        None => place.client(None).await,
    };
    let hub = match hub {
        Ok(hub) => hub,
        // Told to stop while it waited for its credential.
        Err(_) if stop.is_cancelled() => return Ok(()),
        Err(error) => return Err(error),
    };
    info!(namespace = %site.namespace, on_hub = site.on_hub, "synchronizes policies");
    let home = place.client(None).await.unwrap_or_else(|_| cluster.clone());
    let beats = AddOnAgent {
        add_on: ADD_ON.to_owned(),
        cluster: namespace_on_hub,
        namespace: site.own_namespace.clone(),
        hub: Some(hub.clone()),
        managed: cluster.clone(),
        home,
        stop: stop.clone(),
    };
    let has_lease = flags.enable_lease && own_namespace.is_some();
    let beats = async move {
        if has_lease {
            renew(&beats, async || true).await;
        }
    };
    let workers = usize::from(flags.evaluation_concurrency.max(1));
    let work = move |cluster: Client, end: CancellationToken| {
        let (hub, site) = (hub.clone(), site.clone());
        async move {
            synchronize(&SyncClients { hub, cluster }, site, workers, &end).await;
        }
    };
    let elected_in = own_namespace.filter(|_| flags.leader_elect);
    let election = elected_in.map(|it| LeaderElection::new(it, LEASE));
    let (led, ()) = tokio::join!(program::lead_if(cluster, election, work, stop), beats);
    led
}

/// Fails when the kubeconfig is another than at the start: the pod is started anew. One that came later is none: a pod
/// is started before its credential is there.
fn unchanged(file: Option<&Path>) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let read = |path: &Path| std::fs::read(path).ok();
    let known = file.map(|it| (it.to_owned(), Mutex::new(read(it))));
    move || {
        let Some((path, before)) = &known else { return Ok(()) };
        let Some(now) = read(path) else { return Ok(()) };
        let mut before = before.lock();
        match &*before {
            None => *before = Some(now),
            Some(before) if *before != now => return Err(format!("{} has changed", path.display())),
            Some(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_upstreams_manifests_are_read() {
        let words = [
            "x",
            "--enable-lease=true",
            "--hub-cluster-configfile=/var/run/klusterlet/kubeconfig",
            "--leader-elect=false",
            "--log-encoder=console",
            "--log-level=-1",
            "--v=-2",
            "--evaluation-concurrency=2",
            "--client-max-qps=30",
            "--client-burst=45",
            "--tls-min-version=VersionTLS12",
            "--disable-gatekeeper-sync=true",
            "--cluster-namespace=klusterlet-c1",
            "--cluster-namespace-on-hub=c1",
            "--secure-metrics=true",
            "--metrics-bind-address=0.0.0.0:8443",
            "--on-multicluster-hub",
        ];
        let flags = Flags::try_parse_from(words).unwrap();
        assert!(
            flags.enable_lease && !flags.leader_elect && flags.disable_gatekeeper_sync && flags.on_multicluster_hub
        );
        assert_eq!(flags.cluster_namespace_on_hub, "c1");
        let words = [
            "x",
            "--policy-namespace=c1",
            "--deployment-name=d",
            "--timeout-seconds",
            "60",
        ];
        let trigger = TriggerFlags::try_parse_from(words).unwrap();
        assert_eq!(
            (trigger.deployment_namespace.as_str(), trigger.timeout_seconds),
            (NAMESPACE, 60)
        );
    }
}
