//! `drover get addons [NAMES] --clusters C`
//! Upstream: clusteradm `get addon -o table`, whose columns these are; the clusters' names follow under `-o wide`.
//! `drover addon list` has a line per cluster.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use client::{clusters, connect::ApiServer, flags::Global};
use kube::core::DynamicObject;
use output::{Format, RequestedObjects, table::Table};

use crate::add_ons::{self, cluster, name};

/// List the add-ons, each with how many clusters have it
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
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

impl Addons {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        clusters::exist(&hub, &self.clusters).await?;
        let offered = add_ons::offered(&hub, &self.names).await?;
        add_ons::check_names(&self.names, &offered, &[])?;
        let asked = RequestedObjects::by(&self.names);
        if let Some(text) = add_ons::encode(&offered, asked, "clustermanagementaddon", self.output)? {
            return output::print(&text);
        }
        if offered.is_empty() {
            eprintln!("no add-ons found");
            return Ok(());
        }
        let installed = add_ons::installed(&hub, &self.names).await?;
        output::print(&table(&offered, &installed, &self.clusters, self.output == Format::Wide).render())
    }
}

fn table(offered: &[DynamicObject], installed: &[DynamicObject], clusters: &[String], wide: bool) -> Table {
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
    if wide {
        table = table.widen(&["CLUSTERS"]);
    }
    for (name, mut clusters) in having {
        clusters.sort();
        let mut row = vec![name, clusters.len().to_string()];
        if wide {
            row.push(clusters.join(","));
        }
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_counts_and_optionally_names_clusters_per_add_on() {
        let object = |value| serde_json::from_value::<DynamicObject>(value).expect("an object");
        let offered = ["b", "a"].map(|name| object(json!({"metadata": {"name": name}})));
        let installed = ["cluster2", "cluster1"].map(|it| object(json!({"metadata": {"name": "a", "namespace": it}})));
        assert_eq!(
            table(&offered, &installed, &[], false).render(),
            "NAME   INSTALLEDCLUSTERS\na      2\nb      0\n"
        );
        assert_eq!(
            table(&offered, &installed, &["cluster2".into()], true).render(),
            "NAME   INSTALLEDCLUSTERS   CLUSTERS\na      1                   cluster2\nb      0\n"
        );
        assert_eq!(
            table(&offered, &installed, &[], true).render().lines().nth(1),
            Some("a      2                   cluster1,cluster2")
        );
    }
}
