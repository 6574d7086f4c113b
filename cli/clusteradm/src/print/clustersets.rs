//! `get clustersets`

use std::collections::BTreeMap;

use kube::core::DynamicObject;

use super::{list, name, rows, text, tree::TreeNode};

/// What a set has beside itself: the namespaces it is bound to and its clusters, by its name.
#[derive(Debug, Default)]
pub struct Around {
    pub namespaces: BTreeMap<String, Vec<String>>,
    pub clusters: BTreeMap<String, Vec<String>>,
}

/// What is told of one set.
struct Row {
    name: String,
    bound: String,
    status: String,
    managed: Vec<String>,
}

impl Row {
    fn of(set: &DynamicObject, around: &Around) -> Self {
        let name = name(set);
        let conditions = set.data["status"]["conditions"].as_array();
        let empty = conditions
            .into_iter()
            .flatten()
            .find(|it| it["type"] == "ClusterSetEmpty");
        let managed = set.data["spec"]["managedNamespaces"].as_array();
        Self {
            bound: around.namespaces.get(&name).map(|it| it.join(",")).unwrap_or_default(),
            name,
            status: empty.map(|it| text(&it["message"])).unwrap_or_default(),
            managed: managed.into_iter().flatten().map(|it| text(&it["name"])).collect(),
        }
    }
}

/// The sets as a table.
pub fn table(sets: &[DynamicObject], around: &Around) -> String {
    let header = ["NAME", "BOUND NAMESPACES", "STATUS", "MANAGED NAMESPACES"];
    let row = |it: Row| vec![it.name, it.bound, it.status, it.managed.join(",")];
    rows(header, sets.iter().map(|it| row(Row::of(it, around))).collect())
}

/// The sets as a tree.
pub fn tree(sets: &[DynamicObject], around: &Around) -> String {
    let node = |it: &DynamicObject| {
        let row = Row::of(it, around);
        let clusters = around.clusters.get(&row.name).map(|it| list(it));
        let below = vec![
            TreeNode::leaf("BoundNamespace", row.bound),
            TreeNode::leaf("Status", row.status),
            TreeNode::leaf("Clusters", clusters.unwrap_or_else(|| "[]".to_owned())),
            TreeNode::leaf("ManagedNamespaces", list(&row.managed)),
        ];
        TreeNode::group(&row.name, below)
    };
    TreeNode::group("ManagedClusterSet", sets.iter().map(node).collect()).render()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_is_shown_with_its_namespaces_and_clusters() {
        let sets: Vec<DynamicObject> = serde_json::from_value(json!([
            {"metadata": {"name": "default"},
             "spec": {"managedNamespaces": [{"name": "a"}, {"name": "b"}]},
             "status": {"conditions": [{"type": "ClusterSetEmpty", "message": "2 ManagedClusters selected"}]}},
        ]))
        .unwrap();
        let around = Around {
            namespaces: [("default".to_owned(), vec!["x".to_owned(), "y".to_owned()])].into(),
            clusters: [("default".to_owned(), vec!["cluster1".to_owned(), "cluster2".to_owned()])].into(),
        };
        assert_eq!(
            table(&sets, &around),
            "NAME      BOUND NAMESPACES   STATUS                       MANAGED NAMESPACES\n\
             default   x,y                2 ManagedClusters selected   a,b\n"
        );
        assert_eq!(
            tree(&sets, &around),
            "<ManagedClusterSet> \n└── <default> \n    └── <BoundNamespace> x,y\n    \
             └── <Status> 2 ManagedClusters selected\n    └── <Clusters> [cluster1 cluster2]\n    \
             └── <ManagedNamespaces> [a b]\n"
        );
        assert!(tree(&sets, &Around::default()).contains("<Clusters> []"));
    }
}
