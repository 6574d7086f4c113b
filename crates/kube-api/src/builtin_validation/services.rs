//! Services: ports, and what an update may not change.

use super::{label, list, text};
use kube_store::{schema::metadata::validate_labels, status::FieldError};
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) fn service(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let kind = text(new, "/spec/type");
    const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported("spec.type", &json!(kind), &TYPES));
    }
    if kind == "ExternalName" {
        if text(new, "/spec/externalName").is_empty() {
            errors.push(FieldError::required("spec.externalName", ""));
        }
        if !text(new, "/spec/clusterIP").is_empty() {
            let detail = "may not be set when `type` is 'ExternalName'";
            errors.push(FieldError::forbidden("spec.clusterIPs[0]", detail));
        }
    }
    if let Some(selector) = new.pointer("/spec/selector") {
        errors.extend(validate_labels(selector, "spec.selector"));
    }
    let affinity = text(new, "/spec/sessionAffinity");
    if !["ClientIP", "None"].contains(&affinity) {
        errors.push(FieldError::not_supported(
            "spec.sessionAffinity",
            &json!(affinity),
            &["ClientIP", "None"],
        ));
    }
    ports(new, kind, errors);
    if let Some(old) = old {
        cluster_ips(new, old, kind, errors);
    }
}

fn ports(new: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let ports = list(new, "/spec/ports");
    let headless = text(new, "/spec/clusterIP") == "None";
    if ports.is_empty() && kind != "ExternalName" && !headless {
        errors.push(FieldError::required("spec.ports", ""));
    }
    let mut names = HashSet::new();
    let mut numbers = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{at}]");
        let name = port.get("name").and_then(Value::as_str).unwrap_or("");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(format!("{field}.name"), ""));
            }
        } else {
            label(name, &format!("{field}.name"), errors);
            if !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{field}.name"), &json!(name)));
            }
        }
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        if !(1..=65535).contains(&number) {
            errors.push(FieldError::invalid(
                format!("{field}.port"),
                &json!(number),
                "must be between 1 and 65535, inclusive",
            ));
        }
        if let Some(target) = port
            .get("targetPort")
            .filter(|it| it.as_i64().is_some_and(|it| !(1..=65535).contains(&it)))
        {
            errors.push(FieldError::invalid(
                format!("{field}.targetPort"),
                target,
                "must be between 1 and 65535, inclusive",
            ));
        }
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("");
        const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
        if !PROTOCOLS.contains(&protocol) {
            errors.push(FieldError::not_supported(
                format!("{field}.protocol"),
                &json!(protocol),
                &PROTOCOLS,
            ));
        }
        if port.get("nodePort").and_then(Value::as_i64).is_some_and(|it| it != 0) && kind == "ClusterIP" {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("{field}.nodePort"), detail));
        }
        if !numbers.insert((number, protocol)) {
            let shown = json!({"port": number, "protocol": protocol});
            errors.push(FieldError::duplicate(field, &shown));
        }
    }
}

fn cluster_ips(new: &Value, old: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let old_ip = text(old, "/spec/clusterIP");
    let stays = kind != "ExternalName" && text(old, "/spec/type") != "ExternalName";
    if stays && !old_ip.is_empty() && text(new, "/spec/clusterIP") != old_ip {
        let shown = json!(list(new, "/spec/clusterIPs"));
        errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            &shown,
            "may not change once set",
        ));
    }
}
