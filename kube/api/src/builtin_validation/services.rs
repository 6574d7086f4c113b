//! Services: ports, and what an update may not change.

use super::{
    PROTOCOLS,
    addresses::{address, range, reachable},
    containers::port_or_name,
    label, list, port_errors, qualified_name, subdomain, supported, text,
};
use kube_store::{schema::metadata::validate_labels, status::FieldError};
use serde_json::{Value, json};
use std::{collections::HashSet, net::IpAddr};

pub(super) fn service(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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
    affinity(new, errors);
    if kind != "ExternalName" {
        cluster_ips(new, old, errors);
    }
    let changed = old.is_none_or(|it| it["spec"] != new["spec"]);
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
    const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    supported(&json!(kind), "spec.type", &TYPES, errors);
    port_numbers(new, kind, errors);
    if changed {
        source_ranges(new, old, kind, errors);
        traffic(new, kind, errors);
    }
}

/// Whether a Service has no address of its own.
fn is_headless(service: &Value) -> bool {
    matches!(list(service, "/spec/clusterIPs"), [one] if one == "None")
}

/// Whether a load balancer asks nodes if they have pods of the Service.
pub(crate) fn health_checked(service: &Value) -> bool {
    text(service, "/spec/type") == "LoadBalancer" && text(service, "/spec/externalTrafficPolicy") == "Local"
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

/// How long, in seconds, a client may be kept with one pod.
const AFFINITY_SECONDS_MAX: i64 = 86400;

fn affinity(new: &Value, errors: &mut Vec<FieldError>) {
    let affinity = text(new, "/spec/sessionAffinity");
    supported(&json!(affinity), "spec.sessionAffinity", &["ClientIP", "None"], errors);
    let timeout = new.pointer("/spec/sessionAffinityConfig/clientIP/timeoutSeconds");
    if let Some(given) = timeout.filter(|_| affinity == "ClientIP")
        && !given
            .as_i64()
            .is_some_and(|it| (1..=AFFINITY_SECONDS_MAX).contains(&it))
    {
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
        errors.push(FieldError::invalid(field, given, detail));
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
        supported(family, &field, &["IPv4", "IPv6"], errors);
        if families[..at].contains(family) {
            errors.push(FieldError::duplicate(field, family));
        }
    }
    const POLICY: &str = "spec.ipFamilyPolicy";
    const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    let policy = &new["spec"]["ipFamilyPolicy"];
    if !policy.is_null() {
        supported(policy, POLICY, &POLICIES, errors);
    }
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

/// The annotation that said from where a load balancer takes traffic before there was a field.
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

fn source_ranges(new: &Value, old: Option<&Value>, kind: &str, errors: &mut Vec<FieldError>) {
    let annotation = |it: &Value| Some(it["metadata"]["annotations"].get(SOURCE_RANGES)?.as_str()?.to_owned());
    let ranges = list(new, "/spec/loadBalancerSourceRanges");
    let field = if ranges.is_empty() {
        format!("metadata.annotations[{SOURCE_RANGES}]")
    } else {
        "spec.LoadBalancerSourceRanges".to_owned()
    };
    let annotated = annotation(new).filter(|_| ranges.is_empty());
    if kind != "LoadBalancer" && (annotated.is_some() || !ranges.is_empty()) {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(&field, detail));
    }
    for (at, given) in ranges.iter().enumerate() {
        // Spaces around one are part of the API.
        let given = given.as_str().unwrap_or_default().trim();
        range(given, &format!("{field}[{at}]"), errors);
    }
    let annotated = annotated.filter(|it| !it.trim().is_empty() && old.and_then(annotation).as_ref() != Some(it));
    for given in annotated.iter().flat_map(|it| it.split(',')) {
        range(given.trim(), &field, errors);
    }
}

/// Errors of where the traffic of a Service comes from, and where it goes.
fn traffic(new: &Value, kind: &str, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"];
    let field = |name: &str| format!("spec.{name}");
    let balanced = kind == "LoadBalancer";
    for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if !spec[key].is_null() && !balanced {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden(field(key), detail));
        }
    }
    let class = text(new, "/spec/loadBalancerClass");
    if !spec["loadBalancerClass"].is_null() && balanced {
        qualified_name(class, &field("loadBalancerClass"), errors);
    }
    let outside = balanced || kind == "NodePort" || kind == "ClusterIP" && !list(new, "/spec/externalIPs").is_empty();
    let external = text(new, "/spec/externalTrafficPolicy");
    if !external.is_empty() {
        let field = field("externalTrafficPolicy");
        if outside {
            supported(&json!(external), field, &["Cluster", "Local"], errors);
        } else {
            let detail = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid(field, &json!(external), detail));
        }
    }
    let health = spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    if health != 0 {
        let field = field("healthCheckNodePort");
        if health_checked(new) {
            port_errors(health, &field, errors);
        } else {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(field, &json!(health), detail));
        }
    }
    for (key, known) in [
        ("internalTrafficPolicy", &["Cluster", "Local"][..]),
        (
            "trafficDistribution",
            &["PreferClose", "PreferSameZone", "PreferSameNode"],
        ),
    ] {
        if !spec[key].is_null() {
            supported(&spec[key], field(key), known, errors);
        }
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
        supported(
            &json!(text(port, "/protocol")),
            format!("{field}.protocol"),
            &PROTOCOLS,
            errors,
        );
        if let Some(target) = port.get("targetPort").filter(|it| !it.is_null()) {
            port_or_name(target, &format!("{field}.targetPort"), errors);
        }
        if let Some(application) = port.get("appProtocol").and_then(Value::as_str) {
            qualified_name(application, &format!("{field}.appProtocol"), errors);
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

/// Errors of where a load balancer says it is; of Services and of Ingresses, whose entries have the same shape.
pub(super) fn balancer(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const PLACE: &str = "status.loadBalancer.ingress";
    let entries = |it| list(it, "/status/loadBalancer/ingress");
    let known: HashSet<&str> = old
        .map(entries)
        .unwrap_or_default()
        .iter()
        .map(|it| text(it, "/ip"))
        .collect();
    let kind = text(new, "/spec/type");
    // Only Services have a type.
    if !matches!(kind, "" | "LoadBalancer") && !entries(new).is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(PLACE, detail));
        return;
    }
    for (at, entry) in entries(new).iter().enumerate() {
        let field = |name: &str| format!("{PLACE}[{at}].{name}");
        let (ip, name) = (text(entry, "/ip"), text(entry, "/hostname"));
        if !ip.is_empty() && !known.contains(ip) {
            address(ip, &field("ip"), errors);
        }
        match entry.get("ipMode").filter(|it| !it.is_null()) {
            Some(_) if ip.is_empty() => {
                let detail = "may not be specified when `ip` is not set";
                errors.push(FieldError::forbidden(field("ipMode"), detail));
            }
            Some(mode) => supported(mode, field("ipMode"), &["Proxy", "VIP"], errors),
            None => {}
        }
        if !name.is_empty() {
            subdomain(name, &field("hostname"), errors);
            if name.parse::<IpAddr>().is_ok() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(field("hostname"), &json!(name), detail));
            }
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
