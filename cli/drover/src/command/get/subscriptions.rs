//! `drover get subscriptions [NAMES] [-n NAMESPACE | -A]`. clusteradm has no such command.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;
use client::{connect::ApiServer, flags::Global, kinds};
use jiff::Timestamp;
use kube::{
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use ocm_api::apps::{Subscription, annotations};
use output::{Data, Format, RequestedObjects, age, table::Table};
use serde_json::Value;

use super::{NamespaceFlags, list, named};
use crate::command::create::channel::explain;

/// List the subscriptions, what they take, and on how many clusters it is deployed
#[derive(Debug, Args)]
pub struct Subscriptions {
    /// Only these subscriptions
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    place: NamespaceFlags,
    /// How to print them
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

/// Reports by namespace and name.
type Reports = BTreeMap<(Option<String>, Option<String>), Value>;

impl Subscriptions {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        let namespace = self.place.namespace.as_deref();
        let mut subscriptions = all(&hub, &kinds::subscription(), namespace).await?;
        // Copies that a hub has because it is a cluster, too.
        subscriptions.retain(|it| {
            !it.metadata
                .annotations
                .iter()
                .any(|it| it.contains_key(annotations::HOSTING_SUBSCRIPTION))
        });
        let asked = named(
            &mut subscriptions,
            &self.names,
            namespace,
            ("subscription", "subscriptions"),
        )?;
        if subscriptions.is_empty() && !self.output.is_whole() {
            eprintln!("no subscriptions found");
            return Ok(());
        }
        let reports = all(&hub, &kinds::subscription_report(), namespace).await?;
        let reports = reports
            .into_iter()
            .map(|it| ((it.metadata.namespace, it.metadata.name), it.data))
            .collect();
        output::print(&encode(&subscriptions, &reports, asked, self.output, Timestamp::now())?)
    }
}

async fn all(hub: &ApiServer, kind: &ApiResource, namespace: Option<&str>) -> Result<Vec<DynamicObject>> {
    let listed = list(hub, kind, namespace, &ListParams::default()).await;
    listed.map_err(|error| explain(hub, "could not list the subscriptions", &error))
}

fn encode(
    subscriptions: &[DynamicObject],
    reports: &Reports,
    asked: RequestedObjects,
    format: Format,
    now: Timestamp,
) -> Result<String> {
    Ok(match format {
        Format::Json => output::encode(&output::objects(subscriptions, asked)?, Data::Json)?,
        Format::Yaml => output::encode(&output::objects(subscriptions, asked)?, Data::Yaml)?,
        Format::Name => {
            let name = |it: &DynamicObject| it.metadata.name.clone().unwrap_or_default();
            let line = |it: &DynamicObject| format!("subscription.apps.open-cluster-management.io/{}\n", name(it));
            subscriptions.iter().map(line).collect()
        }
        Format::Wide => table(subscriptions, reports, true, now).render(),
        Format::Table => table(subscriptions, reports, false, now).render(),
    })
}

fn table(subscriptions: &[DynamicObject], reports: &Reports, wide: bool, now: Timestamp) -> Table {
    let mut table = Table::new([
        "NAMESPACE",
        "NAME",
        "CHANNEL",
        "PHASE",
        "WINDOW",
        "DEPLOYED",
        "FAILED",
        "REVISION",
    ]);
    if wide {
        table = table.widen(&["PATH", "REASON", "AGE"]);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for it in subscriptions {
        let said = |name: &str| {
            let all = it.metadata.annotations.as_ref();
            all.and_then(|it| it.get(name)).cloned().unwrap_or_default()
        };
        let status = &it.data["status"];
        let report = reports.get(&(it.metadata.namespace.clone(), it.metadata.name.clone()));
        let summary = report.map_or(&Value::Null, |it| &it["summary"]);
        let count = |field: &str| summary[field].as_str().unwrap_or("0").to_owned();
        let mut row = vec![
            it.metadata.namespace.clone().unwrap_or_default(),
            it.metadata.name.clone().unwrap_or_default(),
            text(&it.data["spec"]["channel"]),
            text(&status["phase"]),
            if it.clone().try_parse::<Subscription>().is_ok_and(|it| it.is_paused()) {
                "Paused".to_owned()
            } else {
                text(&status["message"])
            },
            format!("{}/{}", count("deployed"), count("clusters")),
            failed(report),
            said(annotations::GIT_CURRENT_COMMIT).chars().take(7).collect(),
        ];
        if wide {
            row.push(
                [
                    said(annotations::GIT_PATH),
                    said(annotations::BUCKET_PATH),
                    text(&it.data["spec"]["name"]),
                ]
                .concat(),
            );
            row.push(text(&status["reason"]));
            let made = it.metadata.creation_timestamp.as_ref();
            row.push(made.map(|it| age::since(it.0, now)).unwrap_or_default());
        }
        table.row(row);
    }
    table
}

/// The clusters where something failed.
fn failed(report: Option<&Value>) -> String {
    let results = report.and_then(|it| it["results"].as_array()).into_iter().flatten();
    let names = results
        .filter(|it| it["result"] != "deployed")
        .filter_map(|it| it["source"].as_str());
    names.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_says_where_it_is_deployed_and_where_not() {
        let subscription: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "shop", "namespace": "team", "annotations": {
                "apps.open-cluster-management.io/git-current-commit": "0123456789abcdef",
            }},
            "spec": {"channel": "team/git"},
            "status": {"phase": "Propagated", "message": "Active"},
        }))
        .unwrap();
        let report = json!({
            "summary": {"deployed": "1", "clusters": "2"},
            "results": [{"source": "c1", "result": "deployed"}, {"source": "c2", "result": "failed"}],
        });
        let key = (Some("team".to_owned()), Some("shop".to_owned()));
        let reports = Reports::from([(key, report)]);
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut paused = subscription.clone();
        paused.metadata.labels = Some(BTreeMap::from([("subscription-pause".to_owned(), "true".to_owned())]));
        let text = table(&[paused], &reports, false, now).render();
        assert!(text.contains("Propagated   Paused   1/2"), "{text}");
        let text = table(&[subscription], &reports, false, now).render();
        let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            row,
            [
                "team",
                "shop",
                "team/git",
                "Propagated",
                "Active",
                "1/2",
                "c2",
                "0123456"
            ]
        );
    }
}
