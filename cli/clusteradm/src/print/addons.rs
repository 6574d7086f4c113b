//! `get addon`
//! We differ where upstream is wrong: the table counts the named clusters only, as the tree does, and a work hangs on
//! the add-on of its own cluster alone.

use std::collections::BTreeMap;

use kube::core::DynamicObject;

use super::{Paint, label, name, namespace, rows, status, tree::TreeNode, verdict, works};

const CONDITIONS: [&str; 3] = ["Available", "ManifestApplied", "RegistrationApplied"];

/// The add-ons of a hub, those of the clusters that are meant, and their works.
pub struct AddOns {
    pub offered: Vec<DynamicObject>,
    pub installed: Vec<DynamicObject>,
    pub works: Vec<DynamicObject>,
}

impl AddOns {
    fn of(&self, add_on: &DynamicObject) -> impl Iterator<Item = &DynamicObject> {
        self.installed
            .iter()
            .filter(|it| it.metadata.name == add_on.metadata.name)
    }

    /// As a table.
    pub fn table(&self) -> String {
        let row = |it: &DynamicObject| vec![name(it), self.of(it).count().to_string()];
        rows(["NAME", "INSTALLEDCLUSTERS"], self.offered.iter().map(row).collect())
    }

    /// As a tree. An add-on that no cluster has is not in it.
    pub fn tree(&self, paint: Paint) -> String {
        let mut nodes = Vec::new();
        for add_on in &self.offered {
            let clusters: BTreeMap<String, TreeNode> = self
                .of(add_on)
                .map(|it| (namespace(it), self.cluster(it, paint)))
                .collect();
            if !clusters.is_empty() {
                nodes.push(TreeNode::group(&name(add_on), clusters.into_values().collect()));
            }
        }
        TreeNode::group("ClusterManagementAddon", nodes).render()
    }

    fn cluster(&self, installed: &DynamicObject, paint: Paint) -> TreeNode {
        let conditions = &installed.data["status"]["conditions"];
        let told = |kind: &&str| {
            let word = verdict(status(conditions, kind), paint);
            TreeNode::leaf(kind, format!("{kind} -> {word}"))
        };
        let mut below = vec![TreeNode::group("Status", CONDITIONS.iter().map(told).collect())];
        let (add_on, cluster) = (name(installed), namespace(installed));
        let is_of = |it: &&DynamicObject| {
            namespace(it) == cluster && label(it, "open-cluster-management.io/addon-name") == add_on
        };
        let works: Vec<&DynamicObject> = self.works.iter().filter(is_of).collect();
        let resources = works::resources(&works, paint);
        if !resources.is_empty() {
            below.push(TreeNode::group("ManifestWork", resources));
        }
        TreeNode::group(&cluster, below)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_add_on_is_shown_with_clusters_and_works() {
        let objects = |it| serde_json::from_value::<Vec<DynamicObject>>(it).unwrap();
        let all = AddOns {
            offered: objects(json!([{"metadata": {"name": "a"}}, {"metadata": {"name": "unused"}}])),
            installed: objects(
                json!([{"metadata": {"name": "a", "namespace": "cluster1"}, "status": {"conditions": [
                {"type": "Available", "status": "True"}, {"type": "ManifestApplied", "status": "False"}]}}]),
            ),
            works: objects(json!([{
                "metadata": {"name": "addon-a-deploy-0", "namespace": "cluster1",
                             "labels": {"open-cluster-management.io/addon-name": "a"}},
                "status": {"resourceStatus": {"manifests": [
                    {"resourceMeta": {"resource": "deployments", "namespace": "n", "name": "d"}}]}}}])),
        };
        assert_eq!(all.table(), "NAME     INSTALLEDCLUSTERS\na        1\nunused   0\n");
        let expected = "\
<ClusterManagementAddon>_
└── <a>_
    └── <cluster1>_
        └── <Status>_
        │   ├── <Available> Available -> true
        │   ├── <ManifestApplied> ManifestApplied -> false
        │   ├── <RegistrationApplied> RegistrationApplied -> unknown
        └── <ManifestWork>_
            └── <deployments>_
                └── <n/d> unknown
";
        assert_eq!(all.tree(Paint::Plain), expected.replace('_', " "));
    }
}
