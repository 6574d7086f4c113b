//! Defaults of nodes.

use super::{entry, items, set, text};
use serde_json::{Map, Value, json};

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

pub(super) fn node(object: &mut Map<String, Value>) {
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

/// The one range of before is the first of the ranges; where they differ, the client knows only the one.
fn pod_ranges(spec: &mut Map<String, Value>) {
    let one = text(spec, "podCIDR").to_owned();
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
