//! The same object in another version of its resource.

use crate::{content, registry::Resource};
use bytes::Bytes;
use kube_store::object::Object;
use serde_json::{Map, Value};

/// The bytes of an object in a version, `kind` and `apiVersion` included. The storage version is the stored buffer
/// itself; another version of a custom resource without a plug-in differs in its first bytes only. What a plug-in makes
/// is made once per state and version, however many read it.
pub fn bytes(resource: &Resource, version: &str, object: &Object) -> Bytes {
    if is_other_event_group(resource) {
        return converted(resource, version, object);
    }
    if version == resource.storage_version() {
        return object.json.clone();
    }
    if resource.converter().is_some() {
        return object.view(version, || converted(resource, version, object));
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

fn converted(resource: &Resource, version: &str, object: &Object) -> Bytes {
    let mut value = object.value();
    to_version(resource, version, &mut value);
    serde_json::to_vec(&value).expect("a JSON value serializes").into()
}

/// Turns a stored value into `version`.
pub fn to_version(resource: &Resource, version: &str, value: &mut Value) {
    if is_other_event_group(resource) {
        event_from_core(value);
    }
    between(resource, version, value);
}

/// Turns a value of any version of a resource into `version`, without what that version's schema does not know.
pub fn between(resource: &Resource, version: &str, value: &mut Value) {
    let api_version = resource.api_version(version);
    if let Some(converter) = resource.converter()
        && value["apiVersion"] != api_version
    {
        converter.convert(value, &api_version);
        content::prune_converted(resource, version, value);
    }
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), api_version.into());
    }
}

/// Turns a value that a client sent in `version` into the storage version. What that version defaults is filled in here,
/// where a real API server does so each time it reads.
pub fn to_storage(resource: &Resource, value: &mut Value) {
    if is_other_event_group(resource) {
        event_to_core(value);
        if let Some(map) = value.as_object_mut() {
            map.insert("apiVersion".into(), "v1".into());
        }
        return;
    }
    let version = resource.storage_version();
    let differs = value["apiVersion"] != resource.api_version(version);
    between(resource, version, value);
    if differs && resource.converter().is_some() {
        content::default_stored(resource, value);
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
