//! `drover join`: make a cluster one of a hub's. Upstream: clusteradm `join`, which installs an operator that installs
//! the agent, and so does this, in [`install`]. With `--foreground` the agent is this process instead; with
//! `--embedded` the cluster is, too: a Kubernetes API of its own.

mod install;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, anyhow};
use clap::{Args, CommandFactory, error::ErrorKind};
use client::{
    bootstrap::{Invitation, parse_server},
    cluster_name,
    connect::ApiServer,
    flags::Global,
};
use credential::KubeconfigSource;
use fleet::{
    data_dir::DataDir,
    embedded::{Embedded, Settings},
    nodes,
    ports::Ports,
};
use installation::cluster::hub_access::{HubAccess, Trust};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::{Api, Client, config::Kubeconfig, core::ObjectMeta};
use kube_api::clock::Clock;
use ocm_api::namespaces;
use ocm_reconcile::install::{Installed, install};
use registration::agent::{AgentOptions, Phase};
use tokio_util::sync::CancellationToken;

use crate::{add_on_credentials::AddOnCredentials, cli::Cli, command::agent::run_agent};

/// Join the cluster of the kubeconfig to a hub: an operator is put there, which follows a Klusterlet; or, with
/// --foreground or --embedded, stay as the agent until Ctrl-C
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("hub").required(true).multiple(false)
    .args(["hub_token", "bootstrap_kubeconfig", "hub_kubeconfig"]))]
pub struct Join {
    /// The name of the cluster on the hub
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// The token that `drover get token` printed on the hub
    #[arg(long, value_name = "TOKEN", requires = "hub_apiserver", help_heading = "The hub")]
    hub_token: Option<String>,
    /// The hub's URL
    #[arg(long, value_name = "URL", value_parser = parse_server, requires = "hub_token", help_heading = "The hub")]
    hub_apiserver: Option<String>,
    /// The fingerprint of the hub's CA, to make sure that it is the right hub
    #[arg(long, value_name = "sha256:HEX", requires = "hub_token", help_heading = "The hub")]
    hub_ca_hash: Option<String>,
    /// The hub's CA in PEM, instead of asking the hub for it
    #[arg(
        long,
        value_name = "FILE",
        requires = "hub_token",
        conflicts_with = "hub_ca_hash",
        help_heading = "The hub"
    )]
    ca_file: Option<PathBuf>,
    /// A kubeconfig to bootstrap with, instead of a token: `drover get token -o kubeconfig`
    #[arg(long, value_name = "FILE", help_heading = "The hub")]
    bootstrap_kubeconfig: Option<PathBuf>,
    /// An administrator's kubeconfig of the hub, to make the token with
    #[arg(long, value_name = "FILE", help_heading = "The hub")]
    hub_kubeconfig: Option<PathBuf>,
    /// Be the agent of the cluster of the kubeconfig until Ctrl-C, and install nothing
    #[arg(long, help_heading = "The cluster")]
    foreground: bool,
    /// Start a Kubernetes API for the cluster in this process and be its agent, instead of joining the one of the
    /// kubeconfig
    #[arg(long, conflicts_with = "foreground", help_heading = "The cluster")]
    embedded: bool,
    /// Where the embedded cluster keeps everything [default: .drover-NAME]
    #[arg(long, value_name = "DIR", requires = "embedded", help_heading = "The cluster")]
    data_dir: Option<PathBuf>,
    /// The embedded cluster's port [default: a free one, the same every time]
    #[arg(long, value_name = "PORT", requires = "embedded", value_parser = clap::value_parser!(u16).range(1..), help_heading = "The cluster")]
    port: Option<u16>,
    /// Run COMMAND for containers of IMAGE on the embedded cluster, as with `drover up`
    #[arg(long, value_name = "IMAGE=COMMAND", requires = "embedded", value_parser = nodes::parse_mapping, help_heading = "The cluster")]
    node_image_map: Vec<String>,
    /// Start no node on the embedded cluster: pods stay Pending, and Deployments make none
    #[arg(
        long,
        requires = "embedded",
        conflicts_with = "node_image_map",
        help_heading = "The cluster"
    )]
    no_node: bool,
    #[command(flatten)]
    add_ons: AddOnCredentials,
    #[command(flatten)]
    install: install::InstallFlags,
}

impl Join {
    /// Whether the process also serves the cluster's API.
    pub fn is_embedded(&self) -> bool {
        self.embedded
    }

    pub async fn run(self, global: &Global) -> Result<()> {
        cluster_name::check(&self.cluster_name)?;
        if self.embedded && global.kubeconfig.is_some() {
            let text = "--embedded and --kubeconfig exclude each other: the cluster is either new or the kubeconfig's";
            Cli::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        if let Some(sentence) = self.install.refused() {
            Cli::command().error(ErrorKind::ArgumentConflict, sentence).exit();
        }
        if !self.embedded && !self.foreground {
            let (_, hub) = self.hub().await?;
            return self.install.run(global, &self.cluster_name, hub, &self.add_ons).await;
        }
        if let Some(flag) = self.install.stray() {
            let how = if self.embedded { "--embedded" } else { "--foreground" };
            let text =
                format!("{flag} is for an agent that is installed, and with {how} none is: leave one of them out");
            Cli::command().error(ErrorKind::ArgumentConflict, text).exit();
        }
        process::raise_open_files();
        let stop = CancellationToken::new();
        process::stop_on_signals(stop.clone())?;
        let ready = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            ready = self.prepare(global) => ready?,
        };
        if !ready.rejoins {
            self.tell()?;
        }
        let mut options = AgentOptions::new(ready.bootstrap, ready.client);
        options.cluster_name = Some(self.cluster_name.clone());
        options.fail_fast = !ready.rejoins;
        self.add_ons.tell(&mut options);
        options.on_phase = Arc::new(tell_phase);
        let mut node = None;
        if let Some((server, data)) = &ready.embedded {
            let dir = data.server(server.name()).join("node");
            let images = (!self.no_node).then(|| nodes::images(&self.node_image_map, &[]));
            node = nodes::start_some(server, dir, images.transpose()?, stop.child_token()).await?;
            options.external_server_urls = vec![server.url().to_owned()];
            options.external_ca_bundle = Some(server.ca().as_bytes().to_vec());
        }
        let ended = run_agent(options, &stop).await;
        // The agent may have ended by itself.
        stop.cancel();
        if let Some(node) = node {
            node.finished().await;
        }
        if let Some((server, _data)) = ready.embedded {
            server.stop().await;
        }
        ended
    }

    async fn prepare(&self, global: &Global) -> Result<Ready> {
        // The hub first: were it wrong, nothing would have been started or written yet.
        let (bootstrap, kubeconfig) = match self.hub().await {
            Ok(hub) => hub,
            Err(error) if self.embedded && self.place().join("format").exists() => return self.rejoin(error).await,
            Err(error) => return Err(error),
        };
        if self.embedded {
            let (server, data) = self.start_cluster().await?;
            let client = server.client("system:open-cluster-management:agent");
            keep_bootstrap(&client, namespaces::AGENT, &kubeconfig).await?;
            return Ok(Ready {
                bootstrap,
                client,
                embedded: Some((server, data)),
                rejoins: false,
            });
        }
        let target = ApiServer::connect(global).await?;
        let version = target.client.apiserver_version().await;
        version.map_err(|error| target.explain("could not reach the cluster to join", &error))?;
        keep_bootstrap(&target.client, namespaces::AGENT, &kubeconfig).await?;
        Ok(Ready {
            bootstrap,
            client: target.client,
            embedded: None,
            rejoins: false,
        })
    }

    /// The hub as this command line names it, after it has taken the credential.
    async fn hub(&self) -> Result<(KubeconfigSource, Kubeconfig)> {
        let bootstrap = self.bootstrap().await?;
        let kubeconfig = check_hub(&bootstrap, &self.cluster_name).await?;
        Ok((bootstrap, kubeconfig))
    }

    /// Goes on where an earlier run was: the hub may be away, and the token too old, and the cluster is still joined.
    async fn rejoin(&self, error: anyhow::Error) -> Result<Ready> {
        let (server, data) = self.start_cluster().await?;
        let client = server.client("system:open-cluster-management:agent");
        let bootstrap = match kept_bootstrap(&client).await {
            Ok(Some(bootstrap)) => bootstrap,
            // It was never joined, so that what was typed is all there is.
            Ok(None) => {
                server.stop().await;
                return Err(error);
            }
            Err(other) => {
                server.stop().await;
                return Err(other);
            }
        };
        eprintln!(
            "warning: {}; going on with what {} joined with before",
            output::sentence(&error),
            self.cluster_name
        );
        Ok(Ready {
            bootstrap,
            client,
            embedded: Some((server, data)),
            rejoins: true,
        })
    }

    /// Where the embedded cluster keeps everything.
    fn place(&self) -> PathBuf {
        let default = || format!(".drover-{}", self.cluster_name).into();
        self.data_dir.clone().unwrap_or_else(default)
    }

    async fn start_cluster(&self) -> Result<(Embedded, DataDir)> {
        let name = &self.cluster_name;
        let path = self.place();
        let data = DataDir::open(&path)?;
        let ports = Ports {
            first: self.port,
            before: data.ports(),
        };
        let listener = ports.take(name, 0).await?;
        data.remember_ports(&[(name.clone(), listener.local_addr()?.port())].into())?;
        let server = Embedded::start(name, Some(data.server(name)), listener, Settings::default()).await?;
        server.keep_admin_kubeconfig(vec![data.kubeconfig(name)], Clock::default())?;
        output::say(format_args!(
            "The Kubernetes API of {name} is ready at {}; its kubeconfig is {}.",
            server.url(),
            path.join(format!("{name}.kubeconfig")).display()
        ))?;
        Ok((server, data))
    }

    /// What the hub's administrator has to do now.
    fn tell(&self) -> Result<()> {
        output::say(format_args!(
            "Please log onto the hub cluster and run the following command:\n\n    drover accept --clusters {}\n\n\
             {AUTO_APPROVAL}\n",
            self.cluster_name
        ))
    }

    /// The kubeconfig to bootstrap with, from whichever way the user chose.
    async fn bootstrap(&self) -> Result<KubeconfigSource> {
        if let Some(path) = &self.bootstrap_kubeconfig {
            return Ok(KubeconfigSource::Path(path.clone()));
        }
        let invitation = if let Some(path) = &self.hub_kubeconfig {
            if self.install.is_dry_run() {
                // A token would be made, and thrown away.
                return Ok(KubeconfigSource::Path(path.clone()));
            }
            Invitation::make(&admin(path).await?, None).await?
        } else {
            let token = self
                .hub_token
                .clone()
                .ok_or_else(|| anyhow!("--hub-token is missing"))?;
            let server = self
                .hub_apiserver
                .clone()
                .ok_or_else(|| anyhow!("--hub-apiserver is missing"))?;
            let trust = match (&self.ca_file, &self.hub_ca_hash) {
                (Some(path), _) => Trust::File(path.clone()),
                (None, Some(hash)) => Trust::Hash(hash.clone()),
                (None, None) => Trust::FirstAnswer,
            };
            let (invitation, remark) = HubAccess { server, token, trust }.invitation().await?;
            if let Some(remark) = remark {
                eprintln!("warning: {remark}");
            }
            invitation
        };
        Ok(KubeconfigSource::Inline(invitation.kubeconfig()?))
    }
}

/// When what an administrator is asked to do comes about by itself.
const AUTO_APPROVAL: &str = "This is not needed when the ManagedClusterAutoApproval feature is enabled";

/// Where the agent is on its way, for the person who waits at the terminal.
fn tell_phase(phase: &Phase) {
    // A terminal that is gone is no reason to leave the hub.
    let _ = match phase {
        Phase::Running => output::say("The cluster has joined; Ctrl-C stops its agent."),
        Phase::Leaving => Ok(()),
        other => output::say(other),
    };
}

/// Everything the agent needs.
struct Ready {
    bootstrap: KubeconfigSource,
    client: Client,
    /// The cluster's server and its directory, where they are ours.
    embedded: Option<(Embedded, DataDir)>,
    /// Whether it joined in an earlier run, and the hub could not be asked now.
    rejoins: bool,
}

async fn admin(path: &Path) -> Result<ApiServer> {
    let global = Global {
        kubeconfig: Some(path.to_owned()),
        context: None,
        log: None,
    };
    ApiServer::connect(&global).await
}

/// Asks the hub whether it takes the credential, so that a mistake is told here and not found in a log. What a
/// bootstrap token may read is the cluster by its name.
async fn check_hub(bootstrap: &KubeconfigSource, cluster: &str) -> Result<Kubeconfig> {
    let loaded = bootstrap.load(jiff::Timestamp::now()).await?;
    let target = ApiServer::of(loaded.kubeconfig.clone(), "the bootstrap kubeconfig").await?;
    let clusters = target.all(&client::kinds::managed_cluster());
    match clusters.get(cluster).await {
        Ok(_) => Ok(loaded.kubeconfig),
        // A server that does not have the kind names no object.
        Err(kube::Error::Api(status))
            if status
                .details
                .as_ref()
                .is_some_and(|it| status.code == 404 && it.name == cluster) =>
        {
            Ok(loaded.kubeconfig)
        }
        Err(error) => Err(target.explain("could not ask the hub to join", &error)),
    }
}

/// The bootstrap kubeconfig that an earlier run has left on the cluster, if it ever got a certificate with it.
async fn kept_bootstrap(cluster: &Client) -> Result<Option<KubeconfigSource>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.clone(), namespaces::AGENT);
    let failed = "could not read what the cluster joined with before";
    let ours = secrets
        .get_opt(namespaces::HUB_KUBECONFIG_SECRET)
        .await
        .context(failed)?
        .and_then(|it| it.data);
    if ours.is_none_or(|it| !it.contains_key(credential::hub_secret::TLS_CRT)) {
        return Ok(None);
    }
    let kept = secrets
        .get_opt(namespaces::BOOTSTRAP_KUBECONFIG_SECRET)
        .await
        .context(failed)?;
    let text = kept.and_then(|it| it.data?.remove("kubeconfig"));
    Ok(text
        .and_then(|it| String::from_utf8(it.0).ok())
        .map(KubeconfigSource::Inline))
}

/// Leaves the bootstrap kubeconfig on the cluster, where `drover agent` and upstream's agents look for it.
async fn keep_bootstrap(cluster: &Client, namespace: &str, kubeconfig: &Kubeconfig) -> Result<()> {
    let home = Namespace {
        metadata: ObjectMeta {
            name: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(namespaces::BOOTSTRAP_KUBECONFIG_SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(
            [(
                "kubeconfig".to_owned(),
                ByteString(output::yaml(kubeconfig)?.into_bytes()),
            )]
            .into(),
        ),
        ..Secret::default()
    };
    let objects = [Installed::of(&home), Installed::of(&secret)];
    install(cluster, &objects)
        .await
        .context("could not leave the bootstrap kubeconfig on the cluster")
}
