//! `drover create clusterset NAME`
//! Upstream: clusteradm `create clusterset`, whose lines we print. Sets that go by a selector are ours.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use clap::Args;
use client::{connect::ApiServer, flags::Global, kinds};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::PostParams;
use serde_json::{Value, json};

use ocm_api::selector_text;

/// Create a set that clusters can be put into, or that takes those with certain labels
#[derive(Debug, Args)]
pub struct CreateClusterSet {
    /// The name of the set
    pub name: String,
    /// Take every cluster with these labels, as for kubectl: `env=prod`, `zone in (a,b)`, `!old` [default: the clusters
    /// that `drover clusterset set` puts into it]
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub label_selector: Option<String>,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl CreateClusterSet {
    pub async fn run(self, global: &Global) -> Result<()> {
        self.selector()?;
        self.create(&ApiServer::connect(global).await?).await
    }

    /// Creates it, and says so.
    pub async fn create(&self, hub: &ApiServer) -> Result<()> {
        let selector = self.selector()?;
        let name = &self.name;
        let set = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSet",
            "metadata": { "name": name },
            "spec": { "clusterSelector": selector },
        }))?;
        let parameters = PostParams {
            dry_run: self.dry_run,
            ..PostParams::default()
        };
        match hub.all(&kinds::managed_cluster_set()).create(&parameters, &set).await {
            Ok(_) => output::say(format_args!(
                "Clusterset {name} is created{}",
                output::note(self.dry_run)
            )),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                if self.label_selector.is_some() {
                    self.compare(hub, &selector).await?;
                }
                output::say(format_args!("Clusterset {name} is already created"))
            }
            Err(error) => Err(hub.explain(&format!("could not create clusterset {name}"), &error)),
        }
    }

    /// Refuses the set that is there if it takes other clusters than those that were asked for.
    async fn compare(&self, hub: &ApiServer, wanted: &Value) -> Result<()> {
        let name = &self.name;
        let found = hub.all(&kinds::managed_cluster_set()).get(name).await;
        let found = found.map_err(|error| hub.explain(&format!("could not get clusterset {name}"), &error))?;
        if means(&found.data["spec"]["clusterSelector"]) != means(wanted) {
            bail!(
                "clusterset {name} is there already and takes other clusters; `drover get clustersets {name} -o wide` prints \
                 its selector"
            );
        }
        Ok(())
    }

    fn selector(&self) -> Result<Value> {
        let Some(text) = &self.label_selector else {
            return Ok(json!({ "selectorType": "ExclusiveClusterSetLabel" }));
        };
        let requirements = selector_text::parse(text).map_err(anyhow::Error::msg)?;
        Ok(json!({ "selectorType": "LabelSelector", "labelSelector": { "matchExpressions": requirements } }))
    }
}

/// A label, an operator, and the values that it may or may not have.
type Requirement = (String, String, BTreeSet<String>);

/// What a set takes its clusters by, the same however it is written; nothing where it does not go by labels.
fn means(selector: &Value) -> Option<BTreeSet<Requirement>> {
    if selector["selectorType"] != "LabelSelector" {
        return None;
    }
    let read: LabelSelector = serde_json::from_value(selector["labelSelector"].clone()).ok()?;
    let labels = read.match_labels.into_iter().flatten();
    let labels = labels.map(|(label, value)| (label, "In".to_owned(), BTreeSet::from([value])));
    let expressions = read.match_expressions.into_iter().flatten();
    let expressions = expressions.map(|it| (it.key, it.operator, it.values.unwrap_or_default().into_iter().collect()));
    Some(labels.chain(expressions).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_means_the_same_however_it_is_written() {
        let of = |it: Value| means(&json!({"selectorType": "LabelSelector", "labelSelector": it}));
        let flag = |it: &str| of(json!({"matchExpressions": selector_text::parse(it).unwrap()}));
        assert_eq!(of(json!({"matchLabels": {"env": "prod"}})), flag("env=prod"));
        assert_eq!(flag("a=1,b in (2,3)"), flag("b in (3,2),a=1"));
        assert_ne!(flag("env=prod"), flag("env=dev"));
        assert_ne!(flag("env=prod"), flag("env!=prod"));
        assert_ne!(
            flag("env=prod"),
            means(&json!({"selectorType": "ExclusiveClusterSetLabel"}))
        );
    }
}
