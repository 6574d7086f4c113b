//! `drover unjoin`: take the agent that `drover join` or `clusteradm join` has put on a cluster off again.
//! Upstream: clusteradm `unjoin`, whose lines we print.

use anyhow::{Result, bail};
use clap::{ArgAction, Args};
use client::{cluster_name, connect::ApiServer, flags::Global};
use installation::{
    Mode, Removal, charts,
    cluster::unjoin::{self, UnjoinOptions},
};
use ocm_api::namespaces;

/// Take the agent off the cluster of the kubeconfig; the hub's side goes with `kubectl delete managedcluster`
#[derive(Debug, Args)]
pub struct Unjoin {
    /// The name of the cluster on the hub, to be sure that it is this one
    #[arg(long, value_name = "NAME")]
    cluster_name: String,
    /// Where an agent without an operator is, as earlier releases installed it
    #[arg(long, value_name = "NAMESPACE", default_value = namespaces::AGENT)]
    namespace: String,
    /// Go on although works are still there; what they applied then stays on the cluster
    #[arg(long)]
    force: bool,
    /// Also remove the operator, if no other Klusterlet needs it
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set)]
    purge_operator: bool,
    #[command(flatten)]
    removal: Removal,
}

impl Unjoin {
    pub async fn run(self, global: &Global) -> Result<()> {
        cluster_name::check(&self.cluster_name)?;
        let cluster = ApiServer::connect(global).await?;
        let options = UnjoinOptions {
            cluster_name: self.cluster_name,
            namespace: self.namespace,
            force: self.force,
            purge_operator: self.purge_operator,
            mode: self.removal.mode(),
            timeout: self.removal.timeout(),
        };
        let name = &options.cluster_name;
        let Some(found) = unjoin::look(&cluster, &options).await? else {
            bail!(
                "there is no agent to remove: {} has no Klusterlet of a cluster {name}, and no Deployment {}/{}",
                cluster.server,
                options.namespace,
                charts::AGENT
            );
        };
        output::say(format_args!(
            "Remove applied resources in the managed cluster {name} ... "
        ))?;
        charts::keep(found.manifests(), self.removal.output_file.as_deref())?;
        for line in unjoin::unjoin(&cluster, &options, &found).await? {
            output::say(line)?;
        }
        for remark in &found.remarks {
            eprintln!("{remark}");
        }
        if options.mode == Mode::DryRun {
            return Ok(());
        }
        output::say(format_args!(
            "Applied resources have been deleted during the {name} joined stage. The status of mcl {name} will be unknown in \
             the hub cluster."
        ))
    }
}
