//! What stands behind a Service: Endpoints, and the EndpointSlices that came after them.

use super::{
    PROTOCOLS,
    addresses::{address, reachable_here},
    changed, immutable, label, list, port_errors, qualified_name, subdomain, supported, text, too_many,
};
use kube_store::{
    schema::metadata::{label_errors, label_value_errors, subdomain_errors, validate_labels},
    status::FieldError,
};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    net::{IpAddr, Ipv6Addr},
};

const ADDRESSES_MAX: usize = 100;
const ENDPOINTS_MAX: usize = 1000;
const HINTS_MAX: usize = 8;
const PORTS_MAX: usize = 20_000;
const TOPOLOGY_LABELS_MAX: usize = 16;

pub(super) fn endpoints(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    // What was stored once may stay.
    if !changed(new, old, "/subsets") {
        return;
    }
    for (at, subset) in list(new, "/subsets").iter().enumerate() {
        let place = format!("subsets[{at}]");
        let groups = ["addresses", "notReadyAddresses"];
        if groups.iter().all(|key| list(subset, &format!("/{key}")).is_empty()) {
            let detail = "must specify `addresses` or `notReadyAddresses`";
            errors.push(FieldError::required(&place, detail));
        }
        for key in groups {
            for (at, it) in list(subset, &format!("/{key}")).iter().enumerate() {
                endpoint_address(it, &format!("{place}.{key}[{at}]"), errors);
            }
        }
        let ports = list(subset, "/ports");
        for (at, port) in ports.iter().enumerate() {
            endpoint_port(port, ports.len() > 1, &format!("{place}.ports[{at}]"), errors);
        }
    }
}

fn endpoint_address(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let (given, field) = (text(it, "/ip"), format!("{place}.ip"));
    address(given, &field, errors);
    let host = text(it, "/hostname");
    if !host.is_empty() {
        label(host, &format!("{place}.hostname"), errors);
    }
    node_name(it, place, errors);
    // Upstream looks twice.
    if given.parse::<IpAddr>().is_err() {
        errors.push(FieldError::invalid(&field, &json!(given), "must be a valid IP address"));
    }
    reachable_here(given, &field, errors);
}

fn node_name(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if let Some(node) = it["nodeName"].as_str() {
        subdomain(node, &format!("{place}.nodeName"), errors);
    }
}

fn endpoint_port(port: &Value, must_have_name: bool, place: &str, errors: &mut Vec<FieldError>) {
    let name = text(port, "/name");
    if !name.is_empty() {
        label(name, &format!("{place}.name"), errors);
    } else if must_have_name {
        errors.push(FieldError::required(format!("{place}.name"), ""));
    }
    let number = port["port"].as_i64().unwrap_or_default();
    port_errors(number, &format!("{place}.port"), errors);
    supported(&port["protocol"], format!("{place}.protocol"), &PROTOCOLS, errors);
    app_protocol(port, place, errors);
}

fn app_protocol(port: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if let Some(protocol) = port["appProtocol"].as_str() {
        qualified_name(protocol, &format!("{place}.appProtocol"), errors);
    }
}

pub(super) fn slice(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    let kind = text(new, "/addressType");
    if kind.is_empty() {
        errors.push(FieldError::required("addressType", ""));
    } else {
        supported(&new["addressType"], "addressType", &TYPES, errors);
    }
    slice_ports(list(new, "/ports"), errors);
    let all = list(new, "/endpoints");
    if changed(new, old, "/endpoints") && !too_many(all.len(), ENDPOINTS_MAX, "endpoints", errors) {
        for (at, endpoint) in all.iter().enumerate() {
            slice_endpoint(endpoint, kind, &format!("endpoints[{at}]"), errors);
        }
    }
    immutable(new, old, "/addressType", "addressType", errors);
}

fn slice_ports(ports: &[Value], errors: &mut Vec<FieldError>) {
    if too_many(ports.len(), PORTS_MAX, "ports", errors) {
        return;
    }
    let mut names = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        let place = format!("ports[{at}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            label(name, &format!("{place}.name"), errors);
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{place}.name"), &json!(name)));
        }
        supported(
            &json!(text(port, "/protocol")),
            format!("{place}.protocol"),
            &PROTOCOLS,
            errors,
        );
        app_protocol(port, &place, errors);
    }
}

fn slice_endpoint(endpoint: &Value, kind: &str, place: &str, errors: &mut Vec<FieldError>) {
    let all = format!("{place}.addresses");
    let addresses = list(endpoint, "/addresses");
    if addresses.is_empty() {
        errors.push(FieldError::required(&all, "must contain at least 1 address"));
    }
    too_many(addresses.len(), ADDRESSES_MAX, &all, errors);
    for (at, given) in addresses.iter().enumerate() {
        slice_address(given.as_str().unwrap_or_default(), kind, &all, at, errors);
    }
    node_name(endpoint, place, errors);
    let (topology, field) = (&endpoint["deprecatedTopology"], format!("{place}.deprecatedTopology"));
    too_many(
        topology.as_object().map_or(0, |it| it.len()),
        TOPOLOGY_LABELS_MAX,
        &field,
        errors,
    );
    errors.extend(validate_labels(topology, &field));
    if let Some(host) = endpoint["hostname"].as_str() {
        label(host, &format!("{place}.hostname"), errors);
    }
    hints(&endpoint["hints"], &format!("{place}.hints"), errors);
}

fn slice_address(given: &str, kind: &str, all: &str, at: usize, errors: &mut Vec<FieldError>) {
    let place = format!("{all}[{at}]");
    let before = errors.len();
    match kind {
        "FQDN" => return host(given, &place, errors),
        "IPv4" => address(given, &place, errors),
        "IPv6" => {
            address(given, &place, errors);
            if let Some(written) = given.parse::<Ipv6Addr>().ok().map(|it| it.to_string())
                && written != given
            {
                let detail = format!("must be in canonical form ({written:?})");
                errors.push(FieldError::invalid(&place, &json!(given), detail));
            }
        }
        _ => return,
    }
    if errors.len() > before {
        return;
    }
    let wanted = given.parse::<IpAddr>().is_ok_and(|it| it.is_ipv4() == (kind == "IPv4"));
    if !wanted {
        let detail = format!("must be an {kind} address");
        errors.push(FieldError::invalid(all, &json!(given), detail));
    }
    reachable_here(given, &place, errors);
}

/// Errors of the full name of a host.
fn host(given: &str, field: &str, errors: &mut Vec<FieldError>) {
    if given.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let name = given.strip_suffix('.').unwrap_or(given);
    let wrong = subdomain_errors(name);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(field, &json!(name), wrong.join(",")));
        return;
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(field, &json!(name), detail));
        return;
    }
    let wrong = name.split('.').map(|it| (it, label_errors(it)));
    if let Some((part, wrong)) = wrong.into_iter().find(|it| !it.1.is_empty()) {
        errors.push(FieldError::invalid(field, &json!(part), wrong.join(",")));
    }
}

/// Errors of for whom an endpoint is.
fn hints(hints: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for key in ["forZones", "forNodes"] {
        let (given, field) = (list(hints, &format!("/{key}")), format!("{place}.{key}"));
        if too_many(given.len(), HINTS_MAX, &field, errors) {
            return;
        }
        let mut names = HashSet::new();
        for (at, hint) in given.iter().enumerate() {
            let (name, field) = (text(hint, "/name"), format!("{field}[{at}].name"));
            if !names.insert(name) {
                errors.push(FieldError::duplicate(&field, &json!(name)));
            }
            if key == "forNodes" {
                subdomain(name, &field, errors);
            } else {
                let wrong = label_value_errors(name);
                errors.extend(wrong.iter().map(|it| FieldError::invalid(&field, &json!(name), it)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_validation::said_of;

    #[test]
    fn endpoints_are_addresses_that_can_be_reached() {
        let subset = |it: Value| json!({"subsets": [it]});
        let at = |ip: &str| subset(json!({"addresses": [{"ip": ip}]}));
        let port = |name: Value, number: i64| json!({"name": name, "port": number, "protocol": "TCP"});
        let table: [(Value, &[&str]); 6] = [
            (at("10.0.0.1"), &[]),
            (
                at("x"),
                &[
                    "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                    "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address",
                ],
            ),
            (at("127.0.0.1"), &[]),
            (
                at("fe80::1"),
                &[
                    "subsets[0].addresses[0].ip: Invalid value: \"fe80::1\": may not be in the link-local range (169.254.0.0/16, \
                   fe80::/10)",
                ],
            ),
            (
                subset(json!({"ports": [port(json!("a"), 0)]})),
                &[
                    "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
                    "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                ],
            ),
            (
                subset(
                    json!({"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [port(Value::Null, 1), port(Value::Null, 2)]}),
                ),
                &[
                    "subsets[0].ports[0].name: Required value",
                    "subsets[0].ports[1].name: Required value",
                ],
            ),
        ];
        for (new, want) in table {
            assert_eq!(said_of(endpoints, &new, None), want, "{new}");
            assert_eq!(said_of(endpoints, &new, Some(&new)), Vec::<String>::new());
        }
    }

    #[test]
    fn a_slice_has_addresses_of_its_kind() {
        let of = |kind: &str, endpoint: Value| json!({"addressType": kind, "endpoints": [endpoint]});
        let at = |kind: &str, address: &str| of(kind, json!({"addresses": [address]}));
        let zones = |names: &[&str]| -> Vec<Value> { names.iter().map(|it| json!({"name": it})).collect() };
        let table: [(Value, &[&str]); 9] = [
            (at("IPv4", "10.0.0.1"), &[]),
            (at("IPv6", "fd00::1"), &[]),
            (at("FQDN", "a.b."), &[]),
            (
                at("FQDN", "a"),
                &[
                    "endpoints[0].addresses[0]: Invalid value: \"a\": should be a domain with at least two segments separated by dots",
                ],
            ),
            (
                at("IPv4", "fd00::1"),
                &["endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address"],
            ),
            (
                at("IPv6", "fd00:0::1"),
                &["endpoints[0].addresses[0]: Invalid value: \"fd00:0::1\": must be in canonical form (\"fd00::1\")"],
            ),
            (
                at("IPv4", "0.0.0.0"),
                &["endpoints[0].addresses[0]: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)"],
            ),
            (
                of(
                    "IPv4",
                    json!({"addresses": ["10.0.0.1"], "hints": {"forZones": zones(&["", "a", "a"])}}),
                ),
                &["endpoints[0].hints.forZones[2].name: Duplicate value: \"a\""],
            ),
            (
                of(
                    "IPv4",
                    json!({"addresses": ["10.0.0.1"], "hints": {"forZones": zones(&["a"; 9])}}),
                ),
                &["endpoints[0].hints.forZones: Too many: 9: must have at most 8 items"],
            ),
        ];
        for (new, want) in table {
            assert_eq!(said_of(slice, &new, None), want, "{new}");
            assert_eq!(said_of(slice, &new, Some(&new)), Vec::<String>::new());
        }
    }
}
