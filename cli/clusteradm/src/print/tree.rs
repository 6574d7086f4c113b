//! Trees, drawn as upstream draws them.
//! Upstream: clusteradm `pkg/helpers/printer/treeprinter.go`, and the package gotree below it, which draws what hangs
//! on the last branch with corners, and all else without: scripts and people have read it so for years.

/// A branch: `<part> value`, and what hangs on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode {
    part: String,
    value: String,
    below: Vec<TreeNode>,
}

impl TreeNode {
    /// A branch with others on it.
    pub fn group(part: &str, below: Vec<Self>) -> Self {
        Self {
            part: part.to_owned(),
            value: String::new(),
            below,
        }
    }

    /// A branch with a value.
    pub fn leaf(part: &str, value: impl Into<String>) -> Self {
        Self {
            part: part.to_owned(),
            value: value.into(),
            below: Vec::new(),
        }
    }

    /// The text, one line per branch.
    pub fn render(&self) -> String {
        let mut text = self.line();
        draw(&self.below, &mut Vec::new(), &mut text);
        text
    }

    fn line(&self) -> String {
        format!("<{}> {}\n", self.part, self.value)
    }
}

fn draw(nodes: &[TreeNode], above: &mut Vec<bool>, text: &mut String) {
    for (at, node) in nodes.iter().enumerate() {
        for is_last in above.iter() {
            text.push_str(if *is_last { "    " } else { "│   " });
        }
        let hangs_on_last = above.last().copied().unwrap_or(true);
        text.push_str(if hangs_on_last { "└── " } else { "├── " });
        text.push_str(&node.line());
        above.push(at + 1 == nodes.len());
        draw(&node.below, above, text);
        above.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_drawn_as_by_clusteradm() {
        let capacity = TreeNode::group(
            "Capacity",
            vec![TreeNode::leaf("Cpu", "4"), TreeNode::leaf("Memory", "8Gi")],
        );
        let cluster = |name: &str| {
            let below = vec![
                TreeNode::leaf("Accepted", "true"),
                capacity.clone(),
                TreeNode::leaf("Version", ""),
            ];
            TreeNode::group(name, below)
        };
        let tree = TreeNode::group("ManagedCluster", vec![cluster("cluster1"), cluster("cluster2")]);
        let expected = "\
<ManagedCluster>_
└── <cluster1>_
│   ├── <Accepted> true
│   ├── <Capacity>_
│   │   ├── <Cpu> 4
│   │   ├── <Memory> 8Gi
│   ├── <Version>_
└── <cluster2>_
    └── <Accepted> true
    └── <Capacity>_
    │   ├── <Cpu> 4
    │   ├── <Memory> 8Gi
    └── <Version>_
";
        assert_eq!(tree.render(), expected.replace('_', " "));
        assert_eq!(TreeNode::group("Placement", vec![]).render(), "<Placement> \n");
    }
}
