//! `drover get clustersets`
//! Upstream: clusteradm `get clustersets -o table`; the columns are its own, ours follow under `-o wide`.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use client::{clusters, conditions, connect::ApiServer, flags::Global, kinds};
use jiff::Timestamp;
use kube::{api::ListParams, core::DynamicObject};
use ocm_api::{conditions::managed_cluster_set, selector::Selector};
use output::{Data, Format, RequestedObjects, age, table::Table};

/// List the sets of clusters, how many clusters each has, and who may use them
#[derive(Debug, Args)]
pub struct ClusterSets {
    /// Only these sets
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// How to print them
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

impl ClusterSets {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        let mut sets = list(&hub).await?;
        let is_named = |it: &DynamicObject, name: &str| it.metadata.name.as_deref() == Some(name);
        let unknown = |name: &&String| !sets.iter().any(|it| is_named(it, name));
        if let Some(unknown) = self.names.iter().find(unknown) {
            bail!("there is no clusterset {unknown} on this hub; `drover get clustersets` lists those there are");
        }
        sets.retain(|it| self.names.is_empty() || self.names.iter().any(|name| is_named(it, name)));
        if sets.is_empty() && !self.output.is_whole() {
            eprintln!("no cluster sets found");
            return Ok(());
        }
        let bindings = match self.output {
            Format::Table | Format::Wide => clusters::bindings(&hub).await?,
            _ => BTreeMap::new(),
        };
        let asked = RequestedObjects::by(&self.names);
        output::print(&encode(&sets, asked, &bindings, self.output, Timestamp::now())?)
    }
}

/// All sets, by their names.
pub async fn list(hub: &ApiServer) -> Result<Vec<DynamicObject>> {
    let page = hub
        .all(&kinds::managed_cluster_set())
        .list(&ListParams::default())
        .await;
    let page = page.map_err(|error| hub.explain("could not list the cluster sets", &error))?;
    let mut sets = page.items;
    sets.sort_by_key(|it| it.metadata.name.clone());
    for it in &mut sets {
        it.metadata.managed_fields = None;
    }
    Ok(sets)
}

fn encode(
    sets: &[DynamicObject],
    asked: RequestedObjects,
    bindings: &BTreeMap<String, Vec<String>>,
    format: Format,
    now: Timestamp,
) -> Result<String> {
    Ok(match format {
        Format::Json => output::encode(&output::objects(sets, asked)?, Data::Json)?,
        Format::Yaml => output::encode(&output::objects(sets, asked)?, Data::Yaml)?,
        Format::Name => {
            let name = |it: &DynamicObject| it.metadata.name.clone().unwrap_or_default();
            let line =
                |it: &DynamicObject| format!("managedclusterset.cluster.open-cluster-management.io/{}\n", name(it));
            sets.iter().map(line).collect()
        }
        Format::Wide => table(sets, bindings, true, now).render(),
        Format::Table => table(sets, bindings, false, now).render(),
    })
}

fn table(sets: &[DynamicObject], bindings: &BTreeMap<String, Vec<String>>, wide: bool, now: Timestamp) -> Table {
    let mut table = Table::new(["NAME", "BOUND NAMESPACES", "STATUS", "MANAGED NAMESPACES"]);
    if wide {
        table = table.widen(&["SELECTOR", "AGE"]);
    }
    for it in sets {
        let name = it.metadata.name.clone().unwrap_or_default();
        let managed = it.data["spec"]["managedNamespaces"].as_array();
        let managed = managed.into_iter().flatten().filter_map(|it| it["name"].as_str());
        let empty = conditions::of(it, managed_cluster_set::EMPTY);
        let mut row = vec![
            name.clone(),
            bindings.get(&name).map(|it| it.join(",")).unwrap_or_default(),
            empty.map(|it| it.message.to_owned()).unwrap_or_default(),
            managed.collect::<Vec<_>>().join(","),
        ];
        if wide {
            row.push(selector(it));
            let made = it.metadata.creation_timestamp.as_ref();
            row.push(made.map(|it| age::since(it.0, now)).unwrap_or_default());
        }
        table.row(row);
    }
    table
}

/// How clusters become members, in one cell.
fn selector(set: &DynamicObject) -> String {
    let selector = &set.data["spec"]["clusterSelector"];
    if selector["selectorType"] != "LabelSelector" {
        return "<label>".to_owned();
    }
    let read = serde_json::from_value(selector["labelSelector"].clone());
    match read.map(|it| Selector::of(&it)) {
        _ if selector["labelSelector"].is_null() => "<none>".to_owned(),
        Ok(Ok(it)) if it.to_string().is_empty() => "<all>".to_owned(),
        Ok(Ok(it)) => it.to_string(),
        _ => "<invalid>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(name: &str, spec: Value, message: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSet",
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec,
            "status": {"conditions": [{"type": "ClusterSetEmpty", "status": "False", "reason": "R", "message": message}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_set_is_a_row_with_the_columns_of_clusteradm() {
        let by_labels = json!({"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}});
        let all = json!({"selectorType": "LabelSelector", "labelSelector": {}});
        let sets = [
            set(
                "eu",
                json!({"clusterSelector": by_labels, "managedNamespaces": [{"name": "a"}, {"name": "b"}]}),
                "2 selected",
            ),
            set("global", json!({"clusterSelector": all}), "3 selected"),
            set("prod", json!({}), "none"),
        ];
        let bindings = BTreeMap::from([("eu".to_owned(), vec!["default".to_owned(), "kueue".to_owned()])]);
        let now = "2026-01-01T00:00:17Z".parse().unwrap();
        assert_eq!(
            encode(&sets, RequestedObjects::Any, &bindings, Format::Table, now).unwrap(),
            "NAME     BOUND NAMESPACES   STATUS       MANAGED NAMESPACES\n\
             eu       default,kueue      2 selected   a,b\n\
             global                      3 selected\n\
             prod                        none\n"
        );
        let wide = encode(&sets, RequestedObjects::Any, &bindings, Format::Wide, now).unwrap();
        let last = |line: &str| line.split_whitespace().rev().take(2).collect::<Vec<_>>().join(" ");
        let cells: Vec<String> = wide.lines().skip(1).map(last).collect();
        assert_eq!(cells, ["17s env=prod", "17s <all>", "17s <label>"]);
        assert_eq!(
            encode(&sets[..1], RequestedObjects::Any, &bindings, Format::Name, now).unwrap(),
            "managedclusterset.cluster.open-cluster-management.io/eu\n"
        );
    }
}
