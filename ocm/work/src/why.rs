//! Why a work is as it is, one sentence each, from what the hub knows.

use jiff::Timestamp;
use ocm_api::{
    condition,
    conditions::manifest_work as types,
    finalizers,
    work::{ManifestCondition, ManifestWork},
};

/// The sentences for `drover why manifestwork NAMESPACE/NAME`. `cluster_available` is what the ManagedCluster says, or
/// nothing when there is no such cluster.
pub fn sentences(work: &ManifestWork, cluster_available: Option<condition::Status>, now: Timestamp) -> Vec<String> {
    let mut said = Vec::new();
    let cluster = work.metadata.namespace.as_deref().unwrap_or_default();
    match cluster_available {
        None => said.push(format!(
            "There is no managed cluster {cluster}, so nobody applies the work."
        )),
        Some(condition::Status::True) => {}
        Some(_) => said.push(format!(
            "Cluster {cluster} is not available; its agent applies the work when it is back."
        )),
    }
    let status = work.status.clone().unwrap_or_default();
    if let Some(since) = &work.metadata.deletion_timestamp {
        let seconds = now.duration_since(since.0).as_secs();
        let held = work
            .metadata
            .finalizers
            .iter()
            .flatten()
            .any(|it| it == finalizers::MANIFEST_WORK);
        said.push(if held {
            format!(
                "It is being deleted for {seconds}s and waits until the agent of {cluster} has removed its objects."
            )
        } else {
            let others = work.metadata.finalizers.clone().unwrap_or_default().join(", ");
            format!("It is being deleted for {seconds}s and waits for the finalizers {others}.")
        });
        return said;
    }
    let Some(applied) = condition::find(&status.conditions, types::APPLIED) else {
        said.push(format!("The agent of {cluster} has not reported on it yet."));
        return said;
    };
    if applied.observed_generation != work.metadata.generation {
        let (seen, now) = (
            applied.observed_generation.unwrap_or_default(),
            work.metadata.generation.unwrap_or_default(),
        );
        said.push(format!(
            "The agent has seen generation {seen}, and the work is at generation {now}."
        ));
    }
    if condition::is_true(&status.conditions, types::COMPLETE) {
        said.push("All its manifests are complete, so its objects are left as they are.".to_owned());
    }
    said.extend(status.resource_status.manifests.iter().flat_map(problems));
    if said.is_empty() {
        let count = status.resource_status.manifests.len();
        said.push(format!("All {count} manifests are applied and available."));
    }
    said
}

fn problems(manifest: &ManifestCondition) -> Vec<String> {
    let meta = &manifest.resource_meta;
    let place = if meta.namespace.is_empty() {
        String::new()
    } else {
        format!("{}/", meta.namespace)
    };
    let name = match (meta.kind.as_str(), meta.name.as_str()) {
        ("", _) => format!("Manifest {}", meta.ordinal),
        (kind, name) => format!("Manifest {} ({kind} {place}{name})", meta.ordinal),
    };
    let said = |it: &condition::Condition| match it.type_.as_str() {
        types::APPLIED => Some(format!(
            "{name} is not applied: {}.",
            it.message.trim_start_matches("Failed to apply manifest: ")
        )),
        types::AVAILABLE if it.status == "False" => Some(format!("{name} is not on the cluster.")),
        types::AVAILABLE => Some(format!(
            "It is not known whether {name} is on the cluster: {}.",
            it.message
        )),
        types::STATUS_FEEDBACK_SYNCED => Some(format!("{name} cannot be reported on: {}.", it.message)),
        _ => None,
    };
    manifest
        .conditions
        .iter()
        .filter(|it| it.status != "True")
        .filter_map(said)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn show(metadata: Value, status: Value, cluster: Option<condition::Status>) -> String {
        let mut metadata = metadata;
        metadata["namespace"] = json!("cluster1");
        metadata["generation"] = json!(2);
        let work: ManifestWork = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
        sentences(&work, cluster, "2026-01-01T12:00:10Z".parse().unwrap()).join("\n")
    }

    fn condition(r#type: &str, status: &str, message: &str, generation: i64) -> Value {
        json!({
            "type": r#type, "status": status, "reason": "R", "message": message,
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T12:00:00Z"
        })
    }

    #[test]
    fn each_state_has_its_sentence() {
        let up = Some(condition::Status::True);
        assert_eq!(
            show(json!({}), json!({}), None),
            "There is no managed cluster cluster1, so nobody applies the work.\nThe agent of cluster1 has not reported on it yet."
        );
        assert_eq!(
            show(json!({}), json!({}), up),
            "The agent of cluster1 has not reported on it yet."
        );
        let deleting = json!({
            "deletionTimestamp": "2026-01-01T12:00:00Z",
            "finalizers": ["cluster.open-cluster-management.io/manifest-work-cleanup"]
        });
        assert_eq!(
            show(deleting, json!({}), up),
            "It is being deleted for 10s and waits until the agent of cluster1 has removed its objects."
        );
        let status = json!({
            "conditions": [condition("Applied", "False", "x", 1)],
            "resourceStatus": {"manifests": [{
                "resourceMeta": {"ordinal": 0, "kind": "ConfigMap", "name": "a", "namespace": "default"},
                "conditions": [
                    condition("Applied", "False", "Failed to apply manifest: boom", 1),
                    condition("Available", "False", "Resource is not available", 1)
                ]
            }]}
        });
        assert_eq!(
            show(json!({}), status, up),
            "The agent has seen generation 1, and the work is at generation 2.\n\
             Manifest 0 (ConfigMap default/a) is not applied: boom.\n\
             Manifest 0 (ConfigMap default/a) is not on the cluster."
        );
        let fine = json!({"conditions": [condition("Applied", "True", "", 2)], "resourceStatus": {"manifests": []}});
        assert_eq!(show(json!({}), fine, up), "All 0 manifests are applied and available.");
    }
}
