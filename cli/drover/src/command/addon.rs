//! `drover addon …`

pub mod create;
pub mod disable;
pub mod enable;
mod list;
mod new;
mod pairs;
mod why;

use anyhow::Result;
use clap::Subcommand;
use client::flags::Global;

#[derive(Debug, Subcommand)]
pub enum Addon {
    /// Put add-ons on clusters
    Enable(enable::Enable),
    /// Take add-ons off clusters
    Disable(disable::Disable),
    /// Make an add-on of manifests: a ClusterManagementAddOn and an AddOnTemplate
    Create(create::Create),
    /// Write the project of a new add-on, with a test
    New(new::New),
    /// List add-ons and the clusters that have them
    #[command(alias = "ls")]
    List(list::ListAddOns),
    /// Say what an add-on waits for on a cluster, one sentence for each thing
    Why(why::Why),
}

impl Addon {
    pub async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Enable(it) => it.run(global).await,
            Self::Disable(it) => it.run(global).await,
            Self::Create(it) => it.run(global).await,
            Self::New(it) => it.run(),
            Self::List(it) => it.run(global).await,
            Self::Why(it) => it.run(global).await,
        }
    }
}
