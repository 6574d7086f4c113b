//! `drover create …`

pub mod channel;
pub mod clusterset;
pub mod placement;
pub mod sampleapp;
mod subscription;
pub mod work;

use anyhow::Result;
use clap::Subcommand;
use client::flags::Global;

#[derive(Debug, Subcommand)]
pub enum Create {
    /// Create a channel: the Git repository, Helm repository or bucket that subscriptions take applications from
    Channel(channel::CreateChannel),
    /// Create a set that clusters can be put into, or that takes those with certain labels
    #[command(name = "clusterset")]
    ClusterSet(clusterset::CreateClusterSet),
    /// Create a placement, which chooses clusters from the sets that are bound to its namespace
    Placement(placement::Placement),
    /// Create a sample ApplicationSet of Argo CD
    #[command(name = "sampleapp")]
    SampleApp(sampleapp::CreateSampleApp),
    /// Create a subscription: clusters take an application from a channel and keep it as it is there
    Subscription(subscription::CreateSubscription),
    /// Create a work that brings manifests to clusters
    Work(work::CreateWork),
}

impl Create {
    pub async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Channel(it) => it.run(global).await,
            Self::ClusterSet(it) => it.run(global).await,
            Self::Placement(it) => it.run(global).await,
            Self::SampleApp(it) => it.run(global).await,
            Self::Subscription(it) => it.run(global).await,
            Self::Work(it) => it.run(global).await,
        }
    }
}
