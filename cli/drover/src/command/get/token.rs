//! `drover get token`: what a cluster joins with.
//! Upstream: clusteradm `get token`, whose lines we print; ours also name the hub's CA, so that it can be checked.

use anyhow::Result;
use clap::{Args, ValueEnum};
use client::{
    bootstrap::{Invitation, parse_server},
    connect::ApiServer,
    flags::Global,
};
use installation::charts;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use ocm_api::namespaces;
use output::Data;

/// Print a token that clusters can join with for an hour, and the command that does it
#[derive(Debug, Args)]
pub struct Token {
    /// Where clusters reach the hub [default: where the kubeconfig does]
    #[arg(long, value_name = "URL", value_parser = parse_server)]
    hub_apiserver: Option<String>,
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
        let invitation = Invitation::make(&hub, self.hub_apiserver.as_deref()).await?;
        output::print(&match self.output {
            Format::Json => output::encode(&invitation.value(), Data::Json)?,
            Format::Yaml => output::encode(&invitation.value(), Data::Yaml)?,
            Format::Kubeconfig => invitation.kubeconfig()?,
            Format::Text => format!(
                "token={}\nplease log on spoke and run:\n{}{}\n",
                invitation.token,
                invitation.command(),
                deploy(&hub).await?
            ),
        })
    }
}

/// What the command ends with. Who has the hub run as a Deployment wants agents that run so, too; of a hub in a
/// terminal the agents are in terminals.
async fn deploy(hub: &ApiServer) -> Result<&'static str> {
    let deployments: Api<Deployment> = Api::namespaced(hub.client.clone(), namespaces::HUB);
    match deployments.get_opt(charts::HUB).await {
        Ok(found) => Ok(if found.is_some() { " --deploy" } else { "" }),
        // Who may make tokens need not see Deployments.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(""),
        Err(error) => Err(hub.explain("could not look for the hub", &error)),
    }
}
