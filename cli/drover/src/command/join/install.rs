//! `drover join` as everybody knows it from clusteradm: an operator on the cluster, which follows a Klusterlet.
//! Upstream: clusteradm `join`, whose flags these are and whose closing text we print.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use clap::{Args, CommandFactory, ValueEnum, error::ErrorKind};
use client::{connect::ApiServer, flags::Global};
use installation::{
    Mode,
    capi::CapiFlags,
    charts,
    cluster::{
        self, JoinOptions, Step,
        hub_access::{Route, parse_proxy},
        parse_annotation,
    },
    gates::{self, Gate},
    images::ImageFlags,
    resources::ResourceFlags,
    values::ValueFlags,
};
use kube::config::Kubeconfig;

use crate::{add_on_credentials::AddOnCredentials, cli::Cli};

/// What an agent that is installed takes, and one in this process does not.
#[derive(Debug, Args)]
#[command(next_help_heading = "The installation")]
pub struct Install {
    /// Does nothing: it is what happens anyway
    #[arg(long, hide = true, conflicts_with_all = ["embedded", "foreground"])]
    deploy: bool,
    /// Where the agent runs: default, on the cluster itself, or hosted, on the cluster of the kubeconfig for the one of
    /// --managed-cluster-kubeconfig
    #[arg(
        short,
        long,
        value_name = "MODE",
        value_enum,
        ignore_case = true,
        default_value = "default"
    )]
    mode: DeployMode,
    /// The kubeconfig of the cluster to manage, in mode hosted
    #[arg(long, value_name = "FILE")]
    managed_cluster_kubeconfig: Option<PathBuf>,
    /// Reach that cluster where its kube-public/cluster-info says, and not where its kubeconfig does
    #[arg(long, requires = "managed_cluster_kubeconfig")]
    force_internal_endpoint_lookup_managed: bool,
    /// Run the agent as one process in upstream's layout, too
    #[arg(long)]
    singleton: bool,
    /// The agent's namespace [default: open-cluster-management-agent]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Upstream's gates to turn on or off
    #[arg(long, value_delimiter = ',', value_name = "NAME=BOOL", value_parser = gates::parse_cluster)]
    feature_gates: Vec<Gate>,
    /// Have the agent reach the hub where the hub's kube-public/cluster-info says, and not at --hub-apiserver
    #[arg(long)]
    force_internal_endpoint_lookup: bool,
    /// A proxy between the agent and the hub
    #[arg(long, value_name = "URL", value_parser = parse_proxy)]
    proxy_url: Option<String>,
    /// The proxy's CA in PEM
    #[arg(long, value_name = "FILE", requires = "proxy_url")]
    proxy_ca_file: Option<PathBuf>,
    /// An annotation for the ManagedCluster; its key gets the prefix agent.open-cluster-management.io/
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_annotation)]
    klusterlet_annotation: Vec<(String, String)>,
    /// How long the agent's certificate is to live [default: 31536000]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i32).range(0..))]
    client_cert_expiration_seconds: Option<i32>,
    /// How the agent proves who it is: csr (drover has no other)
    #[arg(long, value_name = "DRIVER", value_parser = driver)]
    registration_auth: Option<String>,
    /// Put the labels of the Klusterlet on everything that is made of it
    #[arg(long)]
    enable_sync_labels: bool,
    /// Make namespaces, or use those that are there
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    create_namespace: Option<bool>,
    /// Let works contain anything that an administrator of the cluster may write: the agent is bound to cluster-admin
    #[arg(long)]
    administrator: bool,
    /// A docker config in JSON, for the Secret that images are pulled with
    #[arg(long, value_name = "FILE", help_heading = "Images")]
    image_pull_credential_file: Option<PathBuf>,
    #[command(flatten)]
    images: ImageFlags,
    #[command(flatten)]
    resources: ResourceFlags,
    /// A file of values for the chart klusterlet, before those of --values
    #[arg(long, value_name = "FILE", help_heading = "Values of the chart")]
    klusterlet_values_file: Option<PathBuf>,
    #[command(flatten)]
    values: ValueFlags,
    /// Wait until the agent runs and the hub knows the cluster
    #[arg(long)]
    wait: bool,
    /// How long to wait, in seconds [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    timeout: Option<u64>,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on although the cluster has another name already
    #[arg(long)]
    force: bool,
    /// Also write everything that is applied to FILE, as manifests
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    #[command(flatten)]
    capi: CapiFlags,
    #[command(flatten)]
    refused: Refused,
}

/// Flags of upstream's for what drover does not have.
#[derive(Debug, Args)]
struct Refused {
    #[arg(long, hide = true, value_name = "ARN")]
    hub_cluster_arn: Option<String>,
    #[arg(long, hide = true, value_name = "ARN")]
    managed_cluster_arn: Option<String>,
    #[arg(long, hide = true, value_name = "ADDRESS")]
    grpc_server: Option<String>,
    #[arg(long, hide = true, value_name = "FILE")]
    grpc_ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DeployMode {
    Default,
    Hosted,
}

fn driver(text: &str) -> Result<String, String> {
    match text {
        "csr" => Ok(text.to_owned()),
        "grpc" | "awsirsa" => {
            Err("drover registers clusters by certificate requests only; leave it out, or write csr".to_owned())
        }
        _ => Err("invalid registration-Auth type: write csr".to_owned()),
    }
}

impl Install {
    /// The flags that mean nothing to an agent in this process and were given.
    pub fn stray(&self) -> Option<&'static str> {
        let values = &self.values;
        let given = [
            ("--mode", self.mode != DeployMode::Default),
            (
                "--managed-cluster-kubeconfig",
                self.managed_cluster_kubeconfig.is_some(),
            ),
            ("--singleton", self.singleton),
            ("--namespace", self.namespace.is_some()),
            ("--feature-gates", !self.feature_gates.is_empty()),
            ("--force-internal-endpoint-lookup", self.force_internal_endpoint_lookup),
            ("--proxy-url", self.proxy_url.is_some()),
            ("--klusterlet-annotation", !self.klusterlet_annotation.is_empty()),
            (
                "--client-cert-expiration-seconds",
                self.client_cert_expiration_seconds.is_some(),
            ),
            ("--enable-sync-labels", self.enable_sync_labels),
            ("--create-namespace", self.create_namespace.is_some()),
            ("--administrator", self.administrator),
            (
                "--image-pull-credential-file",
                self.image_pull_credential_file.is_some(),
            ),
            ("--image", self.images.is_given()),
            ("--resource-qos-class", self.resources.is_given()),
            ("--klusterlet-values-file", self.klusterlet_values_file.is_some()),
            ("--values", values.is_given()),
            ("--capi-import", self.capi.capi_import),
            // The one that everybody adds who knows clusteradm.
            ("--wait", self.wait),
            ("--timeout", self.timeout.is_some()),
            ("--dry-run", self.dry_run),
            ("--force", self.force),
            ("--output-file", self.output_file.is_some()),
        ];
        given.into_iter().find(|it| it.1).map(|it| it.0)
    }

    /// The sentence for what drover does not have.
    pub fn refused(&self) -> Option<String> {
        let aws = "drover registers clusters by certificate requests only, and has none of AWS";
        let grpc = "drover registers clusters by certificate requests only, and has no gRPC server";
        let refused = &self.refused;
        let given = [
            ("--hub-cluster-arn", refused.hub_cluster_arn.is_some(), aws),
            ("--managed-cluster-arn", refused.managed_cluster_arn.is_some(), aws),
            ("--grpc-server", refused.grpc_server.is_some(), grpc),
            ("--grpc-ca-file", refused.grpc_ca_file.is_some(), grpc),
        ];
        let given = given.into_iter().find(|it| it.1);
        given.map(|(flag, _, why)| format!("{flag}: {why}; leave it out"))
    }

    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Puts the agent of `name` on the cluster; `hub` is the kubeconfig it asks the hub with.
    pub async fn run(&self, global: &Global, name: &str, hub: Kubeconfig, add_ons: &AddOnCredentials) -> Result<()> {
        let hosted = match (self.mode, &self.managed_cluster_kubeconfig) {
            (DeployMode::Default, None) => None,
            (DeployMode::Hosted, Some(path)) => {
                Some(cluster::hosted(path, self.force_internal_endpoint_lookup_managed).await?)
            }
            (DeployMode::Default, Some(_)) => {
                wrong("--managed-cluster-kubeconfig should not be set in default deploy mode: add --mode hosted")
            }
            (DeployMode::Hosted, None) => wrong("--managed-cluster-kubeconfig should be set in hosted deploy mode"),
        };
        if hosted.is_some() && self.namespace.is_some() {
            wrong("--namespace is for an agent on its cluster: one that is hosted has a namespace of its own");
        }
        if let Some(namespace) = &self.namespace
            && !is_agents_namespace(namespace)
        {
            wrong("--namespace has to be open-cluster-management- and a name of lower-case letters, digits and '-'");
        }
        let route = Route {
            internal_endpoint: self.force_internal_endpoint_lookup,
            proxy_url: self.proxy_url.clone(),
            proxy_ca_file: self.proxy_ca_file.clone(),
        };
        let options = JoinOptions {
            hub: hub.clone(),
            images: self.images.images()?,
            image_pull_credential_file: self.image_pull_credential_file.clone(),
            feature_gates: self.feature_gates.clone(),
            hosted,
            singleton: self.singleton,
            namespace: self.namespace.clone(),
            resources: self.resources.clone(),
            create_namespace: self.create_namespace.unwrap_or(true),
            enable_sync_labels: self.enable_sync_labels,
            client_cert_expiration_seconds: self
                .client_cert_expiration_seconds
                .unwrap_or(cluster::CLIENT_CERT_SECONDS),
            klusterlet_annotations: self.klusterlet_annotation.clone(),
            add_on_driver: add_ons.driver(),
            administrator: self.administrator,
            values_file: self.klusterlet_values_file.clone(),
            values: self.values.clone(),
            force: self.force,
            wait: self.wait,
            timeout: Duration::from_secs(self.timeout.unwrap_or(300)),
            mode: if self.dry_run { Mode::DryRun } else { Mode::Write },
            ..JoinOptions::new(name, route.apply(&hub).await?)
        };
        let cluster = match self.capi.cluster(global).await? {
            Some(cluster) => cluster,
            None => ApiServer::connect(global).await?,
        };
        let version = cluster.client.apiserver_version().await;
        version.map_err(|error| cluster.explain("could not reach the cluster to join", &error))?;
        let prepared = cluster::prepare(&cluster, &options).await?;
        charts::keep(&prepared.manifests.all(&[]), self.output_file.as_deref())?;
        let mut tell = |step: Step| match step {
            Step::Applied(line) => output::say(line),
            _ if !options.wait => Ok(()),
            Step::CrdRegistered => output::say("CRD successfully registered."),
            Step::OperatorAvailable => output::say("Registration operator is now available."),
            Step::KlusterletAvailable => output::say("Klusterlet is now available."),
            Step::ClusterCreated => output::say("Managed cluster is created."),
        };
        cluster::join(&cluster, &options, &prepared, &mut tell).await?;
        if options.mode == Mode::DryRun {
            return Ok(());
        }
        output::say(format_args!(
            "\nPlease log onto the hub cluster and run the following command:\n\n    drover accept --clusters {name}\n\n{}\n",
            super::AUTO_APPROVAL
        ))
    }
}

/// Ends the process: the command line itself is wrong.
fn wrong(text: &str) -> ! {
    Cli::command().error(ErrorKind::ArgumentConflict, text).exit()
}

/// What the Klusterlet's own schema takes.
fn is_agents_namespace(name: &str) -> bool {
    let prefix = "open-cluster-management-";
    let allowed = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    let rest = name.strip_prefix(prefix).unwrap_or_default();
    !rest.is_empty() && name.len() <= 57 && rest.chars().all(allowed) && !rest.ends_with('-')
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::DroverCommand;

    fn join(more: &[&str]) -> Result<crate::command::join::Join, clap::Error> {
        let line = ["drover", "join", "--cluster-name=edge", "--bootstrap-kubeconfig=f"];
        match Cli::try_parse_from(line.iter().chain(more).copied())?.command {
            DroverCommand::Join(it) => Ok(*it),
            _ => panic!("it is join"),
        }
    }

    #[test]
    fn an_agent_in_this_process_takes_no_flags_of_an_installation() {
        for flag in [
            "--wait",
            "--singleton",
            "--image=a",
            "--set=a=b",
            "--proxy-url=http://a:1",
            "--dry-run",
        ] {
            let it = join(&["--foreground", flag]).unwrap();
            assert!(
                flag.starts_with(it.install.stray().unwrap_or("none")) || flag == "--set=a=b",
                "{flag}"
            );
        }
        assert_eq!(join(&[]).unwrap().install.stray(), None);
        assert!(join(&["--deploy", "--foreground"]).is_err());
        assert!(join(&["--foreground", "--embedded"]).is_err());
        assert!(join(&["--deploy", "--wait"]).is_ok());
    }

    #[test]
    fn a_wrong_command_line_ends_with_2() {
        for more in [
            &["--mode", "remote"][..],
            &["--feature-gates", "DefaultClusterSet=true"],
            &["--registration-auth", "grpc"],
            &["--registration-auth", "x"],
            &["--proxy-url", "proxy:3128"],
            &["--proxy-ca-file", "f"],
            &["--klusterlet-annotation", "a"],
            &["--client-cert-expiration-seconds", "-1"],
            &["--force-internal-endpoint-lookup-managed"],
            &["--bundle-version", "0.1"],
        ] {
            assert_eq!(join(more).unwrap_err().exit_code(), 2, "{more:?}");
        }
        assert!(join(&["-m", "Hosted", "--managed-cluster-kubeconfig", "f"]).is_ok());
    }

    #[test]
    fn what_drover_does_not_have_is_refused_with_a_sentence() {
        let sentence = |more: &[&str]| join(more).unwrap().install.refused();
        assert!(sentence(&["--grpc-server", "a:1"]).unwrap().contains("no gRPC server"));
        assert!(sentence(&["--hub-cluster-arn", "a"]).unwrap().contains("AWS"));
        assert_eq!(sentence(&[]), None);
    }

    #[test]
    fn a_namespace_of_an_agent_has_upstreams_prefix() {
        for (name, is) in [
            ("open-cluster-management-agent", true),
            ("open-cluster-management-", false),
            ("open-cluster-management-a-", false),
            ("open-cluster-management-A", false),
            ("agents", false),
        ] {
            assert_eq!(is_agents_namespace(name), is, "{name}");
        }
    }
}
