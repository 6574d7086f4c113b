//! Objects from text, and short ways to look into them.

use kube::api::DynamicObject;
use serde_json::Value;
use std::path::Path;

/// The objects of a YAML text with one or more documents.
///
/// # Panics
/// When it is not YAML, or a document is no object.
pub fn read(text: &str) -> Vec<DynamicObject> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("the text is no YAML: {error}\n{text}"));
    let documents = documents.into_iter().filter(|it| !it.is_null());
    let read =
        |it: Value| serde_json::from_value(it.clone()).unwrap_or_else(|error| panic!("no object: {error}\n{it}"));
    documents.map(read).collect()
}

/// The objects of a file.
///
/// # Panics
/// When it cannot be read.
pub fn read_file(path: impl AsRef<Path>) -> Vec<DynamicObject> {
    let path = path.as_ref();
    read(&std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

/// `Applied=True(AppliedManifestWorkComplete)` for each condition, sorted: what most tests want to compare.
pub fn conditions(object: &impl serde::Serialize) -> Vec<String> {
    let object = serde_json::to_value(object).unwrap_or_default();
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    let mut lines: Vec<_> = all
        .iter()
        .map(|it| format!("{}={}({})", text(it, "type"), text(it, "status"), text(it, "reason")))
        .collect();
    lines.sort();
    lines
}

/// Whether the object has a condition of this type with status `True`.
pub fn is_true(object: &impl serde::Serialize, condition: &str) -> bool {
    conditions(object)
        .iter()
        .any(|it| it.starts_with(&format!("{condition}=True(")))
}

/// The object as YAML without what the server alone writes: for messages and comparisons.
pub fn plain(object: &DynamicObject) -> String {
    let mut object = object.clone();

    object.metadata.managed_fields = None;
    object.metadata.resource_version = None;
    object.metadata.uid = None;
    object.metadata.creation_timestamp = None;
    object.metadata.generation = None;
    serde_saphyr::to_string(&object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::ResourceExt;
    use serde_json::json;

    #[test]
    fn documents_become_objects_and_empty_ones_are_skipped() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\n";
        let names: Vec<_> = read(text).iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn conditions_are_compared_as_sorted_lines() {
        let object = json!({"status": {"conditions": [
            {"type": "B", "status": "False", "reason": "No"}, {"type": "A", "status": "True", "reason": "Yes"},
        ]}});
        assert_eq!(conditions(&object), ["A=True(Yes)", "B=False(No)"]);
        assert!(is_true(&object, "A") && !is_true(&object, "B"));
    }
}
