//! `drover upgrade clustermanager|klusterlet`: run other images from now on, and keep all else.
//! Upstream: clusteradm `upgrade`, whose flags these are and whose lines we print.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use clap::{Args, Subcommand};
use client::{connect::ApiServer, flags::Global};
use installation::{
    Mode,
    images::ImageFlags,
    upgrade::{self, UpgradeOptions, UpgradeStep},
};

/// Run other images of an operator and of what it has made
#[derive(Debug, Subcommand)]
pub enum Upgrade {
    /// Upgrade the hub of the cluster of the kubeconfig
    #[command(name = "clustermanager", alias = "cluster-manager")]
    ClusterManager(UpgradeClusterManager),
    /// Upgrade the agents of the cluster of the kubeconfig
    #[command(name = "klusterlet")]
    Klusterlet(UpgradeKlusterlet),
}

/// Upgrade a hub
#[derive(Debug, Args)]
pub struct UpgradeClusterManager {
    #[command(flatten)]
    common: Common,
    /// A file of values for the chart cluster-manager, which win over what is there
    #[arg(long, value_name = "FILE")]
    cluster_manager_values_file: Option<PathBuf>,
}

/// Upgrade the agents of a cluster
#[derive(Debug, Args)]
pub struct UpgradeKlusterlet {
    #[command(flatten)]
    common: Common,
    /// A file of values for the chart klusterlet, which win over what is there
    #[arg(long, value_name = "FILE")]
    klusterlet_values_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    images: ImageFlags,
    /// Wait until everything runs the new images
    #[arg(long)]
    wait: bool,
    /// How long to wait, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    timeout: u64,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl Common {
    fn options(&self, values_file: Option<PathBuf>) -> Result<UpgradeOptions> {
        Ok(UpgradeOptions {
            images: self.images.images()?,
            values_file,
            wait: self.wait,
            timeout: Duration::from_secs(self.timeout),
            mode: if self.dry_run { Mode::DryRun } else { Mode::Write },
        })
    }
}

fn tell(wait: bool) -> impl FnMut(UpgradeStep) -> Result<()> {
    move |step| match step {
        UpgradeStep::Applied(line) => output::say(line),
        UpgradeStep::CrdRegistered if wait => output::say("CRD successfully registered."),
        UpgradeStep::OperatorAvailable => output::say("Registration operator is now available."),
        UpgradeStep::CrdRegistered | UpgradeStep::UpToDate => Ok(()),
    }
}

impl Upgrade {
    pub async fn run(self, global: &Global) -> Result<()> {
        let target = ApiServer::connect(global).await?;
        let options = match &self {
            Self::ClusterManager(it) => it.common.options(it.cluster_manager_values_file.clone())?,
            Self::Klusterlet(it) => it.common.options(it.klusterlet_values_file.clone())?,
        };
        let mut tell = tell(options.wait);
        match &self {
            Self::ClusterManager(_) => {
                upgrade::check_cluster_manager(&target).await?;
                output::say("clustermanager installed. starting upgrade")?;
                upgrade::cluster_manager(&target, &options, &mut tell).await?;
            }
            Self::Klusterlet(_) => {
                upgrade::check_klusterlet(&target).await?;
                output::say("Klusterlet installed. starting upgrade")?;
                upgrade::klusterlet(&target, &options, &mut tell).await?;
            }
        }
        match options.mode {
            Mode::DryRun => Ok(()),
            Mode::Write => output::say("upgraded completed successfully"),
        }
    }
}
