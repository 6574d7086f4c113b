//! `drover manifests`: what runs a hub or an agent on a Kubernetes, for `kubectl apply -f -`. Without flags it is what
//! `deploy/` has.

use anyhow::Result;
use clap::{Args, Subcommand};
use installation::charts::{self, AgentValues, HubValues};

/// Print the manifests that run a hub or an agent on a Kubernetes, for `kubectl apply -f -`
#[derive(Debug, Subcommand)]
pub enum Manifests {
    /// Those of a hub
    Hub(HubValues),
    /// Those of the agent of a cluster
    Agent(AgentManifests),
}

#[derive(Debug, Args)]
pub struct AgentManifests {
    /// The name of the cluster on the hub
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    #[command(flatten)]
    values: AgentValues,
}

impl Manifests {
    pub fn run(self) -> Result<()> {
        let manifests = match self {
            Self::Hub(it) => it.manifests()?,
            Self::Agent(it) => it.values.manifests(&it.cluster_name)?,
        };
        output::print(&charts::text(&manifests)?)
    }
}
