//! `drover create clusterset NAME`
//! Upstream: clusteradm `create clusterset`, whose lines we print.

use anyhow::Result;
use clap::Args;
use kube::api::PostParams;
use serde_json::json;

use crate::{cli::Global, connect::Target, kinds, output};

/// Create a set that clusters can be put into
#[derive(Debug, Args)]
pub struct ClusterSet {
    /// The name of the set
    name: String,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    dry_run: bool,
}

impl ClusterSet {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = Target::connect(global).await?;
        let name = &self.name;
        let set = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSet",
            "metadata": { "name": name },
            "spec": { "clusterSelector": { "selectorType": "ExclusiveClusterSetLabel" } },
        }))?;
        let parameters = PostParams {
            dry_run: self.dry_run,
            ..PostParams::default()
        };
        match hub.all(&kinds::managed_cluster_set()).create(&parameters, &set).await {
            Ok(_) => output::say(format_args!("Clusterset {name} is created")),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                output::say(format_args!("Clusterset {name} is already created"))
            }
            Err(error) => Err(hub.explain(&format!("could not create clusterset {name}"), &error)),
        }
    }
}
