//! `drover get placements [NAMES] [-n NAMESPACE | -A]`
//! Upstream: clusteradm `get placements -o table`, whose columns these are; the namespace comes after them.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use client::{conditions, connect::ApiServer, flags::Global, kinds};
use kube::{Api, api::ListParams, core::DynamicObject};
use ocm_api::{cluster::PlacementDecision, labels};
use output::{Data, Format, RequestedObjects, table::Table};

use super::{NamespaceFlags, named};

/// List the placements and the clusters that each has chosen
#[derive(Debug, Args)]
pub struct Placements {
    /// Only these placements
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    place: NamespaceFlags,
    /// How to print them
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// The clusters that placements have chosen, by the placement's namespace and name.
pub type Chosen = BTreeMap<(String, String), Vec<String>>;

impl Placements {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        let mut placements = list(&hub, self.place.namespace.as_deref()).await?;
        let asked = named(
            &mut placements,
            &self.names,
            self.place.namespace.as_deref(),
            ("placement", "placements"),
        )?;
        if placements.is_empty() && !self.output.is_whole() {
            eprintln!("no placements found");
            return Ok(());
        }
        let chosen = match self.output {
            Format::Table | Format::Wide => chosen(&hub, self.place.namespace.as_deref()).await?,
            Format::Json | Format::Yaml | Format::Name => Chosen::new(),
        };
        output::print(&encode(&placements, asked, &chosen, self.output)?)
    }
}

/// The placements of a namespace, or of all, by their names.
pub async fn list(hub: &ApiServer, namespace: Option<&str>) -> Result<Vec<DynamicObject>> {
    let listed = super::list(hub, &kinds::placement(), namespace, &ListParams::default()).await;
    listed.map_err(|error| hub.explain("could not list the placements", &error))
}

/// What they have chosen.
pub async fn chosen(hub: &ApiServer, namespace: Option<&str>) -> Result<Chosen> {
    let decisions: Api<PlacementDecision> = match namespace {
        Some(namespace) => Api::namespaced(hub.client.clone(), namespace),
        None => Api::all(hub.client.clone()),
    };
    let listed = decisions.list(&ListParams::default().labels(labels::PLACEMENT)).await;
    let listed = listed.map_err(|error| hub.explain("could not list the decisions of placements", &error))?;
    Ok(by_placement(listed.items))
}

/// A placement of many clusters has several decisions.
fn by_placement(decisions: Vec<PlacementDecision>) -> Chosen {
    let mut chosen = Chosen::new();
    for it in decisions {
        let namespace = it.metadata.namespace.unwrap_or_default();
        let placement = it.metadata.labels.and_then(|mut it| it.remove(labels::PLACEMENT));
        let clusters = it.status.map(|it| it.decisions).unwrap_or_default();
        let names = clusters.into_iter().map(|it| it.cluster_name);
        let key = (namespace, placement.unwrap_or_default());
        chosen.entry(key).or_default().extend(names);
    }
    chosen.values_mut().for_each(|it| it.sort());
    chosen
}

fn encode(placements: &[DynamicObject], asked: RequestedObjects, chosen: &Chosen, format: Format) -> Result<String> {
    Ok(match format {
        Format::Json => output::encode(&output::objects(placements, asked)?, Data::Json)?,
        Format::Yaml => output::encode(&output::objects(placements, asked)?, Data::Yaml)?,
        Format::Name => {
            let name = |it: &DynamicObject| it.metadata.name.clone().unwrap_or_default();
            let line = |it: &DynamicObject| format!("placement.cluster.open-cluster-management.io/{}\n", name(it));
            placements.iter().map(line).collect()
        }
        Format::Wide => table(placements, chosen, true).render(),
        Format::Table => table(placements, chosen, false).render(),
    })
}

fn table(placements: &[DynamicObject], chosen: &Chosen, wide: bool) -> Table {
    let mut table = Table::new(["NAME", "STATUS", "REASON", "SELECTEDCLUSTERS", "NAMESPACE"]);
    if wide {
        table = table.widen(&["GROUPS", "MESSAGE"]);
    }
    for it in placements {
        let satisfied = conditions::of(it, ocm_api::conditions::placement::SATISFIED);
        let wrong = conditions::of(it, ocm_api::conditions::placement::MISCONFIGURED).filter(|it| it.is_true());
        let name = it.metadata.name.clone().unwrap_or_default();
        let namespace = it.metadata.namespace.clone().unwrap_or_default();
        let clusters = chosen.get(&(namespace.clone(), name.clone()));
        let mut row = vec![
            name,
            satisfied.map(|it| it.status.to_owned()).unwrap_or_default(),
            // What makes no sense is the reason of everything else.
            wrong.or(satisfied).map(|it| it.reason.to_owned()).unwrap_or_default(),
            clusters.map(|it| it.join(",")).unwrap_or_default(),
            namespace,
        ];
        if wide {
            let groups = it.data["status"]["decisionGroups"].as_array();
            row.push(groups.map_or(0, Vec::len).to_string());
            row.push(wrong.or(satisfied).map(|it| it.says().to_owned()).unwrap_or_default());
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
    fn a_misconfigured_placement_is_listed_with_that_reason() {
        let placement = |name: &str, wrong: &str| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
                "metadata": {"name": name, "namespace": "default"}, "spec": {},
                "status": {"numberOfSelectedClusters": 2, "conditions": [
                    {"type": "PlacementSatisfied", "status": "True", "reason": "AllDecisionsScheduled", "message": ""},
                    {"type": "PlacementMisconfigured", "status": wrong, "reason": "Misconfigured", "message": "it is"}]},
            }))
            .unwrap()
        };
        let decision = |namespace: &str, cluster: &str| -> PlacementDecision {
            serde_json::from_value(json!({
                "metadata": {"namespace": namespace, "labels": {"cluster.open-cluster-management.io/placement": "a"}},
                "status": {"decisions": [{"clusterName": cluster, "reason": ""}]},
            }))
            .unwrap()
        };
        let chosen = by_placement(vec![
            decision("default", "c2"),
            decision("other", "c3"),
            decision("default", "c1"),
        ]);
        assert_eq!(
            table(&[placement("a", "False"), placement("b", "True")], &chosen, false).render(),
            "NAME   STATUS   REASON                  SELECTEDCLUSTERS   NAMESPACE\n\
             a      True     AllDecisionsScheduled   c1,c2              default\n\
             b      True     Misconfigured                              default\n"
        );
    }
}
