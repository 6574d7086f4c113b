//! The programs of upstream's image, with their flags: `/manager`, `/agent`, `/cluster-proxy`, `/proxy-server` and
//! `/proxy-agent`.

mod addon_agent;
mod controllers;
mod manager;
mod proxy_agent;
mod proxy_server;
mod service_proxy;
mod serving;
mod user_server;

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use futures::StreamExt;
use ocm_addon_sdk::{
    duration,
    kube::Client,
    program::{self, Place},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    followed,
    tls_profile::{self, ServingProfile},
};

pub use user_server::follow_allow_list;

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["manager", "agent", "cluster-proxy", "proxy-server", "proxy-agent"];

/// Of konnectivity's servers and agents, and of klog.
#[derive(Debug, Args)]
struct Logging {
    /// Accepted: what is logged is chosen by $RUST_LOG
    #[arg(long, short, value_name = "LEVEL")]
    v: Option<String>,
    /// Accepted: logs go to stderr
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    logtostderr: Option<Option<String>>,
    /// Accepted: what is logged is chosen by $RUST_LOG
    #[arg(long, value_name = "PATTERNS")]
    vmodule: Option<String>,
}

/// How long requests may go on after SIGTERM.
#[derive(Debug, Args)]
struct Drain {
    /// How long open requests may go on in all
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true)]
    drain_timeout: String,
    /// How long requests are still taken, of that time
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    min_drain_duration: String,
}

impl Drain {
    /// In all, and for new requests.
    fn read(&self) -> Result<(Duration, Duration)> {
        let read = |flag: &str, text: &str| {
            let read = duration::parse(text);
            let read = read.with_context(|| format!("--{flag}: {text:?} is no duration such as 30s"))?;
            Duration::try_from(read).map_err(|_| anyhow::anyhow!("{flag} must not be negative"))
        };
        let all = read("drain-timeout", &self.drain_timeout)?;
        let first = read("min-drain-duration", &self.min_drain_duration)?;
        if first > all {
            bail!("min-drain-duration must not exceed drain-timeout");
        }
        Ok((all, first))
    }
}

/// Clusters are reached from the hub
#[derive(Debug, Parser)]
#[command(name = "cluster-proxy", disable_version_flag = true, disable_help_subcommand = true)]
struct ClusterProxyProgram {
    #[command(subcommand)]
    command: Option<Sub>,
}

#[derive(Debug, Subcommand)]
enum Sub {
    /// Take requests for clusters on the hub
    UserServer(user_server::UserServerFlags),
    /// Take requests of user-servers on a cluster
    ServiceProxy(Box<service_proxy::ServiceProxyFlags>),
    /// Keep the certificate of service-proxies
    Controllers(controllers::ControllersFlags),
}

/// Runs one of [`PROGRAMS`] with its arguments, without its name, until it ends or is told to stop.
pub fn run(name: &str, arguments: Vec<OsString>, place: &Place) -> ExitCode {
    let words = |arguments: Vec<OsString>| std::iter::once(OsString::from(name)).chain(arguments);
    macro_rules! parsed {
        ($flags:ty, $arguments:expr) => {
            match program::parsed(<$flags>::try_parse_from(words($arguments))) {
                Ok(parsed) => parsed,
                Err(code) => return code,
            }
        };
    }
    match name {
        "manager" => {
            let flags = parsed!(manager::HubManagerFlags, program::with_two_dashes(arguments));
            program::run(async |stop| manager::run(flags, place, stop).await)
        }
        "agent" => {
            let flags = parsed!(addon_agent::AddonAgentFlags, program::with_two_dashes(arguments));
            program::run(async |stop| addon_agent::run(flags, place, stop).await)
        }
        "proxy-server" => {
            let flags = parsed!(proxy_server::ProxyServerFlags, arguments);
            program::run_threaded(async |stop| proxy_server::run(flags, place, stop).await)
        }
        "proxy-agent" => {
            let flags = parsed!(proxy_agent::ProxyAgentFlags, arguments);
            program::run_threaded(async |stop| proxy_agent::run(flags, place, stop).await)
        }
        _ => match parsed!(ClusterProxyProgram, arguments).command {
            Some(Sub::UserServer(flags)) => {
                program::run_threaded(async |stop| user_server::run(flags, place, stop).await)
            }
            Some(Sub::ServiceProxy(flags)) => {
                program::run_threaded(async |stop| service_proxy::run(*flags, place, stop).await)
            }
            Some(Sub::Controllers(flags)) => program::run(async |stop| controllers::run(flags, place, stop).await),
            None => {
                eprintln!("Error: a subcommand is required");
                ExitCode::FAILURE
            }
        },
    }
}

/// `$POD_NAMESPACE`.
fn pod_namespace() -> Result<String> {
    let said = std::env::var("POD_NAMESPACE").ok().filter(|it| !it.is_empty());
    said.context("pod namespace is empty, please set the POD_NAMESPACE environment variable")
}

/// A flag without which a program does not start, in upstream's words.
fn required(path: Option<PathBuf>, what: &str, place: &Place) -> Result<PathBuf> {
    let path = path.filter(|it| !it.as_os_str().is_empty());
    Ok(place.file(path.with_context(|| format!("{what} is required"))?))
}

/// The TLS profile of the namespace. When it changes the process stops, so that it is started anew with the new one.
async fn tls_profile(client: Client, namespace: &str, stop: &CancellationToken) -> ServingProfile {
    let mut states = followed::states(client, namespace, tls_profile::CONFIG_MAP);
    let first = tokio::select! {
        it = states.next() => it.flatten(),
        () = stop.cancelled() => None,
    };
    let profile = first.as_ref().map(ServingProfile::read).unwrap_or_default();
    let (stop, known) = (stop.clone(), first);
    tokio::spawn(async move {
        while let Some(now) = tokio::select! { it = states.next() => it, () = stop.cancelled() => None } {
            if now != known {
                info!("ConfigMap {} has changed; this process ends", tls_profile::CONFIG_MAP);
                stop.cancel();
            }
        }
    });
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(all: &str, first: &str) -> Result<(u64, u64), String> {
        let drain = Drain {
            drain_timeout: all.to_owned(),
            min_drain_duration: first.to_owned(),
        };
        let read = drain.read().map_err(|it| it.to_string())?;
        Ok((read.0.as_secs(), read.1.as_secs()))
    }

    #[test]
    fn a_drain_that_contradicts_itself_is_refused() {
        assert_eq!(drain("30s", "10s"), Ok((30, 10)));
        assert_eq!(drain("-1s", "0s").unwrap_err(), "drain-timeout must not be negative");
        assert_eq!(
            drain("1s", "-1s").unwrap_err(),
            "min-drain-duration must not be negative"
        );
        assert_eq!(
            drain("1s", "2s").unwrap_err(),
            "min-drain-duration must not exceed drain-timeout"
        );
    }

    #[test]
    fn flags_of_every_program_are_read() {
        use clap::CommandFactory;
        manager::HubManagerFlags::command().debug_assert();
        addon_agent::AddonAgentFlags::command().debug_assert();
        proxy_server::ProxyServerFlags::command().debug_assert();
        proxy_agent::ProxyAgentFlags::command().debug_assert();
        ClusterProxyProgram::command().debug_assert();
        let none = run("cluster-proxy", Vec::new(), &Place::default());
        assert_eq!(none, ExitCode::FAILURE);
    }
}
