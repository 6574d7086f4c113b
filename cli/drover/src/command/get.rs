//! `drover get …`

mod addons;
pub mod clusters;
pub mod clustersets;
mod info;
pub mod placements;
mod policies;
mod token;
pub mod works;

use anyhow::Result;
use clap::Subcommand;
use client::flags::Global;

#[derive(Debug, Subcommand)]
pub enum Get {
    /// List the managed clusters
    #[command(alias = "cluster")]
    Clusters(clusters::Clusters),
    /// List the sets of clusters, how many clusters each has, and who may use them
    #[command(name = "clustersets", alias = "clusterset")]
    ClusterSets(clustersets::ClusterSets),
    /// List the works of a cluster, or tell one work resource by resource
    #[command(alias = "work")]
    Works(works::Works),
    /// List the add-ons, each with how many clusters have it
    #[command(alias = "addon")]
    Addons(addons::Addons),
    /// List the placements and the clusters that each has chosen
    #[command(alias = "placement")]
    Placements(placements::Placements),
    /// List the policies, how many clusters each has, and which of those do not comply
    #[command(alias = "policy")]
    Policies(policies::Policies),
    /// Print a token that clusters can join with for an hour, and the command that does it
    Token(token::Token),
    /// Say what runs a hub and which kinds it has
    HubInfo(info::HubInfo),
    /// Say what runs the agent of a managed cluster
    KlusterletInfo(info::KlusterletInfo),
}

impl Get {
    pub async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Clusters(it) => it.run(global).await,
            Self::ClusterSets(it) => it.run(global).await,
            Self::Works(it) => it.run(global).await,
            Self::Addons(it) => it.run(global).await,
            Self::Placements(it) => it.run(global).await,
            Self::Policies(it) => it.run(global).await,
            Self::Token(it) => it.run(global).await,
            Self::HubInfo(it) => it.run(global).await,
            Self::KlusterletInfo(it) => it.run(global).await,
        }
    }
}
