//! What must change to turn one JSON document into another, and whether it already agrees.

use serde_json::{Map, Value};

/// The JSON merge patch (RFC 7386) that turns `old` into `new`, or `None` when they agree.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Some(new.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) => {
                if let Some(change) = merge_patch(before, value) {
                    patch.insert(key.clone(), change);
                }
            }
            None if value.is_null() => {}
            None => {
                patch.insert(key.clone(), without_nulls(value));
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Lays a JSON merge patch (RFC 7386) over a document.
pub fn apply_merge_patch(document: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *document = patch.clone();
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(fields) = document else { return };
    for (key, value) in patch {
        if value.is_null() {
            fields.remove(key);
        } else {
            apply_merge_patch(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// The merge patch that brings everything `desired` says into `current`, leaving what it does not mention; `None` when
/// `current` [contains](contains) it already.
pub fn patch_to_contain(current: &Value, desired: &Value) -> Option<Value> {
    if contains(current, desired) {
        return None;
    }
    let (Value::Object(current), Value::Object(desired)) = (current, desired) else {
        return Some(desired.clone());
    };
    let mut patch = Map::new();
    for (key, value) in desired {
        match current.get(key) {
            Some(before) => {
                if let Some(change) = patch_to_contain(before, value) {
                    patch.insert(key.clone(), change);
                }
            }
            None if is_nothing(value) => {}
            None => {
                patch.insert(key.clone(), without_nulls(value));
            }
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether `current` already says everything `desired` says.
///
/// Objects may hold more than was asked for; lists must have the same length, and each element must contain its
/// counterpart (so a default that the server filled into a list element is no difference). An absent value contains an
/// empty one, because Kubernetes drops empty lists and maps when it stores an object.
pub fn contains(current: &Value, desired: &Value) -> bool {
    match (current, desired) {
        (Value::Object(current), Value::Object(desired)) => desired.iter().all(|(key, value)| match current.get(key) {
            Some(before) => contains(before, value),
            None => is_nothing(value),
        }),
        (Value::Array(current), Value::Array(desired)) => {
            current.len() == desired.len()
                && current
                    .iter()
                    .zip(desired)
                    .all(|(before, value)| contains(before, value))
        }
        (Value::Null, desired) => is_nothing(desired),
        (Value::Number(current), Value::Number(desired)) => current == desired || current.as_f64() == desired.as_f64(),
        (current, desired) => current == desired,
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_nothing),
        _ => false,
    }
}

// In a merge patch a null means "remove", so a null inside a new sub-document would be refused or lost.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_that_agree_need_no_patch() {
        assert_eq!(merge_patch(&json!({"a": 1}), &json!({"a": 1})), None);
    }

    #[test]
    fn a_patch_contains_only_differences_and_removes_missing_fields() {
        let patch = merge_patch(
            &json!({"a": 1, "b": {"c": 1, "d": 2}}),
            &json!({"b": {"c": 1, "d": 3}, "e": [1]}),
        );
        assert_eq!(patch, Some(json!({"a": null, "b": {"d": 3}, "e": [1]})));
    }

    #[test]
    fn a_patch_applied_to_the_old_document_gives_the_new() {
        let old = json!({"a": 1, "b": {"c": 1, "d": {"e": 2}}, "l": [1, 2]});
        let new = json!({"b": {"d": {"e": 3, "f": {"g": 1}}}, "l": [2], "n": {"o": "p"}});
        let mut document = old.clone();
        apply_merge_patch(&mut document, &merge_patch(&old, &new).unwrap());
        assert_eq!(document, new);
        // What is no map gives way to one, and a null in what is new takes nothing.
        apply_merge_patch(&mut document, &json!({"l": {"x": 1, "y": null}}));
        assert_eq!(document["l"], json!({"x": 1}));
    }

    #[test]
    fn what_the_server_added_is_no_difference() {
        let current = json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}], "type": "ClusterIP"}});
        assert!(contains(
            &current,
            &json!({"spec": {"ports": [{"port": 80}], "selector": {}}})
        ));
        assert_eq!(
            patch_to_contain(&current, &json!({"spec": {"ports": [{"port": 80}]}})),
            None
        );
    }

    #[test]
    fn a_list_of_another_length_is_replaced_whole() {
        let patch = patch_to_contain(&json!({"rules": [1, 2]}), &json!({"rules": [1]}));
        assert_eq!(patch, Some(json!({"rules": [1]})));
    }
}
