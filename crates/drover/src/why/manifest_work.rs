//! What a manifest work waits for.

use kube::core::DynamicObject;
use serde_json::Value;

use crate::{conditions, why::managed_cluster};

/// One sentence for each thing the work waits for; `cluster` is what was seen of the cluster it is for.
pub fn waits_for(work: &DynamicObject, cluster: &managed_cluster::Seen) -> Vec<String> {
    let name = work.metadata.name.as_deref().unwrap_or_default();
    let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
    if work.metadata.deletion_timestamp.is_some() {
        let finalizers = work.metadata.finalizers.clone().unwrap_or_default().join(", ");
        let mut sentences = vec![format!(
            "Work {name} is being deleted and waits for {namespace} to delete what it made (finalizers {finalizers})."
        )];
        sentences.extend(managed_cluster::waits_for(namespace, cluster));
        return sentences;
    }
    let seen_by_agent = conditions::of(work, "Applied").filter(|applied| {
        // A condition without the generation it was written for is taken as current: old agents do not write it.
        applied
            .observed_generation
            .is_none_or(|it| Some(it) == work.metadata.generation)
    });
    if seen_by_agent.is_none() {
        let mut sentences = vec![format!(
            "Work {name} waits for the agent of {namespace} to apply its latest generation."
        )];
        sentences.extend(managed_cluster::waits_for(namespace, cluster));
        return sentences;
    }
    let mut sentences = Vec::new();
    let manifests = work.data["status"]["resourceStatus"]["manifests"].as_array();
    for manifest in manifests.into_iter().flatten() {
        let who = who(&manifest["resourceMeta"]);
        let conditions = &manifest["conditions"];
        let applied = conditions::find(conditions, "Applied").filter(|it| !it.is_true());
        let available = conditions::find(conditions, "Available").filter(|it| !it.is_true());
        if let Some(it) = applied {
            sentences.push(format!("{who} is not applied: {}.", it.says().trim_end_matches('.')));
        } else if let Some(it) = available {
            sentences.push(format!(
                "{who} is applied but not there: {}.",
                it.says().trim_end_matches('.')
            ));
        }
    }
    // A work can be at fault as a whole, with every manifest well.
    if sentences.is_empty() {
        for kind in ["Applied", "Available"] {
            if let Some(it) = conditions::of(work, kind).filter(|it| !it.is_true()) {
                sentences.push(format!(
                    "Work {name} is not {kind}: {}.",
                    it.says().trim_end_matches('.')
                ));
            }
        }
    }
    sentences
}

/// A manifest as people name it: `Deployment default/nginx`, or its place where the agent could not even tell the kind.
fn who(meta: &Value) -> String {
    let text = |field: &str| meta[field].as_str().unwrap_or_default();
    match (text("kind"), text("namespace"), text("name")) {
        ("", ..) => format!("Manifest {}", meta["ordinal"].as_u64().unwrap_or(0)),
        (kind, "", name) => format!("{kind} {name}"),
        (kind, namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn healthy() -> managed_cluster::Seen {
        let conditions: Vec<Value> = [
            "HubAcceptedManagedCluster",
            "ManagedClusterJoined",
            "ManagedClusterConditionAvailable",
        ]
        .map(|kind| json!({"type": kind, "status": "True"}))
        .into();
        managed_cluster::Seen {
            cluster: Some(
                serde_json::from_value(json!({
                    "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                    "metadata": {"name": "cluster1"},
                    "spec": {"hubAcceptsClient": true}, "status": {"conditions": conditions},
                }))
                .unwrap(),
            ),
            csrs: vec![],
            lease: None,
            namespace: None,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    fn work(status: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "w", "namespace": "cluster1", "generation": 2}, "spec": {}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_work_that_the_agent_has_not_seen_waits_for_the_agent() {
        let wanted = ["Work w waits for the agent of cluster1 to apply its latest generation."];
        assert_eq!(waits_for(&work(json!({})), &healthy()), wanted);
        let stale = json!({"conditions": [{"type": "Applied", "status": "True", "observedGeneration": 1}]});
        assert_eq!(waits_for(&work(stale), &healthy()), wanted);
    }

    #[test]
    fn a_manifest_at_fault_is_named() {
        let status = json!({
            "conditions": [{"type": "Applied", "status": "False", "observedGeneration": 2}],
            "resourceStatus": {"manifests": [
                {"resourceMeta": {"ordinal": 0, "kind": "Deployment", "namespace": "default", "name": "nginx"},
                 "conditions": [{"type": "Applied", "status": "False", "message": "forbidden."}]},
                {"resourceMeta": {"ordinal": 1, "kind": "Namespace", "name": "a"},
                 "conditions": [{"type": "Applied", "status": "True"}, {"type": "Available", "status": "False", "reason": "Gone"}]},
                {"resourceMeta": {"ordinal": 2}, "conditions": [{"type": "Applied", "status": "False", "message": "no object"}]},
            ]},
        });
        assert_eq!(
            waits_for(&work(status), &healthy()),
            [
                "Deployment default/nginx is not applied: forbidden.",
                "Namespace a is applied but not there: Gone.",
                "Manifest 2 is not applied: no object.",
            ]
        );
    }

    #[test]
    fn a_work_that_is_applied_and_available_waits_for_nothing() {
        let status = json!({"conditions": [
            {"type": "Applied", "status": "True", "observedGeneration": 2}, {"type": "Available", "status": "True"}]});
        assert_eq!(waits_for(&work(status), &healthy()), [""; 0]);
    }
}
