//! The program of upstream's image: `manager`, with its flags.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser};
use ocm_addon_sdk::{
    duration,
    kube::Client,
    program::{self, LeaderElection, PageAddresses, Pages, Place},
    reconcile::{Caches, Clients, Controller, controller},
    values::settings::parse_bool,
};
use tokio_util::sync::CancellationToken;

use crate::{
    basic::{self, BasicPullSettings},
    cluster::{
        self, ArgoNamespaces, ArgoOperatorSettings,
        cleanup::{self, OperatorCleanup},
    },
    gitops::{self, GitOpsSettings},
};

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["manager"];

/// The Lease of the leader on the hub.
const LEASE: &str = "argocd-pull-integration.open-cluster-management.io";
/// The Lease of the leader on a cluster.
const LEASE_ON_CLUSTER: &str = "argocd-agent-addon-leader.open-cluster-management.io";

/// Argo CD's Applications are carried out by clusters that pull them
#[derive(Debug, Parser)]
#[command(name = "manager", disable_version_flag = true)]
struct PullManagerFlags {
    /// What to do. On the hub: controller carries out GitOpsClusters, basic wraps Applications into ManifestWorks.
    /// On a cluster: addon installs the operator of Argo CD, cleanup takes it away
    #[arg(long, value_name = "MODE", default_value = "controller")]
    mode: String,
    /// The kubeconfig of the hub, or of the cluster [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// On the hub: where metrics are served; 0 for nowhere
    #[arg(long, value_name = "HOST:PORT", default_value = "0")]
    metrics_bind_address: String,
    /// Whether metrics are served with TLS alone; then none are
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", require_equals = true,
          value_name = "BOOL", value_parser = go_flag)]
    metrics_secure: bool,
    /// On the hub: where /healthz and /readyz are served; 0 for nowhere
    #[arg(long, value_name = "HOST:PORT", default_value = ":8081")]
    health_probe_bind_address: String,
    /// On the hub: whether of several processes one does the work. In pods of a cluster one always does
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", require_equals = true,
          value_name = "BOOL", value_parser = go_flag)]
    leader_elect: bool,
    /// Mode basic: the namespace of Argo CD
    #[arg(long, value_name = "NAMESPACE", default_value = "argocd")]
    argocd_namespace: String,
    /// Mode basic: how often ManifestWorks without Application are looked for, in minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 5)]
    manifestwork_cleanup_interval: u64,
    /// Mode addon: how often everything is looked at even if nothing happens, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    sync_interval: u64,
    #[command(flatten)]
    election: ElectionFlags,
    #[command(flatten)]
    accepted: AcceptedFlags,
}

/// How fast a leader is elected on a cluster.
#[derive(Debug, Args)]
struct ElectionFlags {
    /// Mode addon: how long the others wait after a leader's last word
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    leader_election_lease_duration: Duration,
    /// Mode addon: after how long without a word a leader stops
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    leader_election_renew_deadline: Duration,
    /// Mode addon: how often a leader gives word, and the others look
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    leader_election_retry_period: Duration,
}

impl ElectionFlags {
    fn election(&self, namespace: String) -> LeaderElection {
        LeaderElection {
            lease_duration: self.leader_election_lease_duration,
            renew_deadline: self.leader_election_renew_deadline,
            retry_period: self.leader_election_retry_period,
            ..LeaderElection::new(namespace, LEASE_ON_CLUSTER)
        }
    }
}

/// Flags of upstream's program that ours has no use for.
#[derive(Debug, Args)]
struct AcceptedFlags {
    /// Accepted: there are no webhooks
    #[arg(long, value_name = "DIR")]
    webhook_cert_path: Option<String>,
    /// Accepted
    #[arg(long, value_name = "FILE")]
    webhook_cert_name: Option<String>,
    /// Accepted
    #[arg(long, value_name = "FILE")]
    webhook_cert_key: Option<String>,
    /// Accepted: metrics are served without TLS
    #[arg(long, value_name = "DIR")]
    metrics_cert_path: Option<String>,
    /// Accepted
    #[arg(long, value_name = "FILE")]
    metrics_cert_name: Option<String>,
    /// Accepted
    #[arg(long, value_name = "FILE")]
    metrics_cert_key: Option<String>,
    /// Accepted
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    enable_http2: Option<String>,
    /// Accepted: what is logged is chosen by $RUST_LOG
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    zap_devel: Option<String>,
    /// Accepted
    #[arg(long, value_name = "ENCODER")]
    zap_encoder: Option<String>,
    /// Accepted
    #[arg(long, value_name = "LEVEL")]
    zap_log_level: Option<String>,
    /// Accepted
    #[arg(long, value_name = "LEVEL")]
    zap_stacktrace_level: Option<String>,
    /// Accepted
    #[arg(long, value_name = "ENCODING")]
    zap_time_encoding: Option<String>,
}

fn go_flag(text: &str) -> Result<bool, String> {
    parse_bool(text).ok_or_else(|| format!("{text:?} is neither true nor false"))
}

fn go_duration(text: &str) -> Result<Duration, String> {
    let read = duration::parse(text).and_then(|it| Duration::try_from(it).ok());
    read.ok_or_else(|| format!("{text:?} is no duration; write 15s"))
}

/// A variable of the environment, if it is there and text.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs the program with its arguments, without its name, until it ends or is told to stop.
pub fn run(_: &str, arguments: Vec<OsString>, place: &Place) -> ExitCode {
    let words = std::iter::once("manager".into()).chain(program::with_two_dashes(arguments));
    match program::parsed(PullManagerFlags::try_parse_from(words)) {
        Ok(flags) => program::run(async |stop| serve(flags, place, stop).await),
        Err(code) => code,
    }
}

/// The controllers of a mode, on what this client speaks to.
type Made = Box<dyn Fn(&Client, &Caches) -> Vec<Controller> + Send + Sync>;

/// What a mode is.
enum Mode {
    /// It runs on the hub until it is told to stop.
    OnHub(Made),
    /// It runs on a cluster until it is told to stop.
    OnCluster(Made),
    /// It does its work on a cluster and ends.
    Cleanup(OperatorCleanup),
}

fn mode(flags: &PullManagerFlags, variable: impl Fn(&str) -> Option<String>) -> Result<Mode> {
    match flags.mode.as_str() {
        "basic" => {
            let minutes = flags.manifestwork_cleanup_interval;
            let cleanup_interval = minutes.checked_mul(60).filter(|it| *it > 0);
            let settings = BasicPullSettings {
                argo_cd_namespace: flags.argocd_namespace.clone(),
                cleanup_interval: cleanup_interval.map(Duration::from_secs).with_context(|| {
                    format!("--manifestwork-cleanup-interval: {minutes} is no number of minutes; write 5")
                })?,
            };
            Ok(Mode::OnHub(Box::new(move |_, caches| {
                basic::controllers(caches, &settings)
            })))
        }
        "controller" => {
            let settings = GitOpsSettings {
                controller_image: variable("CONTROLLER_IMAGE"),
                operator_image: variable("ARGOCD_OPERATOR_IMAGE"),
            };
            Ok(Mode::OnHub(Box::new(move |_, caches| {
                gitops::controllers(caches, &settings)
            })))
        }
        "addon" => {
            let seconds = flags.sync_interval;
            if seconds == 0 {
                bail!("--sync-interval: {seconds} is no number of seconds; write 60");
            }
            let image = variable("ARGOCD_OPERATOR_IMAGE").filter(|it| !it.is_empty());
            let settings = ArgoOperatorSettings {
                namespaces: ArgoNamespaces::said(variable),
                operator_image: image.unwrap_or_else(|| cluster::OPERATOR_IMAGE.to_owned()),
                sync_interval: Duration::from_secs(seconds),
            };
            Ok(Mode::OnCluster(Box::new(move |client, caches| {
                cluster::controllers(client, caches, &settings)
            })))
        }
        "cleanup" => {
            let said = variable("CLEANUP_VERIFICATION_WAIT_SECONDS");
            let verified_for = cleanup::verified_for(said.as_deref())?;
            Ok(Mode::Cleanup(OperatorCleanup::new(
                ArgoNamespaces::said(variable),
                verified_for,
            )))
        }
        other => bail!("--mode: there is no mode {other:?}; write controller, basic, addon or cleanup"),
    }
}

async fn serve(flags: PullManagerFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    let mode = mode(&flags, variable)?;
    let client = place.client(flags.kubeconfig.as_deref()).await?;
    match mode {
        Mode::OnHub(made) => {
            let addresses = PageAddresses {
                metrics: &flags.metrics_bind_address,
                secure_metrics: flags.metrics_secure && flags.metrics_bind_address != "0",
                probes: &flags.health_probe_bind_address,
            };
            let pages = Pages::new().healthy(|| Ok(())).ready(|| Ok(()));
            addresses.serve(pages, &stop).await?;
            let namespace = place.namespace().unwrap_or_else(|| flags.argocd_namespace.clone());
            let election = flags.leader_elect.then(|| LeaderElection::new(namespace, LEASE));
            lead(client, election, made, Clients::hub, stop).await
        }
        Mode::OnCluster(made) => {
            let election = place.namespace().map(|it| flags.election.election(it));
            lead(client, election, made, Clients::cluster, stop).await
        }
        Mode::Cleanup(it) => tokio::select! {
            done = cleanup::clean_up(&client, &it) => done,
            () = stop.cancelled() => bail!("told to stop before the operator of Argo CD was taken away"),
        },
    }
}

/// Runs controllers while this process leads.
async fn lead(
    client: Client,
    election: Option<LeaderElection>,
    made: Made,
    clients: fn(Client) -> Clients,
    stop: CancellationToken,
) -> Result<()> {
    let made = std::sync::Arc::new(made);
    let work = move |client: Client, stop: CancellationToken| {
        let made = made.clone();
        async move {
            let caches = Caches::new(client.clone(), stop.clone());
            for one in controller::start_all(made(&client, &caches), &clients(client), &stop) {
                let _ = one.finished.await;
            }
        }
    };
    program::lead_if(client, election, work, stop).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &[&str]) -> PullManagerFlags {
        let words = words.iter().map(OsString::from);
        let words = program::with_two_dashes(words);
        PullManagerFlags::try_parse_from(std::iter::once("manager".into()).chain(words)).unwrap()
    }

    #[test]
    fn flags_have_the_defaults_of_upstream() {
        let all = flags(&[]);
        assert_eq!(all.mode, "controller");
        assert_eq!((all.metrics_bind_address.as_str(), all.metrics_secure), ("0", true));
        assert_eq!(
            (all.health_probe_bind_address.as_str(), all.leader_elect),
            (":8081", false)
        );
        assert_eq!(
            (all.argocd_namespace.as_str(), all.manifestwork_cleanup_interval),
            ("argocd", 5)
        );
        assert_eq!(all.sync_interval, 60);
        let election = all.election.election("n".to_owned());
        assert_eq!(election.name, "argocd-agent-addon-leader.open-cluster-management.io");
        let times = [election.lease_duration, election.renew_deadline, election.retry_period];
        assert_eq!(times.map(|it| it.as_secs()), [15, 10, 2]);
        let all = flags(&["-leader-elect", "--metrics-secure=F", "--zap-devel", "--mode=basic"]);
        assert!(all.leader_elect && !all.metrics_secure);
        assert!(matches!(mode(&all, |_| None), Ok(Mode::OnHub(_))));
    }

    #[test]
    fn modes_of_clusters_take_their_flags_and_variables() {
        let words = [
            "--mode=addon",
            "--sync-interval=5",
            "--leader-election-lease-duration=1m30s",
            "--leader-election-renew-deadline",
            "1m",
            "-leader-election-retry-period=500ms",
        ];
        let all = flags(&words);
        assert!(matches!(mode(&all, |_| None), Ok(Mode::OnCluster(_))));
        let election = all.election.election("n".to_owned());
        let times = [election.lease_duration, election.renew_deadline, election.retry_period];
        assert_eq!(times.map(|it| it.as_millis()), [90_000, 60_000, 500]);
        let variable = |name: &str| match name {
            "CLEANUP_VERIFICATION_WAIT_SECONDS" => Some("60".to_owned()),
            "ARGOCD_NAMESPACE" => Some("gitops".to_owned()),
            _ => None,
        };
        let Ok(Mode::Cleanup(it)) = mode(&flags(&["--mode=cleanup"]), variable) else {
            panic!("not mode cleanup")
        };
        assert_eq!(it.namespaces.argo_cd, "gitops");
        assert_eq!(it.namespaces.operator, "argocd-operator-system");
        let times = [it.argo_cd_max, it.verified_for, it.verified_every];
        assert_eq!(times.map(|it| it.as_secs()), [120, 60, 20]);
    }

    #[test]
    fn a_mode_or_number_that_is_none_is_an_error() {
        let error = |words: &[&str]| mode(&flags(words), |_| Some("x".to_owned())).err().unwrap().to_string();
        assert_eq!(
            error(&["--mode=x"]),
            "--mode: there is no mode \"x\"; write controller, basic, addon or cleanup"
        );
        let minutes = error(&["--mode=basic", "--manifestwork-cleanup-interval=0"]);
        assert!(
            minutes.starts_with("--manifestwork-cleanup-interval: 0 is no number"),
            "{minutes}"
        );
        let seconds = error(&["--mode=addon", "--sync-interval=0"]);
        assert_eq!(seconds, "--sync-interval: 0 is no number of seconds; write 60");
        let variable = error(&["--mode=cleanup"]);
        assert!(
            variable.starts_with("CLEANUP_VERIFICATION_WAIT_SECONDS: "),
            "{variable}"
        );
        assert!(go_duration("soon").unwrap_err().contains("write 15s"));
    }
}
