//! `drover get works [NAME] --clusters C`
//! Upstream: clusteradm `get works`; the columns are its own, and a named work is told resource by resource, which
//! upstream does with a tree.

use anyhow::Result;
use clap::Args;
use client::{clusters, conditions, connect::ApiServer, flags::Global, kinds};
use jiff::Timestamp;
use kube::{api::ListParams, core::DynamicObject};
use output::{Data, Format, RequestedObjects, age, table::Table};
use serde_json::Value;

/// List the works of a cluster, or tell one work resource by resource
#[derive(Debug, Args)]
pub struct Works {
    /// Only the work of this name, with its resources
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Only the works of these clusters [default: all clusters]
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

impl Works {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        clusters::exist(&hub, &self.clusters).await?;
        let works = list(&hub, &self.clusters, self.name.as_deref()).await?;
        if works.is_empty() {
            let of = if self.clusters.is_empty() {
                "any cluster".into()
            } else {
                self.clusters.join(", ")
            };
            match &self.name {
                Some(name) => anyhow::bail!("there is no work {name} for {of}; `drover get works` lists all works"),
                None if !self.output.is_whole() => {
                    eprintln!("no works found for {of}");
                    return Ok(());
                }
                None => {}
            }
        }
        // A name alone is that of a work on any number of clusters.
        let asked = match &self.name {
            Some(_) => RequestedObjects::by(&self.clusters),
            None => RequestedObjects::Any,
        };
        let in_full = self.name.is_some();
        output::print(&encode(&works, asked, in_full, self.output, Timestamp::now())?)
    }
}

/// The works of these clusters, or of all, by their names; or those of one name.
pub async fn list(hub: &ApiServer, clusters: &[String], name: Option<&str>) -> Result<Vec<DynamicObject>> {
    let parameters = match name {
        Some(name) => ListParams::default().fields(&format!("metadata.name={name}")),
        None => ListParams::default(),
    };
    let kind = kinds::manifest_work();
    let apis = if clusters.is_empty() {
        vec![hub.all(&kind)]
    } else {
        let of = |cluster: &String| hub.namespaced(&kind, cluster);
        clusters.iter().map(of).collect()
    };
    let mut works = Vec::new();
    for api in apis {
        let page = api.list(&parameters).await;
        works.extend(
            page.map_err(|error| hub.explain("could not list the works", &error))?
                .items,
        );
    }
    works.sort_by_key(|it| (it.metadata.namespace.clone(), it.metadata.name.clone()));
    for work in &mut works {
        work.metadata.managed_fields = None;
    }
    Ok(works)
}

fn encode(
    works: &[DynamicObject],
    asked: RequestedObjects,
    in_full: bool,
    format: Format,
    now: Timestamp,
) -> Result<String> {
    Ok(match format {
        Format::Json => output::encode(&output::objects(works, asked)?, Data::Json)?,
        Format::Yaml => output::encode(&output::objects(works, asked)?, Data::Yaml)?,
        Format::Name => {
            let line = |it: &DynamicObject| {
                format!(
                    "manifestwork.work.open-cluster-management.io/{}\n",
                    it.metadata.name.as_deref().unwrap_or("")
                )
            };
            works.iter().map(line).collect()
        }
        Format::Wide => table(works, true, now).render(),
        Format::Table if in_full => {
            let mut text = table(works, false, now).render();
            for work in works {
                text.push_str(&format!(
                    "\nResources on {}:\n",
                    work.metadata.namespace.as_deref().unwrap_or_default()
                ));
                text.push_str(&resources(work).render());
            }
            text
        }
        Format::Table => table(works, false, now).render(),
    })
}

fn table(works: &[DynamicObject], wide: bool, now: Timestamp) -> Table {
    let mut table = Table::new(["NAME", "CLUSTER", "NUMBER OF MANIFESTS", "APPLIED", "AVAILABLE"]);
    if wide {
        table = table.widen(&["AGE"]);
    }
    for it in works {
        let manifests = it.data["spec"]["workload"]["manifests"].as_array().map_or(0, Vec::len);
        let mut row = vec![
            it.metadata.name.clone().unwrap_or_default(),
            it.metadata.namespace.clone().unwrap_or_default(),
            manifests.to_string(),
            conditions::status(it, "Applied"),
            conditions::status(it, "Available"),
        ];
        if wide {
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

/// One row per manifest. The agent's word is taken where it has spoken; what it has not spoken about yet is shown from
/// the work itself, so that nothing a user wrote is missing from the page.
fn resources(work: &DynamicObject) -> Table {
    let mut table = Table::new(["KIND", "NAMESPACE", "NAME", "APPLIED", "AVAILABLE", "MESSAGE"]);
    let told = work.data["status"]["resourceStatus"]["manifests"].as_array();
    let manifests = work.data["spec"]["workload"]["manifests"].as_array();
    for (ordinal, manifest) in manifests.into_iter().flatten().enumerate() {
        let status = told
            .into_iter()
            .flatten()
            .find(|it| it["resourceMeta"]["ordinal"].as_u64().unwrap_or(0) == ordinal as u64);
        let conditions = status.map_or(&Value::Null, |it| &it["conditions"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let applied = conditions::find(conditions, "Applied");
        let available = conditions::find(conditions, "Available");
        let fault = [applied, available].into_iter().flatten().find(|it| !it.is_true());
        table.row(vec![
            text(&manifest["kind"]),
            text(&manifest["metadata"]["namespace"]),
            text(&manifest["metadata"]["name"]),
            applied.map_or("", |it| it.status).to_owned(),
            available.map_or("", |it| it.status).to_owned(),
            fault.map_or("", |it| it.says()).to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work() -> DynamicObject {
        let meta = |ordinal: u64, kind: &str, name: &str| json!({"ordinal": ordinal, "kind": kind, "name": name});
        serde_json::from_value(json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "my-first-work", "namespace": "cluster1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"workload": {"manifests": [
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "default", "name": "my-sa"}},
                {"apiVersion": "v1", "kind": "Oops", "metadata": {"name": "b"}},
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}},
            ]}},
            "status": {
                "conditions": [{"type": "Applied", "status": "False"}, {"type": "Available", "status": "False"}],
                "resourceStatus": {"manifests": [
                    {"resourceMeta": meta(0, "ServiceAccount", "my-sa"), "conditions": [
                        {"type": "Applied", "status": "True"}, {"type": "Available", "status": "True"}]},
                    {"resourceMeta": meta(1, "Oops", "b"), "conditions": [
                        {"type": "Applied", "status": "False", "message": "the cluster has no kind Oops"}]},
                ]},
            },
        }))
        .unwrap()
    }

    #[test]
    fn works_are_a_table_with_the_columns_of_clusteradm() {
        let now = "2026-01-01T00:02:59Z".parse().unwrap();
        assert_eq!(
            encode(&[work()], RequestedObjects::Any, false, Format::Wide, now).unwrap(),
            "NAME            CLUSTER    NUMBER OF MANIFESTS   APPLIED   AVAILABLE   AGE\n\
             my-first-work   cluster1   3                     False     False       2m59s\n"
        );
    }

    #[test]
    fn a_named_work_is_shown_with_its_resources() {
        let now = "2026-01-01T00:02:59Z".parse().unwrap();
        assert_eq!(
            encode(&[work()], RequestedObjects::Any, true, Format::Table, now).unwrap(),
            "NAME            CLUSTER    NUMBER OF MANIFESTS   APPLIED   AVAILABLE\n\
             my-first-work   cluster1   3                     False     False\n\
             \n\
             Resources on cluster1:\n\
             KIND             NAMESPACE   NAME    APPLIED   AVAILABLE   MESSAGE\n\
             ServiceAccount   default     my-sa   True      True\n\
             Oops                         b       False                 the cluster has no kind Oops\n\
             Secret                       c\n"
        );
    }
}
