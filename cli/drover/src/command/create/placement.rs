//! `drover create placement NAME`
//! Upstream: clusteradm `create placement`, whose lines we print. Selectors of claims are ours.

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{connect::ApiServer, flags::Global, kinds};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::selector_text;

/// Create a placement, which chooses clusters from the sets that are bound to its namespace
#[derive(Debug, Args)]
pub struct Placement {
    /// The name of the placement
    name: String,
    /// Where to create it
    #[arg(short, long, default_value = "default")]
    namespace: String,
    /// The sets to choose from [default: all that are bound to the namespace]
    #[arg(long, value_delimiter = ',', value_name = "SETS")]
    clustersets: Vec<String>,
    /// What the clusters' labels have to be, as for kubectl: `env=prod`, `zone in (a,b)`, `!old`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    label_selectors: Option<String>,
    /// What the clusters' claims have to be, in the same way
    #[arg(long, value_name = "SELECTOR")]
    claim_selectors: Option<String>,
    /// What is preferred, and how much: BuiltIn:NAME:WEIGHT or AddOn:RESOURCE:SCORE:WEIGHT
    #[arg(long, value_delimiter = ',', value_name = "PRIORITIZERS")]
    prioritizers: Vec<String>,
    /// How many clusters are wanted [default: all that fit]
    #[arg(long, value_name = "NUMBER")]
    count: Option<u32>,
    /// Replace a placement that exists
    #[arg(long)]
    overwrite: bool,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    dry_run: bool,
}

impl Placement {
    pub async fn run(self, global: &Global) -> Result<()> {
        let spec = self.spec()?;
        let hub = ApiServer::connect(global).await?;
        let (name, namespace) = (&self.name, &self.namespace);
        let api = hub.namespaced(&kinds::placement(), namespace);
        let placement = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1",
            "kind": "Placement",
            "metadata": { "name": name, "namespace": namespace },
            "spec": spec,
        }))?;
        let parameters = PostParams {
            dry_run: self.dry_run,
            ..PostParams::default()
        };
        let note = output::note(self.dry_run);
        match api.create(&parameters, &placement).await {
            Ok(_) => output::say(format_args!(
                "Placement '{name}' has been created in '{namespace}' namespace{note}"
            )),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" && self.overwrite => {
                let replace = json!([{ "op": "replace", "path": "/spec", "value": spec }]);
                let patch: Patch<Value> = Patch::Json(serde_json::from_value(replace)?);
                let parameters = PatchParams {
                    dry_run: self.dry_run,
                    ..PatchParams::default()
                };
                let made = api.patch(name, &parameters, &patch).await;
                made.map_err(|error| hub.explain(&format!("could not update placement {name}"), &error))?;
                output::say(format_args!(
                    "Placement '{name}' of '{namespace}' namespace has been updated{note}"
                ))
            }
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                bail!("placement {name} already exists in namespace {namespace}; add --overwrite to replace it")
            }
            Err(error) => Err(hub.explain(&format!("could not create placement {name}"), &error)),
        }
    }

    fn spec(&self) -> Result<Value> {
        let mut spec = json!({});
        if !self.clustersets.is_empty() {
            spec["clusterSets"] = json!(self.clustersets);
        }
        if let Some(count) = self.count {
            spec["numberOfClusters"] = json!(i32::try_from(count).context("--count is too large")?);
        }
        let mut selector = json!({});
        if let Some(text) = &self.label_selectors {
            selector["labelSelector"] = json!({ "matchExpressions": selector_text::parse(text)? });
        }
        if let Some(text) = &self.claim_selectors {
            selector["claimSelector"] = json!({ "matchExpressions": selector_text::parse(text)? });
        }
        if selector != json!({}) {
            spec["predicates"] = json!([{ "requiredClusterSelector": selector }]);
        }
        if !self.prioritizers.is_empty() {
            let all = self
                .prioritizers
                .iter()
                .map(|it| prioritizer(it))
                .collect::<Result<Vec<_>>>()?;
            spec["prioritizerPolicy"] = json!({ "mode": "Additive", "configurations": all });
        }
        Ok(spec)
    }
}

/// `BuiltIn:Steady:3`, `AddOn:resource:score:3`.
fn prioritizer(text: &str) -> Result<Value> {
    let wrong = || format!("{text:?} is no prioritizer: write BuiltIn:NAME:WEIGHT or AddOn:RESOURCE:SCORE:WEIGHT");
    let parts: Vec<&str> = text.split(':').collect();
    let (coordinate, weight) = match parts.as_slice() {
        ["BuiltIn", name, weight] => (json!({ "type": "BuiltIn", "builtIn": name }), weight),
        ["AddOn", resource, score, weight] => {
            let add_on = json!({ "resourceName": resource, "scoreName": score });
            (json!({ "type": "AddOn", "addOn": add_on }), weight)
        }
        _ => bail!(wrong()),
    };
    let weight: i32 = weight.parse().with_context(wrong)?;
    Ok(json!({ "scoreCoordinate": coordinate, "weight": weight }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prioritizers_have_a_weight() {
        assert_eq!(
            prioritizer("BuiltIn:Steady:3").unwrap(),
            json!({"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 3})
        );
        assert_eq!(
            prioritizer("AddOn:load:cpu:-2").unwrap()["scoreCoordinate"]["addOn"]["scoreName"],
            "cpu"
        );
        assert!(
            prioritizer("Steady")
                .unwrap_err()
                .to_string()
                .contains("is no prioritizer")
        );
        assert!(prioritizer("BuiltIn:Steady:much").is_err());
    }
}
