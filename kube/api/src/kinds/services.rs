//! Services: ports, and what an update may not change.

use super::{
    defaults::{entry, items, set, text_of},
    service_addresses::{self, health_checked},
    strategy::{Columns, Strategy},
    validation::{
        PROTOCOLS,
        addresses::{address, reachable},
        changed,
        containers::port_or_name,
        fields::{CLUSTER_OR_LOCAL, FieldRule::*, FieldRules},
        label, list, port_errors, subdomain, text,
    },
};
use crate::{call::Call, table::cells};
use jiff::Timestamp;
use kube_store::{
    schema::metadata::validate_labels,
    status::{FieldError, Status},
};
use serde_json::{Map, Value, json};
use std::{collections::HashSet, net::IpAddr};

/// Service.
pub struct Services;

impl Strategy for Services {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn columns(&self) -> Columns {
        Columns::new("Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*", row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let spec = entry(object, "spec");
        set(spec, "type", "ClusterIP");
        set(spec, "sessionAffinity", "None");
        if text_of(spec, "sessionAffinity") == "ClientIP" {
            set(
                entry(entry(spec, "sessionAffinityConfig"), "clientIP"),
                "timeoutSeconds",
                10800,
            );
        } else if text_of(spec, "sessionAffinity") == "None" {
            spec.remove("sessionAffinityConfig");
        }
        for port in items(spec, "ports") {
            set(port, "protocol", "TCP");
            let number = port.get("port").cloned();
            let target = port.get("targetPort");
            if target.is_none_or(|it| *it == json!(0) || *it == json!(""))
                && let Some(number) = number
            {
                port.insert("targetPort".to_owned(), number);
            }
        }
        let kind = text_of(spec, "type").to_owned();
        let cluster_ip = text_of(spec, "clusterIP").to_owned();
        if !cluster_ip.is_empty() {
            set(spec, "clusterIPs", json!([cluster_ip]));
        }
        if kind == "ExternalName" {
            set(entry(object, "status"), "loadBalancer", json!({}));
            return;
        }
        set(spec, "internalTrafficPolicy", "Cluster");
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            set(spec, "externalTrafficPolicy", "Cluster");
        }
        if kind == "LoadBalancer" {
            set(spec, "allocateLoadBalancerNodePorts", true);
        }
        let selects = spec
            .get("selector")
            .and_then(Value::as_object)
            .is_some_and(|it| !it.is_empty());
        if cluster_ip == "None" && !selects {
            set(spec, "ipFamilyPolicy", "RequireDualStack");
            set(spec, "ipFamilies", json!(["IPv4"]));
            let single = text_of(spec, "ipFamilyPolicy") == "SingleStack";
            if let Some(Value::Array(families)) = spec.get_mut("ipFamilies").filter(|_| !single)
                && let [one] = families.as_slice()
            {
                let other = if one == "IPv4" { "IPv6" } else { "IPv4" };
                families.push(other.into());
            }
        } else {
            set(spec, "ipFamilyPolicy", "SingleStack");
            // An address of the other family is told of; it is none that was asked for with a wrong family.
            if cluster_ip.parse::<std::net::Ipv6Addr>().is_err() {
                set(spec, "ipFamilies", json!(["IPv4"]));
            }
        }
        let balancer = entry(entry(object, "status"), "loadBalancer");
        if kind == "LoadBalancer" {
            for ingress in items(balancer, "ingress").filter(|it| it.contains_key("ip")) {
                set(ingress, "ipMode", "VIP");
            }
        }
    }

    fn fields(&self) -> FieldRules {
        &[
            (
                "spec.type",
                OneOf(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
            ),
            ("spec.ports[].protocol", OneOf(&PROTOCOLS)),
            ("spec.ports[].appProtocol", Qualified),
            ("spec.ipFamilies[]", OneOf(&["IPv4", "IPv6"])),
            (
                "spec.ipFamilyPolicy",
                OneOf(&["PreferDualStack", "RequireDualStack", "SingleStack"]),
            ),
            ("spec.externalTrafficPolicy|internalTrafficPolicy", CLUSTER_OR_LOCAL),
            ("spec.sessionAffinity", OneOf(&["ClientIP", "None"])),
        ]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let kind = text(new, "/spec/type");
        if let Some(old) = old {
            cluster_ips_stay(new, old, kind, errors);
            let health = (health_checked(old), health_checked(new));
            if health == (true, true) && old["spec"]["healthCheckNodePort"] != new["spec"]["healthCheckNodePort"] {
                errors.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
            }
        }
        let headless = is_headless(new);
        if list(new, "/spec/ports").is_empty() && kind != "ExternalName" && !headless {
            errors.push(FieldError::required("spec.ports", ""));
        }
        if headless && matches!(kind, "LoadBalancer" | "NodePort") {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid("spec.clusterIPs[0]", &json!("None"), detail));
        }
        if kind == "ExternalName" {
            external_name(new, errors);
        }
        ports(new, errors);
        if let Some(selector) = new.pointer("/spec/selector") {
            errors.extend(validate_labels(selector, "spec.selector"));
        }
        if kind != "ExternalName" {
            cluster_ips(new, old, errors);
        }
        let known = old.map(|it| list(it, "/spec/externalIPs")).unwrap_or_default();
        for (at, given) in list(new, "/spec/externalIPs").iter().enumerate() {
            let (shown, field) = (given.as_str().unwrap_or_default(), format!("spec.externalIPs[{at}]"));
            if known.contains(given) {
                continue;
            }
            let before = errors.len();
            address(shown, &field, errors);
            if errors.len() == before {
                reachable(shown, &field, errors);
            }
        }
        port_numbers(new, kind, errors);
        // It would take the number from Services that have a use for it.
        let health = &new["spec"]["healthCheckNodePort"];
        if health.as_i64().is_some_and(|it| it != 0) && !health_checked(new) && changed(new, old, "/spec") {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid("spec.healthCheckNodePort", health, detail));
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>, warnings: &mut Vec<String>) {
        if text(new, "/spec/type") != "ExternalName" && !text(new, "/spec/externalName").is_empty() {
            warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
        }
    }

    fn prepare_for_update(&self, call: &mut Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        service_addresses::allocate(call, new, Some(old))
    }

    fn allocates(&self) -> bool {
        true
    }

    fn begin_create(&self, call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        service_addresses::allocate(call, value, None)
    }

    fn begin_update(&self, call: &Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        service_addresses::allocate(call, new, Some(old))
    }

    fn added_late(&self) -> &'static [&'static str] {
        &["/spec/clusterIPs", "/spec/ipFamilies", "/spec/ipFamilyPolicy"]
    }
}

/// Whether a Service has no address of its own.
fn is_headless(service: &Value) -> bool {
    matches!(list(service, "/spec/clusterIPs"), [one] if one == "None")
}

fn external_name(new: &Value, errors: &mut Vec<FieldError>) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let given = &new["spec"][field];
        if !given.is_null() && given.as_array().is_none_or(|it| !it.is_empty()) {
            let detail = "may not be set for ExternalName services";
            errors.push(FieldError::forbidden(format!("spec.{field}"), detail));
        }
    }
    // The dot at the end says that the name is whole.
    let name = text(new, "/spec/externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.push(FieldError::required("spec.externalName", "")),
        name => subdomain(name, "spec.externalName", errors),
    }
}

/// Errors of addresses within the cluster, of which there are those of IPv4 here.
fn cluster_ips(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.clusterIPs";
    let first = text(new, "/spec/clusterIP");
    let ips = list(new, "/spec/clusterIPs");
    let shown = json!(ips);
    if first.is_empty() && !ips.is_empty() {
        let detail = "must be empty when `clusterIP` is not specified";
        errors.push(FieldError::invalid(FIELD, &shown, detail));
    } else if !first.is_empty() && ips.first().is_some_and(|it| it != first) {
        let detail = "first value must match `clusterIP`";
        errors.push(FieldError::invalid(FIELD, &shown, detail));
    }
    let families = list(new, "/spec/ipFamilies");
    for (at, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{at}]");
        if families[..at].contains(family) {
            errors.push(FieldError::duplicate(field, family));
        }
    }
    const POLICY: &str = "spec.ipFamilyPolicy";
    let policy = &new["spec"]["ipFamilyPolicy"];
    let known = old.map(|it| list(it, "/spec/clusterIPs")).unwrap_or_default();
    let before = errors.len();
    for (at, ip) in ips.iter().enumerate() {
        if at == 0 && ip == "None" {
            if ips.len() > 1 {
                let detail = "'None' must be the first and only value";
                errors.push(FieldError::invalid(FIELD, &shown, detail));
            }
        } else if !known.contains(ip) {
            address(ip.as_str().unwrap_or_default(), &format!("{FIELD}[{at}]"), errors);
        }
    }
    if ips.len() > 2 {
        let detail = "may only hold up to 2 values";
        errors.push(FieldError::invalid(FIELD, &shown, detail));
    }
    if errors.len() > before {
        return;
    }
    for (at, ip) in ips.iter().enumerate().filter(|(_, it)| *it != "None") {
        let family = match ip.as_str().map(str::parse) {
            Some(Ok(IpAddr::V6(_))) => "IPv6",
            _ => "IPv4",
        };
        match families.get(at) {
            Some(asked) if asked != family && (asked == "IPv4" || asked == "IPv6") => {
                let asked = asked.as_str().unwrap_or_default();
                let detail = format!("expected an {asked} value as indicated by `ipFamilies[{at}]`");
                errors.push(FieldError::invalid(format!("{FIELD}[{at}]"), ip, detail));
            }
            None if family == "IPv6" => {
                let detail = "IPv6 is not configured on this cluster";
                errors.push(FieldError::invalid(format!("{FIELD}[{at}]"), &shown, detail));
            }
            _ => {}
        }
    }
    if policy == "SingleStack" {
        for (many, what) in [(ips, "cluster IPs"), (families, "IP families")] {
            if many.len() == 2 {
                let detail =
                    format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.push(FieldError::invalid(POLICY, policy, detail));
            }
        }
    }
    // Who finds its own addresses without a selector may find any.
    let selects = new["spec"]["selector"].as_object().is_some_and(|it| !it.is_empty());
    if errors.len() > before || is_headless(new) && !selects {
        return;
    }
    if policy == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(POLICY, policy, detail));
    }
    for (at, family) in families.iter().enumerate().filter(|(_, it)| *it == "IPv6") {
        let detail = "not configured on this cluster";
        errors.push(FieldError::invalid(format!("spec.ipFamilies[{at}]"), family, detail));
    }
}

fn ports(new: &Value, errors: &mut Vec<FieldError>) {
    let ports = list(new, "/spec/ports");
    let mut names = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{at}]");
        let name = text(port, "/name");
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
    }
}

/// Numbers that are taken twice, or not there for this type.
fn port_numbers(new: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let ports = list(new, "/spec/ports");
    let on_nodes = |port: &Value| port.get("nodePort").and_then(Value::as_i64).filter(|it| *it != 0);
    for (at, _) in ports.iter().enumerate().filter(|(_, it)| on_nodes(it).is_some()) {
        if kind == "ClusterIP" {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("spec.ports[{at}].nodePort"), detail));
        }
    }
    let mut taken = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        if let Some(number) = on_nodes(port)
            && !taken.insert((number, text(port, "/protocol")))
        {
            errors.push(FieldError::duplicate(
                format!("spec.ports[{at}].nodePort"),
                &json!(number),
            ));
        }
    }
    let mut taken = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        let protocol = text(port, "/protocol");
        if !taken.insert((number, protocol)) {
            let shown = json!({"port": number, "protocol": protocol});
            errors.push(FieldError::duplicate(format!("spec.ports[{at}]"), &shown));
        }
    }
}

fn cluster_ips_stay(new: &Value, old: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    if kind == "ExternalName" || text(old, "/spec/type") == "ExternalName" {
        return;
    }
    let (before, now) = (list(old, "/spec/clusterIPs"), list(new, "/spec/clusterIPs"));
    for (at, ip) in before.iter().enumerate() {
        if now.get(at) != Some(ip) {
            let field = format!("spec.clusterIPs[{at}]");
            errors.push(FieldError::invalid(field, &json!(now), "may not change once set"));
        }
    }
}

fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    let ty = cells::text(it, &["spec", "type"]);
    let internal = cells::list(it, &["spec", "clusterIPs"]).first().and_then(Value::as_str);
    let internal = internal
        .or(cells::at(it, &["spec", "clusterIP"]).as_str())
        .unwrap_or_default();
    let mut external: Vec<&str> = cells::list(it, &["spec", "externalIPs"])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let external = match ty {
        "ExternalName" => cells::text(it, &["spec", "externalName"]).to_owned(),
        "LoadBalancer" => {
            let points = cells::list(it, &["status", "loadBalancer", "ingress"]).iter();
            let mut addresses: Vec<&str> = points
                .map(|it| cells::or(cells::text(it, &["ip"]), cells::text(it, &["hostname"])))
                .collect();
            addresses.append(&mut external);
            cells::or(&addresses.join(","), "<pending>").to_owned()
        }
        _ => cells::or(&external.join(","), cells::NONE).to_owned(),
    };
    let port = |it: &Value| {
        let (port, node_port, protocol) = (
            cells::number(it, &["port"]),
            cells::number(it, &["nodePort"]),
            cells::or(cells::text(it, &["protocol"]), "TCP"),
        );
        if node_port > 0 {
            format!("{port}:{node_port}/{protocol}")
        } else {
            format!("{port}/{protocol}")
        }
    };
    let ports: Vec<String> = cells::list(it, &["spec", "ports"]).iter().map(port).collect();
    vec![
        cells::name(it),
        ty.into(),
        cells::or(internal, cells::NONE).into(),
        external.into(),
        cells::or(&ports.join(","), cells::NONE).into(),
        cells::age(it, now),
        cells::labels(cells::at(it, &["spec", "selector"])).into(),
    ]
}
