//! `drover delete …`

pub mod clusterset;
mod token;
pub mod work;

use anyhow::Result;
use clap::Subcommand;
use client::flags::Global;

#[derive(Debug, Subcommand)]
pub enum Delete {
    /// Delete a set of clusters; the clusters stay, and keep their label
    #[command(name = "clusterset")]
    ClusterSet(clusterset::DeleteClusterSet),
    /// Delete a work, and with it what it made on the clusters
    #[command(alias = "works")]
    Work(work::DeleteWork),
    /// Take away what clusters join with
    Token(token::DeleteToken),
}

impl Delete {
    pub async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::ClusterSet(it) => it.run(global).await,
            Self::Work(it) => it.run(global).await,
            Self::Token(it) => it.run(global).await,
        }
    }
}
