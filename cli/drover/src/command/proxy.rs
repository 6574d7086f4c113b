//! `drover proxy health` and `drover proxy kubectl`: clusters reached through the add-on cluster-proxy.
//! Upstream: clusteradm `proxy`, whose lines and table we print. We differ in that the tunnels are not tried, and in
//! that `kubectl` fails where it can do nothing, where upstream ends with a panic.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use client::{conditions, connect::ApiServer, flags::Global, kinds};
use kube::{api::ListParams, core::DynamicObject};

use crate::command::get;

/// The add-on.
const NAME: &str = "cluster-proxy";

/// Reach clusters through the add-on cluster-proxy
#[derive(Debug, Subcommand)]
pub enum Proxy {
    /// Show which clusters have the add-on cluster-proxy, and whether it is available there
    Health(Health),
    /// Run kubectl on a cluster through the add-on cluster-proxy
    Kubectl(Kubectl),
}

#[derive(Debug, Args)]
pub struct Health {
    /// Only these clusters [default: all clusters]
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        value_name = "CLUSTERS"
    )]
    pub clusters: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Kubectl {
    /// The cluster
    #[arg(short, long, value_name = "CLUSTER")]
    cluster: String,
}

impl Proxy {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        match self {
            Self::Health(it) => it.show(&hub).await,
            Self::Kubectl(it) => kubectl(&hub, &[it.cluster]).await,
        }
    }
}

impl Health {
    /// Prints the table, or that there is no such add-on.
    pub async fn show(&self, hub: &ApiServer) -> Result<()> {
        if !is_offered(hub).await? {
            return output::print(NOT_INSTALLED);
        }
        let installed = hub.all(&kinds::managed_cluster_add_on());
        let named = ListParams::default().fields(&format!("metadata.name={NAME}"));
        let installed = installed.list(&named).await;
        let installed = installed.map_err(|error| hub.explain("could not list the add-ons of the clusters", &error))?;
        let mut rows = Vec::new();
        for cluster in get::clusters::list(hub, None, None).await? {
            let name = cluster.metadata.name.unwrap_or_default();
            if !self.clusters.is_empty() && !self.clusters.contains(&name) {
                continue;
            }
            let is_its = |it: &&DynamicObject| it.metadata.namespace.as_ref() == Some(&name);
            let add_on = installed.items.iter().find(is_its);
            let available = add_on.and_then(|it| conditions::of(it, "Available"));
            rows.push(Row {
                is_installed: add_on.is_some(),
                is_available: available.is_some_and(|it| it.is_true()),
                name,
            });
        }
        output::print(&table(&rows))?;
        if !rows.is_empty() {
            eprintln!("the tunnels to the clusters were not tried");
        }
        Ok(())
    }
}

/// What upstream says where the add-on is not.
const NOT_INSTALLED: &str = "Cluster-Proxy addon is not installed.\nConsider following the guide: \
                             https://open-cluster-management.io/getting-started/integration/cluster-proxy/\n";

async fn is_offered(hub: &ApiServer) -> Result<bool> {
    let found = hub.all(&kinds::cluster_management_add_on()).get_opt(NAME).await;
    let found = found.map_err(|error| hub.explain("could not look for the add-on cluster-proxy", &error))?;
    Ok(found.is_some())
}

/// One cluster of the table.
struct Row {
    name: String,
    is_installed: bool,
    is_available: bool,
}

fn table(rows: &[Row]) -> String {
    let word = |it: bool| if it { "True" } else { "False" };
    let header = ["CLUSTER NAME", "INSTALLED", "AVAILABLE", "PROBED HEALTH", "LATENCY"];
    let cells = rows.iter().map(|it| {
        let (installed, available) = (word(it.is_installed), word(it.is_available));
        [it.name.as_str(), installed, available, "Unknown", "<none>"]
    });
    let lines: Vec<[&str; 5]> = std::iter::once(header).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|it| it[column].len()).max().unwrap_or_default() + 4;
    let mut text = String::new();
    for line in &lines {
        for (column, cell) in line[..4].iter().enumerate() {
            text.push_str(&format!("{cell:width$}", width = width(column)));
        }
        text.push_str(line[4]);
        text.push('\n');
    }
    text
}

/// Runs kubectl on a cluster.
///
/// # Errors
/// Always: there are no tunnels to clusters yet.
pub async fn kubectl(hub: &ApiServer, clusters: &[String]) -> Result<()> {
    if !is_offered(hub).await? {
        output::print(NOT_INSTALLED)?;
        bail!("the hub offers no add-on {NAME}, through which clusters could be reached");
    }
    bail!(
        "kubectl cannot go through the add-on {NAME} here: give it a kubeconfig of {} instead",
        clusters.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_stand_in_upstreams_table() {
        let row = |name: &str, is_installed, is_available| Row {
            name: name.into(),
            is_installed,
            is_available,
        };
        assert_eq!(
            table(&[row("cluster1", true, true), row("cluster2", false, false)]),
            "CLUSTER NAME    INSTALLED    AVAILABLE    PROBED HEALTH    LATENCY\n\
             cluster1        True         True         Unknown          <none>\n\
             cluster2        False        False        Unknown          <none>\n"
        );
    }
}
