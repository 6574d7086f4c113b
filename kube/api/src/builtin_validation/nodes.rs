//! Nodes: their taints, what they say they have, and where they are.

use super::{changed, list, resources::amount, scheduling::taints, text};
use kube_store::status::FieldError;
use serde_json::Value;
use std::collections::HashSet;

pub(super) fn node(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    // What was stored once may stay.
    if changed(new, old, "/spec") {
        taints(new, errors);
    }
    if changed(new, old, "/status") {
        for key in ["capacity", "allocatable"] {
            for (name, given) in new["status"][key].as_object().into_iter().flatten() {
                amount(name, given, &format!("status.{key}.{name}"), errors);
            }
        }
    }
    if old.is_some() {
        addresses(new, errors);
    }
}

fn addresses(new: &Value, errors: &mut Vec<FieldError>) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_validation::said_of;
    use serde_json::json;

    #[test]
    fn a_node_does_not_have_less_than_nothing() {
        let said = |new: &Value, old| said_of(node, new, old);
        let of = |cpu: &str| json!({"status": {"capacity": {"cpu": cpu}}});
        assert!(said(&of("1500m"), None).is_empty());
        assert_eq!(
            said(&of("-1"), None),
            ["status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0"]
        );
        let old = of("-1");
        assert!(said(&old, Some(&old)).is_empty());
        let address = json!({"type": "InternalIP", "address": "10.0.0.1"});
        let twice = json!({"status": {"addresses": [address, address]}});
        assert!(said(&twice, None).is_empty());
        assert_eq!(
            said(&twice, Some(&old)),
            [r#"status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"10.0.0.1"}"#]
        );
    }
}
