//! The patches of mutating webhooks: applied as clients' are, with errors that name the operation.

use super::review::internal;
use kube_store::{patch::json, status::Status};
use serde_json::Value;

/// Applies a patch.
///
/// # Errors
/// 500 in the words of the library that Kubernetes uses.
pub fn apply(object: &Value, patch: &[u8]) -> Result<Value, Status> {
    json::apply(object, patch).map_err(|status| internal(&why(object, patch).unwrap_or(status.message)))
}

/// The first operation that does not apply, and why.
fn why(object: &Value, patch: &[u8]) -> Option<String> {
    let (document, operation) = json::first_refused(object, patch)?;
    Some(sentence(&document, &operation))
}

fn sentence(document: &Value, operation: &Value) -> String {
    let text = |key: &str| operation[key].as_str().unwrap_or_default();
    let (kind, path) = (text("op"), text("path"));
    let (parent, key) = path.rsplit_once('/').unwrap_or(("", path));
    let has_parent = document
        .pointer(parent)
        .is_some_and(|it| it.is_object() || it.is_array());
    match (kind, has_parent) {
        ("test", _) => format!("testing value {path} failed: test failed"),
        ("remove", true) => {
            format!("error in remove for path: '{path}': unable to remove nonexistent key: {key}: missing value")
        }
        ("replace", true) => format!("replace operation does not apply: doc is missing key: {path}: missing value"),
        ("move" | "copy", _) => {
            let from = text("from");
            format!("{kind} operation does not apply: doc is missing from path: {from}: missing value")
        }
        ("replace", false) => format!("replace operation does not apply: doc is missing path: {path}: missing value"),
        ("add" | "remove", false) => {
            format!("{kind} operation does not apply: doc is missing path: {path:?}: missing value")
        }
        ("add", true) => format!("error in add for path: '{path}': unable to access invalid index: {key}"),
        _ => format!("unexpected kind: {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_operation_that_does_not_apply_is_named() {
        for (operation, said) in [
            (
                json!({"op": "replace", "path": "/nope/x", "value": 1}),
                "replace operation does not apply: doc is missing path: /nope/x: missing value",
            ),
            (
                json!({"op": "remove", "path": "/data/x"}),
                "error in remove for path: '/data/x': unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "test", "path": "/data/a", "value": "z"}),
                "testing value /data/a failed: test failed",
            ),
        ] {
            let patch = json!([{"op": "add", "path": "/data/a", "value": "b"}, operation]).to_string();
            let status = apply(&json!({"data": {}}), patch.as_bytes()).unwrap_err();
            assert_eq!(status.message, format!("Internal error occurred: {said}"));
            assert_eq!(status.code, 500);
        }
    }
}
