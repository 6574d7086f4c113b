//! `drover get placements`
//! Upstream: clusteradm `get placements`, and the columns of kubectl.

use anyhow::Result;
use clap::Args;
use kube::{api::ListParams, core::DynamicObject};

use crate::{
    cli::Global,
    conditions,
    connect::Target,
    kinds,
    output::{self, Data, Format},
    table::Table,
};

/// List the placements and how many clusters each has chosen
#[derive(Debug, Args)]
pub struct Placements {
    /// Only these placements
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// The namespace to look into [default: all namespaces]
    #[arg(short, long)]
    namespace: Option<String>,
    /// How to print them
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

impl Placements {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = Target::connect(global).await?;
        let kind = kinds::placement();
        let api = match &self.namespace {
            Some(namespace) => hub.namespaced(&kind, namespace),
            None => hub.all(&kind),
        };
        let page = api.list(&ListParams::default()).await;
        let mut placements = page
            .map_err(|error| hub.explain("could not list the placements", &error))?
            .items;
        placements
            .retain(|it| self.names.is_empty() || it.metadata.name.as_ref().is_some_and(|it| self.names.contains(it)));
        placements.sort_by_key(|it| (it.metadata.namespace.clone(), it.metadata.name.clone()));
        for it in &mut placements {
            it.metadata.managed_fields = None;
        }
        if placements.is_empty() && !matches!(self.output, Some(Format::Json | Format::Yaml)) {
            eprintln!("no placements found");
            return Ok(());
        }
        output::print(&encode(&placements, self.output)?)
    }
}

fn encode(placements: &[DynamicObject], format: Option<Format>) -> Result<String> {
    Ok(match format {
        Some(Format::Json) => output::encode(&output::objects(placements)?, Data::Json)?,
        Some(Format::Yaml) => output::encode(&output::objects(placements)?, Data::Yaml)?,
        Some(Format::Name) => {
            let name = |it: &DynamicObject| it.metadata.name.clone().unwrap_or_default();
            let line = |it: &DynamicObject| format!("placement.cluster.open-cluster-management.io/{}\n", name(it));
            placements.iter().map(line).collect()
        }
        Some(Format::Wide) => table(placements, true).render(),
        None => table(placements, false).render(),
    })
}

fn table(placements: &[DynamicObject], wide: bool) -> Table {
    let mut table = Table::new(["NAMESPACE", "NAME", "STATUS", "REASON", "SELECTEDCLUSTERS"]);
    if wide {
        table = table.widen(&["GROUPS", "MESSAGE"]);
    }
    for it in placements {
        let satisfied = conditions::of(it, ocm_api::conditions::placement::SATISFIED);
        let wrong = conditions::of(it, ocm_api::conditions::placement::MISCONFIGURED).filter(|it| it.is_true());
        let status = &it.data["status"];
        let mut row = vec![
            it.metadata.namespace.clone().unwrap_or_default(),
            it.metadata.name.clone().unwrap_or_default(),
            satisfied.map(|it| it.status.to_owned()).unwrap_or_default(),
            // What makes no sense is the reason of everything else.
            wrong.or(satisfied).map(|it| it.reason.to_owned()).unwrap_or_default(),
            status["numberOfSelectedClusters"]
                .as_i64()
                .map(|it| it.to_string())
                .unwrap_or_default(),
        ];
        if wide {
            row.push(status["decisionGroups"].as_array().map_or(0, Vec::len).to_string());
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
    fn a_placement_is_a_row_and_what_makes_no_sense_is_its_reason() {
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
        assert_eq!(
            table(&[placement("a", "False"), placement("b", "True")], false).render(),
            "NAMESPACE   NAME   STATUS   REASON                  SELECTEDCLUSTERS\n\
             default     a      True     AllDecisionsScheduled   2\n\
             default     b      True     Misconfigured           2\n"
        );
    }
}
