//! What all nodes together have, and what they can give.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_primitives::quantity::total;

use super::node::NodeResources;

/// Sums by resource name.
pub(super) type Resources = BTreeMap<String, Quantity>;

/// What all nodes together have.
pub(super) fn capacity(nodes: &[NodeResources]) -> Resources {
    add(nodes.iter().map(|it| &it.status.capacity))
}

/// What the schedulable nodes together can give.
pub(super) fn allocatable(nodes: &[NodeResources]) -> Resources {
    add(nodes
        .iter()
        .filter(|it| !it.spec.unschedulable)
        .map(|it| &it.status.allocatable))
}

/// The sums with what others have written and the nodes do not know.
pub(super) fn keeping_others(sums: Resources, before: &Resources) -> Resources {
    let mut all = before.clone();
    all.extend(sums);
    all
}

fn add<'a>(of_nodes: impl Iterator<Item = &'a Resources>) -> Resources {
    let of_nodes: Vec<_> = of_nodes.collect();
    let names: BTreeSet<_> = of_nodes.iter().flat_map(|it| it.keys()).collect();
    let sum = |name: &String| {
        let amounts = of_nodes.iter().filter_map(|it| it.get(name));
        Quantity(total(amounts.map(|it| it.0.as_str())))
    };
    names.into_iter().map(|name| (name.clone(), sum(name))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cordoned_node_counts_for_capacity_only() {
        let nodes: Vec<NodeResources> = serde_json::from_value(json!([
            {"metadata": {"name": "a"}, "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3500m"}}},
            {"metadata": {"name": "b"}, "spec": {"unschedulable": true},
                "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3500m"}}},
        ]))
        .unwrap();
        assert_eq!(capacity(&nodes)["cpu"].0, "8");
        assert_eq!(allocatable(&nodes)["cpu"].0, "3500m");
        let theirs = Resources::from([("gpus".to_owned(), Quantity("2".to_owned()))]);
        assert_eq!(
            keeping_others(capacity(&nodes), &theirs).keys().collect::<Vec<_>>(),
            ["cpu", "gpus"]
        );
    }
}
