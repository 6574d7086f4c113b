//! `drover hub`: the hub's controllers against the API server of a kubeconfig, embedded or not.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use client::{connect::ApiServer, flags::Global};
use fleet::examples;
use hub::feature_gates;
use ocm_api::namespaces;
use ocm_reconcile::lead::{Election, Work};
use operator::importer::{self, Renderer};
use process::health;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Run the hub's controllers against the Kubernetes API of the kubeconfig, and stay until Ctrl-C
#[derive(Debug, Args)]
pub struct Hub {
    /// Accept clusters and approve their first certificate request without a human, if these users ask for it; this
    /// alone turns ManagedClusterAutoApproval on
    #[arg(long, value_delimiter = ',', value_name = "USERS")]
    auto_approved_csr_users: Vec<String>,
    /// Upstream's switches to turn on or off: AddonManagement, CleanUpCompletedManifestWork, ClusterImporter,
    /// ClusterProfile, DefaultClusterSet, ManagedClusterAutoApproval (on: who has a token is let in; off: nobody is),
    /// ManifestWorkReplicaSet, NilExecutorValidating, ResourceCleanup
    #[arg(long, value_delimiter = ',', value_name = "NAME=BOOL", value_parser = hub::feature_gates::parse)]
    feature_gates: Vec<hub::feature_gates::Gate>,
    /// Leave the example add-ons (helloworld, helloworldhelm, helloworldhosted) to managers of their own,
    /// such as upstream's
    #[arg(long)]
    no_examples: bool,
    /// Wait until no other `drover hub` of this API server works, and take its place when it stops
    #[arg(long)]
    leader_elect: bool,
    /// Labels of what is made for clusters: KEY=VALUE,...
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Make no kinds, namespaces and bootstrap identity, and no Lease but in the namespace of this pod (POD_NAMESPACE):
    /// an operator looks after them
    #[arg(long, hide = true)]
    installed_by_operator: bool,
    #[command(flatten)]
    importer: ImporterFlags,
    #[command(flatten)]
    webhooks: webhooks::WebhookFlags,
    #[command(flatten)]
    health: health::HealthFlags,
}

/// What the importer of clusters is told; without its gate, nobody asks.
#[derive(Debug, Args)]
#[command(next_help_heading = "The importer of clusters (gate ClusterImporter)")]
struct ImporterFlags {
    /// What imported clusters are told, the later over the earlier: render-auto, render-from-config-secret
    /// [default: render-auto, and the Secret cluster-import-config if it is there]
    #[arg(long, value_delimiter = ',', value_name = "RENDERERS")]
    import_renderers: Vec<Renderer>,
    /// Where imported clusters reach the hub [default: what ConfigMap kube-public/cluster-info says, or where this
    /// process reaches it]
    #[arg(long, value_name = "URL", value_parser = client::bootstrap::parse_server)]
    hub_apiserver_url: Option<String>,
    /// The image of the operator that imported clusters get [default: drover and the version of this binary]
    #[arg(long, value_name = "IMAGE")]
    agent_image: Option<String>,
    /// The ServiceAccount that imported clusters join with
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "open-cluster-management/agent-registration-bootstrap",
        value_parser = importer::namespaced
    )]
    bootstrap_serviceaccount: (String, String),
}

impl ImporterFlags {
    fn apply(self, options: &mut importer::Options, target: &ApiServer) {
        if !self.import_renderers.is_empty() {
            options.renderers = self.import_renderers;
        }
        options.hub_apiserver_url = self.hub_apiserver_url;
        options.hub_here = (!target.is_of_pod()).then(|| (target.server.clone(), target.ca.clone()));
        options.agent_image = self.agent_image;
        options.bootstrap_service_account = self.bootstrap_serviceaccount;
        if let Some(namespace) = std::env::var("POD_NAMESPACE").ok().filter(|it| !it.is_empty()) {
            options.pull_secret.0 = namespace;
        }
    }
}

/// client-go's usual times: a hub that dies is followed within a quarter of a minute.
const LEASE_DURATION: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// The Lease, in the hub's namespace.
const LEASE: &str = "drover-hub-lock";

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text} is not KEY=VALUE"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl Hub {
    pub async fn run(self, global: &Global) -> Result<()> {
        process::raise_open_files();
        let stop = CancellationToken::new();
        process::stop_on_signals(stop.clone())?;
        let target = ApiServer::connect(global).await?;
        // First of all: what comes now may take its time, and it lives meanwhile.
        let healthy = self.health.start(&target.client, &stop).await?;
        let version = target.client.apiserver_version().await;
        let version = version.map_err(|error| target.explain("could not start the hub", &error))?;
        info!(server = %target.server, version = %version.git_version, "API server found");
        let mut options = hub::Options {
            addons: examples::managed(!self.no_examples),
            ..hub::Options::default()
        };
        options.registration.auto_accept = !self.auto_approved_csr_users.is_empty();
        options.registration.auto_approved_csr_users = self.auto_approved_csr_users;
        options.registration.labels.extend(self.labels);
        options.installed_by_operator = self.installed_by_operator;
        let namespace = std::env::var("POD_NAMESPACE").ok();
        let namespace = namespace.filter(|it| self.installed_by_operator && !it.is_empty());
        options.authorities.clone_from(&namespace);
        feature_gates::apply(&self.feature_gates, &mut options);
        if let Some(importer) = &mut options.importer {
            self.importer.apply(importer, &target);
        }
        let ready = async {
            if !self.installed_by_operator && (self.leader_elect || self.webhooks.are_wanted()) {
                // The Lease and the certificate need their namespace, which whoever leads later keeps.
                let prepared = hub::prepare(&target.client).await;
                prepared.with_context(|| format!("could not prepare {}", target.server))?;
            }
            // Every process answers, whoever leads: the API server asks any of them.
            self.webhooks
                .start(&target.client, &options, &self.health.tls()?, &stop)
                .await
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            ready = ready => ready?,
        }
        if self.leader_elect {
            // Who waits for its turn is ready, too: it answers webhooks.
            healthy.say();
            let namespace = namespace.unwrap_or_else(|| namespaces::HUB.to_owned());
            elected(target, namespace, options, stop).await;
            return Ok(());
        }
        let started = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            started = hub::start(target.client.clone(), options, stop.child_token()) => started,
        };
        let hub = started.with_context(|| format!("could not start the hub on {}", target.server))?;
        healthy.say();
        info!("hub ready");
        hub.finished().await;
        Ok(())
    }
}

/// Runs the hub whenever this process leads.
async fn elected(target: ApiServer, namespace: String, options: hub::Options, stop: CancellationToken) {
    let election = Election {
        client: target.client.clone(),
        namespace,
        name: LEASE.to_owned(),
        identity: process::identity(),
        lease_duration: LEASE_DURATION,
        renew_deadline: RENEW_DEADLINE,
        retry_period: RETRY_PERIOD,
    };
    let work: Work = Arc::new(move |guard, end| {
        let (client, options) = (guard.over(target.client.clone()), options.clone());
        Box::pin(async move {
            match hub::start(client, options, end).await {
                Ok(hub) => {
                    info!("hub ready");
                    hub.finished().await;
                }
                // Letting go of the Lease gives another a chance, and then it is our turn again.
                Err(error) => warn!(%error, "could not start the hub, will retry"),
            }
        })
    });
    election.run(work, |_| (), stop).await;
}
