//! `drover kube`: the embedded Kubernetes API without Open Cluster Management.

pub mod up;

use std::time::Instant;

use anyhow::Result;
use clap::Subcommand;

/// Start a Kubernetes API on its own
#[derive(Debug, Subcommand)]
pub enum Kube {
    /// Start a Kubernetes API in this process, and stay until Ctrl-C
    Up(up::Up),
}

impl Kube {
    pub async fn run(self, begun: Instant) -> Result<()> {
        match self {
            Self::Up(it) => it.run(begun).await,
        }
    }
}
