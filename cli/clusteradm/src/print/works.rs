//! `get works`, and the works of add-ons.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::Value;

use super::{Paint, condition, name, namespace, rows, status, text, tree::TreeNode};

/// What is told of one work.
struct Row {
    manifests: String,
    applied: String,
    available: String,
}

impl Row {
    fn of(work: &DynamicObject) -> Self {
        let manifests = work.data["spec"]["workload"]["manifests"].as_array();
        Self {
            manifests: manifests.map_or(0, Vec::len).to_string(),
            applied: condition(work, "Applied"),
            available: condition(work, "Available"),
        }
    }
}

/// The works as a table.
pub fn table(works: &[DynamicObject]) -> String {
    let header = ["NAME", "CLUSTER", "NUMBER OF MANIFESTS", "APPLIED", "AVAILABLE"];
    let row = |work: &DynamicObject| {
        let it = Row::of(work);
        vec![name(work), namespace(work), it.manifests, it.applied, it.available]
    };
    rows(header, works.iter().map(row).collect())
}

/// The works as a tree: those of one cluster hang on one branch.
pub fn tree(works: &[DynamicObject], paint: Paint) -> String {
    let mut clusters: BTreeMap<String, Vec<TreeNode>> = BTreeMap::new();
    for work in works {
        let it = Row::of(work);
        let mut below = vec![
            TreeNode::leaf("Number of Manifests", it.manifests),
            TreeNode::leaf("Applied", it.applied),
            TreeNode::leaf("Available", it.available),
        ];
        let resources = resources(&[work], paint);
        if !resources.is_empty() {
            below.push(TreeNode::group("Resources", resources));
        }
        clusters
            .entry(namespace(work))
            .or_default()
            .push(TreeNode::group(&name(work), below));
    }
    let clusters = clusters.into_iter().map(|(name, works)| TreeNode::group(&name, works));
    TreeNode::group("ManifestWork", clusters.collect()).render()
}

/// What works made on their clusters, by kind.
pub(super) fn resources(works: &[&DynamicObject], paint: Paint) -> Vec<TreeNode> {
    let mut kinds: BTreeMap<String, Vec<TreeNode>> = BTreeMap::new();
    let of = |work: &&DynamicObject| -> Vec<Value> {
        let told = work.data["status"]["resourceStatus"]["manifests"].as_array();
        told.cloned().unwrap_or_default()
    };
    for manifest in works.iter().flat_map(of) {
        let meta = &manifest["resourceMeta"];
        let name = match meta["namespace"].as_str() {
            Some(namespace) if !namespace.is_empty() => format!("{namespace}/{}", text(&meta["name"])),
            _ => text(&meta["name"]),
        };
        let state = match status(&manifest["conditions"], "Applied") {
            None => "unknown".to_owned(),
            Some("True") => "applied".to_owned(),
            Some(_) => paint.red("not-applied"),
        };
        kinds
            .entry(text(&meta["resource"]))
            .or_default()
            .push(TreeNode::leaf(&name, state));
    }
    kinds
        .into_iter()
        .map(|(kind, objects)| TreeNode::group(&kind, objects))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn works() -> Vec<DynamicObject> {
        let meta = |resource: &str, namespace: &str, name: &str, applied: &str| {
            json!({"resourceMeta": {"resource": resource, "namespace": namespace, "name": name},
                   "conditions": [{"type": "Applied", "status": applied}]})
        };
        serde_json::from_value(json!([{
            "metadata": {"name": "w", "namespace": "cluster1"},
            "spec": {"workload": {"manifests": [{}, {}]}},
            "status": {"conditions": [{"type": "Applied", "status": "True"}, {"type": "Available", "status": "False"}],
                       "resourceStatus": {"manifests": [meta("namespaces", "", "n", "True"),
                                                        meta("configmaps", "n", "a.b", "False")]}},
        }]))
        .unwrap()
    }

    #[test]
    fn a_work_is_shown_with_what_it_made() {
        assert_eq!(
            table(&works()),
            "NAME   CLUSTER    NUMBER OF MANIFESTS   APPLIED   AVAILABLE\nw      cluster1   2                     True      False\n"
        );
        let expected = "\
<ManifestWork>_
└── <cluster1>_
    └── <w>_
        └── <Number of Manifests> 2
        └── <Applied> True
        └── <Available> False
        └── <Resources>_
            └── <configmaps>_
            │   ├── <n/a.b> not-applied
            └── <namespaces>_
                └── <n> applied
";
        assert_eq!(tree(&works(), Paint::Plain), expected.replace('_', " "));
        assert!(tree(&works(), Paint::Colors).contains("<n/a.b> \u{1b}[31mnot-applied\u{1b}[0m\n"));
    }
}
