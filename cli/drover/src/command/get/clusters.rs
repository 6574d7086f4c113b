//! `drover get clusters`
//! Upstream: clusteradm `get clusters -o table`; the columns are its own, ours follow under `-o wide`.

use anyhow::{Result, anyhow};
use clap::Args;
use client::{conditions, connect::ApiServer, flags::Global, kinds};
use jiff::Timestamp;
use kube::{Api, api::ListParams, core::DynamicObject};
use ocm_api::cluster::{ManagedCluster, ManagedClusterSet, Membership};
use output::{Data, Format, RequestedObjects, age, table::Table};

use crate::quantity;

/// List the managed clusters
#[derive(Debug, Args)]
pub struct Clusters {
    /// Only these clusters
    #[arg(value_name = "NAME", conflicts_with_all = ["clusterset", "selector"])]
    names: Vec<String>,
    /// Only the clusters of this set, whether they are in it by name or by its selector
    #[arg(long, value_name = "SET")]
    clusterset: Option<String>,
    /// Only the clusters with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// How to print them
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

impl Clusters {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        let clusters = if self.names.is_empty() {
            list(&hub, self.clusterset.as_deref(), self.selector.as_deref()).await?
        } else {
            let api = hub.all(&kinds::managed_cluster());
            let mut named = Vec::new();
            for name in &self.names {
                let cluster = api.get(name).await;
                named.push(cluster.map_err(|error| hub.explain(&format!("could not get cluster {name}"), &error))?);
            }
            sorted(named)
        };
        if clusters.is_empty() && !self.output.is_whole() {
            eprintln!("no managed clusters found");
            return Ok(());
        }
        let asked = RequestedObjects::by(&self.names);
        output::print(&encode(&clusters, asked, self.output, Timestamp::now())?)
    }
}

/// The clusters of a set, or all, with these labels.
pub async fn list(hub: &ApiServer, set: Option<&str>, selector: Option<&str>) -> Result<Vec<DynamicObject>> {
    let parameters = ListParams::default().labels(selector.unwrap_or_default());
    let page = hub.all(&kinds::managed_cluster()).list(&parameters).await;
    let page = page.map_err(|error| hub.explain("could not list the managed clusters", &error))?;
    let mut listed = page.items;
    if let Some(name) = set {
        let set = cluster_set(hub, name).await?;
        listed.retain(|it| is_member(&Membership::of([&set]), it));
    }
    Ok(sorted(listed))
}

/// By their names, without what only servers read.
fn sorted(mut clusters: Vec<DynamicObject>) -> Vec<DynamicObject> {
    clusters.sort_by_key(|it| it.metadata.name.clone());
    for cluster in &mut clusters {
        cluster.metadata.managed_fields = None;
    }
    clusters
}

async fn cluster_set(hub: &ApiServer, name: &str) -> Result<ManagedClusterSet> {
    let found = Api::<ManagedClusterSet>::all(hub.client.clone()).get_opt(name).await;
    let found = found.map_err(|error| hub.explain(&format!("could not get clusterset {name}"), &error))?;
    found.ok_or_else(|| {
        anyhow!("there is no clusterset {name} on this hub; `drover get clustersets` lists those there are")
    })
}

/// Membership is a matter of labels alone.
pub fn is_member(members: &Membership<'_>, cluster: &DynamicObject) -> bool {
    let mut labelled = ManagedCluster::default();
    labelled.metadata.labels = cluster.metadata.labels.clone();
    members.has(&labelled)
}

fn encode(clusters: &[DynamicObject], asked: RequestedObjects, format: Format, now: Timestamp) -> Result<String> {
    Ok(match format {
        Format::Json => output::encode(&output::objects(clusters, asked)?, Data::Json)?,
        Format::Yaml => output::encode(&output::objects(clusters, asked)?, Data::Yaml)?,
        Format::Name => {
            let line = |it: &DynamicObject| {
                format!(
                    "managedcluster.cluster.open-cluster-management.io/{}\n",
                    it.metadata.name.as_deref().unwrap_or("")
                )
            };
            clusters.iter().map(line).collect()
        }
        Format::Wide => table(clusters, true, now).render(),
        Format::Table => table(clusters, false, now).render(),
    })
}

fn table(clusters: &[DynamicObject], wide: bool, now: Timestamp) -> Table {
    let mut table = Table::new([
        "NAME",
        "ACCEPTED",
        "AVAILABLE",
        "CLUSTERSET",
        "CPU",
        "MEMORY",
        "KUBERNETES VERSION",
    ]);
    if wide {
        table = table.widen(&["JOINED", "MANAGED CLUSTER URLS", "AGE"]);
    }
    for it in clusters {
        let status = &it.data["status"];
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let labels = it.metadata.labels.as_ref();
        let mut row = vec![
            it.metadata.name.clone().unwrap_or_default(),
            it.data["spec"]["hubAcceptsClient"]
                .as_bool()
                .unwrap_or(false)
                .to_string(),
            conditions::status(it, "ManagedClusterConditionAvailable"),
            labels
                .and_then(|it| it.get(kinds::CLUSTER_SET_LABEL))
                .cloned()
                .unwrap_or_default(),
            text(&status["capacity"]["cpu"]),
            status["capacity"]["memory"]
                .as_str()
                .map(quantity::memory)
                .unwrap_or_default(),
            text(&status["version"]["kubernetes"]),
        ];
        if wide {
            let urls = it.data["spec"]["managedClusterClientConfigs"].as_array();
            let urls = urls.into_iter().flatten().filter_map(|it| it["url"].as_str());
            row.push(conditions::status(it, "ManagedClusterJoined"));
            row.push(urls.collect::<Vec<_>>().join(","));
            row.push(
                it.metadata
                    .creation_timestamp
                    .as_ref()
                    .map(|it| age::since(it.0, now))
                    .unwrap_or_default(),
            );
        }
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clusters() -> Vec<DynamicObject> {
        let cluster1 = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {
                "name": "cluster1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"cluster.open-cluster-management.io/clusterset": "default"},
            },
            "spec": {"hubAcceptsClient": true, "managedClusterClientConfigs": [{"url": "https://localhost"}]},
            "status": {
                "capacity": {"cpu": "4", "memory": "24496936Ki"},
                "version": {"kubernetes": "v1.36.0"},
                "conditions": [
                    {"type": "ManagedClusterJoined", "status": "True"},
                    {"type": "ManagedClusterConditionAvailable", "status": "True"},
                ],
            },
        });
        let cluster10 = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "cluster10", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {},
        });
        [cluster1, cluster10]
            .map(|it| serde_json::from_value(it).unwrap())
            .into()
    }

    #[test]
    fn clusters_are_a_table_with_the_columns_of_clusteradm() {
        let now = "2026-01-01T00:00:17Z".parse().unwrap();
        assert_eq!(
            encode(&clusters(), RequestedObjects::Any, Format::Table, now).unwrap(),
            "NAME        ACCEPTED   AVAILABLE   CLUSTERSET   CPU   MEMORY   KUBERNETES VERSION\n\
             cluster1    true       True        default      4     23Gi     v1.36.0\n\
             cluster10   false\n"
        );
        assert_eq!(
            encode(&clusters(), RequestedObjects::Any, Format::Wide, now)
                .unwrap()
                .lines()
                .nth(1)
                .unwrap(),
            "cluster1    true       True        default      4     23Gi     v1.36.0              True     https://localhost      17s"
        );
    }

    #[test]
    fn clusters_are_also_names_json_and_yaml() {
        let now = "2026-01-01T00:00:17Z".parse().unwrap();
        assert_eq!(
            encode(&clusters(), RequestedObjects::Any, Format::Name, now).unwrap(),
            "managedcluster.cluster.open-cluster-management.io/cluster1\n\
             managedcluster.cluster.open-cluster-management.io/cluster10\n"
        );
        let json: serde_json::Value =
            serde_json::from_str(&encode(&clusters()[..1], RequestedObjects::Any, Format::Json, now).unwrap()).unwrap();
        assert_eq!(json["items"][0]["metadata"]["name"], "cluster1");
        let yaml = encode(&clusters()[..1], RequestedObjects::One, Format::Yaml, now).unwrap();
        assert!(yaml.contains("\n  hubAcceptsClient: true"), "{yaml}");
    }
}
