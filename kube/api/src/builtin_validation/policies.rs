//! Ingresses and their classes, network policies and priority classes: what charts get wrong.

use super::{
    PROTOCOLS, addresses::range, containers::port_or_name, immutable, label, list, port_errors,
    scheduling::label_selector, subdomain, supported, text,
};
use crate::pod_admission::SYSTEM_PRIORITIES;
use kube_store::{
    schema::metadata::{subdomain_errors, wildcard_errors},
    status::FieldError,
};
use serde_json::{Value, json};
use std::net::IpAddr;

pub(super) fn ingress(new: &Value, errors: &mut Vec<FieldError>) {
    let rules = list(new, "/spec/rules");
    match new.pointer("/spec/defaultBackend") {
        Some(it) if it.is_object() => backend(it, "spec.defaultBackend", errors),
        _ if rules.is_empty() => errors.push(FieldError::invalid(
            "spec",
            &new["spec"],
            "either `defaultBackend` or `rules` must be specified",
        )),
        _ => {}
    }
    for (at, rule) in rules.iter().enumerate() {
        let field = format!("spec.rules[{at}]");
        let host = text(rule, "/host");
        if host.parse::<IpAddr>().is_ok() {
            let detail = "must be a DNS name, not an IP address";
            errors.push(FieldError::invalid(format!("{field}.host"), &json!(host), detail));
        }
        if !host.is_empty() {
            let found = if host.contains('*') {
                wildcard_errors(host)
            } else {
                subdomain_errors(host)
            };
            errors.extend(
                found
                    .iter()
                    .map(|it| FieldError::invalid(format!("{field}.host"), &json!(host), it)),
            );
        }
        if rule["http"].is_object() && list(rule, "/http/paths").is_empty() {
            errors.push(FieldError::required(format!("{field}.http.paths"), ""));
        }
        for (at, path) in list(rule, "/http/paths").iter().enumerate() {
            let field = format!("{field}.http.paths[{at}]");
            const TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
            match &path["pathType"] {
                Value::Null => errors.push(FieldError::required(
                    format!("{field}.pathType"),
                    "pathType must be specified",
                )),
                kind => supported(kind, format!("{field}.pathType"), &TYPES, errors),
            }
            let given = text(path, "/path");
            if path["pathType"] != "ImplementationSpecific" {
                let has = ["//", "/./", "/../", "%2f", "%2F"]
                    .iter()
                    .filter(|it| given.contains(**it));
                let ends = ["/..", "/."].iter().filter(|it| given.ends_with(**it));
                let wrong = has
                    .map(|it| format!("must not contain '{it}'"))
                    .chain(ends.map(|it| format!("cannot end with '{it}'")));
                errors.extend(wrong.map(|it| FieldError::invalid(format!("{field}.path"), &json!(given), it)));
            }
            let must_be_absolute = path["pathType"] != "ImplementationSpecific" || !given.is_empty();
            if must_be_absolute && !given.starts_with('/') {
                let detail = "must be an absolute path";
                errors.push(FieldError::invalid(format!("{field}.path"), &json!(given), detail));
            }
            backend(&path["backend"], &format!("{field}.backend"), errors);
        }
    }
}

/// Errors of the names that an Ingress refers to, besides those of its rules.
pub(super) fn ingress_names(new: &Value, errors: &mut Vec<FieldError>) {
    let class = text(new, "/spec/ingressClassName");
    if !class.is_empty() {
        subdomain(class, "spec.ingressClassName", errors);
    }
    for (at, tls) in list(new, "/spec/tls").iter().enumerate() {
        let field = format!("spec.tls[{at}]");
        for (at, host) in list(tls, "/hosts").iter().filter_map(Value::as_str).enumerate() {
            let host = host.strip_prefix("*.").unwrap_or(host);
            subdomain(host, &format!("{field}.hosts[{at}]"), errors);
        }
        let secret = text(tls, "/secretName");
        if !secret.is_empty() {
            subdomain(secret, &format!("{field}.secretName"), errors);
        }
    }
}

pub(super) fn ingress_class(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const BYTES_MAX: usize = 250;
    let controller = text(new, "/spec/controller");
    if controller.len() > BYTES_MAX {
        errors.push(FieldError::too_long("spec.controller", BYTES_MAX));
    }
    match controller.split_once('/') {
        _ if controller.is_empty() => errors.push(FieldError::required("spec.controller", "")),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            subdomain(domain, "spec.controller", errors);
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(FieldError::invalid("spec.controller", &json!(controller), detail));
        }
    }
    if let Some(parameters) = new.pointer("/spec/parameters").filter(|it| !it.is_null()) {
        for key in ["kind", "name"] {
            if text(parameters, &format!("/{key}")).is_empty() {
                errors.push(FieldError::required(format!("spec.parameters.{key}"), ""));
            }
        }
        let namespace = parameters.get("namespace").filter(|it| !it.is_null());
        match (text(parameters, "/scope"), namespace) {
            ("Namespace", None) => errors.push(FieldError::required(
                "spec.parameters.namespace",
                "`parameters.scope` is set to 'Namespace'",
            )),
            ("Cluster", Some(_)) => errors.push(FieldError::forbidden(
                "spec.parameters.namespace",
                "`parameters.scope` is set to 'Cluster'",
            )),
            ("Namespace" | "Cluster", _) => {}
            (other, _) => errors.push(FieldError::not_supported(
                "spec.parameters.scope",
                &json!(other),
                &["Cluster", "Namespace"],
            )),
        }
    }
    immutable(new, old, "/spec/controller", "spec.controller", errors);
}

fn backend(value: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match (value["service"].is_object(), value["resource"].is_object()) {
        (false, false) => {
            let detail = "resource or service backend is required";
            errors.push(FieldError::invalid(field, &json!(""), detail));
        }
        (true, true) => errors.push(FieldError::invalid(
            field,
            &json!(""),
            "cannot set both resource and service backends",
        )),
        (true, false) => {
            match text(value, "/service/name") {
                "" => errors.push(FieldError::required(format!("{field}.service.name"), "")),
                name => label(name, &format!("{field}.service.name"), errors),
            }
            let named = !text(value, "/service/port/name").is_empty();
            let numbered = value["service"]["port"]["number"].as_i64().is_some_and(|it| it != 0);
            if named && numbered {
                let detail = "cannot set both port name & port number";
                errors.push(FieldError::invalid(field, &json!(""), detail));
            } else if !named && !numbered {
                errors.push(FieldError::required(field, "port name or number is required"));
            } else {
                let key = if named { "name" } else { "number" };
                let port = &value["service"]["port"][key];
                port_or_name(port, &format!("{field}.service.port.{key}"), errors);
            }
        }
        (false, true) => {}
    }
}

pub(super) fn network_policy(new: &Value, errors: &mut Vec<FieldError>) {
    label_selector(&new["spec"]["podSelector"], "spec.podSelector", errors);
    let types = list(new, "/spec/policyTypes");
    if types.len() > 2 {
        errors.push(FieldError::invalid(
            "spec.policyTypes",
            &json!(types),
            "may not specify more than two policyTypes",
        ));
        return;
    }
    for (at, kind) in types.iter().enumerate() {
        supported(kind, format!("spec.policyTypes[{at}]"), &["Egress", "Ingress"], errors);
    }
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in list(new, &format!("/spec/{direction}")).iter().enumerate() {
            let field = format!("spec.{direction}[{at}]");
            for (at, port) in list(rule, "/ports").iter().enumerate() {
                if !port["protocol"].is_null() {
                    let field = format!("{field}.ports[{at}].protocol");
                    supported(&port["protocol"], field, &PROTOCOLS, errors);
                }
                policy_port(port, &format!("{field}.ports[{at}]"), errors);
            }
            for (at, peer) in list(rule, &format!("/{peers}")).iter().enumerate() {
                let field = format!("{field}.{peers}[{at}]");
                let selects = peer["podSelector"].is_object() || peer["namespaceSelector"].is_object();
                let block = peer["ipBlock"].is_object();
                if !selects && !block {
                    errors.push(FieldError::required(field, "must specify a peer"));
                } else if selects && block {
                    let detail = "may not specify both ipBlock and another peer";
                    errors.push(FieldError::forbidden(field, detail));
                } else if block && text(peer, "/ipBlock/cidr").is_empty() {
                    errors.push(FieldError::required(format!("{field}.ipBlock.cidr"), ""));
                } else if block {
                    ip_block(&peer["ipBlock"], &format!("{field}.ipBlock"), errors);
                } else {
                    for key in ["podSelector", "namespaceSelector"] {
                        label_selector(&peer[key], &format!("{field}.{key}"), errors);
                    }
                }
            }
        }
    }
}

fn policy_port(port: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let end = port["endPort"].as_i64();
    let mut wrong = |shown: i64, detail: &str| {
        errors.push(FieldError::invalid(format!("{place}.endPort"), &json!(shown), detail));
    };
    match (&port["port"], end) {
        (Value::Null, Some(end)) => wrong(end, "may not be specified when `port` is not specified"),
        (Value::String(_), Some(end)) => wrong(end, "may not be specified when `port` is non-numeric"),
        (Value::Number(first), Some(end)) => {
            let first = first.as_i64().unwrap_or_default();
            // Upstream shows the other of the two.
            if end < first {
                wrong(first, "must be greater than or equal to `port`");
            }
            port_errors(end, &format!("{place}.endPort"), errors);
        }
        _ => {}
    }
    if !port["port"].is_null() {
        port_or_name(&port["port"], &format!("{place}.port"), errors);
    }
}

fn ip_block(block: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let whole = range(text(block, "/cidr"), &format!("{place}.cidr"), errors);
    for (at, except) in list(block, "/except").iter().enumerate() {
        let field = format!("{place}.except[{at}]");
        let part = range(except.as_str().unwrap_or_default(), &field, errors);
        if let (Some(whole), Some(part)) = (whole, part)
            && !whole.has_within(part)
        {
            errors.push(FieldError::invalid(field, except, "must be a strict subset of `cidr`"));
        }
    }
}

/// What nobody but the system may exceed.
const PRIORITY_MAX: i64 = 1_000_000_000;

pub(super) fn priority_class(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let (name, value) = (text(new, "/metadata/name"), new["value"].as_i64().unwrap_or_default());
    if name.starts_with("system-") {
        let known = SYSTEM_PRIORITIES.iter().find(|it| it.0 == name);
        let error = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some(it) if it.1 != value => Some(format!("value of {name} PriorityClass must be {}", it.1)),
            Some(_) => None,
        };
        if let Some(error) = error {
            let detail = "priority class names with 'system-' prefix are reserved for system use only. error: ";
            errors.push(FieldError::forbidden("metadata.name", format!("{detail}{error}")));
        }
    } else if value > PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        errors.push(FieldError::forbidden("value", detail));
    }
    if old.is_none() && !new["preemptionPolicy"].is_null() {
        let known = ["PreemptLowerPriority", "Never"];
        supported(&new["preemptionPolicy"], "preemptionPolicy", &known, errors);
    }
    if old.is_some_and(|it| it["value"] != new["value"]) {
        errors.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
    immutable(new, old, "/preemptionPolicy", "preemptionPolicy", errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_validation::said;

    #[test]
    fn an_ingress_says_where_each_path_goes() {
        let path = |path: Value| json!({"spec": {"rules": [{"host": "*.ex.io", "http": {"paths": [path]}}]}});
        let service = json!({"service": {"name": "s", "port": {"number": 80}}});
        let good = path(json!({"path": "/", "pathType": "Prefix", "backend": service}));
        assert!(said(|it| ingress(&good, it)).is_empty());
        let bad = path(json!({"path": "x", "backend": {"service": {"name": "s"}}}));
        assert_eq!(
            said(|it| ingress(&bad, it)),
            [
                "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
                "spec.rules[0].http.paths[0].path: Invalid value: \"x\": must be an absolute path",
                "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
            ]
        );
        assert_eq!(said(|it| ingress(&json!({"spec": {}}), it)).len(), 1);
        let dotted = path(json!({"path": "/a/../b%2f", "pathType": "Exact", "backend": service}));
        assert_eq!(said(|it| ingress(&dotted, it)).len(), 2);
        let free = path(json!({"path": "/a//b", "pathType": "ImplementationSpecific", "backend": service}));
        assert!(said(|it| ingress(&free, it)).is_empty());
    }

    #[test]
    fn policies_and_claims_are_checked() {
        let block = |block: Value| {
            let rule = json!({"spec": {"ingress": [{"from": [{"ipBlock": block}]}]}});
            said(|it| network_policy(&rule, it)).len()
        };
        assert_eq!(block(json!({"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]})), 0);
        assert_eq!(block(json!({"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]})), 0);
        assert_eq!(block(json!({"cidr": "::/0", "except": ["fd00::/8"]})), 0);
        assert_eq!(block(json!({"cidr": "10.1.2.3/8"})), 1);
        assert_eq!(
            block(json!({"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16", "10.0.0.0/8", "x"]})),
            3
        );
        let port = |port: Value| {
            let rule = json!({"spec": {"egress": [{"ports": [port]}]}});
            said(|it| network_policy(&rule, it))
        };
        assert_eq!(
            port(json!({"port": 80, "endPort": 90, "protocol": "TCP"})),
            Vec::<String>::new()
        );
        assert_eq!(port(json!({"port": "http"})), Vec::<String>::new());
        assert_eq!(port(json!({})), Vec::<String>::new());
        assert_eq!(
            port(json!({"port": 80, "endPort": 70})),
            ["spec.egress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`"]
        );
        assert_eq!(port(json!({"port": 0})).len(), 1);
        let policy = |spec: Value| said(|it| network_policy(&json!({"spec": spec}), it)).len();
        assert_eq!(
            policy(json!({"policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]})),
            0
        );
        assert_eq!(
            policy(json!({"policyTypes": ["Sideways"], "ingress": [{"from": [{}]}]})),
            2
        );
    }
}
