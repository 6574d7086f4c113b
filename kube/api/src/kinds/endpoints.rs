//! What stands behind a Service: addresses that can be reached, in Endpoints and in the EndpointSlices
//! that came after them.

use super::{
    defaults::{self, entry, items, set},
    strategy::{Columns, Strategy},
    validation::{
        addresses::{address, reachable_here},
        changed,
        fields::{FieldRule::*, FieldRules},
        list, published, text,
    },
};
use crate::table::cells;
use jiff::Timestamp;
use kube_store::status::FieldError;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// Endpoints.
pub struct AllEndpoints;

impl Strategy for AllEndpoints {
    fn deprecation(&self) -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn columns(&self) -> Columns {
        Columns::new("Name|Endpoints|Age", row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        items(object, "subsets").for_each(defaults::protocols);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
        // What was stored once may stay.
        if !changed(new, old, "/subsets") {
            return;
        }
        for (at, subset) in list(new, "/subsets").iter().enumerate() {
            for key in ["addresses", "notReadyAddresses"] {
                for (number, it) in list(subset, &format!("/{key}")).iter().enumerate() {
                    let (given, field) = (text(it, "/ip"), format!("subsets[{at}].{key}[{number}].ip"));
                    address(given, &field, errors);
                    reachable_here(given, &field, errors);
                }
            }
        }
    }
}

/// EndpointSlice.
pub struct EndpointSlices;

impl Strategy for EndpointSlices {
    fn columns(&self) -> Columns {
        Columns::new("Name|AddressType|Ports|Endpoints|Age", slice_row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        for endpoint in items(object, "endpoints") {
            entry(endpoint, "conditions");
        }
        for port in items(object, "ports") {
            set(port, "name", "");
            set(port, "protocol", "TCP");
        }
    }

    fn fields(&self) -> FieldRules {
        &[("addressType", Immutable)]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
        let kind = text(new, "/addressType");
        if changed(new, old, "/endpoints") && ["IPv4", "IPv6"].contains(&kind) {
            for (at, endpoint) in list(new, "/endpoints").iter().enumerate() {
                for (number, given) in list(endpoint, "/addresses").iter().enumerate() {
                    let all = format!("endpoints[{at}].addresses");
                    slice_address(given.as_str().unwrap_or_default(), kind, &all, number, errors);
                }
            }
        }
    }

    // Their labels say which Service they are of.
    fn generation_metadata(&self) -> Option<&'static str> {
        Some("labels")
    }
}

fn slice_address(given: &str, kind: &str, all: &str, at: usize, errors: &mut Vec<FieldError>) {
    let place = format!("{all}[{at}]");
    address(given, &place, errors);
    let Ok(read) = given.parse::<IpAddr>() else { return };
    if read.is_ipv4() != (kind == "IPv4") {
        let detail = format!("must be an {kind} address");
        errors.push(FieldError::invalid(all, &json!(given), detail));
    }
    reachable_here(given, &place, errors);
}

fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    let mut found = Vec::new();
    for subset in cells::list(it, &["subsets"]) {
        let addresses = cells::list(subset, &["addresses"]);
        let ports = cells::list(subset, &["ports"]);
        if ports.is_empty() {
            found.extend(addresses.iter().map(|it| cells::text(it, &["ip"]).to_owned()));
        }
        for port in ports {
            found.extend(
                addresses
                    .iter()
                    .map(|it| format!("{}:{}", cells::text(it, &["ip"]), cells::number(port, &["port"]))),
            );
        }
    }
    vec![
        cells::name(it),
        cells::at_most_three(found, cells::NONE).into(),
        cells::age(it, now),
    ]
}

fn slice_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let port = |it: &Value| {
        cells::at(it, &["port"])
            .as_i64()
            .map_or_else(|| "*".to_owned(), |it| it.to_string())
    };
    let ports = cells::list(it, &["ports"]).iter().map(port).collect();
    let addresses = cells::list(it, &["endpoints"])
        .iter()
        .flat_map(|it| cells::list(it, &["addresses"]));
    let addresses = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    let (ports, addresses) = (
        cells::at_most_three(ports, cells::UNSET),
        cells::at_most_three(addresses, cells::UNSET),
    );
    vec![
        cells::name(it),
        cells::text(it, &["addressType"]).into(),
        ports.into(),
        addresses.into(),
        cells::age(it, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::validation::said_of;

    #[test]
    fn endpoints_are_addresses_that_can_be_reached() {
        let at = |ip: &str| json!({"subsets": [{"addresses": [{"ip": ip}]}]});
        let place = "subsets[0].addresses[0].ip: Invalid value";
        let table = [
            ("10.0.0.1", vec![]),
            ("127.0.0.1", vec![]),
            (
                "x",
                vec![format!(
                    "{place}: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
                )],
            ),
            (
                "fe80::1",
                vec![format!(
                    "{place}: \"fe80::1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)"
                )],
            ),
        ];
        for (ip, want) in table {
            assert_eq!(
                said_of(|new, old, it| AllEndpoints.validate(new, old, it), &at(ip), None),
                want,
                "{ip}"
            );
            assert_eq!(
                said_of(
                    |new, old, it| AllEndpoints.validate(new, old, it),
                    &at(ip),
                    Some(&at(ip))
                ),
                Vec::<String>::new()
            );
        }
    }

    #[test]
    fn a_slice_has_addresses_of_its_kind() {
        let at = |kind: &str, address: &str| json!({"addressType": kind, "endpoints": [{"addresses": [address]}]});
        let place = "endpoints[0].addresses";
        let table = [
            (at("IPv4", "10.0.0.1"), vec![]),
            (at("IPv6", "fd00::1"), vec![]),
            (at("FQDN", "a.b."), vec![]),
            (
                at("IPv4", "fd00::1"),
                vec![format!("{place}: Invalid value: \"fd00::1\": must be an IPv4 address")],
            ),
            (
                at("IPv4", "0.0.0.0"),
                vec![format!(
                    "{place}[0]: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)"
                )],
            ),
        ];
        for (new, want) in table {
            assert_eq!(
                said_of(|new, old, it| EndpointSlices.validate(new, old, it), &new, None),
                want,
                "{new}"
            );
            assert_eq!(
                said_of(|new, old, it| EndpointSlices.validate(new, old, it), &new, Some(&new)),
                Vec::<String>::new()
            );
        }
    }
}
