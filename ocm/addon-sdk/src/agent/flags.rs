//! The flags of an agent: upstream's, and the environment variables that a template add-on's containers are given.

use std::path::PathBuf;

use clap::Args;

/// Where the agent is and whom it speaks to.
#[derive(Clone, Debug, Args)]
pub struct AgentFlags {
    /// The kubeconfig for the hub, from the Secret that the cluster's agent writes
    #[arg(long, value_name = "FILE", env = "HUB_KUBECONFIG")]
    pub hub_kubeconfig: Option<PathBuf>,
    /// The kubeconfig for the managed cluster [default: the cluster the agent runs on]
    #[arg(long, value_name = "FILE", env = "MANAGED_KUBECONFIG")]
    pub managed_kubeconfig: Option<PathBuf>,
    /// The managed cluster's name on the hub
    #[arg(long, value_name = "NAME", env = "CLUSTER_NAME")]
    pub cluster_name: String,
    /// The namespace the agent runs in
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "INSTALL_NAMESPACE",
        default_value = ocm_api::namespaces::AGENT_ADDON
    )]
    pub addon_namespace: String,
    /// The add-on's name [default: the one it was built with]
    #[arg(long, value_name = "NAME", env = "ADDON_NAME")]
    pub addon_name: Option<String>,
}
