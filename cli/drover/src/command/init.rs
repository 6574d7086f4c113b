//! `drover init`: make a cluster a hub, with an operator and a ClusterManager on it.
//! Upstream: clusteradm `init`, whose flags these are and whose closing text and JSON we print.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, ValueEnum, error::ErrorKind};
use client::{
    bootstrap::{Invitation, parse_server},
    connect::ApiServer,
    flags::Global,
};
use installation::{
    Mode, charts,
    gates::{self, Gate},
    hub::{self, InitOptions, Step},
    images::ImageFlags,
    resources::ResourceFlags,
    values::ValueFlags,
};
use output::{Data, private_file};
use serde_json::json;

use crate::cli::Cli;

/// Make the cluster of the kubeconfig a hub: an operator, which follows a ClusterManager
#[derive(Debug, Args)]
pub struct Init {
    /// Upstream's gates to turn on or off
    #[arg(long, value_delimiter = ',', value_name = "NAME=BOOL", value_parser = gates::parse_hub)]
    feature_gates: Vec<Gate>,
    /// How clusters may prove who they are: csr (drover has no other)
    #[arg(long, value_delimiter = ',', value_name = "DRIVERS", value_parser = driver)]
    registration_drivers: Vec<String>,
    /// Accept clusters and approve their first certificate request without a human, if these users ask for it; this
    /// alone turns ManagedClusterAutoApproval on
    #[arg(
        long,
        visible_alias = "auto-approved-csr-users",
        value_delimiter = ',',
        value_name = "USERS"
    )]
    auto_approved_csr_identities: Vec<String>,
    /// Let clusters join with a bootstrap token, which does not expire, instead of a token of a ServiceAccount
    #[arg(long)]
    use_bootstrap_token: bool,
    /// Put the labels of the ClusterManager on everything that is made of it
    #[arg(long)]
    enable_sync_labels: bool,
    /// Make the namespace open-cluster-management, or use the one that is there
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    create_namespace: bool,
    /// How many pods the operator has [default: 1, and 3 of upstream's images]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..))]
    replicas: Option<u8>,
    /// A docker config in JSON, for the Secret that images are pulled with
    #[arg(long, value_name = "FILE", help_heading = "Images")]
    image_pull_credential_file: Option<PathBuf>,
    #[command(flatten)]
    images: ImageFlags,
    #[command(flatten)]
    resources: ResourceFlags,
    /// A file of values for the chart cluster-manager, before those of --values
    #[arg(long, value_name = "FILE", help_heading = "Values of the chart")]
    cluster_manager_values_file: Option<PathBuf>,
    #[command(flatten)]
    values: ValueFlags,
    /// Where clusters reach the hub [default: where the kubeconfig does]
    #[arg(long, value_name = "URL", value_parser = parse_server)]
    hub_apiserver: Option<String>,
    /// Wait until the hub works
    #[arg(long)]
    wait: bool,
    /// How long to wait, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    timeout: u64,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Does nothing: another `init` changes what is there, and needs no force
    #[arg(long, hide = true)]
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
    #[command(flatten)]
    refused: Refused,
}

/// Flags of upstream's for what drover does not have.
#[derive(Debug, Args)]
pub struct Refused {
    #[arg(long, hide = true)]
    pub singleton: bool,
    #[arg(long, hide = true, value_name = "NAME")]
    pub singleton_name: Option<String>,
    #[arg(long, hide = true, value_name = "ARN")]
    pub hub_cluster_arn: Option<String>,
    #[arg(long, hide = true, value_delimiter = ',', value_name = "TAGS")]
    pub aws_resource_tags: Vec<String>,
    #[arg(long, hide = true, value_delimiter = ',', value_name = "PATTERNS")]
    pub auto_approved_arn_patterns: Vec<String>,
    #[arg(long, hide = true, value_delimiter = ',', value_name = "USERS")]
    pub auto_approved_grpc_identities: Vec<String>,
    #[arg(long, hide = true, value_name = "ADDRESS")]
    pub grpc_server: Option<String>,
    #[arg(long, hide = true, value_name = "TYPE")]
    pub grpc_endpoint_type: Option<String>,
}

impl Refused {
    /// The sentence for the first that was given.
    pub fn sentence(&self) -> Option<String> {
        let singleton = "drover has no multicluster-controlplane: `drover kube up` starts a Kubernetes API to make a hub of, \
                         and `drover up` a hub with its API in one process";
        let aws = "drover registers clusters by certificate requests only, and has none of AWS";
        let grpc = "drover registers clusters by certificate requests only, and has no gRPC server";
        let given = [
            ("--singleton", self.singleton, singleton),
            ("--singleton-name", self.singleton_name.is_some(), singleton),
            ("--hub-cluster-arn", self.hub_cluster_arn.is_some(), aws),
            ("--aws-resource-tags", !self.aws_resource_tags.is_empty(), aws),
            (
                "--auto-approved-arn-patterns",
                !self.auto_approved_arn_patterns.is_empty(),
                aws,
            ),
            (
                "--auto-approved-grpc-identities",
                !self.auto_approved_grpc_identities.is_empty(),
                grpc,
            ),
            ("--grpc-server", self.grpc_server.is_some(), grpc),
            ("--grpc-endpoint-type", self.grpc_endpoint_type.is_some(), grpc),
        ];
        let given = given.into_iter().find(|it| it.1);
        given.map(|(flag, _, why)| format!("{flag}: {why}; leave it out"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

fn driver(text: &str) -> Result<String, String> {
    let options = InitOptions {
        registration_drivers: vec![text.to_owned()],
        ..InitOptions::default()
    };
    options
        .check()
        .map(|()| text.to_owned())
        .map_err(|error| error.to_string())
}

impl Init {
    pub async fn run(self, global: &Global) -> Result<()> {
        if let Some(sentence) = self.refused.sentence() {
            Cli::command().error(ErrorKind::ArgumentConflict, sentence).exit();
        }
        if self.wait && self.output != Format::Text {
            // As with clusteradm: programs wait by themselves.
            let text = "output should be text if --wait is set";
            Cli::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        let options = self.options()?;
        if let Err(error) = options.check() {
            Cli::command().error(ErrorKind::ArgumentConflict, error).exit();
        }
        // What is wrong with values is told before anything is asked.
        let made = options.manifests()?;
        let hub = ApiServer::connect(global).await?;
        let version = hub.client.apiserver_version().await;
        version.map_err(|error| hub.explain("could not reach the cluster to make a hub of", &error))?;
        let public = hub::public(&hub, self.hub_apiserver.as_deref()).await?;
        charts::keep(&made.all(&public), self.output_file.as_deref())?;
        let mut told = BTreeSet::new();
        let mut lines = Vec::new();
        let is_text = self.output == Format::Text;
        let mut tell = |step: Step| match step {
            // Standard output is the program's that asked for JSON.
            Step::Applied(line) if is_text && told.insert(line.name().to_owned()) => output::say(line),
            Step::Applied(line) => {
                lines.push(line.to_string());
                Ok(())
            }
            _ if !is_text || !options.wait => Ok(()),
            Step::CrdRegistered => output::say("CRD successfully registered."),
            Step::OperatorAvailable => output::say("Registration operator is now available."),
            Step::RegistrationAvailable => output::say("ClusterManager registration is now available."),
        };
        let invitation = hub::init(&hub, &options, &mut tell).await?;
        match (invitation, self.output) {
            (Some(invitation), _) => self.tell(&invitation),
            (None, Format::Text) => Ok(()),
            (None, Format::Json) => output::print(&output::encode(&json!(lines), Data::Json)?),
            (None, Format::Yaml) => output::print(&output::encode(&json!(lines), Data::Yaml)?),
        }
    }

    fn options(&self) -> Result<InitOptions> {
        let mut feature_gates = self.feature_gates.clone();
        let approval = "ManagedClusterAutoApproval";
        if !self.auto_approved_csr_identities.is_empty() && !feature_gates.iter().any(|it| it.name == approval) {
            feature_gates.push(Gate {
                name: approval.to_owned(),
                on: true,
            });
        }
        Ok(InitOptions {
            images: self.images.images()?,
            image_pull_credential_file: self.image_pull_credential_file.clone(),
            feature_gates,
            registration_drivers: self.registration_drivers.clone(),
            auto_approved_csr_identities: self.auto_approved_csr_identities.clone(),
            resources: self.resources.clone(),
            replicas: self.replicas,
            use_bootstrap_token: self.use_bootstrap_token,
            create_namespace: self.create_namespace,
            enable_sync_labels: self.enable_sync_labels,
            values_file: self.cluster_manager_values_file.clone(),
            values: self.values.clone(),
            hub_apiserver: self.hub_apiserver.clone(),
            wait: self.wait,
            timeout: Duration::from_secs(self.timeout),
            mode: if self.dry_run { Mode::DryRun } else { Mode::Write },
        })
    }

    fn tell(&self, invitation: &Invitation) -> Result<()> {
        let wait = if self.wait { " --wait" } else { "" };
        let command = format!("{}{wait}", invitation.command());
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::DroverCommand;

    fn init(more: &[&str]) -> Result<Init, clap::Error> {
        let line = ["drover", "init"].iter().chain(more).copied();
        match Cli::try_parse_from(line)?.command {
            DroverCommand::Init(it) => Ok(*it),
            _ => panic!("it is init"),
        }
    }

    #[test]
    fn what_drover_does_not_have_is_refused_with_a_sentence() {
        let sentence = |more: &[&str]| init(more).unwrap().refused.sentence();
        assert!(sentence(&["--singleton"]).unwrap().contains("drover kube up"));
        assert!(
            sentence(&["--grpc-server", "a:1"])
                .unwrap()
                .starts_with("--grpc-server: ")
        );
        assert!(
            sentence(&["--auto-approved-arn-patterns", "a"])
                .unwrap()
                .contains("AWS")
        );
        assert_eq!(sentence(&[]), None);
    }

    #[test]
    fn a_wrong_command_line_ends_with_2() {
        for more in [
            &["--feature-gates", "Nothing=true"][..],
            &["--registration-drivers", "grpc"],
            &["--registration-drivers", "x"],
            &["--bundle-version", "9.9.9"],
            &["--resource-qos-class", "Best"],
            &["--resource-limits", "cpu=much"],
            &["--hub-apiserver", "here"],
            &["--image", "a", "--image-registry", "b"],
            &["--replicas", "0"],
        ] {
            assert_eq!(init(more).unwrap_err().exit_code(), 2, "{more:?}");
        }
    }

    #[test]
    fn identities_alone_turn_the_gate_on() {
        let options = init(&["--auto-approved-csr-identities", "a,b"])
            .unwrap()
            .options()
            .unwrap();
        options.check().unwrap();
        let off = [
            "--auto-approved-csr-identities=a",
            "--feature-gates=ManagedClusterAutoApproval=false",
        ];
        assert!(init(&off).unwrap().options().unwrap().check().is_err());
    }

    #[test]
    fn flags_take_values_as_with_clusteradm() {
        let made = init(&["--create-namespace=false", "--resource-limits", "cpu=1,memory=1Gi"]).unwrap();
        assert!(!made.create_namespace);
        assert_eq!(made.resources.resource_limits.len(), 2);
        assert!(init(&["--create-namespace"]).unwrap().create_namespace);
    }
}
