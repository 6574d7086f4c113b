//! `get clusters`

use kube::core::DynamicObject;

use super::{condition, label, name, rows, text, tree::TreeNode};

/// What is told of one cluster.
struct Row {
    name: String,
    accepted: String,
    available: String,
    set: String,
    cpu: String,
    memory: String,
    version: String,
}

impl Row {
    fn of(cluster: &DynamicObject) -> Self {
        let status = &cluster.data["status"];
        let accepted = cluster.data["spec"]["hubAcceptsClient"].as_bool();
        Self {
            name: name(cluster),
            accepted: accepted.unwrap_or_default().to_string(),
            available: condition(cluster, "ManagedClusterConditionAvailable"),
            set: label(cluster, "cluster.open-cluster-management.io/clusterset"),
            cpu: text(&status["capacity"]["cpu"]),
            memory: text(&status["capacity"]["memory"]),
            version: text(&status["version"]["kubernetes"]),
        }
    }
}

/// The clusters as a table.
pub fn table(clusters: &[DynamicObject]) -> String {
    let header = [
        "NAME",
        "ACCEPTED",
        "AVAILABLE",
        "CLUSTERSET",
        "CPU",
        "MEMORY",
        "KUBERNETES VERSION",
    ];
    let row = |it: Row| {
        vec![
            it.name,
            it.accepted,
            it.available,
            it.set,
            it.cpu,
            it.memory,
            it.version,
        ]
    };
    rows(header, clusters.iter().map(Row::of).map(row).collect())
}

/// The clusters as a tree.
pub fn tree(clusters: &[DynamicObject]) -> String {
    let node = |it: Row| {
        let capacity = vec![TreeNode::leaf("Cpu", it.cpu), TreeNode::leaf("Memory", it.memory)];
        let below = vec![
            TreeNode::leaf("Accepted", it.accepted),
            TreeNode::leaf("Available", it.available),
            TreeNode::leaf("ClusterSet", it.set),
            TreeNode::group("Capacity", capacity),
            TreeNode::leaf("KubernetesVersion", it.version),
        ];
        TreeNode::group(&it.name, below)
    };
    TreeNode::group("ManagedCluster", clusters.iter().map(Row::of).map(node).collect()).render()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn clusters() -> Vec<DynamicObject> {
        let clusters = json!([
            {"metadata": {"name": "cluster1", "labels": {"cluster.open-cluster-management.io/clusterset": "default"}},
             "spec": {"hubAcceptsClient": true},
             "status": {"capacity": {"cpu": "4", "memory": "8148060Ki"}, "version": {"kubernetes": "v1.36.0"},
                        "conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True"}]}},
            {"metadata": {"name": "new"}, "spec": {}},
        ]);
        serde_json::from_value(clusters).unwrap()
    }

    #[test]
    fn a_table_of_clusters_has_the_quantities_as_they_are() {
        assert_eq!(
            table(&clusters()),
            "NAME       ACCEPTED   AVAILABLE   CLUSTERSET   CPU   MEMORY      KUBERNETES VERSION\n\
             cluster1   true       True        default      4     8148060Ki   v1.36.0\n\
             new        false\n"
        );
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn a_tree_of_clusters_has_upstreams_branches() {
        let text = tree(&clusters()[..1]);
        let branches: Vec<&str> = text
            .lines()
            .map(|it| it.trim_start_matches(['└', '├', '│', '─', ' ']))
            .collect();
        assert_eq!(
            branches,
            [
                "<ManagedCluster> ",
                "<cluster1> ",
                "<Accepted> true",
                "<Available> True",
                "<ClusterSet> default",
                "<Capacity> ",
                "<Cpu> 4",
                "<Memory> 8148060Ki",
                "<KubernetesVersion> v1.36.0",
            ]
        );
    }
}
