//! `drover get hub-info` and `drover get klusterlet-info`: what is installed on a hub and on a managed cluster,
//! by us or by upstream's operators.
//! Upstream: clusteradm `get hub-info` and `get klusterlet-info`, whose lines we print.

use anyhow::Result;
use clap::Args;
use client::{connect::ApiServer, flags::Global};
use installation::info::{self, Page};
use output::Data;

/// Say what runs a hub and which kinds it has
#[derive(Debug, Args)]
pub struct HubInfo {
    /// How to print it
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Data>,
}

/// Say what runs the agent of a managed cluster, and how its Klusterlet is, where there is one
#[derive(Debug, Args)]
pub struct KlusterletInfo {
    /// Where the agent is [default: where its Klusterlet says, or open-cluster-management-agent]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Data>,
}

impl HubInfo {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        print(&info::of_hub(&hub).await?, self.output)
    }
}

impl KlusterletInfo {
    pub async fn run(self, global: &Global) -> Result<()> {
        let cluster = ApiServer::connect(global).await?;
        let page = info::of_cluster(&cluster, self.namespace.as_deref()).await?;
        if page.is_empty() {
            anyhow::bail!(
                "No klusterlet detected! Please make sure you're using the correct context! ({} has no agent)",
                cluster.server
            );
        }
        print(&page, self.output)
    }
}

fn print(page: &Page, format: Option<Data>) -> Result<()> {
    output::print(&match format {
        Some(data) => output::encode(&page.value(), data)?,
        None => page.text(),
    })
}
