//! `drover addon list [NAMES] [--clusters C]`, one line per add-on and cluster.

use anyhow::Result;
use clap::Args;
use client::{clusters, conditions, connect::ApiServer, flags::Global};
use jiff::Timestamp;
use kube::core::DynamicObject;
use output::{Format, RequestedObjects, age, table::Table};

use crate::add_ons::{self, cluster, name};

/// List add-ons and the clusters that have them
#[derive(Debug, Args)]
pub struct ListAddOns {
    /// Only these add-ons
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only the add-ons of these clusters [default: all clusters]
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

impl ListAddOns {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        clusters::exist(&hub, &self.clusters).await?;
        let offered = add_ons::offered(&hub, &self.names).await?;
        let mut installed = add_ons::installed(&hub, &self.names).await?;
        add_ons::check_names(&self.names, &offered, &installed)?;
        installed.retain(|it| self.clusters.is_empty() || self.clusters.contains(&cluster(it)));
        installed.sort_by_key(|it| (name(it), cluster(it)));
        // One add-on is on many clusters, unless one is named as well.
        let asked = match RequestedObjects::by(&self.names) {
            RequestedObjects::One => RequestedObjects::by(&self.clusters),
            RequestedObjects::Any => RequestedObjects::Any,
        };
        if let Some(text) = add_ons::encode(&installed, asked, "managedclusteraddon", self.output)? {
            return output::print(&text);
        }
        if offered.is_empty() && installed.is_empty() {
            eprintln!("no add-ons found");
            return Ok(());
        }
        output::print(&table(&offered, &installed, self.output == Format::Wide, Timestamp::now()).render())
    }
}

/// Add-ons on clusters, and those that the hub offers and no cluster has.
fn table(offered: &[DynamicObject], installed: &[DynamicObject], wide: bool, now: Timestamp) -> Table {
    let mut table = Table::new(["NAME", "CLUSTER", "AVAILABLE", "DEGRADED", "PROGRESSING", "AGE"]);
    if wide {
        table = table.widen(&["NAMESPACE", "MESSAGE"]);
    }
    let mut rows = Vec::new();
    for it in installed {
        let mut row = vec![
            name(it),
            cluster(it),
            conditions::status(it, "Available"),
            conditions::status(it, "Degraded"),
            conditions::status(it, "Progressing"),
            age(it, now),
        ];
        if wide {
            let says = conditions::of(it, "Available").map(|it| it.says().to_owned());
            row.push(it.data["status"]["namespace"].as_str().unwrap_or_default().to_owned());
            row.push(says.unwrap_or_default());
        }
        rows.push(row);
    }
    for it in offered {
        if !installed.iter().any(|other| name(other) == name(it)) {
            let mut row = vec![
                name(it),
                "<none>".into(),
                String::new(),
                String::new(),
                String::new(),
                age(it, now),
            ];
            if wide {
                row.extend([String::new(), String::new()]);
            }
            rows.push(row);
        }
    }
    rows.sort();
    for row in rows {
        table.row(row);
    }
    table
}

fn age(it: &DynamicObject, now: Timestamp) -> String {
    let created = it.metadata.creation_timestamp.as_ref();
    created.map(|it| age::since(it.0, now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: serde_json::Value) -> DynamicObject {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn each_cluster_gets_a_row_and_uninstalled_add_ons_appear() {
        let offered = ["a", "b"].map(|name| object(json!({"metadata": {"name": name}})));
        let installed = [object(json!({
            "metadata": {"name": "b", "namespace": "cluster1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "Available", "status": "True", "message": "b add-on is available."}]},
        }))];
        let now = "2026-01-01T00:01:05Z".parse().expect("a time");
        assert_eq!(
            table(&offered, &installed, false, now).render(),
            "NAME   CLUSTER    AVAILABLE   DEGRADED   PROGRESSING   AGE\n\
             a      <none>\n\
             b      cluster1   True                                 65s\n"
        );
    }
}
