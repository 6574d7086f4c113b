//! What of a template stays on a cluster when the add-on goes: the `deleteOption` of its `agentSpec`.
//!
//! Upstream reads the workload of an `agentSpec` and its `manifestConfigs`, and passes over the rest without a word.
//! Here what is to stay is marked as manifests of add-ons are, and what works of add-ons cannot have is refused.

use std::collections::BTreeSet;

use ocm_addon_sdk::{UserError, deploy::manifest};
use ocm_api::{
    annotations,
    work::{DeletePropagationPolicy, ManifestWorkSpec},
};
use serde_json::{Value, json};

use super::variables::{self, Variables};

/// Refuses what the works of an add-on cannot have.
///
/// # Errors
/// When the `agentSpec` has an executor, or a time after which its work goes.
pub fn check(spec: &ManifestWorkSpec) -> Result<(), UserError> {
    if spec.executor.is_some() {
        return Err(UserError::new(
            "the AddOnTemplate has an executor in its agentSpec, and the works of an add-on have none: they are applied with the \
             rights of the cluster's agent",
        ));
    }
    let ttl = spec.delete_option.as_ref().and_then(|it| it.ttl_seconds_after_finished);
    if ttl.is_some() {
        return Err(UserError::new(
            "the AddOnTemplate has ttlSecondsAfterFinished in its agentSpec, and the works of an add-on stay as long as it does",
        ));
    }
    Ok(())
}

/// Marks the manifests that the rules name, before anything but variables of them was replaced:
/// rules name objects as the template does.
pub fn mark_named(spec: &ManifestWorkSpec, variables: &Variables, manifests: &mut [Value]) {
    let option = spec.delete_option.as_ref();
    let option = option.filter(|it| it.propagation_policy == DeletePropagationPolicy::SelectivelyOrphan);
    let rules = option.and_then(|it| it.selectively_orphans.as_ref());
    for rule in rules.iter().flat_map(|it| &it.orphaning_rules) {
        let with_variables = |text: &str| {
            let mut value = Value::from(text);
            variables::substitute(&mut value, variables, &mut BTreeSet::new());
            value.as_str().unwrap_or_default().to_owned()
        };
        let (name, namespace) = (with_variables(&rule.name), with_variables(&rule.namespace));
        let found = manifests.iter().position(|it| {
            manifest::group(it) == rule.group
                && manifest::text(it, "/metadata/name") == name
                && manifest::text(it, "/metadata/namespace") == namespace
                && manifest::resource(it, manifests) == rule.resource
        });
        if let Some(at) = found {
            mark(&mut manifests[at]);
        }
    }
}

/// Marks all manifests, if all are to stay. What is put beside those of the template stays with them.
pub fn mark_all(spec: &ManifestWorkSpec, manifests: &mut [Value]) {
    let option = spec.delete_option.as_ref();
    if option.is_some_and(|it| it.propagation_policy == DeletePropagationPolicy::Orphan) {
        manifests.iter_mut().for_each(mark);
    }
}

fn mark(manifest: &mut Value) {
    // A job that stayed would not run when the add-on goes the next time.
    if manifest::is_hook(manifest) {
        return;
    }
    // What is no map came of a variable; the work says so, where it is read.
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if annotations.is_null() {
        *annotations = json!({});
    }
    if let Some(annotations) = annotations.as_object_mut() {
        annotations
            .entry(annotations::ADDON_DELETION_ORPHAN)
            .or_insert_with(|| "".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(option: Value) -> ManifestWorkSpec {
        serde_json::from_value(json!({ "deleteOption": option })).unwrap()
    }

    fn object(kind: &str, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "a"}})
    }

    fn staying(manifests: &[Value]) -> Vec<&str> {
        let staying = manifests.iter().filter(|it| manifest::stays_behind(it));
        staying.map(|it| manifest::text(it, "/metadata/name")).collect()
    }

    #[test]
    fn what_the_rules_name_stays() {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "as.example.com"},
        });
        let mut manifests = vec![
            object("ConfigMap", "cluster1-kept"),
            object("ConfigMap", "other"),
            object("Secret", "cluster1-kept-too"),
            definition,
        ];
        let rules = json!([
            {"group": "", "resource": "configmaps", "namespace": "a", "name": "{{CLUSTER_NAME}}-kept"},
            {"group": "", "resource": "configmaps", "namespace": "b", "name": "other"},
            {"group": "apiextensions.k8s.io", "resource": "customresourcedefinitions", "name": "as.example.com"},
        ]);
        let option = json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": rules}});
        let variables = Variables::from([("CLUSTER_NAME".to_owned(), "cluster1".to_owned())]);
        mark_named(&spec(option), &variables, &mut manifests);
        assert_eq!(staying(&manifests), ["cluster1-kept", "as.example.com"]);
    }

    #[test]
    fn orphaning_everything_marks_all_manifests_except_hooks() {
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "last"}});
        job["metadata"]["annotations"] = json!({ annotations::ADDON_PRE_DELETE: "" });
        let mut annotated = object("ConfigMap", "annotated");
        annotated["metadata"]["annotations"] = json!({"a": "b"});
        let odd = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"});
        let mut manifests = vec![object("ConfigMap", "plain"), annotated, job, odd];
        mark_all(&spec(json!({"propagationPolicy": "Foreground"})), &mut manifests);
        assert_eq!(staying(&manifests), Vec::<&str>::new());
        mark_all(&spec(json!({"propagationPolicy": "Orphan"})), &mut manifests);
        assert_eq!(staying(&manifests), ["plain", "annotated"]);
        assert_eq!(manifests[1]["metadata"]["annotations"]["a"], "b");
    }

    #[test]
    fn what_works_of_add_ons_cannot_have_is_refused() {
        assert_eq!(check(&spec(json!({"propagationPolicy": "Orphan"}))), Ok(()));
        let refused = check(&spec(json!({"ttlSecondsAfterFinished": 10}))).unwrap_err();
        assert!(refused.message().contains("ttlSecondsAfterFinished"), "{refused}");
        let subject = json!({"type": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": "b"}});
        let executed = serde_json::from_value(json!({"executor": {"subject": subject}})).unwrap();
        assert!(check(&executed).unwrap_err().message().contains("executor"));
    }
}
