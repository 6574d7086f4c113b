//! The downward API: what a pod may know of itself.

use super::address;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use kube_primitives::quantity;
use std::{collections::BTreeMap, net::Ipv4Addr};

/// What the node has, in cores and bytes.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    pub cores: u64,
    pub memory_bytes: u64,
}

/// The value of a field such as `metadata.name` of a pod at this address; `None` for a field that does not exist.
pub fn field(pod: &Pod, ip: Ipv4Addr, path: &str) -> Option<String> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    if let Some((map, key)) = path.strip_suffix("']").and_then(|it| it.split_once("['")) {
        let map = match map {
            "metadata.labels" => &meta.labels,
            "metadata.annotations" => &meta.annotations,
            _ => return None,
        };
        return Some(map.as_ref().and_then(|it| it.get(key)).cloned().unwrap_or_default());
    }
    Some(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(meta.labels.as_ref()),
        "metadata.annotations" => lines(meta.annotations.as_ref()),
        "spec.nodeName" => spec.and_then(|it| it.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => account(pod).to_owned(),
        "status.podIP" | "status.podIPs" => ip.to_string(),
        "status.hostIP" | "status.hostIPs" => address::HOST.to_string(),
        _ => return None,
    })
}

/// The ServiceAccount of a pod.
pub fn account(pod: &Pod) -> &str {
    let name = pod.spec.as_ref().and_then(|it| it.service_account_name.as_deref());
    name.filter(|it| !it.is_empty()).unwrap_or("default")
}

/// `key="value"` by line, as a kubelet writes labels into a file.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let lines: Vec<_> = map
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    lines.join("\n")
}

/// A container's limit or request in units of the divisor, rounded up; without a limit, what the node has.
pub fn resource(container: &Container, selector: &ResourceFieldSelector, node: Capacity) -> Option<String> {
    let (list, name) = selector.resource.split_once('.')?;
    let resources = container.resources.as_ref();
    let amounts = match list {
        "limits" => resources.and_then(|it| it.limits.as_ref()),
        "requests" => resources.and_then(|it| it.requests.as_ref().or(it.limits.as_ref())),
        _ => return None,
    };
    let given = amounts
        .and_then(|it| it.get(name))
        .and_then(|it| quantity::milli(&it.0));
    let amount = match (given, name, list) {
        (Some(it), _, _) => it,
        (None, "cpu", "limits") => i128::from(node.cores) * 1000,
        (None, "memory", "limits") => i128::from(node.memory_bytes) * 1000,
        _ => 0,
    };
    let divisor = selector.divisor.as_ref().and_then(|it| quantity::milli(&it.0));
    let divisor = divisor.filter(|it| *it > 0).unwrap_or(1000);
    Some(amount.saturating_add(divisor - 1).div_euclid(divisor).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_of_a_pod_are_found_by_path() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"app": "x", "b.c/d": "y\"z"}},
            "spec": {"containers": [], "nodeName": "node"},
        }))
        .unwrap();
        let table = [
            ("metadata.name", Some("p")),
            ("metadata.labels['b.c/d']", Some("y\"z")),
            ("metadata.annotations['none']", Some("")),
            ("metadata.labels", Some("app=\"x\"\nb.c/d=\"y\\\"z\"")),
            ("spec.nodeName", Some("node")),
            ("spec.serviceAccountName", Some("default")),
            ("status.podIP", Some("127.3.2.1")),
            ("status.hostIP", Some("127.0.0.1")),
            ("spec.containers", None),
        ];
        for (path, want) in table {
            assert_eq!(
                field(&pod, Ipv4Addr::new(127, 3, 2, 1), path).as_deref(),
                want,
                "{path}"
            );
        }
    }

    #[test]
    fn resources_are_counted_in_their_divisor_and_rounded_up() {
        let container: Container = serde_json::from_value(json!({
            "name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"memory": "1M"}},
        }))
        .unwrap();
        let node = Capacity {
            cores: 4,
            memory_bytes: 1 << 30,
        };
        let table = [
            ("limits.cpu", "0", "2"),
            ("limits.cpu", "1m", "1500"),
            ("limits.memory", "1Mi", "64"),
            ("requests.memory", "1", "1000000"),
            ("requests.cpu", "1", "0"),
            ("limits.ephemeral-storage", "1", "0"),
        ];
        for (resource_name, divisor, want) in table {
            let selector = serde_json::from_value(json!({"resource": resource_name, "divisor": divisor})).unwrap();
            assert_eq!(
                resource(&container, &selector, node).as_deref(),
                Some(want),
                "{resource_name}"
            );
        }
        let bare = Container::default();
        let selector = serde_json::from_value(json!({"resource": "limits.cpu"})).unwrap();
        assert_eq!(resource(&bare, &selector, node).as_deref(), Some("4"));
    }
}
