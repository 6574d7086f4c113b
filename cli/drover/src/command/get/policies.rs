//! `drover get policies [NAMES] [-n NAMESPACE | -A]`. clusteradm has no such command.

use anyhow::{Result, bail};
use clap::Args;
use client::{connect::ApiServer, flags::Global, kinds};
use jiff::Timestamp;
use kube::{api::ListParams, core::DynamicObject};
use ocm_api::policy::labels;
use output::{Data, Format, RequestedObjects, age, table::Table};
use serde_json::Value;

use super::{NamespaceFlags, named};

/// List the policies, how many clusters each has, and which of those do not comply
#[derive(Debug, Args)]
pub struct Policies {
    /// Only these policies
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    place: NamespaceFlags,
    /// How to print them
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

impl Policies {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        let mut policies = list(&hub, self.place.namespace.as_deref()).await?;
        let asked = named(
            &mut policies,
            &self.names,
            self.place.namespace.as_deref(),
            ("policy", "policies"),
        )?;
        if policies.is_empty() && !self.output.is_whole() {
            eprintln!("no policies found");
            return Ok(());
        }
        output::print(&encode(&policies, asked, self.output, Timestamp::now())?)
    }
}

/// The policies that people wrote, of a namespace or of all, by their names. Copies for clusters are left out.
async fn list(hub: &ApiServer, namespace: Option<&str>) -> Result<Vec<DynamicObject>> {
    let roots = ListParams::default().labels(&format!("!{}", labels::ROOT_POLICY));
    match super::list(hub, &kinds::policy(), namespace, &roots).await {
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(
            "this hub has no policies: `drover install hub-addon --names governance-policy-framework` installs their kinds and controllers, and `drover up --addons governance-policy-framework` has them"
        ),
        listed => listed.map_err(|error| hub.explain("could not list the policies", &error)),
    }
}

fn encode(policies: &[DynamicObject], asked: RequestedObjects, format: Format, now: Timestamp) -> Result<String> {
    Ok(match format {
        Format::Json => output::encode(&output::objects(policies, asked)?, Data::Json)?,
        Format::Yaml => output::encode(&output::objects(policies, asked)?, Data::Yaml)?,
        Format::Name => {
            let name = |it: &DynamicObject| it.metadata.name.clone().unwrap_or_default();
            let line = |it: &DynamicObject| format!("policy.policy.open-cluster-management.io/{}\n", name(it));
            policies.iter().map(line).collect()
        }
        Format::Wide => table(policies, true, now).render(),
        Format::Table => table(policies, false, now).render(),
    })
}

fn table(policies: &[DynamicObject], wide: bool, now: Timestamp) -> Table {
    let mut table = Table::new(["NAMESPACE", "NAME", "ACTION", "COMPLIANCE", "CLUSTERS", "NOT COMPLIANT"]);
    if wide {
        table = table.widen(&["PLACEMENTS", "AGE"]);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for it in policies {
        let status = &it.data["status"];
        let clusters: Vec<&Value> = status["status"].as_array().into_iter().flatten().collect();
        let not_compliant = clusters.iter().filter(|it| it["compliant"] == "NonCompliant");
        let compliance = match it.data["spec"]["disabled"].as_bool() {
            Some(true) => "Disabled".to_owned(),
            _ => text(&status["compliant"]),
        };
        let mut row = vec![
            it.metadata.namespace.clone().unwrap_or_default(),
            it.metadata.name.clone().unwrap_or_default(),
            text(&it.data["spec"]["remediationAction"]),
            compliance,
            clusters.len().to_string(),
            not_compliant
                .map(|it| text(&it["clustername"]))
                .collect::<Vec<_>>()
                .join(","),
        ];
        if wide {
            let placements = status["placement"].as_array().into_iter().flatten();
            let chosen_by = |it: &Value| [&it["placement"], &it["placementRule"]].map(text).concat();
            row.push(placements.map(chosen_by).collect::<Vec<_>>().join(","));
            let made = it.metadata.creation_timestamp.as_ref();
            row.push(made.map(|it| age::since(it.0, now)).unwrap_or_default());
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
    fn a_policy_is_listed_with_clusters_that_do_not_comply() {
        let policy = |disabled: bool| -> DynamicObject {
            serde_json::from_value(json!({
                "metadata": {"namespace": "ns", "name": "p"},
                "spec": {"disabled": disabled, "remediationAction": "enforce"},
                "status": {
                    "compliant": "NonCompliant",
                    "placement": [{"placementBinding": "b", "placement": "everywhere"}],
                    "status": [
                        {"clustername": "c1", "compliant": "Compliant"},
                        {"clustername": "c2", "compliant": "NonCompliant"},
                        {"clustername": "c3", "compliant": "NonCompliant"},
                    ],
                },
            }))
            .unwrap()
        };
        let lines = table(&[policy(false), policy(true)], true, Timestamp::now()).render();
        let cells: Vec<Vec<&str>> = lines.lines().map(|it| it.split_whitespace().collect()).collect();
        assert_eq!(
            cells[1],
            ["ns", "p", "enforce", "NonCompliant", "3", "c2,c3", "everywhere"]
        );
        assert_eq!(cells[2][3], "Disabled");
    }
}
