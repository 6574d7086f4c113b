//! `drover hub`: the hub's controllers against the API server of a kubeconfig, embedded or not.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use client::{connect::ApiServer, flags::Global};
use fleet::examples;
use hub::feature_gates;
use ocm_api::namespaces;
use ocm_reconcile::lead::{Election, Work};
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
    /// Upstream's switches to turn on or off: CleanUpCompletedManifestWork, ClusterProfile, DefaultClusterSet,
    /// ManagedClusterAutoApproval (on: who has a token is let in; off: nobody is), ManifestWorkReplicaSet,
    /// NilExecutorValidating, ResourceCleanup
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
    /// Make no kinds, namespaces and bootstrap identity, and no Lease but in the namespace of this pod (POD_NAMESPACE): an
    /// operator looks after them
    #[arg(long, hide = true)]
    installed_by_operator: bool,
    #[command(flatten)]
    webhooks: webhooks::WebhookFlags,
    #[command(flatten)]
    health: health::HealthFlags,
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
        let ready = async {
            if !self.installed_by_operator && (self.leader_elect || self.webhooks.are_wanted()) {
                // The Lease and the certificate need their namespace, which whoever leads later keeps.
                let prepared = hub::prepare(&target.client).await;
                prepared.with_context(|| format!("could not prepare {}", target.server))?;
            }
            // Every process answers, whoever leads: the API server asks any of them.
            self.webhooks.start(&target.client, &options, &self.health.tls()?, &stop).await
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
