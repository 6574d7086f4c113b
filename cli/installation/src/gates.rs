//! `--feature-gates` of an installation, and the fields of a ClusterManager or a Klusterlet that they become.
//! Upstream: clusteradm `pkg/genericclioptions/feature_gates.go`: every gate that is on is written, and every gate that
//! is on by default and was turned off.

use operator::feature_gates::{self, GatedComponent};
use serde_json::{Value, json};

/// A component: its name among the values of the charts, and its gates.
pub type Named = (&'static str, GatedComponent);

/// The components of a hub.
pub const HUB: [Named; 4] = [
    ("registrationConfiguration", feature_gates::HUB_REGISTRATION),
    ("workConfiguration", feature_gates::HUB_WORK),
    ("addOnManagerConfiguration", feature_gates::HUB_ADD_ONS),
    ("placementConfiguration", feature_gates::HUB_PLACEMENT),
];

/// The components of an agent.
pub const CLUSTER: [Named; 2] = [
    ("registrationConfiguration", feature_gates::AGENT_REGISTRATION),
    ("workConfiguration", feature_gates::AGENT_WORK),
];

fn gates(component: &GatedComponent) -> impl Iterator<Item = (&'static str, bool)> {
    component.gates.iter().chain(component.of_operator).copied()
}

/// The gates that upstream calls beta; all others are alpha.
const BETA: [&str; 3] = ["AddonManagement", "ClusterClaim", "ResourceCleanup"];

/// One gate, turned on or off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// Whether it is on.
    pub on: bool,
}

/// Reads a gate of a hub: `NAME=true`.
///
/// # Errors
/// When there is no such gate, or it is neither true nor false.
pub fn parse_hub(text: &str) -> Result<Gate, String> {
    parse(text, &HUB)
}

/// Reads a gate of an agent: `NAME=true`.
///
/// # Errors
/// When there is no such gate, or it is neither true nor false.
pub fn parse_cluster(text: &str) -> Result<Gate, String> {
    parse(text, &CLUSTER)
}

fn parse(text: &str, components: &[Named]) -> Result<Gate, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("missing bool value for {text}: write {text}=true or {text}=false"))?;
    let (name, value) = (name.trim(), value.trim());
    // What Go's strconv.ParseBool takes.
    let on = match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
        "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
        _ => return Err(format!("invalid value of {name}={value}: write true or false")),
    };
    let mut known: Vec<&str> = components.iter().flat_map(|it| gates(&it.1)).map(|it| it.0).collect();
    if known.contains(&name) || matches!(name, "AllAlpha" | "AllBeta") {
        return Ok(Gate {
            name: name.to_owned(),
            on,
        });
    }
    known.sort_unstable();
    Err(format!(
        "unrecognized feature gate: {name}; there are {}",
        known.join(", ")
    ))
}

/// The fields `featureGates` of each component, by the component's name among the values.
pub fn values(components: &[Named], typed: &[Gate]) -> Vec<(&'static str, Vec<Value>)> {
    let last = |name: &str| typed.iter().rev().find(|it| it.name == name).map(|it| it.on);
    let wanted = |name: &str, default: bool| {
        let all = if BETA.contains(&name) { "AllBeta" } else { "AllAlpha" };
        last(name).or_else(|| last(all)).unwrap_or(default)
    };
    let of = |component: &GatedComponent| -> Vec<Value> {
        let written = gates(component).filter_map(|(name, default)| match (wanted(name, default), default) {
            (true, _) => Some(json!({"feature": name, "mode": "Enable"})),
            (false, true) => Some(json!({"feature": name, "mode": "Disable"})),
            (false, false) => None,
        });
        written.collect()
    };
    components
        .iter()
        .map(|(name, component)| (*name, of(component)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_that_are_on_are_written_and_defaults_turned_off() {
        let gates = ["ManifestWorkReplicaSet=true", "ResourceCleanup=false"].map(|it| parse_hub(it).unwrap());
        let made = values(&HUB, &gates);
        assert_eq!(
            made[0].1,
            [
                json!({"feature": "DefaultClusterSet", "mode": "Enable"}),
                json!({"feature": "ResourceCleanup", "mode": "Disable"}),
            ]
        );
        assert_eq!(
            made[1].1,
            [json!({"feature": "ManifestWorkReplicaSet", "mode": "Enable"})]
        );
        assert_eq!(made[3].1, Vec::<Value>::new());
    }

    #[test]
    fn its_own_gate_wins_over_all_of_its_kind() {
        let gates = ["AllBeta=false", "AllAlpha=true", "ExecutorValidatingCaches=false"];
        let made = values(&CLUSTER, &gates.map(|it| parse_cluster(it).unwrap()));
        assert!(
            made[0]
                .1
                .contains(&json!({"feature": "AddonManagement", "mode": "Disable"}))
        );
        assert_eq!(
            made[1].1,
            [json!({"feature": "RawFeedbackJsonString", "mode": "Enable"})]
        );
    }

    #[test]
    fn an_unknown_gate_is_refused_with_those_there_are() {
        let error = parse_cluster("DefaultClusterSet=true").unwrap_err();
        assert!(
            error.starts_with("unrecognized feature gate: DefaultClusterSet; there are AddonManagement, "),
            "{error}"
        );
        assert!(parse_hub("ClusterProfile").is_err() && parse_hub("ClusterProfile=maybe").is_err());
    }
}
