//! `drover init`: make a cluster a hub whose controllers run as a Deployment on it.
//! Upstream: clusteradm `init`, whose closing text and JSON we print. There is no operator: the Deployment is the hub.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, CommandFactory, ValueEnum, error::ErrorKind};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::Api;
use ocm_api::namespaces;
use ocm_reconcile::install::install;

use crate::{
    bootstrap::{Invitation, parse_server, public_kubeconfig},
    charts::{self, HubValues},
    cli::{Cli, Global},
    connect::Target,
    data_dir,
    installation::{self, Mode},
    output::{self, Data},
};

/// Make the cluster of the kubeconfig a hub: its controllers run there as a Deployment
#[derive(Debug, Args)]
pub struct Init {
    #[command(flatten)]
    values: HubValues,
    /// Where clusters reach the hub [default: where the kubeconfig does]
    #[arg(long, value_name = "URL", value_parser = parse_server)]
    hub_apiserver: Option<String>,
    /// Wait until the hub's pods are ready
    #[arg(long)]
    wait: bool,
    /// How long to wait, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = crate::cli::wait_seconds())]
    timeout: u64,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on although a hub of upstream's runs there
    #[arg(long)]
    force: bool,
    /// Also write the manifests of the Deployment to FILE
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Also write the command that joins a cluster to FILE, a script whose argument is the cluster's name
    #[arg(long, value_name = "FILE")]
    output_join_command_file: Option<PathBuf>,
    /// How to print what clusters join with
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

/// Upstream's controllers of a hub, with the words to name them by.
const UPSTREAM: [(&str, &str); 2] = [
    (namespaces::OPERATOR, "cluster-manager"),
    (namespaces::HUB, "cluster-manager-registration-controller"),
];

impl Init {
    pub async fn run(self, global: &Global) -> Result<()> {
        if self.wait && self.output != Format::Text {
            // As with clusteradm: programs wait by themselves.
            let text = "output should be text if --wait is set";
            Cli::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        let manifests = self.values.manifests()?;
        let hub = Target::connect(global).await?;
        let version = hub.client.apiserver_version().await;
        version.map_err(|error| hub.explain("could not reach the cluster to make a hub of", &error))?;
        self.check_upstream(&hub).await?;
        charts::keep(&manifests, self.output_file.as_deref())?;
        if self.dry_run {
            for line in installation::apply(&hub, &manifests, Mode::DryRun).await? {
                self.say(&line.to_string())?;
            }
            return Ok(());
        }
        // What the hub would bring itself, so that clusters may ask to join before its image has been pulled.
        let prepared = hub::prepare(&hub.client).await;
        prepared.with_context(|| format!("could not prepare {}", hub.server))?;
        publish(&hub, self.hub_apiserver.as_deref()).await?;
        for line in installation::apply(&hub, &manifests, Mode::Write).await? {
            self.say(&line.to_string())?;
        }
        if self.wait {
            let timeout = Duration::from_secs(self.timeout);
            installation::available(&hub, namespaces::HUB, charts::HUB, timeout).await?;
        }
        let invitation = Invitation::make(&hub, self.hub_apiserver.as_deref()).await?;
        self.tell(&invitation)
    }

    /// Two hubs on one API would undo what the other does.
    async fn check_upstream(&self, hub: &Target) -> Result<()> {
        if self.force {
            return Ok(());
        }
        for (namespace, name) in UPSTREAM {
            let api: Api<Deployment> = Api::namespaced(hub.client.clone(), namespace);
            let found = api.get_opt(name).await;
            let found = found.map_err(|error| hub.explain("could not look for a hub that runs already", &error))?;
            if found.is_some() {
                bail!(
                    "Deployment {namespace}/{name} runs a hub of upstream's there already: remove it first with \
                     `clusteradm clean`, or go on beside it with --force"
                );
            }
        }
        Ok(())
    }

    /// A line for a person. Standard output is the program's that asked for JSON.
    fn say(&self, line: &str) -> Result<()> {
        if self.output == Format::Text {
            output::say(line)
        } else {
            Ok(())
        }
    }

    fn tell(&self, invitation: &Invitation) -> Result<()> {
        let wait = if self.wait { " --wait" } else { "" };
        let command = format!("{} --deploy{wait}", invitation.command());
        if let Some(path) = &self.output_join_command_file {
            let script = format!("#!/bin/sh\n{}\n", command.replace("<cluster_name>", "\"$1\""));
            // It holds the token.
            data_dir::write_private(path, &script)?;
            let failed = || format!("could not make {} a program", path.display());
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(path, mode).with_context(failed)?;
        }
        output::print(&match self.output {
            Format::Json => output::encode(&invitation.value(), Data::Json)?,
            Format::Yaml => output::encode(&invitation.value(), Data::Yaml)?,
            Format::Text => format!(
                "\nThe multicluster hub control plane has been initialized successfully!\n\n\
                 You can now register cluster(s) to the hub control plane. Log onto those cluster(s) and run the following \
                 command:\n\n    {command}\n\n\
                 Replace <cluster_name> with a cluster name of your choice. For example, cluster1.\n"
            ),
        })
    }
}

/// Lets joining clusters ask for the hub's CA, unless the cluster tells it already, as kubeadm's do.
async fn publish(hub: &Target, server: Option<&str>) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(hub.client.clone(), "kube-public");
    let found = maps.get_opt("cluster-info").await;
    let found = found.map_err(|error| hub.explain("could not look for kube-public/cluster-info", &error))?;
    let Some(ca) = hub.ca.as_deref().filter(|_| found.is_none()) else {
        return Ok(());
    };
    let kubeconfig = public_kubeconfig(server.unwrap_or(&hub.server), ca)?;
    let installed = install(&hub.client, &hub::bootstrap::cluster_info(&kubeconfig)).await;
    installed.context("could not publish the hub's CA in kube-public/cluster-info")
}
