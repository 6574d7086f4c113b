//! The add-on cluster-proxy on the hub of `drover up`: its proxy server and its user-server are in the hub's process.

use std::{collections::BTreeMap, sync::Arc};

use addon_cluster_proxy::{
    hub::{
        self, CONFIGURATION, HubOptions, NAMESPACE,
        add_on::{AgentOptions, ClusterProxy},
        inputs::AgentInputs,
    },
    in_process::{self, Listeners},
};
use anyhow::{Context, Result, bail};
use kube::{Api, Client};
use ocm_addon_sdk::AddOn;
use ocm_api::proxy::{
    HostnameEntryPoint, ManagedProxyConfiguration, ProxyEntryPoint, ProxyEntryPointType, UserServerSpec,
    annotations::USER_SERVER_URL,
};
use ocm_reconcile::{Caches, Clients, Controller, Plan, Site, execute};
use tokio_util::sync::CancellationToken;

/// The image of the add-on.
pub const IMAGE: &str = "quay.io/open-cluster-management/cluster-proxy";
/// The names of its ports in the data directory.
pub const PORTS: [&str; 2] = ["cluster-proxy-agents", "cluster-proxy-users"];

fn options() -> Arc<HubOptions> {
    Arc::new(HubOptions {
        signer_namespace: NAMESPACE.to_owned(),
        certificates_namespace: NAMESPACE.to_owned(),
        deploys_servers: false,
        ..HubOptions::default()
    })
}

/// What clusters get.
pub fn add_on(inputs: &AgentInputs) -> Arc<dyn AddOn> {
    Arc::new(ClusterProxy {
        hub: options(),
        agents: AgentOptions::default(),
        inputs: inputs.clone(),
    })
}

/// What runs on the hub.
pub fn controllers(caches: &Caches, inputs: &AgentInputs) -> Vec<Controller> {
    let options = options();
    let mut all = hub::controllers(caches, &options);
    all.push(hub::of_inputs(caches, &options, inputs));
    all.push(hub::of_service_proxies(caches, &options));
    all.push(hub::of_cluster_profiles(caches, &options));
    all
}

/// Says where the servers are, and starts them.
///
/// # Errors
/// When the hub does not take the configuration.
pub async fn start(hub: &Client, listeners: Listeners, stop: &CancellationToken) -> Result<()> {
    let (agents, users) = (listeners.agents.local_addr()?, listeners.users.local_addr()?);
    let api: Api<ManagedProxyConfiguration> = Api::all(hub.clone());
    let before = api.get_opt(CONFIGURATION).await;
    let before = before.context("could not read the ManagedProxyConfiguration")?;
    let mut plan = Plan::new();
    let mut now = before.clone().unwrap_or_else(first);
    now.spec.proxy_server.entrypoint = Some(ProxyEntryPoint {
        kind: ProxyEntryPointType::Hostname,
        hostname: Some(HostnameEntryPoint {
            value: agents.ip().to_string(),
        }),
        load_balancer_service: None,
        port: agents.port().into(),
    });
    let annotations = now.metadata.annotations.get_or_insert_default();
    annotations.insert(USER_SERVER_URL.to_owned(), format!("https://{users}"));
    match &before {
        Some(before) => drop(plan.change(Site::Hub, before, &now)),
        None => drop(plan.create(Site::Hub, &now)),
    }
    let outcome = execute(&Clients::hub(hub.clone()), &plan).await;
    if !outcome.succeeded() {
        bail!(
            "could not write the ManagedProxyConfiguration: {}",
            outcome.error_text()
        );
    }
    tokio::spawn(in_process::serve(hub.clone(), listeners, stop.clone()));
    Ok(())
}

fn first() -> ManagedProxyConfiguration {
    let mut first = ManagedProxyConfiguration::new(CONFIGURATION, Default::default());
    first.metadata.annotations = Some(BTreeMap::new());
    first.spec.proxy_server.image = IMAGE.to_owned();
    first.spec.proxy_server.replicas = 1;
    first.spec.proxy_agent.image = IMAGE.to_owned();
    first.spec.proxy_agent.replicas = 1;
    first.spec.user_server = Some(UserServerSpec::default());
    first
}
