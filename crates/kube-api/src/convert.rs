//! The same object in another version of its resource.

use crate::registry::Resource;
use bytes::Bytes;
use kube_store::object::Object;
use serde_json::{Map, Value};

/// The bytes of an object in a version, `kind` and `apiVersion` included. The storage version is the stored buffer
/// itself; another version of a custom resource without a webhook differs in its first bytes only.
pub fn bytes(resource: &Resource, version: &str, object: &Object) -> Bytes {
    if is_other_event_group(resource) {
        let mut value = object.value();
        to_version(resource, version, &mut value);
        return serde_json::to_vec(&value).expect("a JSON value serializes").into();
    }
    if version == resource.storage_version() {
        return object.json.clone();
    }
    let prefix = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
        resource.kind,
        resource.api_version(version)
    );
    let mut json = Vec::with_capacity(prefix.len() + object.body().len());
    json.extend_from_slice(prefix.as_bytes());
    json.extend_from_slice(object.body());
    json.into()
}

/// Turns a stored value into `version`.
pub fn to_version(resource: &Resource, version: &str, value: &mut Value) {
    if is_other_event_group(resource) {
        event_from_core(value);
    }
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), resource.api_version(version).into());
    }
}

/// Turns a value that a client sent in `version` into the storage version.
pub fn to_storage(resource: &Resource, value: &mut Value) {
    let api_version = if is_other_event_group(resource) {
        event_to_core(value);
        "v1".to_owned()
    } else {
        resource.api_version(resource.storage_version())
    };
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), api_version.into());
    }
}

/// `events.k8s.io` shows the objects of the core group's events under other field names.
fn is_other_event_group(resource: &Resource) -> bool {
    resource.group == "events.k8s.io"
}

const EVENT_FIELDS: [(&str, &str); 7] = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.into(), value);
    }
}

fn event_from_core(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        for (core, other) in EVENT_FIELDS {
            rename(map, core, other);
        }
    }
}

fn event_to_core(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        for (core, other) in EVENT_FIELDS {
            rename(map, other, core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_reads_the_same_after_a_trip_through_the_core_group() {
        let event =
            json!({"note": "n", "regarding": {"kind": "Pod"}, "reportingController": "c", "deprecatedCount": 2});
        let mut value = event.clone();
        event_to_core(&mut value);
        assert_eq!(value["message"], "n");
        event_from_core(&mut value);
        assert_eq!(value, event);
    }
}
