//! Services: ports, and what an update may not change.

use super::{
    PROTOCOLS,
    addresses::{address, range},
    containers::port_or_name,
    label, list, port_errors, supported, text,
};
use kube_store::{
    schema::metadata::{qualified_name_errors, validate_labels},
    status::FieldError,
};
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
    if old.is_none_or(|it| it["spec"] != new["spec"]) {
        traffic(new, kind, errors);
    }
    if let Some(old) = old {
        cluster_ips(new, old, kind, errors);
    }
}

/// Errors of where the traffic of a Service comes from, and where it goes.
fn traffic(new: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    let field = |name: &str| format!("spec.{name}");
    let balanced = kind == "LoadBalancer";
    let outside = balanced || kind == "NodePort" || kind == "ClusterIP" && !list(new, "/spec/externalIPs").is_empty();
    let external = text(new, "/spec/externalTrafficPolicy");
    if !external.is_empty() {
        if outside {
            supported(
                &json!(external),
                field("externalTrafficPolicy"),
                &["Cluster", "Local"],
                errors,
            );
        } else {
            let detail = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid(
                field("externalTrafficPolicy"),
                &json!(external),
                detail,
            ));
        }
    }
    for (key, known) in [
        ("internalTrafficPolicy", &["Cluster", "Local"][..]),
        (
            "trafficDistribution",
            &["PreferClose", "PreferSameZone", "PreferSameNode"],
        ),
        (
            "ipFamilyPolicy",
            &["PreferDualStack", "RequireDualStack", "SingleStack"],
        ),
    ] {
        if !spec[key].is_null() {
            supported(&spec[key], field(key), known, errors);
        }
    }
    for (at, family) in list(new, "/spec/ipFamilies").iter().enumerate() {
        supported(family, field(&format!("ipFamilies[{at}]")), &["IPv4", "IPv6"], errors);
    }
    let class = text(new, "/spec/loadBalancerClass");
    if !spec["loadBalancerClass"].is_null() && balanced {
        let wrong = qualified_name_errors(class);
        let field = field("loadBalancerClass");
        errors.extend(wrong.iter().map(|it| FieldError::invalid(&field, &json!(class), it)));
    }
    for key in ["loadBalancerClass", "allocateLoadBalancerNodePorts"] {
        if !spec[key].is_null() && !balanced {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden(field(key), detail));
        }
    }
    let ranges = list(new, "/spec/loadBalancerSourceRanges");
    if !ranges.is_empty() && !balanced {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(field("LoadBalancerSourceRanges"), detail));
    }
    for (at, given) in ranges.iter().enumerate() {
        // Spaces around one are part of the API.
        let given = given.as_str().unwrap_or_default().trim();
        range(given, &field(&format!("LoadBalancerSourceRanges[{at}]")), errors);
    }
    for (at, given) in list(new, "/spec/externalIPs").iter().enumerate() {
        let given = given.as_str().unwrap_or_default();
        address(given, &field(&format!("externalIPs[{at}]")), errors);
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
        port_errors(number, &format!("{field}.port"), errors);
        if let Some(target) = port.get("targetPort").filter(|it| !it.is_null()) {
            port_or_name(target, &format!("{field}.targetPort"), errors);
        }
        let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("");
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
