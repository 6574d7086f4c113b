//! Warnings of pods, and of the templates of pods.

use super::{fraction_of_bytes, keys, node_label, node_term, paths};
use crate::kinds::validation::{list, text};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The containers of a pod and their places.
fn containers<'p>(spec: &'p Value, place: &str) -> impl Iterator<Item = (&'p Value, String)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |kind| {
            let place = format!("{place}.{kind}");
            list(spec, &format!("/{kind}"))
                .iter()
                .enumerate()
                .map(move |(at, it)| (it, format!("{place}[{at}]")))
        })
}

/// Warnings of a pod or a template of pods at `place`, which is empty or ends with a dot.
pub fn pod(pod: &Value, place: &str, warnings: &mut Vec<String>) {
    let spec = &pod["spec"];
    let field = |name: &str| format!("{place}spec.{name}");
    for key in keys(spec, "/nodeSelector") {
        warnings.extend(node_label(key).map(|it| format!("{}[{key}]: {it}", field("nodeSelector"))));
    }
    node_affinity(
        &spec["affinity"]["nodeAffinity"],
        &field("affinity.nodeAffinity"),
        warnings,
    );
    paths::overlaps(list(spec, "/volumes"), warnings);
    let containers: Vec<_> = containers(spec, &format!("{place}spec")).collect();
    for (container, place_of) in &containers {
        of_container(container, place_of, warnings);
    }
    ports(&containers, warnings);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|it| it < 0) {
        let field = field("terminationGracePeriodSeconds");
        warnings.push(format!(
            "{field}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
}

fn node_affinity(affinity: &Value, place: &str, warnings: &mut Vec<String>) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(&affinity[required], "/nodeSelectorTerms").iter().enumerate() {
        let field = format!("{place}.{required}.nodeSelectorTerms[{index}]");
        node_term(term, &field, warnings);
    }
}

fn of_container(container: &Value, place_of: &str, warnings: &mut Vec<String>) {
    for resource in ["memory", "ephemeral-storage"] {
        for which in ["limits", "requests"] {
            let field = format!("{place_of}.resources.{which}[{resource}]");
            fraction_of_bytes(&container["resources"][which][resource], &field, warnings);
        }
    }
    let variables = list(container, "/env");
    let mut known = HashSet::with_capacity(variables.len());
    for (index, variable) in variables.iter().enumerate() {
        let name = variable["name"].as_str().unwrap_or_default();
        if known.insert(name) {
            continue;
        }
        // A value may build upon the one before.
        let (value, reference) = (text(variable, "/value"), format!("$({name})"));
        if !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference) {
            warnings.push(format!(
                "{place_of}.env[{index}]: hides previous definition of {name:?}, which may be dropped when using apply"
            ));
        }
    }
}

fn ports(containers: &[(&Value, String)], warnings: &mut Vec<String>) {
    let all = || {
        containers.iter().flat_map(|(container, place)| {
            let ports = list(container, "/ports").iter().enumerate();
            ports.map(move |(index, it)| (it, format!("{place}.ports[{index}]")))
        })
    };
    let number = |port: &Value, key: &str| port[key].as_i64().unwrap_or(0);
    let mut there: HashMap<_, Vec<(&Value, String)>> = HashMap::new();
    for (port, field) in all() {
        let (host, host_port) = (text(port, "/hostIP"), number(port, "hostPort"));
        if !host.is_empty() && host_port == 0 {
            warnings.push(format!(
                "{field}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{host}}}",
                text(port, "/name"),
                number(port, "containerPort"),
                text(port, "/protocol")
            ));
        }
        let others = there
            .entry((number(port, "containerPort"), text(port, "/protocol")))
            .or_default();
        for (other, other_field) in others.iter() {
            let (other_host, other_port) = (text(other, "/hostIP"), number(other, "hostPort"));
            let how = if host == other_host && host_port == other_port {
                "duplicate"
            } else if host_port == 0 || other_port == 0 {
                "overlapping"
            } else if host_port == other_port && host.is_empty() != other_host.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{field}: {how} port definition with {other_field}"));
        }
        others.push((port, field));
    }
    let mut names: HashMap<&str, String> = HashMap::new();
    for (port, field) in all() {
        let name = text(port, "/name");
        if name.is_empty() {
            continue;
        }
        if let Some(other) = names.get(name) {
            warnings.push(format!(
                "{field}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
            ));
        } else {
            names.insert(name, field);
        }
    }
}
