//! The metadata that every object has, as JSON.

use serde_json::{Map, Value, json};

/// Paths of fields that a write neither changes nor owns.
pub type ResetFields = &'static [&'static [&'static str]];

/// A timestamp as `metav1.Time` writes it: whole seconds, UTC.
pub fn seconds(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The metadata of an object; made when it is absent or no object.
pub fn metadata(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    let metadata = &mut value["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("made an object above")
}

/// A text of the metadata, empty when absent.
pub fn metadata_text<'v>(value: &'v Value, key: &str) -> &'v str {
    value["metadata"][key].as_str().unwrap_or_default()
}

/// The seconds of grace that a deletion under way still gives.
pub fn grace_left(value: &Value) -> i64 {
    value["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or_default()
}
