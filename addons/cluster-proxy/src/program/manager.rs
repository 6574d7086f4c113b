//! `/manager`: the hub's half.

use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use ocm_addon_sdk::{
    hub::{Manager, Options},
    kube::Client,
    program::{self, LeaderElection, Pages, Place},
    reconcile::{Caches, Clients, controller},
};
use tokio_util::sync::CancellationToken;

use super::{Logging, controllers, pod_namespace, tls_profile};
use crate::hub::{
    self, HubOptions, NAMESPACE,
    add_on::{AgentOptions, ClusterProxy},
    inputs::AgentInputs,
};

/// Look after the add-on cluster-proxy on the hub
#[derive(Debug, Parser)]
#[command(name = "manager", disable_version_flag = true)]
pub struct HubManagerFlags {
    /// Where metrics are served
    #[arg(long, value_name = "HOST:PORT", default_value = ":58080")]
    metrics_bind_address: String,
    /// Where /healthz and /readyz are served
    #[arg(long, value_name = "HOST:PORT", default_value = ":58081")]
    health_probe_bind_address: String,
    /// Whether one of several processes is elected to do the work
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// The namespace of the authority's Secret
    #[arg(long, value_name = "NAMESPACE", default_value = "default")]
    signer_secret_namespace: String,
    /// The Secret of the authority
    #[arg(long, value_name = "NAME", default_value = hub::SIGNER)]
    signer_secret_name: String,
    /// The image of agents, where it is not that of the ManagedProxyConfiguration
    #[arg(long, value_name = "IMAGE", default_value = "", hide_default_value = true)]
    agent_image_name: String,
    /// Accepted: agents' images are pulled if they are not there
    #[arg(long, value_name = "POLICY")]
    agent_image_pull_policy: Option<String>,
    /// The pull policy of the proxy servers
    #[arg(long, value_name = "POLICY", default_value = "IfNotPresent",
          value_parser = ["IfNotPresent", "Always", "Never"])]
    image_pull_policy: String,
    /// Whether the tunnel leads to the API servers of clusters without a service-proxy, too
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    enable_kube_api_proxy: bool,
    /// Whether clusters have a service-proxy
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = true,
          action = clap::ArgAction::Set)]
    enable_service_proxy: bool,
    /// Whether clusters have a NetworkPolicy for their agents
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, default_value_t = false,
          action = clap::ArgAction::Set)]
    enable_network_policies: bool,
    /// The namespace of agents
    #[arg(long, value_name = "NAMESPACE", default_value = NAMESPACE)]
    agent_install_namespace: String,
    /// Feature gates, such as ClusterProfile=true
    #[arg(long, value_name = "GATES", default_value = "", value_parser = cluster_profile, hide_default_value = true,
          action = clap::ArgAction::Set)]
    feature_gates: bool,
    #[command(flatten)]
    logging: Logging,
}

/// Whether gate ClusterProfile is on.
fn cluster_profile(text: &str) -> Result<bool, String> {
    let mut on = false;
    for pair in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        match pair.split_once('=') {
            Some(("ClusterProfile", value)) => {
                on = value.parse().map_err(|_| format!("{pair} is neither true nor false"))?;
            }
            Some((other, _)) => return Err(format!("unrecognized feature gate: {other}; there is ClusterProfile")),
            None => return Err(format!("missing bool value for {pair}; write {pair}=true")),
        }
    }
    Ok(on)
}

pub async fn run(flags: HubManagerFlags, place: &Place, stop: CancellationToken) -> Result<()> {
    let client = place.client(None).await?;
    let configuration = controllers::configuration(&client).await?;
    let namespace = pod_namespace()?;
    let address = |flag: &str, text: &str| program::address(text).map_err(|it| anyhow::anyhow!("--{flag}: {it}"));
    let metrics = address("metrics-bind-address", &flags.metrics_bind_address)?;
    Pages::new().metrics().serve(metrics, &stop).await?;
    let probes = address("health-probe-bind-address", &flags.health_probe_bind_address)?;
    let pages = Pages::new().healthy(|| Ok(())).ready(|| Ok(()));
    pages.serve(probes, &stop).await?;
    let options = Arc::new(HubOptions {
        certificates_namespace: flags.signer_secret_namespace.clone(),
        signer_namespace: flags.signer_secret_namespace.clone(),
        signer_name: flags.signer_secret_name.clone(),
        namespace: configuration.spec.proxy_server.namespace,
        image_pull_policy: flags.image_pull_policy.clone(),
        tls: tls_profile(client.clone(), &namespace, &stop).await,
        deploys_servers: true,
    });
    let agents = AgentOptions {
        image: Some(flags.agent_image_name).filter(|it| !it.is_empty()),
        kube_api_proxy: flags.enable_kube_api_proxy,
        service_proxy: flags.enable_service_proxy,
        network_policies: flags.enable_network_policies,
        namespace: flags.agent_install_namespace,
    };
    let with_profiles = flags.feature_gates;
    let work = move |client: Client, end: CancellationToken| {
        let (options, agents) = (options.clone(), agents.clone());
        async move {
            if let Err(error) = manage(client, &options, agents, with_profiles, end).await {
                tracing::error!("{error:#}");
            }
        }
    };
    if !flags.leader_elect {
        work(client, stop).await;
        return Ok(());
    }
    program::lead(
        client,
        LeaderElection::new(namespace, "cluster-proxy-addon-manager"),
        work,
        stop,
    )
    .await
}

async fn manage(
    client: Client,
    options: &Arc<HubOptions>,
    agents: AgentOptions,
    with_profiles: bool,
    stop: CancellationToken,
) -> Result<()> {
    let caches = Caches::new(client.clone(), stop.clone());
    let inputs = AgentInputs::default();
    let mut all = hub::controllers(&caches, options);
    all.push(hub::of_inputs(&caches, options, &inputs));
    if with_profiles {
        all.push(hub::of_cluster_profiles(&caches, options));
    }
    let running = controller::start_all(all, &Clients::hub(client.clone()), &stop);
    let mut sdk = Options::default();
    sdk.namespace.clone_from(&options.signer_namespace);
    let manager = Manager::start(client, &caches, sdk, stop).await?;
    manager.add(Arc::new(ClusterProxy {
        hub: options.clone(),
        agents,
        inputs,
    }))?;
    manager.finished().await;
    for one in running {
        let _ = one.finished.await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_gate_is_refused() {
        assert_eq!(cluster_profile("ClusterProfile=true"), Ok(true));
        assert_eq!(cluster_profile(""), Ok(false));
        assert!(
            cluster_profile("X=true")
                .unwrap_err()
                .contains("unrecognized feature gate: X")
        );
        assert!(
            cluster_profile("ClusterProfile")
                .unwrap_err()
                .contains("write ClusterProfile=true")
        );
    }
}
