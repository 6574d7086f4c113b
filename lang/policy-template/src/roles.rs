//! Nodes by their roles.

use std::sync::Arc;

use serde_json::Value;

const ROLE: &str = "node-role.kubernetes.io";

/// The label selectors of roles; blank ones are left out.
pub(crate) fn selectors(roles: &[String]) -> Vec<String> {
    let named = roles.iter().filter(|it| !it.trim().is_empty());
    named.map(|it| format!("{ROLE}/{it}")).collect()
}

/// The nodes that have no role beside these and `worker`.
pub(crate) fn exact(nodes: Vec<Arc<Value>>, selectors: &[String]) -> Vec<Arc<Value>> {
    let worker = format!("{ROLE}/worker");
    let is_exact = |node: &Arc<Value>| {
        let labels = node["metadata"]["labels"].as_object();
        let mut labels = labels.into_iter().flat_map(serde_json::Map::keys);
        labels.all(|it| !it.starts_with(ROLE) || *it == worker || selectors.contains(it))
    };
    nodes.into_iter().filter(is_exact).collect()
}
