//! `drover delete …`

mod work;

use anyhow::Result;
use clap::Subcommand;

use crate::cli::Global;

#[derive(Debug, Subcommand)]
pub enum Delete {
    /// Delete a work, and with it what it made on the clusters
    #[command(alias = "works")]
    Work(work::Work),
}

impl Delete {
    pub async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Work(it) => it.run(global).await,
        }
    }
}
