//! `drover create clusterset NAME`
//! Upstream: clusteradm `create clusterset`, whose lines we print. Sets that go by a selector are ours.

use anyhow::Result;
use clap::Args;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::{cli::Global, connect::Target, kinds, output, selector_text};

/// Create a set that clusters can be put into, or that takes those with certain labels
#[derive(Debug, Args)]
pub struct ClusterSet {
    /// The name of the set
    name: String,
    /// Take every cluster with these labels, as for kubectl: `env=prod`, `zone in (a,b)`, `!old` [default: the clusters that
    /// `drover clusterset set` puts into it]
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    label_selector: Option<String>,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    dry_run: bool,
}

impl ClusterSet {
    pub async fn run(self, global: &Global) -> Result<()> {
        let selector = self.selector()?;
        let hub = Target::connect(global).await?;
        let name = &self.name;
        let set = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSet",
            "metadata": { "name": name },
            "spec": { "clusterSelector": selector },
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

    fn selector(&self) -> Result<Value> {
        let Some(text) = &self.label_selector else {
            return Ok(json!({ "selectorType": "ExclusiveClusterSetLabel" }));
        };
        let requirements = selector_text::parse(text)?;
        Ok(json!({ "selectorType": "LabelSelector", "labelSelector": { "matchExpressions": requirements } }))
    }
}
