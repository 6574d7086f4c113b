//! `drover get addons [NAMES] --clusters C`
//! Upstream: clusteradm `get addon -o table`, whose columns these are. `drover addon list` has a line per cluster.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use kube::core::DynamicObject;

use crate::{
    add_ons::{self, cluster, name},
    cli::Global,
    connect::Target,
    output::{self, Format},
    table::Table,
};

/// List the add-ons, each with the clusters that have it
#[derive(Debug, Args)]
pub struct Addons {
    /// Only these add-ons
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only what these clusters have [default: all clusters]
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        value_name = "CLUSTERS"
    )]
    clusters: Vec<String>,
    /// How to print them
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

impl Addons {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = Target::connect(global).await?;
        let offered = add_ons::offered(&hub, &self.names).await?;
        if let Some(text) = add_ons::encode(&offered, "clustermanagementaddon", self.output)? {
            return output::print(&text);
        }
        if offered.is_empty() {
            eprintln!("no add-ons found");
            return Ok(());
        }
        let installed = add_ons::installed(&hub, &self.names).await?;
        output::print(&table(&offered, &installed, &self.clusters).render())
    }
}

fn table(offered: &[DynamicObject], installed: &[DynamicObject], clusters: &[String]) -> Table {
    let mut having: BTreeMap<String, Vec<String>> = offered.iter().map(|it| (name(it), Vec::new())).collect();
    for it in installed {
        let cluster = cluster(it);
        if let Some(having) = having.get_mut(&name(it))
            && (clusters.is_empty() || clusters.contains(&cluster))
        {
            having.push(cluster);
        }
    }
    let mut table = Table::new(["NAME", "INSTALLEDCLUSTERS"]);
    for (name, mut clusters) in having {
        clusters.sort();
        table.row(vec![name, clusters.join(",")]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_add_on_is_listed_with_the_clusters_that_have_it() {
        let object = |value| serde_json::from_value::<DynamicObject>(value).expect("an object");
        let offered = ["b", "a"].map(|name| object(json!({"metadata": {"name": name}})));
        let installed = ["cluster2", "cluster1"].map(|it| object(json!({"metadata": {"name": "a", "namespace": it}})));
        assert_eq!(
            table(&offered, &installed, &[]).render(),
            "NAME   INSTALLEDCLUSTERS\na      cluster1,cluster2\nb\n"
        );
        assert_eq!(
            table(&offered, &installed, &["cluster2".into()]).render(),
            "NAME   INSTALLEDCLUSTERS\na      cluster2\nb\n"
        );
    }
}
