//! The program of upstream's image: `cert-policy-controller`, with its flags. Upstream: `main.go`.
//!
//! One thing differs: upstream reads `--default-duration` and does not use it. Here it counts if it is given; without
//! it a certificate may be valid as shortly as it likes, as there.

use std::{collections::BTreeSet, ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use clap::Parser;
use jiff::SignedDuration;
use ocm_addon_sdk::{
    AddOnAgent,
    agent::renew,
    duration,
    kube::Client,
    ocm_api::policy::OCM_POLICY_NAMESPACE,
    program::{self, LeaderElection, LoggingFlags, PageAddresses, Pages, Place},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{CertificateClients, CertificateSite, control};
use crate::NAME;

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["cert-policy-controller"];

const LEASE: &str = "cert-policy-controller.open-cluster-management.io";

/// Checks the certificates of a cluster against its CertificatePolicies
#[derive(Debug, Parser)]
#[command(name = "cert-policy-controller", disable_version_flag = true)]
struct Flags {
    /// After this time a policy is looked at again, even if nothing changes
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    update_frequency: u32,
    /// Accepted: who owns a policy is told
    #[arg(long, value_name = "WHETHER", default_value = "ifpresent")]
    parent_event: String,
    /// How long certificates must be valid still, where their policy does not say it; a Go duration [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = read_duration)]
    default_duration: Option<SignedDuration>,
    /// Whether the add-on's Lease is renewed
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    enable_lease: bool,
    /// Whether one of several processes is elected to do the work
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Whether policies of namespace open-cluster-management-policies are looked at, too
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    enable_ocm_policy_namespace: bool,
    /// The kubeconfig of the hub, for the Lease
    #[arg(long, value_name = "FILE", default_value = "/var/run/klusterlet/kubeconfig")]
    hub_kubeconfig_path: PathBuf,
    /// The kubeconfig of the cluster whose certificates are checked [default: the one where policies are]
    #[arg(long, value_name = "FILE")]
    target_kubeconfig_path: Option<PathBuf>,
    /// The kubeconfig of the cluster where policies are [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The name of the cluster
    #[arg(long, value_name = "NAME", default_value = "default-cluster")]
    cluster_name: String,
    /// Where metrics are served; 0 turns them off
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:8383")]
    metrics_bind_address: String,
    /// Metrics are to be served with TLS only, which this program cannot: it serves none
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    secure_metrics: bool,
    /// Where /healthz and /readyz are served; 0 turns them off
    #[arg(long, value_name = "HOST:PORT", default_value = ":8081")]
    health_probe_bind_address: String,
    /// Accepted: nothing is served with TLS
    #[arg(long, value_name = "VERSION")]
    tls_min_version: Option<String>,
    /// Accepted: nothing is served with TLS
    #[arg(long, value_name = "SUITES")]
    tls_cipher_suites: Option<String>,
    #[command(flatten)]
    logging: LoggingFlags,
}

fn read_duration(text: &str) -> Result<SignedDuration, String> {
    duration::parse(text).ok_or_else(|| "expected a duration of Go, such as 672h".to_owned())
}

/// Runs the program with its arguments, without its name, until it ends or is told to stop.
pub fn run(program: &str, arguments: Vec<OsString>, place: &Place) -> ExitCode {
    let words = std::iter::once(program.into()).chain(program::with_two_dashes(arguments));
    match program::parsed(Flags::try_parse_from(words)) {
        Ok(flags) => program::run(async |stop| serve(flags, place, stop).await),
        Err(code) => code,
    }
}

/// The namespaces of policies, of `$WATCH_NAMESPACE` and the flags; empty for all.
fn watched_namespaces(said: Option<String>, flags: &Flags) -> Result<Vec<String>> {
    let Some(said) = said else {
        bail!("WATCH_NAMESPACE must be set")
    };
    let mut namespaces: BTreeSet<&str> = said.split(',').map(str::trim).collect();
    // An empty name stands for all, those of others included.
    if namespaces.contains("") {
        return Ok(Vec::new());
    }
    if flags.enable_ocm_policy_namespace && flags.target_kubeconfig_path.is_none() {
        namespaces.insert(OCM_POLICY_NAMESPACE);
    }
    Ok(namespaces.into_iter().map(str::to_owned).collect())
}

async fn serve(flags: Flags, place: &Place, stop: CancellationToken) -> Result<()> {
    let said = |name: &str| std::env::var(name).ok();
    let namespaces = watched_namespaces(said("WATCH_NAMESPACE"), &flags)?;
    let pages = PageAddresses {
        metrics: &flags.metrics_bind_address,
        secure_metrics: flags.secure_metrics,
        probes: &flags.health_probe_bind_address,
    };
    let probes = Pages::new().healthy(|| Ok(())).ready(|| Ok(()));
    pages.serve(probes, &stop).await?;
    let home = place.client(flags.kubeconfig.as_deref()).await?;
    let target = match flags.target_kubeconfig_path.as_deref() {
        Some(path) => place.client(Some(path)).await?,
        None => home.clone(),
    };
    let site = CertificateSite {
        namespaces,
        instance: said("HOSTNAME").unwrap_or_default(),
        default_minimum: flags.default_duration.unwrap_or_default(),
        frequency: Duration::from_secs(flags.update_frequency.max(1).into()),
    };
    info!(namespaces = ?site.namespaces, "looks after policies");
    let beats = lease(&flags, place, home.clone(), target.clone(), stop.clone());
    let work = move |home: Client, end: CancellationToken| {
        let target = target.clone();
        let (clients, site) = (CertificateClients { home, target }, site.clone());
        async move { control(&clients, site, &end).await }
    };
    let elected_in = place.namespace().filter(|_| flags.leader_elect);
    let election = elected_in.map(|it| LeaderElection::new(it, LEASE));
    let (led, ()) = tokio::join!(program::lead_if(home, election, work, stop), beats);
    led
}

/// Renews the Lease of the add-on, where that is asked for: on the hub once it is there, and on the cluster of the
/// agent.
async fn lease(flags: &Flags, place: &Place, home: Client, target: Client, stop: CancellationToken) {
    let Some(namespace) = place.namespace().filter(|_| flags.enable_lease) else {
        return;
    };
    let kubeconfig = place.file(&flags.hub_kubeconfig_path);
    let agent = AddOnAgent {
        add_on: NAME.to_owned(),
        cluster: flags.cluster_name.clone(),
        namespace,
        hub: place.hub_client(&kubeconfig, &stop).await.ok(),
        managed: target,
        home,
        stop,
    };
    renew(&agent, async || true).await;
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::{AddOn, AddOnContext};
    use testkit::manifests::arguments;

    use super::*;
    use crate::addon::CertPolicy;

    fn flags(words: &[&str]) -> Flags {
        Flags::try_parse_from(std::iter::once("x").chain(words.iter().copied())).unwrap()
    }

    #[test]
    fn command_lines_of_upstreams_manifests_are_read() {
        let flags = flags(&[
            "--enable-lease=true",
            "--cluster-name=c1",
            "--update-frequency=30",
            "--default-duration=100h",
            "--parent-event=ifpresent",
            "--leader-elect=false",
            "--log-encoder=console",
            "--log-level=error",
            "--v=-2",
            "--secure-metrics=true",
            "--metrics-bind-address=0.0.0.0:8443",
            "--target-kubeconfig-path=/var/run/managed-kubeconfig/kubeconfig",
            "--tls-min-version=VersionTLS12",
        ]);
        assert!(flags.enable_lease && !flags.leader_elect && flags.update_frequency == 30);
        assert_eq!(flags.default_duration, Some(SignedDuration::from_hours(100)));
        assert!(Flags::try_parse_from(["x", "--default-duration=soon"]).is_err());
    }

    #[test]
    fn what_the_pod_of_the_chart_is_given_is_read() {
        let all = CertPolicy::default().manifests(&AddOnContext::new("c1", NAME)).unwrap();
        Flags::try_parse_from(std::iter::once("x".to_owned()).chain(arguments(&all))).unwrap();
    }

    #[test]
    fn several_namespaces_are_watched() {
        let watched = |said: Option<&str>, words: &[&str]| watched_namespaces(said.map(str::to_owned), &flags(words));
        assert_eq!(watched(Some("c1"), &[]).unwrap(), ["c1", OCM_POLICY_NAMESPACE]);
        assert_eq!(
            watched(Some("a, b"), &["--enable-ocm-policy-namespace=false"]).unwrap(),
            ["a", "b"]
        );
        assert_eq!(watched(Some("c1"), &["--target-kubeconfig-path=x"]).unwrap(), ["c1"]);
        assert!(watched(Some(""), &[]).unwrap().is_empty());
        assert_eq!(
            watched(None, &[]).unwrap_err().to_string(),
            "WATCH_NAMESPACE must be set"
        );
    }
}
