//! `drover agent`: the agent of the cluster of a kubeconfig.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use client::{
    cluster_name,
    connect::{self, ApiServer},
    flags::Global,
};
use credential::KubeconfigSource;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, runtime::watcher};
use ocm_reconcile::Cache;
use process::{code_pages, health};
use registration::agent::AgentOptions;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::add_on_credentials::AddOnCredentials;

/// Run the agent of the cluster of the kubeconfig, and stay until Ctrl-C
#[derive(Debug, Args)]
pub struct Agent {
    /// The name of the cluster on the hub
    #[arg(long, visible_alias = "spoke-cluster-name", value_name = "NAME")]
    cluster_name: String,
    /// The kubeconfig to bootstrap with [default: the Secret bootstrap-hub-kubeconfig on the cluster]
    #[arg(long, value_name = "FILE")]
    bootstrap_kubeconfig: Option<PathBuf>,
    /// The kubeconfig of the cluster to manage, when the agent is hosted: it and its Secrets are then on the cluster of
    /// --kubeconfig
    #[arg(long, value_name = "FILE")]
    spoke_kubeconfig: Option<PathBuf>,
    /// The namespace of the agent's own Secrets [default: open-cluster-management-agent;
    /// of a hosted agent the cluster's name]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Where others reach the API of the cluster; the hub shows it [default: nothing is shown]
    #[arg(long, value_delimiter = ',', value_name = "URLS")]
    spoke_external_server_urls: Vec<String>,
    #[command(flatten)]
    add_ons: AddOnCredentials,
    #[command(flatten)]
    health: health::HealthFlags,
}

impl Agent {
    pub async fn run(self, global: &Global) -> Result<()> {
        cluster_name::check(&self.cluster_name)?;
        if let Some(namespace) = &self.namespace {
            cluster_name::check(namespace).with_context(|| format!("--namespace {namespace}"))?;
        }
        process::raise_open_files();
        let stop = CancellationToken::new();
        process::stop_on_signals(stop.clone())?;
        let target = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            target = ApiServer::connect(global) => target?,
        };
        // First of all: what comes now may take its time, and it lives meanwhile.
        let healthy = self.health.start(&target.client, &stop).await?;
        let bootstrap = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            bootstrap = self.bootstrap(&target, &stop) => bootstrap?,
        };
        let managed = match &self.spoke_kubeconfig {
            Some(path) => ApiServer::of(connect::read(path)?, &path.display().to_string()).await?,
            None => target.clone(),
        };
        if let Some(url) = self
            .spoke_external_server_urls
            .iter()
            .find(|it| !it.starts_with("https://"))
        {
            bail!("--spoke-external-server-urls {url}: a cluster is reached by https");
        }
        let mut options = AgentOptions {
            external_ca_bundle: managed
                .ca
                .map(String::into_bytes)
                .filter(|_| !self.spoke_external_server_urls.is_empty()),
            external_server_urls: self.spoke_external_server_urls.clone(),
            is_hosted: self.spoke_kubeconfig.is_some(),
            management: target.client,
            component_namespace: self.namespace().to_owned(),
            cluster_name: Some(self.cluster_name),
            ..AgentOptions::new(bootstrap, managed.client)
        };
        self.add_ons.tell(&mut options);
        // Whether the hub lets the cluster in is not the kubelet's to mend, and is told in conditions.
        healthy.say();
        run_agent(options, &stop).await
    }

    /// Where the agent's own Secrets are. Several hosted agents may live on one cluster,
    /// each in a namespace of its own.
    fn namespace(&self) -> &str {
        match (&self.namespace, &self.spoke_kubeconfig) {
            (Some(namespace), _) => namespace,
            (None, Some(_)) => &self.cluster_name,
            (None, None) => ocm_api::namespaces::AGENT,
        }
    }

    async fn bootstrap(&self, target: &ApiServer, stop: &CancellationToken) -> Result<KubeconfigSource> {
        match &self.bootstrap_kubeconfig {
            Some(path) => Ok(KubeconfigSource::Path(path.clone())),
            None => bootstrap_secret(target, self.namespace(), stop).await,
        }
    }
}

/// The bootstrap kubeconfig that somebody has put on the cluster, and may put there anew when its token is over.
async fn bootstrap_secret(target: &ApiServer, namespace: &str, stop: &CancellationToken) -> Result<KubeconfigSource> {
    let name = ocm_api::namespaces::BOOTSTRAP_KUBECONFIG_SECRET;
    let secrets: Api<Secret> = Api::namespaced(target.client.clone(), namespace);
    let secret = secrets
        .get_opt(name)
        .await
        .map_err(|error| target.explain("could not start the agent", &error))?;
    let Some(secret) = secret else {
        bail!("the cluster has no Secret {namespace}/{name}; pass --bootstrap-kubeconfig FILE, or use `drover join`")
    };
    let sender = watch::Sender::new(kubeconfig_of(&secret)?);
    let source = KubeconfigSource::Followed {
        name: format!("of Secret {namespace}/{name}"),
        text: sender.subscribe(),
    };
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let cache = Cache::start_with(secrets, only, stop.clone());
    let (namespace, name, stop) = (namespace.to_owned(), name.to_owned(), stop.clone());
    tokio::spawn(async move {
        let mut changes = cache.changes();
        while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
            // One that is gone or says nothing is no reason to forget what it said.
            if let Some(Ok(text)) = cache.get(&namespace, &name).map(|it| kubeconfig_of(&it)) {
                sender.send_if_modified(|before| std::mem::replace(before, text.clone()) != text);
            }
        }
    });
    Ok(source)
}

fn kubeconfig_of(secret: &Secret) -> Result<String> {
    let (namespace, name) = (
        secret.metadata.namespace.as_deref().unwrap_or_default(),
        secret.metadata.name.as_deref().unwrap_or_default(),
    );
    let text = secret.data.as_ref().and_then(|it| it.get("kubeconfig"));
    let text = text.ok_or_else(|| anyhow!("the Secret {namespace}/{name} has no key kubeconfig"))?;
    String::from_utf8(text.0.clone()).map_err(|_| anyhow!("the kubeconfig in Secret {namespace}/{name} is no text"))
}

/// Runs the agent until `stop`.
pub async fn run_agent(options: AgentOptions, stop: &CancellationToken) -> Result<()> {
    let name = options.cluster_name.clone().unwrap_or_default();
    let mut sessions = options.sessions.subscribe();
    let started = agent::start(options, stop.child_token()).await;
    let mut agent = started.with_context(|| format!("could not start the agent of {name}"))?;
    let settle = async {
        if sessions.wait_for(Option::is_some).await.is_ok() {
            code_pages::give_back_when_settled().await;
        }
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = agent.ended() => ended,
        never = settle => never,
    };
    agent.finished().await;
    match ended {
        agent::Ended::Stopped => Ok(()),
        error => Err(error.into()),
    }
}
