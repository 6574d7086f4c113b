//! `--resource-qos-class`, `--resource-limits`, `--resource-requests`: what the containers of an installation ask for.
//! Upstream: clusteradm `pkg/helpers/resourcerequirement`, whose rules these are.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use kube_primitives::quantity;
use serde_json::{Value, json};

/// What containers may ask for, as it is typed.
#[derive(Clone, Debug, Default, Args)]
pub struct ResourceFlags {
    /// What containers ask for: Default, BestEffort, or ResourceRequirement with --resource-limits and
    /// --resource-requests [default: Default, or ResourceRequirement where those are given]
    #[arg(long, value_name = "CLASS", value_parser = class, help_heading = "Resources")]
    pub resource_qos_class: Option<String>,
    /// What containers may use, for example cpu=800m,memory=800Mi
    #[arg(long, value_delimiter = ',', value_name = "NAME=AMOUNT", value_parser = amount, help_heading = "Resources")]
    pub resource_limits: Vec<(String, String)>,
    /// What containers ask for, for example cpu=500m,memory=500Mi
    #[arg(long, value_delimiter = ',', value_name = "NAME=AMOUNT", value_parser = amount, help_heading = "Resources")]
    pub resource_requests: Vec<(String, String)>,
}

fn class(text: &str) -> Result<String, String> {
    match text {
        "Default" | "BestEffort" | "ResourceRequirement" => Ok(text.to_owned()),
        _ => Err("write Default, BestEffort or ResourceRequirement".to_owned()),
    }
}

/// Reads `cpu=800m`.
///
/// # Errors
/// When there is no amount, or it is none.
pub fn amount(text: &str) -> Result<(String, String), String> {
    let Some((name, amount)) = text.split_once('=') else {
        return Err(format!("{text} must be formatted as key=value, for example cpu=500m"));
    };
    let amount = quantity::canonical(amount)
        .map_err(|_| format!("{amount:?} is no quantity: write for example 500m or 512Mi"))?;
    Ok((name.trim().to_owned(), amount))
}

impl ResourceFlags {
    /// Whether one of them was given.
    pub fn is_given(&self) -> bool {
        self.resource_qos_class.is_some() || !self.resource_limits.is_empty() || !self.resource_requests.is_empty()
    }

    /// The field `resourceRequirement` of a ClusterManager or a Klusterlet.
    ///
    /// # Errors
    /// When the class and the amounts do not fit each other, or a request is more than its limit.
    pub fn requirement(&self) -> Result<Value> {
        let map = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
        let (limits, requests) = (map(&self.resource_limits), map(&self.resource_requests));
        let class = self.resource_qos_class.as_deref();
        if limits.is_empty() && requests.is_empty() {
            if class == Some("ResourceRequirement") {
                bail!(
                    "resource type is ResourceRequirement but both limits and requests are not set: give --resource-limits \
                     or --resource-requests"
                );
            }
            return Ok(json!({"type": class.unwrap_or("Default")}));
        }
        if class.is_some_and(|it| it != "ResourceRequirement") {
            bail!("resource type must be ResourceRequirement when resource limits or requests are set");
        }
        for (name, limit) in &limits {
            let more = requests
                .get(name)
                .filter(|it| quantity::milli(it) > quantity::milli(limit));
            if let Some(request) = more {
                bail!("requests {request} must be less than or equal to limits {limit} (of {name})");
            }
        }
        let mut amounts = json!({});
        for (name, map) in [("limits", limits), ("requests", requests)] {
            if !map.is_empty() {
                amounts[name] = json!(map);
            }
        }
        Ok(json!({"type": "ResourceRequirement", "resourceRequirements": amounts}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(class: Option<&str>, limits: &[&str], requests: &[&str]) -> Result<Value> {
        let read = |texts: &[&str]| texts.iter().map(|it| amount(it).unwrap()).collect();
        let flags = ResourceFlags {
            resource_qos_class: class.map(str::to_owned),
            resource_limits: read(limits),
            resource_requests: read(requests),
        };
        flags.requirement()
    }

    #[test]
    fn amounts_bring_the_class_that_they_are_for() {
        assert_eq!(flags(None, &[], &[]).unwrap(), json!({"type": "Default"}));
        assert_eq!(
            flags(Some("BestEffort"), &[], &[]).unwrap(),
            json!({"type": "BestEffort"})
        );
        assert_eq!(
            flags(None, &["cpu=1000m", "memory=1Gi"], &["cpu=500m"]).unwrap(),
            json!({"type": "ResourceRequirement", "resourceRequirements": {
                "limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"},
            }})
        );
    }

    #[test]
    fn amounts_that_contradict_each_other_are_refused() {
        assert!(flags(Some("ResourceRequirement"), &[], &[]).is_err());
        assert!(flags(Some("Default"), &["cpu=1"], &[]).is_err());
        let error = flags(None, &["cpu=1"], &["cpu=1500m"]).unwrap_err().to_string();
        assert!(
            error.starts_with("requests 1500m must be less than or equal to limits 1 "),
            "{error}"
        );
        assert!(amount("cpu").is_err() && amount("cpu=much").is_err());
    }
}
