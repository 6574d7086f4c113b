//! The program `governance-policy-addon-controller`, which delivers the agents of the policy framework and the
//! controllers of its kinds to clusters: upstream's third image of the framework. It has the add-ons of several crates,
//! and so is in none.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, Result};
use clap::Parser;
use kube::Client;
use ocm_addon_sdk::{
    AddOn,
    hub::{Manager, Options},
    program::{self, LeaderElection, LoggingFlags, Place},
};
use ocm_reconcile::Caches;
use tokio_util::sync::CancellationToken;

use crate::policy_webhooks::ReviewServer;

/// The name of the program.
pub const CONTROLLER: &str = "governance-policy-addon-controller";

/// The programs in the images of the policy framework.
pub const PROGRAMS: &[&str] = &[
    "governance-policy-framework-addon",
    "governance-policy-propagator",
    CONTROLLER,
];

/// Delivers the agents of the policy framework to clusters
#[derive(Debug, Parser)]
#[command(name = CONTROLLER, disable_version_flag = true, disable_help_subcommand = true)]
struct Flags {
    /// Accepted: upstream's command line says `controller`
    #[arg(value_parser = ["controller"], hide = true)]
    what: Option<String>,
    /// The kubeconfig of the hub [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease [default: that of the pod]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Accepted: it has no configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Accepted: nothing is served
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Accepted: files are read again when they change
    #[arg(long, value_name = "FILE")]
    terminate_on_files: Vec<PathBuf>,
    #[command(flatten)]
    logging: LoggingFlags,
}

/// Runs one of [`PROGRAMS`].
pub fn run(program: &str, arguments: Vec<OsString>, place: &Place) -> ExitCode {
    if program != CONTROLLER {
        return addon_policy_framework::run(program, arguments, place, &ReviewServer);
    }
    let words = std::iter::once(CONTROLLER.into()).chain(program::with_two_dashes(arguments));
    match program::parsed(Flags::try_parse_from(words)) {
        Ok(flags) => program::run(async |stop| serve(flags, place, stop).await),
        Err(code) => code,
    }
}

/// What the agents are, as the environment of the program says it.
fn add_ons() -> Vec<Arc<dyn AddOn>> {
    vec![
        Arc::new(addon_policy_framework::addon::PolicyFramework::from_environment()),
        Arc::new(addon_config_policy::addon::ConfigPolicy::from_environment()),
        Arc::new(addon_config_policy::addon::StandaloneTemplating),
        Arc::new(addon_cert_policy::addon::CertPolicy::from_environment()),
    ]
}

async fn serve(flags: Flags, place: &Place, stop: CancellationToken) -> Result<()> {
    let client = place.client(flags.kubeconfig.as_deref()).await?;
    let work = |client: Client, end: CancellationToken| async move {
        if let Err(error) = manage(client, end).await {
            tracing::error!("{error:#}");
        }
    };
    let given = flags.namespace.or_else(|| place.namespace());
    let elected_in = given.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
    let election = elected_in.map(|it| LeaderElection::new(it, format!("{CONTROLLER}-lock")));
    program::lead_if(client, election, work, stop).await
}

async fn manage(client: Client, stop: CancellationToken) -> Result<()> {
    let caches = Caches::new(client.clone(), stop.clone());
    let manager = Manager::start(client, &caches, Options::default(), stop).await;
    let manager = manager.context("could not start the manager of the add-ons")?;
    for add_on in add_ons() {
        manager.add(add_on)?;
    }
    manager.finished().await;
    Ok(())
}
