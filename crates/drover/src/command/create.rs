//! `drover create …`

mod work;

use anyhow::Result;
use clap::Subcommand;

use crate::cli::Global;

#[derive(Debug, Subcommand)]
pub enum Create {
    /// Create a work that brings manifests to clusters
    Work(work::Work),
}

impl Create {
    pub async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Work(it) => it.run(global).await,
        }
    }
}
