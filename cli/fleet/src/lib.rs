//! A whole fleet in one process: a hub, clusters, and an agent for each of them.
//!
//! ```text
//! embedded API of the hub      <--> hub's controllers, admission rules, welcome (ManagedClusters, CertificateSigningRequests)
//!          ^
//!          | agent of a cluster (for each)
//!          v
//! embedded API of the cluster  <--> node: pods as processes
//! ```
//!
//! This is where the product meets the embedded Kubernetes: [`embedded`] starts an API server, [`nodes`] has it run
//! pods, and [`start`] puts the hub's reconcilers and admission rules on the first and an agent beside each other.
//! [`data_dir`], [`ports`] and [`archive`] are what is kept of it on a disk, and [`examples`] the add-ons
//! that come with it.

mod add_ons;
mod addon_versions;
mod application;
mod application_admission;
mod application_webhooks;
pub mod archive;
mod arrival;
pub mod bundled;
mod cluster_proxy;
pub mod data_dir;
pub mod embedded;
pub mod examples;
pub mod nodes;
mod parties;
mod placement_page;
mod policy_add_ons;
mod policy_admission;
mod policy_webhooks;
pub mod ports;
mod shown;
mod welcome;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use addon_cluster_proxy::in_process::Listeners;
use addon_policy_framework::hub::HubConnection;
use agent::Agent;
use anyhow::{Context, Result, bail};
use credential::KubeconfigSource;
use futures::{StreamExt, future::try_join_all, stream::FuturesUnordered};
use hub::Hub;
use hub::feature_gates::{self, Gate};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use kube_api::clock::Clock;
use kube_node::Node;
use ocm_api::{cluster::ManagedCluster, namespaces};
use ocm_reconcile::{Cache, Clients, Controller, Plan, Site, execute, install::install};
use output::progress::{RunningStep, StepProgress};
use registration::{agent::AgentOptions, hub::heartbeat};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use webhooks::admission;

use crate::{
    bundled::{HubHalves, HubListeners},
    data_dir::DataDir,
    embedded::{Embedded, Settings},
    ports::Ports,
    shown::{AgentFacts, ClusterManagers, HubFacts, Klusterlets},
};

/// The name of the hub beside the clusters' names: of its directory, its kubeconfig and its context.
const HUB: &str = "hub";

/// What was asked for.
pub struct FleetOptions {
    /// Where to keep everything; `None` for a directory of this run only.
    pub data_dir: Option<PathBuf>,
    /// Whether objects are kept in memory only.
    pub ephemeral: bool,
    /// How many clusters.
    pub clusters: u16,
    /// The hub's port, the clusters' follow it.
    pub port: Option<u16>,
    /// Add-ons of ours to put on every cluster.
    pub add_ons: Vec<String>,
    /// Folders with Git repositories that Channels may name.
    pub git_folders: Vec<PathBuf>,
    /// Whether the hub manages the example add-ons.
    pub examples: bool,
    /// Commands that stand for images on the nodes, as `IMAGE=COMMAND`; `None` for no nodes.
    pub images: Option<Vec<String>>,
    /// Switches of the hub.
    pub gates: Vec<Gate>,
    /// How long Events live on the hub and on the clusters; an hour by default.
    pub event_ttl: Option<Duration>,
}

/// Everything that runs, in the order in which it was started.
pub struct Fleet {
    hub: Embedded,
    controllers: Hub,
    clusters: Vec<(Embedded, Agent)>,
    nodes: Vec<Node>,
    /// Where webhooks of Git servers are heard.
    git_webhooks: Option<SocketAddr>,
    /// Ends everything that speaks to the API servers.
    speakers: CancellationToken,
    _data: DataDir,
    ephemeral: bool,
}

/// Starts everything and returns when all clusters are available, or as soon as something fails.
pub async fn start(wanted: &FleetOptions, progress: &StepProgress) -> Result<Fleet> {
    add_ons::check(&wanted.add_ons)?;
    let since = Timestamp::now();
    let data = match &wanted.data_dir {
        Some(path) => DataDir::open(path)?,
        None => DataDir::temporary()?,
    };
    let names: Vec<String> = (1..=wanted.clusters).map(|index| format!("cluster{index}")).collect();
    let Listening {
        servers: mut listeners,
        of_add_ons,
    } = listen(&data, wanted.port, &names, &wanted.add_ons).await?;
    let speakers = CancellationToken::new();
    let images = wanted
        .images
        .as_deref()
        .map(|it| nodes::images(it, &wanted.git_folders))
        .transpose()?;
    let kept = |name: &str| (!wanted.ephemeral).then(|| data.server(name));

    let step = progress.start("starting the hub");
    let mut options = hub::Options {
        addons: examples::managed(wanted.examples),
        ..hub::Options::default()
    };
    feature_gates::apply(&wanted.gates, &mut options);
    let mut facts = HubFacts {
        gates: wanted
            .gates
            .iter()
            .map(|it| (it.name().to_owned(), it.is_on()))
            .collect(),
        auto_approved_users: options.registration.auto_approved_csr_users.clone(),
        crds: Vec::new(),
    };
    let rules = admission::HubAdmission::new(&options);
    let of_applications = Arc::new(application_admission::ApplicationAdmission::default());
    let settings = Settings {
        admission: [
            rules.plugins(),
            vec![Arc::new(policy_admission::PolicyAdmission), of_applications.clone()],
        ]
        .concat(),
        event_ttl: wanted.event_ttl,
        ..Settings::default()
    };
    let hub = Embedded::start(HUB, kept(HUB), listeners.remove(0), settings).await?;
    rules.connect(hub.store());
    of_applications.connect(hub.store());
    hub.keep_admin_kubeconfig(vec![data.kubeconfig(HUB)], Clock::default())?;
    let client = hub.client("system:open-cluster-management:hub");
    bundled::install(&client, &wanted.add_ons).await?;
    let connection = hub
        .connection()
        .await
        .context("could not read the hub's own kubeconfig")?;
    let git_cache = data.server(HUB).join("git");
    let halves = HubHalves::reached_at(HubConnection(connection)).reading_git(git_cache, wanted.git_folders.clone());
    if wanted.examples {
        options.addons.extend(bundled::served(&client, &halves).await);
    }
    let controllers = hub::start(client.clone(), options, speakers.child_token());
    let controllers = controllers.await.context("could not start the hub")?;
    let git_webhooks = of_add_ons.git_webhooks.as_ref();
    let git_webhooks = git_webhooks.map(TcpListener::local_addr).transpose()?;
    let stop = speakers.child_token();
    bundled::start(&client, &controllers.caches, &halves, of_add_ons, &stop).await?;
    facts.crds = served_crds(&hub);
    placement_page::show(&hub);
    let info = hub::bootstrap::cluster_info(&hub.public_kubeconfig()?);
    install(&client, &info)
        .await
        .context("could not tell strangers the hub's CA")?;
    let welcome = Controller::new(welcome::Welcome::new(&controllers.caches, names.clone()));
    welcome.start_on_hub(client.clone(), speakers.child_token());
    let dir = |name: &str| data.server(name).join("node");
    let node = nodes::start_some(&hub, dir(HUB), images.clone(), speakers.child_token()).await?;
    step.done(HUB, "ready")?;

    let clusters = names.iter().zip(listeners).map(|(name, listener)| {
        let (hub, controllers, data, kept, speakers) = (&hub, &controllers, &data, kept(name), &speakers);
        let (dir, images) = (dir(name), images.clone());
        async move {
            let step = progress.start(format!("{name} joining"));
            let settings = Settings {
                event_ttl: wanted.event_ttl,
                ..Settings::default()
            };
            let cluster = Embedded::start(name, kept, listener, settings).await?;
            cluster.keep_admin_kubeconfig(vec![data.kubeconfig(name)], Clock::default())?;
            let node = nodes::start_some(&cluster, dir, images, speakers.child_token()).await?;
            forget_deleted(&hub.client("system:open-cluster-management:hub"), &cluster, name).await?;
            let user = welcome::bootstrap_user(name);
            // In memory only: whoever has it is waved through.
            let bootstrap = hub.issuer().kubeconfig(&user, &[welcome::BOOTSTRAP_GROUP], since)?;
            let bootstrap = KubeconfigSource::Inline(bootstrap);
            let options = AgentOptions {
                cluster_name: Some(name.clone()),
                external_server_urls: vec![cluster.url().to_owned()],
                external_ca_bundle: Some(cluster.ca().as_bytes().to_vec()),
                ..AgentOptions::new(bootstrap, cluster.client("system:open-cluster-management:agent"))
            };
            let agent_facts = AgentFacts {
                cluster_name: name.clone(),
                server_url: cluster.url().to_owned(),
                server_ca: cluster.ca().to_owned(),
                sessions: options.sessions.subscribe(),
            };
            let agent = agent::start(options, speakers.child_token()).await;
            let agent = agent.with_context(|| format!("could not start the agent of {name}"))?;
            let of_operator = cluster.client("system:open-cluster-management:operator");
            tokio::try_join!(
                Klusterlets::start(of_operator, agent_facts, speakers.child_token()),
                arrive(name, step, controllers, since, progress),
            )?;
            anyhow::Ok(((cluster, agent), node))
        }
    });
    let shown = ClusterManagers::start(&controllers.caches, client.clone(), facts, speakers.child_token());
    let (clusters, ()) = tokio::try_join!(try_join_all(clusters), shown)?;
    let (clusters, others): (Vec<_>, Vec<_>) = clusters.into_iter().unzip();
    add_ons::put(&client, &wanted.add_ons, &names, progress).await?;
    Ok(Fleet {
        hub,
        controllers,
        clusters,
        nodes: std::iter::once(node).chain(others).flatten().collect(),
        git_webhooks,
        speakers,
        _data: data,
        ephemeral: wanted.ephemeral,
    })
}

/// The names of the CRDs that make the API a hub.
fn served_crds(hub: &Embedded) -> Vec<String> {
    let (crds, _) = hub.store().list("customresourcedefinitions.apiextensions.k8s.io", "");
    let names = crds
        .iter()
        .filter_map(|it| it.value()["metadata"]["name"].as_str().map(str::to_owned));
    names.filter(|it| it.ends_with(".open-cluster-management.io")).collect()
}

/// A cluster that was deleted from the hub has a certificate that opens nothing any more; without it, it joins anew.
async fn forget_deleted(hub: &Client, cluster: &Embedded, name: &str) -> Result<()> {
    let known = Api::<ManagedCluster>::all(hub.clone()).get_opt(name).await;
    if known
        .with_context(|| format!("could not ask the hub for {name}"))?
        .is_some()
    {
        return Ok(());
    }
    let client = cluster.client("system:open-cluster-management:agent");
    let failed = || format!("could not remove the old certificate of {name}");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespaces::AGENT);
    let kept = secrets.get_opt(namespaces::HUB_KUBECONFIG_SECRET).await;
    let Some(kept) = kept.with_context(failed)? else {
        return Ok(());
    };
    let mut plan = Plan::new();
    plan.delete(Site::Cluster, &kept);
    let outcome = execute(&Clients::cluster(client), &plan).await;
    if !outcome.succeeded() {
        bail!("{}: {}", failed(), outcome.error_text());
    }
    Ok(())
}

/// Everything that listens.
struct Listening {
    /// The hub and the clusters.
    servers: Vec<TcpListener>,
    of_add_ons: HubListeners,
}

/// Listens for the hub, the clusters, and the add-ons that are spoken to, now and in every later run.
async fn listen(data: &DataDir, first: Option<u16>, names: &[String], add_ons: &[String]) -> Result<Listening> {
    let ports = Ports {
        first,
        before: data.ports(),
    };
    let has = |add_on: &str, port: &str| add_ons.iter().any(|it| it == add_on) || ports.before.contains_key(port);
    let of_proxy = cluster_proxy::PORTS;
    let has_proxy = has(addon_cluster_proxy::NAME, of_proxy[0]);
    let has_applications = has(addon_application::NAME, application::PORT);
    let servers = std::iter::once(HUB).chain(names.iter().map(String::as_str));
    let of_add_ons = of_proxy.into_iter().filter(|_| has_proxy);
    let of_add_ons = of_add_ons.chain(has_applications.then_some(application::PORT));
    let mut taken = BTreeMap::new();
    let mut listeners = Vec::new();
    for (index, name) in servers.chain(of_add_ons).enumerate() {
        let listener = ports
            .take(name, u16::try_from(index).context("too many clusters")?)
            .await?;
        taken.insert(name.to_owned(), listener.local_addr()?.port());
        listeners.push(listener);
    }
    let git_webhooks = if has_applications { listeners.pop() } else { None };
    let of_proxy = <[TcpListener; 2]>::try_from(listeners.split_off(names.len() + 1)).ok();
    // The ports of clusters that this run does not start stay theirs.
    let mut remembered = ports.before;
    remembered.extend(taken);
    data.remember_ports(&remembered)?;
    Ok(Listening {
        servers: listeners,
        of_add_ons: HubListeners {
            proxy: of_proxy.map(|[agents, users]| Listeners { agents, users }),
            git_webhooks,
        },
    })
}

/// Tells the steps of one cluster as it takes them; `step` is the first of them, which its start has begun.
async fn arrive(name: &str, step: RunningStep, hub: &Hub, since: Timestamp, progress: &StepProgress) -> Result<()> {
    let clusters: Cache<ManagedCluster> = hub.caches.of();
    let leases = heartbeat::leases(&hub.caches);
    clusters
        .until(|it| arrival::is_joined(it.named(name).as_deref()).then_some(()))
        .await;
    step.done(name, "joined")?;
    let step = progress.start(format!("{name} being accepted"));
    let decided = clusters
        .until(|it| {
            it.named(name)
                .filter(|it| arrival::is_accepted(it) || arrival::is_denied(it))
        })
        .await;
    if arrival::is_denied(&decided) {
        // The administrator's word stands, also after a restart; there is nothing more to wait for.
        return step.done(name, "denied");
    }
    step.done(name, "accepted")?;
    let step = progress.start(format!("{name} becoming available"));
    let mut changes = (clusters.changes(), leases.changes());
    loop {
        let lease = leases.get(name, ocm_api::namespaces::CLUSTER_LEASE);
        if clusters
            .named(name)
            .is_some_and(|it| arrival::is_available(&it, lease.as_deref(), since))
        {
            break;
        }
        tokio::select! {
            changed = changes.0.changed() => changed.context("the hub stopped")?,
            changed = changes.1.changed() => changed.context("the hub stopped")?,
        }
    }
    step.done(name, "available")
}

impl Fleet {
    /// For programs: where everything is.
    pub fn describe(&self) -> Map<String, Value> {
        let server = |it: &Embedded| json!({ "url": it.url(), "kubeconfig": self._data.kubeconfig(it.name()) });
        let mut servers = Map::from_iter([(HUB.to_owned(), server(&self.hub))]);
        servers.extend(self.clusters.iter().map(|(it, _)| (it.name().to_owned(), server(it))));
        let mut all = Map::from_iter([("servers".to_owned(), Value::Object(servers))]);
        if let Some(url) = self.git_webhooks() {
            all.insert("gitWebhooks".to_owned(), url.into());
        }
        all
    }

    /// Where Git servers of this machine tell of changes.
    fn git_webhooks(&self) -> Option<String> {
        self.git_webhooks.map(|it| format!("http://{it}/webhook"))
    }

    /// For people: where the kubeconfigs are, and what to try.
    pub fn hints(&self) -> String {
        let show = |path: PathBuf| {
            let here = std::env::current_dir().ok();
            let shorter = here.and_then(|here| path.strip_prefix(here).ok().map(|it| it.to_owned()));
            shorter.unwrap_or(path).display().to_string()
        };
        let hub = show(self._data.kubeconfig(HUB));
        let mut text = String::from("\nKubeconfigs:\n");
        text.push_str(&format!("  {hub}\n"));
        for (cluster, _) in &self.clusters {
            text.push_str(&format!("  {}\n", show(self._data.kubeconfig(cluster.name()))));
        }
        if let Some(url) = self.git_webhooks() {
            text.push_str(&format!("\nWebhooks of Git servers:\n  {url}\n"));
        }
        text.push_str("\nTry:\n");
        text.push_str(&format!("  kubectl --kubeconfig {hub} get managedclusters\n"));
        if let Some((cluster, _)) = self.clusters.first() {
            let name = cluster.name();
            text.push_str(&format!(
                "  drover --kubeconfig {hub} create work hello -f FILE --clusters {name}\n  \
                 drover --kubeconfig {hub} why managedcluster/{name}\n"
            ));
        } else {
            text.push_str(&format!(
                "  drover --kubeconfig {hub} get token\n  drover join --embedded --hub-kubeconfig {hub} --cluster-name cluster1\n"
            ));
        }
        text.push_str(if self.ephemeral {
            "\nCtrl-C stops it, and everything is forgotten.\n"
        } else {
            "\nCtrl-C stops it; started again it finds everything as it was.\n"
        });
        text
    }

    /// Ends when something that must run has ended by itself.
    pub async fn failed(&mut self) -> anyhow::Error {
        let agents = self.clusters.iter_mut().map(|(cluster, agent)| async move {
            anyhow::Error::new(agent.ended().await).context(format!("the agent of {} ended", cluster.name()))
        });
        let mut agents: FuturesUnordered<_> = agents.collect();
        match agents.next().await {
            Some(error) => error,
            // No clusters, nothing that could end by itself.
            None => std::future::pending().await,
        }
    }

    /// Stops in order: pods and agents, hub controllers, the clusters' API servers, the hub's.
    pub async fn stop(self) {
        self.speakers.cancel();
        futures::future::join_all(self.nodes.into_iter().map(Node::finished)).await;
        let mut servers = Vec::new();
        for (cluster, agent) in self.clusters {
            agent.finished().await;
            servers.push(cluster);
        }
        self.controllers.finished().await;
        futures::future::join_all(servers.into_iter().map(Embedded::stop)).await;
        self.hub.stop().await;
    }
}
