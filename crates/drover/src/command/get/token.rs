//! `drover get token`: what a cluster joins with.
//! Upstream: clusteradm `get token`, whose lines we print; ours also name the hub's CA, so that it can be checked.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::{
    bootstrap::{Invitation, parse_server},
    cli::Global,
    connect::Target,
    output::{self, Data},
};

/// Print a token that clusters can join with for an hour, and the command that does it
#[derive(Debug, Args)]
pub struct Token {
    /// Where clusters reach the hub [default: where the kubeconfig does]
    #[arg(long, value_name = "URL", value_parser = parse_server)]
    hub_apiserver: Option<String>,
    /// How to print it; `kubeconfig` is for `drover join --bootstrap-kubeconfig`
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Json,
    Yaml,
    Kubeconfig,
}

impl Token {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = Target::connect(global).await?;
        let invitation = Invitation::make(&hub, self.hub_apiserver.as_deref()).await?;
        output::print(&match self.output {
            Some(Format::Json) => output::encode(&invitation.value(), Data::Json)?,
            Some(Format::Yaml) => output::encode(&invitation.value(), Data::Yaml)?,
            Some(Format::Kubeconfig) => invitation.kubeconfig()?,
            None => format!(
                "token={}\nplease log on spoke and run:\n{}\n",
                invitation.token,
                invitation.command()
            ),
        })
    }
}
