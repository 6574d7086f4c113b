//! Warnings of pods, and of the templates of pods.

use super::{
    addresses, annotation, claim, deprecated_annotations, fraction_of_bytes, keys, node_label, node_term, paths,
    removed_volumes,
};
use crate::builtin_validation::{at, containers, list, text};
use serde_json::Value;
use std::collections::{HashMap, HashSet};

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const VOLUMES: [(&str, &str); 9] = [
    ("photonPersistentDisk", "v1.11, non-functional in v1.16+"),
    ("gitRepo", "v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "v1.16, non-functional in v1.22+"),
    ("flocker", "v1.22, non-functional in v1.25+"),
    ("storageos", "v1.22, non-functional in v1.25+"),
    ("quobyte", "v1.22, non-functional in v1.25+"),
    ("glusterfs", "v1.25, non-functional in v1.26+"),
    ("cephfs", "v1.28, non-functional in v1.31+"),
    ("rbd", "v1.28, non-functional in v1.31+"),
];

const NO_POD: &str = "a null labelSelector results in matching no pod";

/// Warnings of a pod or a template of pods at `place`, which is empty or ends with a dot.
pub(super) fn pod(pod: &Value, place: &str, warnings: &mut Vec<String>) {
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
    for (index, spread) in list(spec, "/topologySpreadConstraints").iter().enumerate() {
        let field = format!("{}[{index}]", field("topologySpreadConstraints"));
        let key = text(spread, "/topologyKey");
        warnings.extend(node_label(key).map(|it| format!("{field}.topologyKey: {key} is {it}")));
        if spread["labelSelector"].is_null() {
            warnings.push(format!("{field}.labelSelector: {NO_POD}"));
        }
    }
    deprecated_annotations(pod, &ANNOTATIONS, place, warnings);
    let volumes = list(spec, "/volumes");
    for (index, volume) in volumes.iter().enumerate() {
        let field = format!("{}[{index}]", field("volumes"));
        removed_volumes(volume, &field, &VOLUMES, warnings);
        if let Some(template) = at(volume, "/ephemeral/volumeClaimTemplate/spec") {
            claim(
                template,
                &format!("{field}.ephemeral.volumeClaimTemplate.spec"),
                warnings,
            );
        }
    }
    paths::overlaps(volumes, warnings);
    names(spec, &field, warnings);
    for resource in ["memory", "ephemeral-storage"] {
        let field = format!("{}[{resource}]", field("overhead"));
        fraction_of_bytes(&spec["overhead"][resource], &field, warnings);
    }
    const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
    if at(spec, "/securityContext/seccompProfile").is_none() && annotation(pod, SECCOMP).is_some() {
        warnings.push(no_seccomp(place, SECCOMP));
    }
    let containers: Vec<_> = containers(spec, &format!("{place}spec")).collect();
    for (container, place_of) in &containers {
        of_container(pod, container, place, place_of, warnings);
    }
    ports(&containers, warnings);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|it| it < 0) {
        let field = field("terminationGracePeriodSeconds");
        warnings.push(format!(
            "{field}: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for which in ["podAffinity", "podAntiAffinity"] {
        pod_affinity(&spec["affinity"][which], &field(&format!("affinity.{which}")), warnings);
    }
    addresses::addresses(
        list(spec, "/dnsConfig/nameservers"),
        &field("dnsConfig.nameservers"),
        warnings,
    );
    for (index, alias) in list(spec, "/hostAliases").iter().enumerate() {
        let field = format!("{}[{index}].ip", field("hostAliases"));
        addresses::address(text(alias, "/ip"), &field, warnings);
    }
}

fn no_seccomp(place: &str, key: &str) -> String {
    format!("{place}metadata.annotations[{key}]: non-functional in v1.27+; use the \"seccompProfile\" field instead")
}

/// What is named twice, or not at all.
fn names(spec: &Value, field: &impl Fn(&str) -> String, warnings: &mut Vec<String>) {
    for (member, key, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let mut known = HashSet::new();
        for (index, item) in list(spec, &format!("/{member}")).iter().enumerate() {
            let value = item[key].as_str().unwrap_or_default();
            if !known.insert(value) {
                let field = field(member);
                warnings.push(format!("{field}[{index}].{key}: duplicate {what} {value:?}"));
            }
        }
    }
    for (index, secret) in list(spec, "/imagePullSecrets").iter().enumerate() {
        if text(secret, "/name").is_empty() {
            let field = field("imagePullSecrets");
            warnings.push(format!("{field}[{index}].name: invalid empty name \"\""));
        }
    }
}

fn node_affinity(affinity: &Value, place: &str, warnings: &mut Vec<String>) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(&affinity[required], "/nodeSelectorTerms").iter().enumerate() {
        let field = format!("{place}.{required}.nodeSelectorTerms[{index}]");
        node_term(term, false, &field, warnings);
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (index, term) in list(affinity, &format!("/{preferred}")).iter().enumerate() {
        let field = format!("{place}.{preferred}[{index}].preference");
        node_term(&term["preference"], true, &field, warnings);
    }
}

fn pod_affinity(affinity: &Value, place: &str, warnings: &mut Vec<String>) {
    for (which, within) in [
        ("requiredDuringSchedulingIgnoredDuringExecution", ""),
        ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm."),
    ] {
        for (index, term) in list(affinity, &format!("/{which}")).iter().enumerate() {
            let term = if within.is_empty() {
                term
            } else {
                &term["podAffinityTerm"]
            };
            if term["labelSelector"].is_null() {
                warnings.push(format!("{place}.{which}[{index}].{within}labelSelector: {NO_POD}"));
            }
        }
    }
}

fn of_container(pod: &Value, container: &Value, place: &str, place_of: &str, warnings: &mut Vec<String>) {
    let name = text(container, "/name");
    let seccomp = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
    if at(container, "/securityContext/seccompProfile").is_none() && annotation(pod, &seccomp).is_some() {
        warnings.push(no_seccomp(place, &seccomp));
    }
    let armor = format!("container.apparmor.security.beta.kubernetes.io/{name}");
    if at(container, "/securityContext/appArmorProfile").is_none()
        && let Some(given) = annotation(pod, &armor)
        && at(pod, "/spec/securityContext/appArmorProfile").is_none_or(|it| !is_armor(it, given))
    {
        warnings.push(format!(
            "{place}metadata.annotations[{armor}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
        ));
    }
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

/// Whether a profile is what an annotation said before there was a field.
fn is_armor(profile: &Value, annotation: &str) -> bool {
    let (kind, local) = match annotation {
        "unconfined" => ("Unconfined", None),
        "runtime/default" => ("RuntimeDefault", None),
        other => ("Localhost", other.strip_prefix("localhost/")),
    };
    profile["type"] == kind && profile["localhostProfile"].as_str() == local
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
