//! `get placements`
//! We differ where upstream is wrong: a placement without conditions is shown without them, where upstream ends with a
//! panic; and the clusters of a placement are all that it has chosen, where upstream shows those of one
//! PlacementDecision of that name in any namespace.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::Value;

use super::{Paint, list, name, namespace, rows, status, text, tree::TreeNode, verdict};

/// The chosen clusters, by the namespace and the name of the placement.
pub type Chosen = BTreeMap<(String, String), Vec<String>>;

fn chosen(placement: &DynamicObject, all: &Chosen) -> Option<Vec<String>> {
    all.get(&(namespace(placement), name(placement))).cloned()
}

/// The placements as a table.
pub fn table(placements: &[DynamicObject], all: &Chosen) -> String {
    // Upstream's spelling, which scripts may look for.
    let header = ["NAME", "STATUS", "REASON", "SELETEDCLUSTERS"];
    let row = |it: &DynamicObject| {
        let first = &it.data["status"]["conditions"][0];
        let clusters = list(&chosen(it, all).unwrap_or_default());
        vec![name(it), text(&first["status"]), text(&first["reason"]), clusters]
    };
    rows(header, placements.iter().map(row).collect())
}

/// The placements as a tree.
pub fn tree(placements: &[DynamicObject], all: &Chosen, paint: Paint) -> String {
    let node = |it: &DynamicObject| {
        let sets = it.data["spec"]["clusterSets"].as_array();
        let sets: Vec<String> = sets.into_iter().flatten().map(text).collect();
        let given = &it.data["status"];
        let number = given["numberOfSelectedClusters"].as_i64().unwrap_or_default();
        let word = |kind: &str| verdict(status(condition_list(given), kind), paint);
        let conditions = vec![
            TreeNode::leaf("PlacementConditionSatisfied", word("PlacementSatisfied")),
            TreeNode::leaf("PlacementConditionMisconfigured", word("PlacementMisconfigured")),
        ];
        let clusters = chosen(it, all).unwrap_or_else(|| vec!["NoClusterSelected".to_owned()]);
        let below = vec![
            TreeNode::leaf("Namespace", namespace(it)),
            TreeNode::leaf("ClusterSet", list(&sets)),
            TreeNode::group(
                "Status",
                vec![
                    TreeNode::leaf("NumberOfSelectedClusters", number.to_string()),
                    TreeNode::group("Conditions", conditions),
                ],
            ),
            TreeNode::leaf("PlacementDecision", list(&clusters)),
        ];
        TreeNode::group(&name(it), below)
    };
    TreeNode::group("Placement", placements.iter().map(node).collect()).render()
}

fn condition_list(status: &Value) -> &Value {
    &status["conditions"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_placement_without_conditions_is_shown() {
        let placements: Vec<DynamicObject> = serde_json::from_value(json!([
            {"metadata": {"name": "a", "namespace": "default"}, "spec": {"clusterSets": ["x", "y"]},
             "status": {"numberOfSelectedClusters": 2, "conditions": [
                {"type": "PlacementMisconfigured", "status": "False", "reason": "Succeedconfigured"},
                {"type": "PlacementSatisfied", "status": "True", "reason": "AllDecisionsScheduled"}]}},
            {"metadata": {"name": "b", "namespace": "default"}, "spec": {}},
        ]))
        .unwrap();
        let chosen = [(
            ("default".to_owned(), "a".to_owned()),
            vec!["c1".to_owned(), "c2".to_owned()],
        )]
        .into();
        assert_eq!(
            table(&placements, &chosen),
            "NAME   STATUS   REASON              SELETEDCLUSTERS\n\
             a      False    Succeedconfigured   [c1 c2]\n\
             b                                   []\n"
        );
        let expected = "\
<Placement>_
└── <a>_
│   ├── <Namespace> default
│   ├── <ClusterSet> [x y]
│   ├── <Status>_
│   │   ├── <NumberOfSelectedClusters> 2
│   │   ├── <Conditions>_
│   │       └── <PlacementConditionSatisfied> true
│   │       └── <PlacementConditionMisconfigured> false
│   ├── <PlacementDecision> [c1 c2]
└── <b>_
    └── <Namespace> default
    └── <ClusterSet> []
    └── <Status>_
    │   ├── <NumberOfSelectedClusters> 0
    │   ├── <Conditions>_
    │       └── <PlacementConditionSatisfied> unknown
    │       └── <PlacementConditionMisconfigured> unknown
    └── <PlacementDecision> [NoClusterSelected]
";
        assert_eq!(tree(&placements, &chosen, Paint::Plain), expected.replace('_', " "));
    }
}
