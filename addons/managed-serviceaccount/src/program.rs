//! The programs of upstream's image: `msa manager`, `msa agent` and `cp-creds`, with their flags.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use ocm_addon_sdk::{
    AddOnAgent,
    agent::renew,
    hub::{Manager, Options},
    k8s_openapi::{ByteString, api::core::v1::Secret},
    kube::{Api, Client},
    ocm_api::authentication,
    program::{self, LeaderElection, Pages, Place},
    reconcile::{Caches, Clients, Controller, controller},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    NAME,
    agent::{self, AgentClients, AgentSite},
    creds,
    hub::{self, Gates, IMAGE, ManagedServiceAccounts, ephemeral::EphemeralAccounts},
};

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = &["msa", "cp-creds"];

/// The agent's own page for its liveness probe; no flag changes the port.
const HEALTH: &str = ":8000";
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Identities of programs on managed clusters
#[derive(Debug, Parser)]
#[command(name = "msa", disable_version_flag = true, disable_help_subcommand = true)]
struct Msa {
    #[command(subcommand)]
    command: Option<Sub>,
}

#[derive(Debug, Subcommand)]
enum Sub {
    /// Look after the add-on on the hub
    Manager(ManagerFlags),
    /// Keep the tokens of one cluster
    Agent(AgentFlags),
}

#[derive(Debug, Args)]
struct Shared {
    /// Where metrics are served
    #[arg(long, value_name = "HOST:PORT", default_value = ":38080")]
    metrics_bind_address: String,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "HOST:PORT", default_value = ":38081")]
    health_probe_bind_address: String,
    /// Whether one of several processes is elected to do the work
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Feature gates, such as EphemeralIdentity=true,ClusterProfile=true
    #[arg(long, value_name = "GATES", default_value = "", value_parser = Gates::read, hide_default_value = true)]
    feature_gates: Gates,
    /// The kubeconfig of the hub [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Accepted: what is logged is chosen by $RUST_LOG
    #[arg(long, short, value_name = "LEVEL")]
    v: Option<String>,
}

#[derive(Debug, Args)]
struct ManagerFlags {
    #[command(flatten)]
    shared: Shared,
    /// The image of the agent
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    agent_image_name: String,
    /// The Secret for the agent's image, in the namespace that $NAMESPACE names
    #[arg(
        long,
        value_name = "SECRET",
        env = "AGENT_IMAGE_PULL_SECRET",
        default_value = "",
        hide_default_value = true
    )]
    agent_image_pull_secret: String,
    /// Deployment, or AddOnTemplate where the hub's add-on manager delivers the agent by an AddOnTemplate
    #[arg(long, value_name = "MODE", default_value = "Deployment", value_parser = ["Deployment", "AddOnTemplate"])]
    deploy_mode: String,
}

#[derive(Debug, Args)]
struct AgentFlags {
    #[command(flatten)]
    shared: Shared,
    /// The cluster's name
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    cluster_name: String,
    /// The kubeconfig of the managed cluster [default: $KUBECONFIG, or the ServiceAccount of the pod]
    #[arg(long, value_name = "FILE")]
    spoke_kubeconfig: Option<PathBuf>,
    /// Whether the add-on's Lease is renewed
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    lease_health_check: bool,
}

/// Runs one of [`PROGRAMS`] with its arguments, without its name, until it ends or is told to stop.
pub fn run(program: &str, arguments: Vec<OsString>, place: &Place) -> ExitCode {
    if program == "cp-creds" {
        return creds::run(arguments, place);
    }
    let words = std::iter::once("msa".into()).chain(arguments);
    let parsed = match program::parsed(Msa::try_parse_from(words)) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    match parsed.command {
        Some(Sub::Manager(flags)) => program::run(async |stop| manager(flags, place, stop).await),
        Some(Sub::Agent(flags)) => program::run(async |stop| serve(flags, place, stop).await),
        None => {
            // As upstream's does.
            let _ = <Msa as clap::CommandFactory>::command().print_help();
            ExitCode::FAILURE
        }
    }
}

impl Shared {
    async fn pages(&self, stop: &CancellationToken) -> Result<()> {
        let address = |text: &str| program::address(text).map_err(anyhow::Error::msg);
        let metrics = address(&self.metrics_bind_address).context("--metrics-bind-address")?;
        Pages::new().metrics().serve(metrics, stop).await?;
        let probes = address(&self.health_probe_bind_address).context("--health-probe-bind-address")?;
        let pages = Pages::new().healthy(|| Ok(())).ready(|| Ok(()));
        pages.serve(probes, stop).await?;
        Ok(())
    }
}

/// The namespace that the process runs in.
fn own_namespace() -> Result<String> {
    let said = std::env::var("NAMESPACE").ok().filter(|it| !it.is_empty());
    let of_pod = || {
        std::fs::read_to_string(POD_NAMESPACE)
            .ok()
            .map(|it| it.trim().to_owned())
    };
    said.or_else(of_pod)
        .with_context(|| format!("neither $NAMESPACE nor {POD_NAMESPACE} says which namespace this process runs in"))
}

async fn manager(flags: ManagerFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    let client = place.client(flags.shared.kubeconfig.as_deref()).await?;
    check_kind(&client).await?;
    flags.shared.pages(&stop).await?;
    let add_on = match flags.deploy_mode.as_str() {
        "AddOnTemplate" => None,
        _ => Some(ManagedServiceAccounts {
            image: flags.agent_image_name.clone(),
            pull_secret: pull_secret(&client, &flags.agent_image_pull_secret).await?,
            gates: flags.shared.feature_gates,
        }),
    };
    let mut gates = flags.shared.feature_gates;
    // There the agents do it.
    gates.ephemeral_identity &= add_on.is_some();
    let work = move |client: Client, end: CancellationToken| {
        let add_on = add_on.clone();
        async move {
            if let Err(error) = manage(client, add_on, gates, end.clone()).await {
                tracing::error!("{error:#}");
            }
        }
    };
    if !flags.shared.leader_elect {
        work(client, stop).await;
        return Ok(());
    }
    let election = LeaderElection::new(own_namespace()?, "managed-serviceaccount-addon-manager");
    program::lead(client, election, work, stop).await
}

/// The add-on, if it is not a template's, and what the gates allow.
async fn manage(
    client: Client,
    add_on: Option<ManagedServiceAccounts>,
    gates: Gates,
    stop: CancellationToken,
) -> Result<()> {
    let caches = Caches::new(client.clone(), stop.clone());
    let clients = Clients::hub(client.clone());
    let running = controller::start_all(hub::controllers(&caches, gates), &clients, &stop);
    match add_on {
        Some(add_on) => {
            let manager = Manager::start(client, &caches, Options::default(), stop.clone()).await?;
            manager.add(Arc::new(add_on))?;
            manager.finished().await;
        }
        None => stop.cancelled().await,
    }
    for one in running {
        let _ = one.finished.await;
    }
    Ok(())
}

/// Nothing could be done on a hub without the kind.
async fn check_kind(client: &Client) -> Result<()> {
    let version = format!("{}/v1beta1", authentication::GROUP);
    let found = client.list_api_group_resources(&version).await;
    let serves = |it: &Value| it["name"] == authentication::ManagedServiceAccount::PLURAL;
    let is_served = found
        .map(|it| serde_json::to_value(it.resources).unwrap_or_default())
        .is_ok_and(|it| it.as_array().is_some_and(|it| it.iter().any(serves)));
    if !is_served {
        bail!(
            "the hub does not serve managedserviceaccounts in {version}; apply the CustomResourceDefinition of the add-on"
        );
    }
    Ok(())
}

/// What the Secret for the agent's image has, in base64.
async fn pull_secret(client: &Client, name: &str) -> Result<Option<String>> {
    const KIND: &str = "kubernetes.io/dockerconfigjson";
    if name.is_empty() {
        return Ok(None);
    }
    let namespace = own_namespace()?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let secret = secrets.get(name).await;
    let secret = secret.with_context(|| format!("--agent-image-pull-secret: Secret {namespace}/{name}"))?;
    if secret.type_.as_deref() != Some(KIND) {
        bail!("--agent-image-pull-secret: Secret {namespace}/{name} is not of type {KIND}");
    }
    let data = secret.data.and_then(|mut it| it.remove(".dockerconfigjson"));
    let data =
        data.with_context(|| format!("--agent-image-pull-secret: Secret {namespace}/{name} has no .dockerconfigjson"))?;
    let text = serde_json::to_value(ByteString(data.0))?;
    Ok(text.as_str().map(str::to_owned))
}

async fn serve(flags: AgentFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    if flags.cluster_name.is_empty() {
        bail!("--cluster-name is missing: the name of the cluster on the hub");
    }
    let namespace = own_namespace()?;
    let spoke = flags.spoke_kubeconfig.as_deref();
    let managed = place.client(spoke).await?;
    check_tokens(&managed).await?;
    let watched = [hub_kubeconfig(&flags), flags.spoke_kubeconfig.clone()];
    let health = Pages::new().healthy(unchanged(watched.into_iter().flatten()));
    let address = program::address(HEALTH).map_err(anyhow::Error::msg)?;
    health.serve(address, &stop).await?;
    flags.shared.pages(&stop).await?;
    let hub = match &flags.shared.kubeconfig {
        Some(path) => place.hub_client(path, &stop).await,
        None => place.client(None).await,
    };
    let hub = match hub {
        Ok(hub) => hub,
        // Told to stop while it waited for its credential.
        Err(_) if stop.is_cancelled() => return Ok(()),
        Err(error) => return Err(error),
    };
    let site = AgentSite {
        cluster: flags.cluster_name.clone(),
        namespace: namespace.clone(),
        ca: place.ca(spoke)?,
    };
    info!(cluster = %site.cluster, %namespace, "agent started");
    let beats = AddOnAgent {
        add_on: NAME.to_owned(),
        cluster: site.cluster.clone(),
        namespace: namespace.clone(),
        hub: Some(hub.clone()),
        managed: managed.clone(),
        home: managed.clone(),
        stop: stop.clone(),
    };
    let beating = flags.lease_health_check;
    let beats = async move {
        if beating {
            renew(&beats, async || true).await;
        }
    };
    let gates = flags.shared.feature_gates;
    let work = move |managed: Client, end: CancellationToken| {
        keep(
            AgentClients {
                hub: hub.clone(),
                managed,
            },
            site.clone(),
            gates,
            end,
        )
    };
    if flags.shared.leader_elect {
        let election = LeaderElection::new(namespace, "managed-serviceaccount-addon-agent");
        let (led, ()) = tokio::join!(program::lead(managed, election, work, stop), beats);
        return led;
    }
    tokio::join!(work(managed, stop), beats);
    Ok(())
}

/// Keeps the tokens of one cluster until `stop`.
async fn keep(clusters: AgentClients, site: AgentSite, gates: Gates, stop: CancellationToken) {
    let (hub, managed) = clusters.caches(&stop);
    let cluster = site.cluster.clone();
    let mut all = vec![agent::controller(
        &clusters,
        &hub,
        &managed,
        site,
        Arc::new(Timestamp::now),
    )];
    if gates.ephemeral_identity {
        all.push(Controller::new(EphemeralAccounts::of_cluster(&hub, &cluster)));
    }
    for one in controller::start_all(all, &clusters.clients(), &stop) {
        let _ = one.finished.await;
    }
}

/// The API server has to give out tokens.
async fn check_tokens(managed: &Client) -> Result<()> {
    let core = managed.list_core_api_resources("v1").await;
    let core = core.context("the managed cluster does not say which resources it has")?;
    if !core.resources.iter().any(|it| it.kind == "TokenRequest") {
        bail!(
            "the managed cluster gives out no tokens of ServiceAccounts: it has no resource of kind TokenRequest in v1"
        );
    }
    Ok(())
}

fn hub_kubeconfig(flags: &AgentFlags) -> Option<PathBuf> {
    let said = std::env::var_os("HUB_KUBECONFIG").map(PathBuf::from);
    said.or_else(|| flags.shared.kubeconfig.clone())
}

/// Fails when one of the files is another than at the start: the pod is started anew. One that came later is none: a
/// pod is started before its credential is there.
fn unchanged(files: impl Iterator<Item = PathBuf>) -> impl Fn() -> Result<(), String> + Send + Sync + 'static {
    let read = |path: &Path| std::fs::read(path).ok();
    let known: Vec<(PathBuf, parking_lot::Mutex<Option<Vec<u8>>>)> = files
        .map(|path| {
            let text = read(&path).into();
            (path, text)
        })
        .collect();
    move || {
        for (path, before) in &known {
            let Some(now) = read(path) else { continue };
            let mut before = before.lock();
            match &*before {
                None => *before = Some(now),
                Some(before) if *before != now => return Err(format!("{} has changed", path.display())),
                Some(_) => {}
            }
        }
        Ok(())
    }
}
