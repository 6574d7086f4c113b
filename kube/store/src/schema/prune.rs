//! Dropping what a custom resource's schema does not name, and reading its `metadata` as `ObjectMeta`.

use super::{Schema, decode, tell};
use serde_json::Value;

/// Removes unknown fields in place and answers their paths (`spec.foo`). `root` says that the value is a whole object,
/// whose `apiVersion`, `kind` and `metadata` are always known. `metadata`, here and in embedded resources, is read as
/// `ObjectMeta`: unknown members go, wrong types are an error in Go's words.
pub fn prune(value: &mut Value, schema: &Schema, root: bool) -> Result<Vec<String>, String> {
    let mut dropped = Vec::new();
    if root && value.get("metadata").is_some() {
        dropped.extend(metadata(value)?);
    }
    let mut path = String::new();
    node(value, Some(schema), root, &mut path, &mut dropped)?;
    Ok(dropped)
}

/// Reads `metadata` of an object as `ObjectMeta` and answers the paths (`metadata.foo`) of what it does not know.
pub fn metadata(value: &mut Value) -> Result<Vec<String>, String> {
    match value.get_mut("metadata") {
        Some(Value::Null) => {
            if let Some(map) = value.as_object_mut() {
                map.remove("metadata");
            }
            Ok(Vec::new())
        }
        Some(meta) => decode::decode_metadata(meta),
        None => Ok(Vec::new()),
    }
}

fn node(
    value: &mut Value,
    schema: Option<&Schema>,
    resource: bool,
    path: &mut String,
    dropped: &mut Vec<String>,
) -> Result<(), String> {
    let start = path.len();
    match value {
        Value::Object(map) => {
            let preserve = schema.is_some_and(|it| it.preserve_unknown);
            let resource = resource || schema.is_some_and(|it| it.embedded_resource);
            let mut gone = Vec::new();
            for (key, child) in map.iter_mut() {
                if resource && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                let known = schema.and_then(|it| it.child(key));
                if known.is_none() {
                    if !preserve {
                        gone.push(key.clone());
                    }
                    continue;
                }
                if child.is_object() || child.is_array() {
                    push_key(path, key);
                    node(child, known.map(|it| &**it), false, path, dropped)?;
                    path.truncate(start);
                }
            }
            for key in gone {
                map.remove(&key);
                push_key(path, &key);
                tell(dropped, || path.clone());
                path.truncate(start);
            }
            if start > 0 && resource && schema.is_some_and(|it| it.embedded_resource) {
                let found = metadata(value).map_err(|it| {
                    // It is said where it is, and of the struct alone.
                    let it = it.replace("ObjectMeta.metadata.", "ObjectMeta.");
                    format!("{path}.metadata: Invalid value: {}: {it}", value["metadata"])
                })?;
                for it in found {
                    tell(dropped, || format!("{path}.{it}"));
                }
            }
        }
        Value::Array(items) => {
            let schema = schema.filter(|it| !it.preserve_unknown || it.items.is_some());
            let Some(schema) = schema else { return Ok(()) };
            for (at, item) in items.iter_mut().enumerate() {
                if item.is_object() || item.is_array() {
                    path.push_str(&format!("[{at}]"));
                    node(item, schema.items.as_deref(), false, path, dropped)?;
                    path.truncate(start);
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::from_openapi(&json!({
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {
                    "a": {"type": "string"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                        "known": {"type": "object", "properties": {"x": {"type": "string"}}},
                    }},
                    "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
                    "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                }},
            },
        }))
        .expect("parses")
    }

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let mut value = json!({
            "apiVersion": "ex.io/v1", "kind": "Widget", "extra": 1,
            "metadata": {"name": "n", "odd": 1},
            "spec": {
                "a": "x", "b": 1,
                "free": {"any": {"thing": 1}, "known": {"x": "1", "y": "2"}},
                "map": {"k": {"x": "1", "y": "2"}},
                "list": [{"x": "1"}, {"y": "2"}],
                "emb": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "e", "odd": 1, "creationTimestamp": null}, "data": {"k": "v"}},
            },
        });
        let mut dropped = prune(&mut value, &schema(), true).expect("prunes");
        dropped.sort();
        let want = [
            "extra",
            "metadata.odd",
            "spec.b",
            "spec.emb.metadata.odd",
            "spec.free.known.y",
            "spec.list[1].y",
            "spec.map.k.y",
        ];
        assert_eq!(dropped, want);
        assert_eq!(value["spec"]["free"], json!({"any": {"thing": 1}, "known": {"x": "1"}}));
        assert_eq!(value["spec"]["emb"]["metadata"], json!({"name": "e"}));
        assert_eq!(value["spec"]["emb"]["data"], json!({"k": "v"}));
    }

    #[test]
    fn metadata_of_the_wrong_type_is_refused_as_in_go() {
        let mut value = json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"labels": {"a": true}}});
        assert_eq!(
            prune(&mut value, &schema(), true),
            Err(
                "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string".to_owned()
            )
        );
    }

    #[test]
    fn messages_about_a_large_object_are_bounded() {
        let items: Vec<_> = (0..1000).map(|at| json!({format!("y{at}"): 1})).collect();
        let mut value = json!({"spec": {"list": items}});
        assert_eq!(prune(&mut value, &schema(), true).expect("prunes").len(), 100);
        assert_eq!(value["spec"]["list"][999], json!({}));
        let mut value = json!({"spec": {"map": {"k".repeat(1 << 20): {"y": 1}}}});
        let told = prune(&mut value, &schema(), true).expect("prunes");
        assert_eq!(told.iter().map(String::len).collect::<Vec<_>>(), [4096]);
    }
}
