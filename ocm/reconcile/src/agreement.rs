//! Whether an object on the cluster says what its manifest says.
//! An object agrees when every field of the manifest is there with its value and nothing that we once set is left over.
//! Fields that others added, or that the API server defaulted, do not count: they are not ours.

use serde_json::{Map, Value};

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

/// Whether the object says what the manifest says, metadata included. `status` is the cluster's to write and is not
/// compared.
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
    is_unclaimed(live, manager, &[manifest])
}

/// Whether this manager owns a field that none of these ask for.
pub fn is_unclaimed(live: &Value, manager: &str, claims: &[&Value]) -> bool {
    entries(live, manager).any(|entry| is_leftover(&entry["fieldsV1"], claims))
}

/// Whether this manager has applied anything to the object.
pub fn was_applied_by(live: &Value, manager: &str) -> bool {
    entries(live, manager).next().is_some()
}

/// Whether this manager has written the object the plain way, with POST or PUT, as upstream's agent does.
pub fn was_updated_by(live: &Value, manager: &str) -> bool {
    all_entries(live)
        .any(|it| it["manager"] == manager && it["operation"] == "Update" && it.get("subresource").is_none())
}

/// Who has applied something to the object.
pub fn appliers(live: &Value) -> impl Iterator<Item = &str> {
    all_entries(live)
        .filter(|it| is_apply(it))
        .filter_map(|it| it["manager"].as_str())
}

/// Puts into `body` what this manager has applied to the object and these claims still ask for: what an apply leaves
/// out is taken away, whoever asked for it under this manager.
pub fn keep(body: &mut Value, live: &Value, manager: &str, claims: &[&Value]) {
    for entry in entries(live, manager) {
        graft(body, live, &entry["fieldsV1"], claims);
    }
}

fn all_entries(live: &Value) -> impl Iterator<Item = &Value> {
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten()
}

fn is_apply(entry: &Value) -> bool {
    entry["operation"] == "Apply" && entry.get("subresource").is_none()
}

fn entries<'a>(live: &'a Value, manager: &'a str) -> impl Iterator<Item = &'a Value> {
    all_entries(live).filter(move |it| it["manager"] == manager && is_apply(it))
}

/// The parts of managed fields below each other: what stands for the object itself is no part.
fn parts(fields: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = fields.as_object().into_iter().flatten();
    fields.map(|(path, below)| (path.as_str(), below)).filter(|(path, _)| {
        let kind = path.split_once(':').map(|it| it.0);
        matches!(kind, Some("f" | "k" | "v" | "i"))
    })
}

fn is_leftover(fields: &Value, claims: &[&Value]) -> bool {
    parts(fields).any(|(path, below)| {
        let claims = all_below(claims, path);
        claims.is_empty() || is_leftover(below, &claims)
    })
}

fn graft(body: &mut Value, live: &Value, fields: &Value, claims: &[&Value]) {
    for (path, below) in parts(fields) {
        let claims = all_below(claims, path);
        let Some(there) = Place::find(live, path).and_then(|it| it.get(live)) else {
            continue;
        };
        if claims.is_empty() {
            continue;
        }
        let is_whole = below.as_object().is_none_or(Map::is_empty);
        if let Some(place) = Place::find(body, path) {
            if let (false, Some(present)) = (is_whole, place.get_mut(body)) {
                graft(present, there, below, &claims);
            }
            continue;
        }
        let mut added = there.clone();
        if !is_whole {
            // An item of a list is told from the others by its keys; everything else begins empty.
            let keys = path.strip_prefix("k:").and_then(|it| serde_json::from_str(it).ok());
            added = match there {
                Value::Array(_) => Value::Array(Vec::new()),
                _ => keys.unwrap_or_else(|| Value::Object(Map::new())),
            };
            graft(&mut added, there, below, &claims);
        }
        match (path.split_once(':'), &mut *body) {
            _ if added.as_object().is_some_and(Map::is_empty) || added.as_array().is_some_and(Vec::is_empty) => {}
            (Some(("f", name)), Value::Object(fields)) => {
                fields.insert(name.to_owned(), added);
            }
            (Some(("k" | "v" | "i", _)), Value::Array(items)) => items.push(added),
            _ => {}
        }
    }
}

fn all_below<'a>(claims: &[&'a Value], path: &str) -> Vec<&'a Value> {
    let found = claims.iter().map(|it| Place::find(it, path)?.get(it));
    found.flatten().collect()
}

/// Where a part of managed fields is in an object or a list.
enum Place<'a> {
    Field(&'a str),
    Item(usize),
}

impl<'a> Place<'a> {
    fn find(value: &Value, path: &'a str) -> Option<Self> {
        let (kind, rest) = path.split_once(':')?;
        let item = match kind {
            "f" => return value.get(rest).map(|_| Self::Field(rest)),
            "k" => item_with(value, &serde_json::from_str(rest).ok()?),
            "v" => {
                let wanted: Value = serde_json::from_str(rest).ok()?;
                value.as_array()?.iter().position(|it| *it == wanted)
            }
            "i" => rest.parse().ok().filter(|it| value.get(*it).is_some()),
            _ => None,
        };
        item.map(Self::Item)
    }

    fn get<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Field(name) => value.get(name),
            Self::Item(position) => value.get(position),
        }
    }

    fn get_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        match self {
            Self::Field(name) => value.get_mut(name),
            Self::Item(position) => value.get_mut(position),
        }
    }
}

/// The item of a list that has these keys; a key that the manifest leaves to its default counts as present.
fn item_with(wanted: &Value, key: &Value) -> Option<usize> {
    let key = key.as_object()?;
    let matches = |it: &Value, exact: bool| {
        key.iter()
            .all(|(name, value)| it.get(name).map_or(!exact, |it| it == value))
            && key.keys().any(|name| it.get(name).is_some())
    };
    let items = wanted.as_array()?;
    let position = |exact| items.iter().position(|it| matches(it, exact));
    position(true).or_else(|| position(false))
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
    fn a_port_with_default_protocol_is_found_by_its_key() {
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

    #[test]
    fn only_fields_that_other_works_still_apply_are_kept() {
        let live = json!({
            "metadata": {
                "labels": {"a": "1", "b": "1", "hand": "1"},
                "ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}],
                "managedFields": [{"manager": "m", "operation": "Apply", "fieldsV1": {
                    "f:metadata": {
                        "f:labels": {".": {}, "f:a": {}, "f:b": {}},
                        "f:ownerReferences": {"k:{\"uid\":\"1\"}": {}, "k:{\"uid\":\"2\"}": {}},
                        "f:finalizers": {"v:\"x\"": {}}
                    },
                    "f:spec": {"f:containers": {
                        "k:{\"name\":\"one\"}": {".": {}, "f:name": {}, "f:image": {}},
                        "k:{\"name\":\"two\"}": {".": {}, "f:name": {}, "f:image": {}, "f:command": {}}
                    }}
                }}]
            },
            "spec": {"containers": [
                {"name": "one", "image": "i", "imagePullPolicy": "Always"},
                {"name": "two", "image": "j", "command": ["x"], "stdin": true}
            ]}
        });
        let other = json!({
            "metadata": {"labels": {"b": "2"}, "ownerReferences": [{"uid": "2"}]},
            "spec": {"containers": [{"name": "two", "image": "j"}]}
        });
        let mut body = json!({
            "metadata": {"labels": {"a": "1"}, "ownerReferences": [{"uid": "1", "name": "a"}]},
            "spec": {"containers": [{"name": "one", "image": "new"}]}
        });
        assert!(is_unclaimed(&live, "m", &[&body, &other]));
        keep(&mut body, &live, "m", &[&other]);
        assert_eq!(
            body,
            json!({
                "metadata": {
                    "labels": {"a": "1", "b": "1"},
                    "ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]
                },
                "spec": {"containers": [{"name": "one", "image": "new"}, {"name": "two", "image": "j"}]}
            })
        );
        let mut all = json!({});
        keep(&mut all, &live, "m", &[&live]);
        assert!(!is_unclaimed(
            &live,
            "m",
            &[&all, &json!({"metadata": {"finalizers": ["x"]}})]
        ));
    }
}
