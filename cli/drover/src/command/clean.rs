//! `drover clean`: take the hub that `drover init` or `clusteradm init` has made off its cluster again.
//! Upstream: clusteradm `clean`, whose lines we print.

use anyhow::Result;
use clap::{ArgAction, Args};
use client::{connect::ApiServer, flags::Global};
use installation::{
    Mode, Removal, charts,
    hub::{self, clean::CleanOptions},
};

/// Take the hub off the cluster of the kubeconfig, with OCM's kinds and everything of them
#[derive(Debug, Args)]
pub struct Clean {
    /// The name of the ClusterManager
    #[arg(long, visible_alias = "cluster-manager-name", value_name = "NAME", default_value = hub::NAME)]
    name: String,
    /// Also remove the operator, and not only the ClusterManager and what clusters join with
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    purge_operator: bool,
    #[command(flatten)]
    removal: Removal,
}

impl Clean {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        let options = CleanOptions {
            name: self.name,
            purge_operator: self.purge_operator,
            mode: self.removal.mode(),
            timeout: self.removal.timeout(),
        };
        let found = hub::clean::look(&hub, &options).await?;
        if found.is_nothing() {
            return output::say("The multicluster hub control plane is cleaned up already");
        }
        charts::keep(found.manifests(), self.removal.output_file.as_deref())?;
        let cleaned = hub::clean::clean(&hub, &options, found).await?;
        for line in &cleaned.lines {
            output::say(line)?;
        }
        for remark in &cleaned.remarks {
            eprintln!("{remark}");
        }
        match options.mode {
            Mode::DryRun => Ok(()),
            Mode::Write => output::say("The multicluster hub control plane has been clean up successfully!"),
        }
    }
}
