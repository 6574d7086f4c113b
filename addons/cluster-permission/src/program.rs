//! The program of upstream's image: `cluster-permission`, with its flags.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use clap::Parser;
use ocm_addon_sdk::{
    kube::Client,
    program::{self, LeaderElection, Pages, Place},
    reconcile::{Clients, controller},
};
use tokio_util::sync::CancellationToken;

use crate::controllers;

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["cluster-permission"];

/// Where metrics are served; no flag changes it.
const METRICS: &str = ":8286";
/// The Lease of the leader.
const LEASE: &str = "cluster-permission-leader.open-cluster-management.io";
const LEASE_NAMESPACE: &str = "kube-system";

/// Carries out ClusterPermissions on a hub
#[derive(Debug, Parser)]
#[command(name = "cluster-permission", disable_version_flag = true)]
struct Flags {
    /// The kubeconfig of the hub [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Accepted; metrics are served on port 8286
    #[arg(long, value_name = "HOST:PORT", default_value = "")]
    metrics_addr: String,
    /// How long the others wait after a leader's last word, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 137)]
    leader_election_lease_duration: u64,
    /// After how long without a word a leader stops, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 107)]
    leader_election_renew_deadline: u64,
    /// How often a leader gives word, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 26)]
    leader_election_retry_period: u64,
    /// Accepted: what is logged is chosen by $RUST_LOG
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    zap_devel: Option<String>,
    /// Accepted
    #[arg(long, require_equals = false)]
    zap_encoder: Option<String>,
    /// Accepted
    #[arg(long)]
    zap_log_level: Option<String>,
    /// Accepted
    #[arg(long)]
    zap_stacktrace_level: Option<String>,
    /// Accepted
    #[arg(long)]
    zap_time_encoding: Option<String>,
}

/// Runs the program with its arguments, without its name, until it is told to stop.
pub fn run(_: &str, arguments: Vec<OsString>, place: &Place) -> ExitCode {
    let words = std::iter::once("cluster-permission".into()).chain(program::with_two_dashes(arguments));
    match program::parsed(Flags::try_parse_from(words)) {
        Ok(flags) => program::run(async |stop| serve(flags, place, stop).await),
        Err(code) => code,
    }
}

async fn serve(flags: Flags, place: &Place, stop: CancellationToken) -> Result<()> {
    let client = place.client(flags.kubeconfig.as_deref()).await?;
    let address = program::address(METRICS).map_err(anyhow::Error::msg)?;
    let pages = Pages::new().healthy(|| Ok(())).ready(|| Ok(())).metrics();
    pages.serve(address, &stop).await.context("metrics")?;
    // As upstream: whoever runs it by hand with a kubeconfig is alone.
    if flags.kubeconfig.is_some() || std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
        work(client, stop).await;
        return Ok(());
    }
    let election = LeaderElection {
        lease_duration: Duration::from_secs(flags.leader_election_lease_duration),
        renew_deadline: Duration::from_secs(flags.leader_election_renew_deadline),
        retry_period: Duration::from_secs(flags.leader_election_retry_period),
        ..LeaderElection::new(LEASE_NAMESPACE, LEASE)
    };
    program::lead(client, election, work, stop).await
}

/// Runs the controllers until `stop`.
async fn work(client: Client, stop: CancellationToken) {
    let caches = ocm_addon_sdk::hub::Caches::new(client.clone(), stop.clone());
    let running = controller::start_all(controllers(&caches), &Clients::hub(client), &stop);
    for one in running {
        let _ = one.finished.await;
    }
}
