//! Nodes: what they say they have, and what of them does not change once it is set.

use super::{addresses::range, changed, list, quotas::amount, scheduling::taints, text};
use kube_store::status::FieldError;
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) fn node(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    // What was stored once may stay.
    let spec_changed = changed(new, old, "/spec");
    if spec_changed {
        taints(new, errors);
    }
    if changed(new, old, "/status") {
        status(new, errors);
    }
    if spec_changed {
        pod_ranges(new, errors);
    }
    if let Some(old) = old {
        update(new, old, errors);
    }
}

fn status(new: &Value, errors: &mut Vec<FieldError>) {
    for key in ["capacity", "allocatable"] {
        for (name, given) in new["status"][key].as_object().into_iter().flatten() {
            amount(name, given, &format!("status.{key}.{name}"), errors);
        }
    }
    let swap = &new["status"]["nodeInfo"]["swap"]["capacity"];
    if swap.as_i64().is_some_and(|it| it <= 0) {
        let detail = "must be greater than zero";
        errors.push(FieldError::invalid("metadata.nodeSwapStatus.capacity", swap, detail));
    }
}

/// Errors of the ranges of addresses that the node's pods have: one, or one of each family.
fn pod_ranges(new: &Value, errors: &mut Vec<FieldError>) {
    let ranges = list(new, "/spec/podCIDRs");
    let families: Vec<_> = ranges
        .iter()
        .enumerate()
        .map(|(at, it)| range(it.as_str().unwrap_or_default(), &format!("spec.podCIDRs[{at}]"), errors))
        .map(|it| it.map(|it| it.is_ipv4()))
        .collect();
    let one_of_each = families.len() == 2 && families.contains(&Some(true)) && families.contains(&Some(false));
    if families.len() > 1 && !one_of_each {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid("spec.podCIDRs", &json!(ranges), detail));
    }
}

fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for (at, address) in list(new, "/status/addresses").iter().enumerate() {
        let (kind, given) = (text(address, "/type"), text(address, "/address"));
        if !seen.insert((kind, given)) {
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field: format!("status.addresses[{at}]"),
                // As Go prints its struct.
                detail: format!(r#"Duplicate value: {{"Type":{kind:?},"Address":{given:?}}}"#),
            });
        }
    }
    let before = list(old, "/spec/podCIDRs");
    if !before.is_empty() && before != list(new, "/spec/podCIDRs") {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.podCIDRs", detail));
    }
    let provider = text(old, "/spec/providerID");
    if !provider.is_empty() && provider != text(new, "/spec/providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", detail));
    }
    if text(old, "/spec/externalID") != text(new, "/spec/externalID") {
        errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(new: &Value, old: Option<&Value>) -> Vec<String> {
        crate::builtin_validation::said(|it| node(new, old, it))
    }

    #[test]
    fn a_node_has_one_range_of_each_family() {
        let of = |ranges: &[&str]| json!({"spec": {"podCIDRs": ranges}});
        let none: [&str; 0] = [];
        assert_eq!(said(&of(&["10.0.0.0/24", "fd00::/64"]), None), none);
        assert_eq!(
            said(&of(&["x"]), None),
            ["spec.podCIDRs[0]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
        );
        let two = of(&["10.0.0.0/24", "10.1.0.0/24"]);
        let want = [
            "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one CIDR for each IP family",
        ];
        assert_eq!(said(&two, None), want);
        assert_eq!(said(&two, Some(&two)), none);
        let moved = of(&["10.9.0.0/24"]);
        let want = ["spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"];
        assert_eq!(said(&moved, Some(&of(&["10.0.0.0/24"]))), want);
        assert_eq!(said(&moved, Some(&of(&[]))), none);
    }

    #[test]
    fn a_node_does_not_have_less_than_nothing() {
        let of = |cpu: &str| json!({"status": {"capacity": {"cpu": cpu}}});
        assert!(said(&of("1500m"), None).is_empty());
        assert_eq!(
            said(&of("-1"), None),
            ["status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0"]
        );
        assert!(said(&of("-1"), Some(&of("-1"))).is_empty());
        let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
        let twice = json!({"status": {"addresses": [address, address]}});
        assert!(said(&twice, None).is_empty());
        assert_eq!(
            said(&twice, Some(&of("1"))),
            [r#"status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"10.0.0.1"}"#]
        );
    }
}
