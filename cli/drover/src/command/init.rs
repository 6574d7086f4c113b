//! `drover init`: make a cluster a hub whose controllers run as a Deployment on it.
//! Upstream: clusteradm `init`, whose closing text and JSON we print. There is no operator: the Deployment is the hub.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, CommandFactory, ValueEnum, error::ErrorKind};
use client::{
    bootstrap::{Invitation, parse_server, public_kubeconfig},
    connect::ApiServer,
    flags::Global,
};
use installation::{
    Line, Mode, Seen,
    charts::{self, HubValues},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use ocm_api::namespaces;
use ocm_reconcile::install::{DROVER, Installed, MANAGED_BY, install, of_this_release};
use output::{Data, private_file};
use serde_json::{Value, json};

use crate::cli::Cli;

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
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    timeout: u64,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on although a hub of upstream's runs there
    #[arg(long)]
    force: bool,
    /// Also write everything that is applied to FILE, as manifests
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Also write the command that joins a cluster to FILE, a script whose argument is the cluster's name
    #[arg(long, value_name = "FILE")]
    output_join_command_file: Option<PathBuf>,
    /// How to print what clusters join with, or what would be done
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

impl Init {
    pub async fn run(self, global: &Global) -> Result<()> {
        if self.wait && self.output != Format::Text {
            // As with clusteradm: programs wait by themselves.
            let text = "output should be text if --wait is set";
            Cli::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        let deployed = self.values.manifests()?;
        let hub = ApiServer::connect(global).await?;
        let version = hub.client.apiserver_version().await;
        version.map_err(|error| hub.explain("could not reach the cluster to make a hub of", &error))?;
        self.check_upstream(&hub).await?;
        let public = public(&hub, self.hub_apiserver.as_deref()).await?;
        let prepared = prepared(&public);
        let all: Vec<Value> = prepared.iter().chain(&deployed).cloned().collect();
        charts::keep(&all, self.output_file.as_deref())?;
        if self.dry_run {
            return self.tell_dry_run(&installation::apply(&hub, &all, Mode::DryRun).await?);
        }
        // What the hub would bring itself, so that clusters may ask to join before its image has been pulled.
        let before = Seen::of(&hub, &prepared).await?;
        let done = hub::prepare(&hub.client).await;
        done.with_context(|| format!("could not prepare {}", hub.server))?;
        let published = install(&hub.client, &public).await;
        published.context("could not publish the hub's CA in kube-public/cluster-info")?;
        let after = Seen::of(&hub, &prepared).await?;
        let mut lines = before.until(&after, &prepared)?;
        lines.extend(installation::apply(&hub, &deployed, Mode::Write).await?);
        for line in first_of_each(&lines) {
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
    async fn check_upstream(&self, hub: &ApiServer) -> Result<()> {
        if self.force {
            return Ok(());
        }
        match installation::find(hub, &installation::UPSTREAM_HUB).await? {
            None => Ok(()),
            Some(theirs) => bail!(
                "Deployment {theirs} runs a hub of upstream's there already: remove it first with `clusteradm clean`, or go \
                 on beside it with --force"
            ),
        }
    }

    fn tell_dry_run(&self, lines: &[Line]) -> Result<()> {
        let lines: Vec<String> = first_of_each(lines).map(ToString::to_string).collect();
        match self.output {
            Format::Text => lines.iter().try_for_each(output::say),
            Format::Json => output::print(&output::encode(&json!(lines), Data::Json)?),
            Format::Yaml => output::print(&output::encode(&json!(lines), Data::Yaml)?),
        }
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
            private_file::write(path, &script)?;
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

/// What lets joining clusters ask for the hub's CA; nothing where the cluster tells it already, as kubeadm's do, or
/// where it has none of its own. What an earlier `init` has told is told anew: the address
/// or the CA may be another now.
async fn public(hub: &ApiServer, server: Option<&str>) -> Result<Vec<Installed>> {
    let maps: Api<ConfigMap> = Api::namespaced(hub.client.clone(), "kube-public");
    let found = maps.get_opt("cluster-info").await;
    let found = found.map_err(|error| hub.explain("could not look for kube-public/cluster-info", &error))?;
    let is_theirs = |it: &ConfigMap| it.labels().get(MANAGED_BY).is_none_or(|it| it != DROVER);
    match hub.ca.as_deref() {
        Some(ca) if !found.as_ref().is_some_and(is_theirs) => {
            let kubeconfig = public_kubeconfig(server.unwrap_or(&hub.server), ca)?;
            Ok(hub::bootstrap::cluster_info(&kubeconfig))
        }
        _ => Ok(vec![]),
    }
}

/// Everything that is put on the API before the Deployment.
fn prepared(public: &[Installed]) -> Vec<Value> {
    let kinds = ocm_api::crds::hub().into_iter().map(of_this_release);
    let objects = hub::bootstrap::objects();
    let objects = objects.into_iter().chain(public.iter().cloned());
    kinds.chain(objects.map(Installed::into_manifest)).collect()
}

/// The lines, without what is said of an object a second time: a namespace is prepared,
/// and part of the Deployment's manifests.
fn first_of_each(lines: &[Line]) -> impl Iterator<Item = &Line> {
    let mut told = BTreeSet::new();
    lines.iter().filter(move |it| told.insert(it.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_init_writes_is_in_the_printed_list() {
        let info = hub::bootstrap::cluster_info("x");
        let all = prepared(&info);
        let name = |it: &Value| format!("{}/{}", it["kind"], it["metadata"]["name"]).replace('"', "");
        let names: Vec<String> = all.iter().map(name).collect();
        for wanted in [
            "CustomResourceDefinition/managedclusters.cluster.open-cluster-management.io",
            "ServiceAccount/agent-registration-bootstrap",
            "ConfigMap/cluster-info",
            "RoleBinding/open-cluster-management:cluster-info",
        ] {
            assert!(names.iter().any(|it| it == wanted), "{wanted} of {names:?}");
        }
        assert_eq!(prepared(&[]).len() + info.len(), all.len());
        // As the hub itself writes it, so that a file of it can be applied and is known again.
        assert_eq!(all[0]["metadata"]["labels"][MANAGED_BY], DROVER);
    }
}
