//! `drover addon why NAME --cluster C`: `drover why managedclusteraddon/C/NAME`,
//! for those who think of the add-on first.

use ::why::object::ObjectRef;
use anyhow::Result;
use clap::Args;
use client::{cluster_name, flags::Global};
use output::Data;

use crate::command::why;

/// Say what an add-on waits for on a cluster, one sentence for each thing
#[derive(Debug, Args)]
pub struct Why {
    /// The add-on
    name: String,
    /// The cluster
    #[arg(short, long, visible_alias = "clusters", value_name = "CLUSTER")]
    cluster: String,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Data>,
}

impl Why {
    pub async fn run(self, global: &Global) -> Result<()> {
        cluster_name::check(&self.cluster)?;
        let object = ObjectRef::ManagedClusterAddOn {
            cluster: self.cluster,
            name: self.name,
        };
        why::explain(global, &object, self.output).await
    }
}
