//! `drover version`

use anyhow::Result;
use clap::Args;
use client::{connect::ApiServer, flags::Global};
use output::Data;
use serde_json::json;

/// The version of OCM whose APIs this binary speaks.
const OCM_VERSION: &str = "v1.3";

/// Print the version of this binary, and of the hub if it can be reached
#[derive(Debug, Args)]
pub struct Version {
    /// Ask no server
    #[arg(long)]
    client: bool,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Data>,
}

enum Hub {
    /// The user asked for ours only, or there is no kubeconfig to find one with.
    NotAsked,
    Answers {
        version: String,
        server: String,
    },
    Silent {
        why: String,
    },
}

impl Version {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = if self.client { Hub::NotAsked } else { ask(global).await };
        output::print(&encode(&hub, self.output)?)
    }
}

async fn ask(global: &Global) -> Hub {
    let target = match ApiServer::connect(global).await {
        Ok(target) => target,
        // A kubeconfig that was asked for by name and cannot be used is worth a word; that there is none is not.
        Err(_) if global.kubeconfig.is_none() && std::env::var_os("KUBECONFIG").is_none() => return Hub::NotAsked,
        Err(error) => {
            return Hub::Silent {
                why: output::sentence(&error),
            };
        }
    };
    match target.client.apiserver_version().await {
        Ok(info) => Hub::Answers {
            version: info.git_version,
            server: target.server,
        },
        Err(error) => Hub::Silent {
            why: target.explain("could not ask the server", &error).to_string(),
        },
    }
}

fn encode(hub: &Hub, data: Option<Data>) -> Result<String> {
    let ours = env!("CARGO_PKG_VERSION");
    if let Some(data) = data {
        let server = match hub {
            Hub::NotAsked => json!(null),
            Hub::Answers { version, server } => json!({ "gitVersion": version, "server": server }),
            Hub::Silent { why } => json!({ "error": why }),
        };
        return output::encode(
            &json!({ "clientVersion": { "version": ours, "ocmVersion": OCM_VERSION }, "serverVersion": server }),
            data,
        );
    }
    let client = format!("Client Version: drover {ours} (OCM {OCM_VERSION})\n");
    Ok(match hub {
        Hub::NotAsked => client,
        Hub::Answers { version, server } => format!("{client}Server Version: {version} ({server})\n"),
        Hub::Silent { why } => format!("{client}Server Version: unknown: {why}\n"),
    })
}
