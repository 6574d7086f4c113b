//! What an add-on waits for on the whole hub: its placements, and the clusters on which it is not yet as it should be.

use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    condition,
    conditions::{install_progression, managed_cluster_add_on as types},
};

/// How many clusters are named; the rest is counted.
const NAMED_MAX: usize = 10;

/// One sentence for each thing it waits for. `installed` is the add-on on all clusters.
pub fn waits_for(offered: &ClusterManagementAddOn, installed: &[ManagedClusterAddOn]) -> Vec<String> {
    let name = offered.metadata.name.as_deref().unwrap_or_default();
    let mut said = Vec::new();
    if offered.metadata.deletion_timestamp.is_some() {
        said.push(format!(
            "It is being deleted, and is gone when {} clusters have let go of it.",
            installed.len()
        ));
    }
    let progressions = offered.status.iter().flat_map(|it| &it.install_progressions);
    for it in progressions {
        let told = condition::find(&it.conditions, install_progression::PROGRESSING);
        if let Some(told) = told.filter(|it| it.status == "True") {
            let message = told.message.trim_end_matches('.');
            said.push(format!("Placement {}/{}: {message}.", it.namespace, it.name));
        }
    }
    let mut waiting: Vec<&str> = installed
        .iter()
        .filter(|it| !is_well(it))
        .filter_map(|it| it.metadata.namespace.as_deref())
        .collect();
    waiting.sort_unstable();
    for cluster in waiting.iter().take(NAMED_MAX) {
        said.push(format!(
            "It is not available on {cluster}: `drover why managedclusteraddon/{cluster}/{name}` says more."
        ));
    }
    if waiting.len() > NAMED_MAX {
        said.push(format!("And on {} more clusters.", waiting.len() - NAMED_MAX));
    }
    said
}

fn is_well(it: &ManagedClusterAddOn) -> bool {
    let conditions = it.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::is_true(conditions, types::AVAILABLE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn on(cluster: &str, available: &str) -> ManagedClusterAddOn {
        serde_json::from_value(json!({
            "metadata": {"name": "hello", "namespace": cluster}, "spec": {},
            "status": {"conditions": [{
                "type": "Available", "status": available, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        }))
        .expect("an add-on")
    }

    #[test]
    fn the_explanation_names_the_rollout_and_unavailable_clusters() {
        let offered: ClusterManagementAddOn = serde_json::from_value(json!({
            "metadata": {"name": "hello"}, "spec": {},
            "status": {"installProgressions": [{"namespace": "default", "name": "aws", "conditions": [{
                "type": "Progressing", "status": "True", "reason": "Progressing", "message": "1/2 progressing..., 0 failed 0 timeout.",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]}]},
        }))
        .expect("an offer");
        assert_eq!(
            waits_for(&offered, &[on("b", "Unknown"), on("a", "True")]),
            [
                "Placement default/aws: 1/2 progressing..., 0 failed 0 timeout.",
                "It is not available on b: `drover why managedclusteraddon/b/hello` says more.",
            ]
        );
        let offered = ClusterManagementAddOn::new("hello", Default::default());
        assert_eq!(waits_for(&offered, &[on("a", "True")]), Vec::<String>::new());
    }

    #[test]
    fn many_clusters_are_counted() {
        let offered = ClusterManagementAddOn::new("hello", Default::default());
        let installed: Vec<_> = (0..12).map(|it| on(&format!("c{it:02}"), "False")).collect();
        let said = waits_for(&offered, &installed);
        assert_eq!(said.len(), NAMED_MAX + 1);
        assert_eq!(said.last().map(String::as_str), Some("And on 2 more clusters."));
    }
}
