//! Merge patch (RFC 7386): objects merge, `null` deletes, everything else replaces.

use super::decode_object;
use crate::status::Status;
use serde_json::{Map, Value};

/// Applies a merge patch to `live` and gives the patched object.
pub fn apply(live: &Value, body: &[u8]) -> Result<Value, Status> {
    let mut object = live.clone();
    merge(&mut object, decode_object(body)?);
    Ok(object)
}

/// Merges `patch` into `target` in place.
pub fn merge(target: &mut Value, patch: Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(map) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                map.remove(&key);
            }
            Value::Object(patch) => merge(map.entry(key).or_insert(Value::Null), patch),
            value => {
                map.insert(key, value);
            }
        }
    }
}
