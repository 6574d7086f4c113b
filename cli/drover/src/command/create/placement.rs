//! `drover create placement NAME`
//! Upstream: clusteradm `create placement`, whose lines we print. Selectors of claims are ours.

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{connect::ApiServer, flags::Global, kinds};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use ocm_api::selector_text;

/// Create a placement, which chooses clusters from the sets that are bound to its namespace
#[derive(Debug, Args)]
pub struct Placement {
    /// The name of the placement
    pub name: String,
    /// Where to create it
    #[arg(short, long, default_value = "default")]
    pub namespace: String,
    /// The sets to choose from [default: all that are bound to the namespace]
    #[arg(long, value_delimiter = ',', value_name = "SETS")]
    pub clustersets: Vec<String>,
    /// What the clusters' labels have to be, as for kubectl: `env=prod`, `zone in (a,b)`, `!old`; given again, either
    /// is enough
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub label_selectors: Vec<String>,
    /// What the clusters' claims have to be, in the same way
    #[arg(long, value_name = "SELECTOR")]
    pub claim_selectors: Option<String>,
    /// What is preferred, and how much: BuiltIn:NAME:WEIGHT or AddOn:RESOURCE:SCORE:WEIGHT
    #[arg(long, value_delimiter = ',', value_name = "PRIORITIZERS")]
    pub prioritizers: Vec<String>,
    /// How many clusters are wanted [default: all that fit]
    #[arg(long, value_name = "NUMBER")]
    pub count: Option<u32>,
    /// Replace a placement that exists
    #[arg(long)]
    pub overwrite: bool,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl Placement {
    pub async fn run(self, global: &Global) -> Result<()> {
        self.spec()?;
        self.create(&ApiServer::connect(global).await?).await
    }

    /// Creates or replaces it, and says so.
    pub async fn create(&self, hub: &ApiServer) -> Result<()> {
        let spec = self.spec()?;
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
        let claims = match &self.claim_selectors {
            Some(text) => Some(json!({ "matchExpressions": selector_text::parse(text).map_err(anyhow::Error::msg)? })),
            None => None,
        };
        let mut predicates = Vec::new();
        for text in &self.label_selectors {
            predicates.push(json!({ "labelSelector": { "matchExpressions": selector_text::parse(text).map_err(anyhow::Error::msg)? } }));
        }
        if let Some(claims) = claims {
            if predicates.is_empty() {
                predicates.push(json!({}));
            }
            for predicate in &mut predicates {
                predicate["claimSelector"] = claims.clone();
            }
        }
        if !predicates.is_empty() {
            let of = |it| json!({ "requiredClusterSelector": it });
            spec["predicates"] = predicates.into_iter().map(of).collect();
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
    fn each_selector_of_labels_is_enough() {
        let spec = |labels: &[&str], claims: Option<&str>| {
            let placement = Placement {
                name: "p".into(),
                namespace: "default".into(),
                clustersets: vec![],
                label_selectors: labels.iter().map(|it| (*it).to_owned()).collect(),
                claim_selectors: claims.map(str::to_owned),
                prioritizers: vec![],
                count: None,
                overwrite: false,
                dry_run: false,
            };
            placement.spec().unwrap()["predicates"].clone()
        };
        let is = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
        assert_eq!(spec(&[], None), Value::Null);
        assert_eq!(
            spec(&["a", "b"], Some("c")),
            json!([
                {"requiredClusterSelector": {"labelSelector": is("a"), "claimSelector": is("c")}},
                {"requiredClusterSelector": {"labelSelector": is("b"), "claimSelector": is("c")}},
            ])
        );
        assert_eq!(
            spec(&[], Some("c")),
            json!([{"requiredClusterSelector": {"claimSelector": is("c")}}])
        );
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
