//! What may still change of a pod that waits behind scheduling gates: where it may run can only become narrower.
//! Upstream: `ValidatePodUpdate`, `validateNodeSelectorMutation` and `validateNodeAffinityMutation`.

use super::list;
use kube_store::status::FieldError;
use serde_json::{Map, Value};

/// Errors of a changed selector of nodes, and of a changed affinity to nodes.
pub fn narrowed(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let kept = |(key, value): (&String, &Value)| new["nodeSelector"].get(key) == Some(value);
    if !old["nodeSelector"].as_object().into_iter().flatten().all(kept) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid("spec.nodeSelector", &new["nodeSelector"], detail));
    }
    const TERMS: &str = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    const FIELD: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let (before, now) = (list(old, TERMS), list(new, TERMS));
    if !before.is_empty() && before.len() != now.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(FIELD, &now.into(), detail));
        return;
    }
    for (at, (before, now)) in before.iter().zip(now).enumerate() {
        if !has_only_more(before, now) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(format!("{FIELD}[{at}]"), now, detail));
        }
    }
}

/// Whether a term of a selector has what it had, and perhaps more behind it. One without anything selects nothing,
/// and stays so.
fn has_only_more(before: &Value, now: &Value) -> bool {
    let members = ["/matchExpressions", "/matchFields"];
    let was_empty = members.iter().all(|it| list(before, it).is_empty());
    members.iter().all(|it| {
        let (before, now) = (list(before, it), list(now, it));
        now.starts_with(before) && (!was_empty || now.is_empty())
    })
}

/// Takes out of a pod's spec what was checked by [`narrowed`].
pub fn remove_changeable(spec: &mut Map<String, Value>) {
    spec.remove("nodeSelector");
    if let Some(Value::Object(affinity)) = spec.get_mut("affinity") {
        affinity.remove("nodeAffinity");
        if affinity.is_empty() {
            spec.remove("affinity");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_behind_gates_can_only_be_narrowed() {
        let told = |old: &Value, new: &Value| {
            let mut errors = Vec::new();
            narrowed(new, old, &mut errors);
            errors.into_iter().map(|it| it.detail).collect::<Vec<_>>()
        };
        let on = |terms: Value| {
            let required = json!({"nodeSelectorTerms": terms});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
        };
        let exists = |key: &str| json!({"key": key, "operator": "Exists"});
        let one = on(json!([{"matchExpressions": [exists("a")]}]));
        let more = on(json!([{"matchExpressions": [exists("a"), exists("b")]}]));
        let selects = |labels: Value| json!({"nodeSelector": labels});
        for (old, new) in [
            (json!({}), selects(json!({"a": "1"}))),
            (selects(json!({"a": "1"})), selects(json!({"a": "1", "b": "2"}))),
            (json!({}), one.clone()),
            (one.clone(), more.clone()),
        ] {
            assert!(told(&old, &new).is_empty(), "{old} {new}");
        }
        for (old, new, want) in [
            (
                selects(json!({"a": "1"})),
                selects(json!({"a": "2"})),
                "only additions to spec.nodeSelector",
            ),
            (more.clone(), one.clone(), "only additions are allowed"),
            (one.clone(), json!({}), "no additions/deletions"),
            (on(json!([{}])), one, "only additions are allowed"),
        ] {
            let found = told(&old, &new);
            assert!(found.len() == 1 && found[0].contains(want), "{old} {new}: {found:?}");
        }
    }
}
