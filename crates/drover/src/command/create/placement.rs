//! `drover create placement NAME`
//! Upstream: clusteradm `create placement`, whose lines we print. Selectors of claims are ours.

use anyhow::{Context, Result, bail};
use clap::Args;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{cli::Global, connect::Target, kinds, output};

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
        let hub = Target::connect(global).await?;
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
        match api.create(&parameters, &placement).await {
            Ok(_) => output::say(format_args!(
                "Placement '{name}' has been created in '{namespace}' namespace"
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
                    "Placement '{name}' of '{namespace}' namespace has been updated"
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
            selector["labelSelector"] = json!({ "matchExpressions": requirements(text)? });
        }
        if let Some(text) = &self.claim_selectors {
            selector["claimSelector"] = json!({ "matchExpressions": requirements(text)? });
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

/// kubectl's selectors as requirements.
fn requirements(text: &str) -> Result<Vec<Value>> {
    let mut parts = vec![String::new()];
    let mut open = false;
    for letter in text.chars() {
        open = (open || letter == '(') && letter != ')';
        match parts.last_mut() {
            Some(last) if letter != ',' || open => last.push(letter),
            _ => parts.push(String::new()),
        }
    }
    parts.iter().map(|it| requirement(it.trim())).collect()
}

fn requirement(text: &str) -> Result<Value> {
    let made = |key: &str, operator: &str, values: &[&str]| {
        let key = key.trim();
        if key.is_empty() || key.contains(char::is_whitespace) {
            bail!("{text:?} is no selector: write KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B), KEY or !KEY");
        }
        Ok(match values {
            [] => json!({ "key": key, "operator": operator }),
            values => json!({ "key": key, "operator": operator, "values": values }),
        })
    };
    for (word, operator) in [(" notin ", "NotIn"), (" in ", "In")] {
        if let Some((key, list)) = text.split_once(word) {
            let list = list.trim().strip_prefix('(').and_then(|it| it.strip_suffix(')'));
            let list = list.with_context(|| format!("{text:?} is no selector: the values stand in brackets"))?;
            let values: Vec<&str> = list.split(',').map(str::trim).collect();
            return made(key, operator, &values);
        }
    }
    if let Some((key, value)) = text.split_once("!=") {
        return made(key, "NotIn", &[value.trim()]);
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return made(key, "In", &[value.trim()]);
    }
    match text.strip_prefix('!') {
        Some(key) => made(key, "DoesNotExist", &[]),
        None => made(text, "Exists", &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_for_kubectl() {
        assert_eq!(
            json!(requirements("env=prod,zone in (a, b),!old,gpu,tier!=x,size notin (s)").unwrap()),
            json!([
                {"key": "env", "operator": "In", "values": ["prod"]},
                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "gpu", "operator": "Exists"},
                {"key": "tier", "operator": "NotIn", "values": ["x"]},
                {"key": "size", "operator": "NotIn", "values": ["s"]},
            ])
        );
        for wrong in ["", "a b", "=x", "zone in a", "env=prod,"] {
            assert!(requirements(wrong).is_err(), "{wrong}");
        }
    }

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
