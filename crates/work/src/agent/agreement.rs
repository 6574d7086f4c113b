//! Whether an object on the cluster says what its manifest says.
//! An object agrees when every field of the manifest is there with its value and nothing that we once set is left over.
//! Fields that others added, or that the API server defaulted, do not count: they are not ours.

use serde_json::Value;

/// Whether `live` says everything that `wanted` says. Maps are compared key by key and lists element by element.
pub fn says(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| match live.get(key) {
            Some(live) => says(live, wanted),
            // The API server drops what is empty, so its absence says the same.
            None => is_empty(wanted),
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| says(live, wanted))
        }
        (Value::Number(live), Value::Number(wanted)) => live == wanted || live.as_f64() == wanted.as_f64(),
        _ => live == wanted,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Whether the object says what the manifest says, metadata included. `status` is the cluster's to write and is not compared.
pub fn agrees(live: &Value, manifest: &Value) -> bool {
    let Some(fields) = manifest.as_object() else {
        return false;
    };
    fields.iter().all(|(key, wanted)| match key.as_str() {
        "apiVersion" | "kind" | "status" => true,
        "metadata" => ["labels", "annotations", "finalizers", "ownerReferences"]
            .iter()
            .all(|part| {
                let wanted = &wanted[*part];
                let live = &live["metadata"][*part];
                match wanted {
                    Value::Null => true,
                    Value::Array(wanted) => {
                        let live = live.as_array().map(Vec::as_slice).unwrap_or_default();
                        wanted.iter().all(|wanted| live.iter().any(|live| says(live, wanted)))
                    }
                    _ => is_empty(wanted) || says(live, wanted),
                }
            }),
        _ => match live.get(key) {
            Some(live) => match (live, wanted) {
                // Lists that the API server merges by key may hold items of others, in any place.
                (live, wanted) if says(live, wanted) => true,
                _ => contains_by_key(live, wanted),
            },
            None => is_empty(wanted),
        },
    })
}

/// Like [`says`], but lists of maps that carry a name may hold more items, and in another order.
fn contains_by_key(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| match live.get(key) {
            Some(live) => contains_by_key(live, wanted),
            None => is_empty(wanted),
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            let keyed = |items: &[Value]| !items.is_empty() && items.iter().all(|it| it.get("name").is_some());
            if keyed(live) && keyed(wanted) {
                return wanted.iter().all(|wanted| {
                    live.iter()
                        .any(|live| live["name"] == wanted["name"] && contains_by_key(live, wanted))
                });
            }
            live.len() == wanted.len()
                && live
                    .iter()
                    .zip(wanted)
                    .all(|(live, wanted)| contains_by_key(live, wanted))
        }
        _ => says(live, wanted),
    }
}

/// Whether this manager still owns a field that the manifest no longer has, so that applying would remove it.
pub fn has_leftover(live: &Value, manager: &str, manifest: &Value) -> bool {
    entries(live, manager).any(|entry| is_leftover(&entry["fieldsV1"], manifest))
}

/// Whether this manager has applied anything to the object.
pub fn was_applied_by(live: &Value, manager: &str) -> bool {
    entries(live, manager).next().is_some()
}

fn entries<'a>(live: &'a Value, manager: &'a str) -> impl Iterator<Item = &'a Value> {
    live.pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(move |it| it["manager"] == manager && it["operation"] == "Apply" && it.get("subresource").is_none())
}

fn is_leftover(fields: &Value, wanted: &Value) -> bool {
    let Some(fields) = fields.as_object() else { return false };
    fields.iter().any(|(path, below)| {
        if path == "." {
            return false;
        }
        let (kind, rest) = path.split_once(':').unwrap_or(("", path));
        let found = match kind {
            "f" => wanted.get(rest),
            "k" => serde_json::from_str::<Value>(rest)
                .ok()
                .and_then(|key| item_with(wanted, &key)),
            "v" => serde_json::from_str::<Value>(rest)
                .ok()
                .and_then(|value| wanted.as_array()?.iter().find(|it| **it == value)),
            "i" => rest.parse::<usize>().ok().and_then(|index| wanted.get(index)),
            _ => return false,
        };
        match found {
            Some(wanted) => is_leftover(below, wanted),
            None => true,
        }
    })
}

/// The item of a list that has these keys; a key that the manifest leaves to its default counts as present.
fn item_with<'a>(wanted: &'a Value, key: &Value) -> Option<&'a Value> {
    let key = key.as_object()?;
    let matches = |it: &Value, exact: bool| {
        key.iter()
            .all(|(name, value)| it.get(name).map_or(!exact, |it| it == value))
            && key.keys().any(|name| it.get(name).is_some())
    };
    let items = wanted.as_array()?;
    items
        .iter()
        .find(|it| matches(it, true))
        .or_else(|| items.iter().find(|it| matches(it, false)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_add_is_no_disagreement() {
        let manifest = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"app": "x"}},
            "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}, "extra": {}}
        });
        let mut live = json!({
            "metadata": {"name": "a", "uid": "u", "labels": {"app": "x", "added": "by hand"}},
            "spec": {
                "replicas": 3, "revisionHistoryLimit": 10,
                "template": {"spec": {"containers": [
                    {"name": "injected", "image": "side"}, {"name": "c", "image": "i", "imagePullPolicy": "Always"}
                ]}}
            },
            "status": {"replicas": 1}
        });
        assert!(agrees(&live, &manifest));
        live["spec"]["replicas"] = json!(4);
        assert!(!agrees(&live, &manifest));
        live["spec"]["replicas"] = json!(3);
        live["metadata"]["labels"]["app"] = json!("y");
        assert!(!agrees(&live, &manifest));
    }

    #[test]
    fn a_field_that_the_manifest_dropped_is_left_over() {
        let live = json!({
            "metadata": {"managedFields": [
                {"manager": "work-agent/a", "operation": "Apply", "fieldsV1": {
                    "f:data": {"f:a": {}, "f:b": {}},
                    "f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}}
                }},
                {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:c": {}}}}
            ]},
            "data": {"a": "1", "b": "2", "c": "3"}
        });
        let both = json!({"data": {"a": "1", "b": "2"}, "metadata": {"ownerReferences": [{"uid": "1"}]}});
        let one = json!({"data": {"a": "1"}, "metadata": {"ownerReferences": [{"uid": "1"}]}});
        assert!(!has_leftover(&live, "work-agent/a", &both));
        assert!(has_leftover(&live, "work-agent/a", &one));
        assert!(!has_leftover(&live, "work-agent/b", &one));
        assert!(was_applied_by(&live, "work-agent/a"));
        assert!(!was_applied_by(&live, "kubectl"));
    }

    #[test]
    fn a_port_that_leaves_its_protocol_to_the_default_is_found_by_its_key() {
        let live = json!({"metadata": {"managedFields": [{"manager": "m", "operation": "Apply", "fieldsV1": {
            "f:spec": {"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}
        }}]}});
        assert!(!has_leftover(
            &live,
            "m",
            &json!({"spec": {"ports": [{"containerPort": 80}]}})
        ));
        assert!(has_leftover(
            &live,
            "m",
            &json!({"spec": {"ports": [{"containerPort": 81}]}})
        ));
    }
}
