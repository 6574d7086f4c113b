//! Nodes: their taints, what they say they have, and where they are.

use super::{
    defaults::{self, entry, items, set, text_of},
    strategy::{Columns, Strategy},
    validation::{changed, list, resources::amount, scheduling::taints, text},
};
use crate::{call::Call, table::cells};
use jiff::Timestamp;
use kube_store::status::{FieldError, Status};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Node.
pub struct Nodes;

impl Strategy for Nodes {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
            row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        pod_ranges(entry(object, "spec"));
        let status = entry(object, "status");
        if let Some(capacity) = status.get("capacity").cloned() {
            set(status, "allocatable", capacity);
        }
        for condition in items(status, "conditions") {
            for time in ["lastHeartbeatTime", "lastTransitionTime"] {
                set(condition, time, Value::Null);
            }
        }
        let port = entry(entry(status, "daemonEndpoints"), "kubeletEndpoint");
        set(port, "Port", 0);
        let info = entry(status, "nodeInfo");
        INFO.into_iter().for_each(|key| set(info, key, ""));
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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

    fn prepare_for_create(&self, _call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        defaults::drop_members(value, None, "spec", &["configSource"]);
        defaults::drop_members(value, None, "status", &["config"]);
        Ok(())
    }

    fn prepare_for_update(&self, _call: &mut Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        defaults::drop_members(new, Some(old), "spec", &["configSource"]);
        defaults::drop_members(new, Some(old), "status", &["config"]);
        Ok(())
    }

    // A node says what it has when it joins.
    fn is_made_with_status(&self) -> bool {
        true
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

/// What a node says of itself, and Go does not leave out.
const INFO: [&str; 10] = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

/// The one range of before is the first of the ranges; where they differ, the client knows only the one.
fn pod_ranges(spec: &mut Map<String, Value>) {
    let one = text_of(spec, "podCIDR").to_owned();
    let first = spec.get("podCIDRs").and_then(|it| it.get(0)).and_then(Value::as_str);
    match first {
        Some(first) if one.is_empty() => {
            let first = first.to_owned();
            spec.insert("podCIDR".to_owned(), first.into());
        }
        Some(first) if first == one => {}
        _ if one.is_empty() => {}
        _ => {
            spec.insert("podCIDRs".to_owned(), json!([one]));
        }
    }
}

const UNKNOWN: &str = "<unknown>";

fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    let ready = cells::list(it, &["status", "conditions"])
        .iter()
        .find(|it| cells::text(it, &["type"]) == "Ready");
    let ready = match ready {
        None => "Unknown",
        Some(it) if cells::text(it, &["status"]) == "True" => "Ready",
        Some(_) => "NotReady",
    };
    let cordoned = cells::at(it, &["spec", "unschedulable"]).as_bool().unwrap_or_default();
    let status = format!("{ready}{}", if cordoned { ",SchedulingDisabled" } else { "" });
    let labels = cells::at(it, &["metadata", "labels"]).as_object();
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) if !role.is_empty() => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().filter(|it| !it.is_empty()).map(str::to_owned),
        _ => None,
    };
    let mut roles: Vec<String> = labels.into_iter().flatten().filter_map(role).collect();
    roles.sort();
    roles.dedup();
    let address = |ty: &str| {
        let found = cells::list(it, &["status", "addresses"])
            .iter()
            .find(|it| cells::text(it, &["type"]) == ty);
        Value::from(found.map_or(cells::NONE, |it| cells::text(it, &["address"])))
    };
    let info = |field: &str| Value::from(cells::or(cells::text(it, &["status", "nodeInfo", field]), UNKNOWN));
    vec![
        cells::name(it),
        status.into(),
        cells::or(&roles.join(","), cells::NONE).into(),
        cells::age(it, now),
        cells::text(it, &["status", "nodeInfo", "kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::validation::said_of;
    use serde_json::json;

    #[test]
    fn a_node_does_not_have_less_than_nothing() {
        let said = |new: &Value, old| said_of(|new, old, it| Nodes.validate(new, old, it), new, old);
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
