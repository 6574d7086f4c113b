//! The program of upstream's image: `manager`, with its flags.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser};
use ocm_addon_sdk::{
    kube::Client,
    program::{self, LeaderElection, PageAddresses, Pages, Place},
    reconcile::{Caches, Clients, Controller, controller},
    values::settings::parse_bool,
};
use tokio_util::sync::CancellationToken;

use crate::{
    basic::{self, BasicPullSettings},
    gitops::{self, GitOpsSettings},
};

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["manager"];

/// The Lease of the leader.
const LEASE: &str = "argocd-pull-integration.open-cluster-management.io";

/// Argo CD's Applications are carried out by clusters that pull them
#[derive(Debug, Parser)]
#[command(name = "manager", disable_version_flag = true)]
struct PullManagerFlags {
    /// What to do: controller carries out GitOpsClusters, basic wraps Applications into ManifestWorks
    #[arg(long, value_name = "MODE", default_value = "controller")]
    mode: String,
    /// The kubeconfig of the hub [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Where metrics are served; 0 for nowhere
    #[arg(long, value_name = "HOST:PORT", default_value = "0")]
    metrics_bind_address: String,
    /// Whether metrics are served with TLS alone; then none are
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", require_equals = true,
          value_name = "BOOL", value_parser = go_flag)]
    metrics_secure: bool,
    /// Where /healthz and /readyz are served; 0 for nowhere
    #[arg(long, value_name = "HOST:PORT", default_value = ":8081")]
    health_probe_bind_address: String,
    /// Whether of several processes one does the work
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", require_equals = true,
          value_name = "BOOL", value_parser = go_flag)]
    leader_elect: bool,
    /// Mode basic: the namespace of Argo CD
    #[arg(long, value_name = "NAMESPACE", default_value = "argocd")]
    argocd_namespace: String,
    /// Mode basic: how often ManifestWorks without Application are looked for, in minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 5)]
    manifestwork_cleanup_interval: u64,
    #[command(flatten)]
    accepted: AcceptedFlags,
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

/// Runs the program with its arguments, without its name, until it ends or is told to stop.
pub fn run(_: &str, arguments: Vec<OsString>, place: &Place) -> ExitCode {
    let words = std::iter::once("manager".into()).chain(program::with_two_dashes(arguments));
    match program::parsed(PullManagerFlags::try_parse_from(words)) {
        Ok(flags) => program::run(async |stop| serve(flags, place, stop).await),
        Err(code) => code,
    }
}

/// The controllers of a mode.
type Made = Box<dyn Fn(&Caches) -> Vec<Controller> + Send + Sync>;

/// What a mode runs.
fn controllers(flags: &PullManagerFlags) -> Result<Made> {
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
            Ok(Box::new(move |caches| basic::controllers(caches, &settings)))
        }
        "controller" => {
            let settings = GitOpsSettings {
                controller_image: std::env::var("CONTROLLER_IMAGE").ok(),
            };
            Ok(Box::new(move |caches| gitops::controllers(caches, &settings)))
        }
        other => bail!("--mode: there is no mode {other:?}; write controller or basic"),
    }
}

async fn serve(flags: PullManagerFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    let made = controllers(&flags)?;
    let client = place.client(flags.kubeconfig.as_deref()).await?;
    let addresses = PageAddresses {
        metrics: &flags.metrics_bind_address,
        secure_metrics: flags.metrics_secure && flags.metrics_bind_address != "0",
        probes: &flags.health_probe_bind_address,
    };
    addresses
        .serve(Pages::new().healthy(|| Ok(())).ready(|| Ok(())), &stop)
        .await?;
    let namespace = place.namespace().unwrap_or_else(|| flags.argocd_namespace.clone());
    let election = flags.leader_elect.then(|| LeaderElection::new(namespace, LEASE));
    let made = std::sync::Arc::new(made);
    let work = move |client: Client, stop: CancellationToken| {
        let made = made.clone();
        async move {
            let caches = Caches::new(client.clone(), stop.clone());
            for one in controller::start_all(made(&caches), &Clients::hub(client), &stop) {
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
        let all = flags(&["-leader-elect", "--metrics-secure=F", "--zap-devel", "--mode=basic"]);
        assert!(all.leader_elect && !all.metrics_secure);
        assert!(controllers(&all).is_ok());
    }

    #[test]
    fn an_unknown_mode_is_an_error() {
        let error = |words: &[&str]| controllers(&flags(words)).err().unwrap().to_string();
        assert!(error(&["--mode=x"]).starts_with("--mode: there is no mode \"x\""));
        let minutes = error(&["--mode=basic", "--manifestwork-cleanup-interval=0"]);
        assert!(
            minutes.starts_with("--manifestwork-cleanup-interval: 0 is no number"),
            "{minutes}"
        );
    }
}
