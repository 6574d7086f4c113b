//! `drover get token`: what a cluster joins with.
//! Upstream: clusteradm `get token`, whose lines we print; ours also name the hub's CA, so that it can be checked.

use anyhow::Result;
use clap::{Args, ValueEnum};
use client::{
    bootstrap::{Invitation, parse_server},
    connect::ApiServer,
    flags::Global,
};
use installation::token;
use output::Data;

/// Print a token that clusters can join with for an hour, and the command that does it
#[derive(Debug, Args)]
pub struct Token {
    /// Where clusters reach the hub [default: where the kubeconfig does]
    #[arg(long, value_name = "URL", value_parser = parse_server)]
    hub_apiserver: Option<String>,
    /// Print the bootstrap token that `drover init --use-bootstrap-token` has made, which does not expire
    #[arg(long)]
    use_bootstrap_token: bool,
    /// How to print it; `kubeconfig` is for `drover join --bootstrap-kubeconfig`
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
    Kubeconfig,
}

impl Token {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        let server = self.hub_apiserver.as_deref();
        let invitation = match self.use_bootstrap_token {
            true => token::of_bootstrap_secret(&hub, server).await?,
            false => Invitation::make(&hub, server).await?,
        };
        output::print(&match self.output {
            Format::Json => output::encode(&invitation.value(), Data::Json)?,
            Format::Yaml => output::encode(&invitation.value(), Data::Yaml)?,
            Format::Kubeconfig => invitation.kubeconfig()?,
            Format::Text => format!(
                "token={}\nplease log on spoke and run:\n{}\n",
                invitation.token,
                invitation.command()
            ),
        })
    }
}
