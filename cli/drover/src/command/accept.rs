//! `drover accept --clusters a,b`
//! Upstream: clusteradm `accept`, whose lines we print.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use client::{connect::ApiServer, flags::Global};
use installation::accept::{AcceptOptions, Event, Requesters, accept};

/// Accept clusters that asked to join: approve their certificate requests and admit them
#[derive(Debug, Args)]
pub struct Accept {
    /// The clusters to accept
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        required = true,
        value_name = "CLUSTERS"
    )]
    clusters: Vec<String>,
    /// Wait until each cluster has asked, instead of failing when it has not, and until its namespace is there
    #[arg(long)]
    wait: bool,
    /// How long to wait, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    timeout: u64,
    /// Users beside the bootstrap identities whose requests may be approved
    #[arg(long, value_delimiter = ',', value_name = "USERS")]
    requesters: Vec<String>,
    /// Approve the requests of whoever asks for the cluster's identity
    #[arg(long, conflicts_with = "requesters")]
    skip_approve_check: bool,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl Accept {
    pub async fn run(self, global: &Global) -> Result<()> {
        for cluster in &self.clusters {
            client::cluster_name::check(cluster)?;
        }
        let hub = ApiServer::connect(global).await?;
        let options = AcceptOptions {
            clusters: self.clusters,
            wait: self.wait,
            timeout: Duration::from_secs(self.timeout),
            requesters: match self.skip_approve_check {
                true => Requesters::Anybody,
                false => Requesters::Bootstrap(self.requesters),
            },
            dry_run: self.dry_run,
        };
        let mut tell = |event: Event| match event {
            Event::Line(line) => output::say(line),
            Event::Joined(cluster) => output::say(format_args!(
                "\nYour managed cluster {cluster} has joined the Hub successfully."
            )),
        };
        accept(&hub, &options, &mut tell).await
    }
}
