//! `drover install hub-addon` and `drover uninstall hub-addon`: the hub's part of the add-ons that clusteradm names.
//! Upstream: clusteradm `install hub-addon`. Those of Argo CD are Helm charts, which upstream installs with Helm built
//! in and we with the helm of this machine; the policy framework and application-manager are ours.

mod application_manager;
mod manifests;
mod policy_framework;

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use client::{connect::ApiServer, flags::Global, kinds};
use installation::{Mode, bundle::bundle, images::ImageFlags};
use kube::api::ListParams;
use serde_json::{Value, json};

/// Install the hub's part of an add-on
#[derive(Debug, Subcommand)]
pub enum InstallWhat {
    /// Install the hub's part of add-ons: application-manager, argocd, argocd-agent, governance-policy-framework
    HubAddon(InstallHubAddOn),
}

/// Remove the hub's part of an add-on
#[derive(Debug, Subcommand)]
pub enum UninstallWhat {
    /// Remove the hub's part of add-ons: application-manager, argocd, argocd-agent, governance-policy-framework
    HubAddon(UninstallHubAddOn),
}

#[derive(Debug, Args)]
pub struct InstallHubAddOn {
    /// The add-ons
    #[arg(long, value_delimiter = ',', required = true, value_name = "NAMES")]
    pub names: Vec<String>,
    /// The namespace that application-manager and the policy framework are installed in
    #[arg(long, default_value = "open-cluster-management", value_name = "NAMESPACE")]
    pub namespace: String,
    /// Create the namespace that they are installed in
    #[arg(long)]
    pub create_namespace: bool,
    /// What they run [default: the policy framework upstream's images of the release that this version is like,
    /// application-manager this binary]
    #[command(flatten)]
    pub images: ImageFlags,
    /// Say what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct UninstallHubAddOn {
    /// The add-ons
    #[arg(long, value_delimiter = ',', required = true, value_name = "NAMES")]
    pub names: Vec<String>,
    /// The namespace that application-manager and the policy framework are in
    #[arg(long, default_value = "open-cluster-management", value_name = "NAMESPACE")]
    pub namespace: String,
    /// How long to wait until everything is gone, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    pub timeout: u64,
    /// Say what would be done and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// An add-on by the name that clusteradm has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HubAddOn {
    /// A chart, which is the name of its release as well, and the name of the add-on on clusters.
    Chart(&'static str, &'static str),
    PolicyFramework,
    ApplicationManager,
}

const APPLICATION_MANAGER: &str = ocm_api::apps::ADD_ON;
const POLICY_FRAMEWORK: &str = "governance-policy-framework";
/// Where upstream's charts are.
const CHARTS: &str = "https://open-cluster-management.io/helm-charts";
/// Where both charts go, whatever was typed.
const ARGO_CD: &str = "argocd";

fn parse(names: &[String]) -> Result<Vec<HubAddOn>> {
    let mut found = Vec::new();
    for name in names {
        let add_on = match name.trim() {
            "argocd" => HubAddOn::Chart("argocd-pull-integration", "argocd"),
            "argocd-agent" => HubAddOn::Chart("argocd-agent-addon", "argocd-agent-addon"),
            POLICY_FRAMEWORK => HubAddOn::PolicyFramework,
            APPLICATION_MANAGER => HubAddOn::ApplicationManager,
            other => bail!(
                "invalid add-on name {other}: there are {APPLICATION_MANAGER}, argocd, argocd-agent and \
                 {POLICY_FRAMEWORK}"
            ),
        };
        if !found.contains(&add_on) {
            found.push(add_on);
        }
    }
    Ok(found)
}

impl InstallHubAddOn {
    pub async fn run(self, global: &Global) -> Result<()> {
        self.install(&ApiServer::connect(global).await?, global).await
    }

    /// Installs them.
    pub async fn install(&self, hub: &ApiServer, global: &Global) -> Result<()> {
        let add_ons = parse(&self.names)?;
        if add_ons.contains(&HubAddOn::ApplicationManager) {
            // What is refused is refused before others are installed.
            application_manager::image(&self.images)?;
        }
        for add_on in add_ons {
            match add_on {
                HubAddOn::Chart(chart, _) => {
                    helm(&install_chart(chart, self.create_namespace, self.dry_run), global)?;
                }
                HubAddOn::PolicyFramework => {
                    let version = self.images.bundle_version.as_deref().unwrap_or("default");
                    let tag = bundle(version, self.images.bundle_version_overrides.as_deref())?.policy_addon;
                    let objects = policy_framework::objects(&self.namespace, &self.images.images()?, &tag)?;
                    let kinds = policy_framework::kinds();
                    self.apply(hub, POLICY_FRAMEWORK, kinds, objects).await?;
                }
                HubAddOn::ApplicationManager => {
                    let image = application_manager::image(&self.images)?;
                    let objects = application_manager::objects(&self.namespace, &image)?;
                    let kinds = application_manager::kinds();
                    self.apply(hub, APPLICATION_MANAGER, kinds, objects).await?;
                }
            }
        }
        Ok(())
    }
}

impl InstallHubAddOn {
    async fn apply(&self, hub: &ApiServer, name: &str, kinds: Vec<Value>, objects: Vec<Value>) -> Result<()> {
        let (mode, note) = match self.dry_run {
            true => (Mode::DryRun, output::note(true)),
            false => (Mode::Write, ""),
        };
        let mut manifests = kinds;
        if self.create_namespace {
            manifests.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}));
        }
        manifests.extend(objects);
        output::say(format_args!(
            "Installing built-in {name} add-on to the Hub cluster...{note}"
        ))?;
        let lines = installation::apply(hub, &manifests, mode).await?;
        lines.iter().try_for_each(output::say)
    }
}

/// What helm is told.
fn install_chart(chart: &str, create_namespace: bool, dry_run: bool) -> Vec<&str> {
    let mut arguments = vec!["install", chart, chart, "--repo", CHARTS, "--namespace", ARGO_CD];
    if create_namespace {
        arguments.push("--create-namespace");
    }
    if dry_run {
        arguments.push("--dry-run");
    }
    arguments
}

fn helm(arguments: &[&str], global: &Global) -> Result<()> {
    let mut command = Command::new("helm");
    command.args(arguments);
    if let Some(path) = &global.kubeconfig {
        command.arg("--kubeconfig").arg(path);
    }
    if let Some(context) = &global.context {
        command.args(["--kube-context", context]);
    }
    let typed = format!("helm {}", arguments.join(" "));
    let status = command
        .status()
        .with_context(|| format!("the add-on is a Helm chart, and `{typed}` could not be run; put helm into $PATH"))?;
    if !status.success() {
        bail!("`{typed}` failed");
    }
    Ok(())
}

impl UninstallHubAddOn {
    pub async fn run(self, global: &Global) -> Result<()> {
        self.uninstall(&ApiServer::connect(global).await?, global).await
    }

    /// Removes them.
    pub async fn uninstall(&self, hub: &ApiServer, global: &Global) -> Result<()> {
        let add_ons = parse(&self.names)?;
        for add_on in add_ons {
            match add_on {
                HubAddOn::Chart(chart, name) => {
                    is_unused(hub, name).await?;
                    let mut arguments = vec!["uninstall", chart, "--namespace", ARGO_CD];
                    if self.dry_run {
                        arguments.push("--dry-run");
                    }
                    helm(&arguments, global)?;
                }
                HubAddOn::PolicyFramework => {
                    for name in policy_framework::ADD_ONS {
                        is_unused(hub, name).await?;
                    }
                    self.remove(hub, POLICY_FRAMEWORK, policy_framework::leftovers(&self.namespace)?)
                        .await?;
                }
                HubAddOn::ApplicationManager => {
                    is_unused(hub, APPLICATION_MANAGER).await?;
                    let leftovers = application_manager::leftovers(&self.namespace)?;
                    self.remove(hub, APPLICATION_MANAGER, leftovers).await?;
                }
            }
        }
        Ok(())
    }

    async fn remove(&self, hub: &ApiServer, name: &str, objects: Vec<Value>) -> Result<()> {
        let (mode, note) = match self.dry_run {
            true => (Mode::DryRun, output::note(true)),
            false => (Mode::Write, ""),
        };
        let gone = installation::remove(hub, &objects, mode, Duration::from_secs(self.timeout)).await?;
        output::say(format_args!(
            "Uninstalling built-in {name} add-on from the Hub cluster...{note}"
        ))?;
        gone.iter().try_for_each(output::say)
    }
}

/// An add-on whose hub part goes would stay on its clusters for ever.
async fn is_unused(hub: &ApiServer, name: &str) -> Result<()> {
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let listed = hub.all(&kinds::managed_cluster_add_on()).list(&named).await;
    let listed = listed.map_err(|error| hub.explain("could not list the add-ons of the clusters", &error))?;
    let clusters: Vec<String> = listed
        .items
        .into_iter()
        .filter_map(|it| it.metadata.namespace)
        .collect();
    if !clusters.is_empty() {
        let clusters = clusters.join(",");
        bail!(
            "there are still addons for {name} enabled on some clusters, run `clusteradm addon disable --names {name} \
             --clusters {clusters}` to disable addons"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_add_on_is_known_by_clusteradms_name() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let found = parse(&names("argocd,governance-policy-framework,argocd")).unwrap();
        let chart = HubAddOn::Chart("argocd-pull-integration", "argocd");
        assert_eq!(found, [chart, HubAddOn::PolicyFramework]);
        let ours = parse(&names("application-manager")).unwrap();
        assert_eq!(ours, [HubAddOn::ApplicationManager]);
        let error = parse(&names("argo")).unwrap_err().to_string();
        assert!(error.starts_with("invalid add-on name argo: "), "{error}");
    }

    #[test]
    fn charts_are_installed_as_clusteradm_does() {
        assert_eq!(
            install_chart("argocd-agent-addon", true, true).join(" "),
            "install argocd-agent-addon argocd-agent-addon --repo https://open-cluster-management.io/helm-charts \
             --namespace argocd --create-namespace --dry-run"
        );
        assert!(!install_chart("a", false, false).contains(&"--create-namespace"));
    }
}
