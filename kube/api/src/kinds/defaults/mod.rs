//! What defaults of several kinds are made of. Clients compare what they sent with what they read, so the same members
//! must appear. What needs the rest of the store (addresses, ports) is allocated elsewhere.

pub mod pods;
pub mod volumes;

use serde_json::{Map, Value, json};

/// Sets a member that is absent.
pub fn set(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), value.into());
    }
}

/// The object at a key, made when absent. Decoding has checked that nothing else is there.
pub fn entry<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = map.entry(key).or_insert_with(|| json!({}));
    if !slot.is_object() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("made an object above")
}

/// The object at a key, when there is one.
pub fn member<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

/// The objects of the list at a key.
pub fn items<'a>(map: &'a mut Map<String, Value>, key: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// The text at a key, or nothing.
pub fn text_of<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or("")
}

/// A port without a protocol speaks TCP.
pub fn protocols(map: &mut Map<String, Value>) {
    items(map, "ports").for_each(|port| set(port, "protocol", "TCP"));
}

/// Drops members of features that are off; what was stored once may stay.
pub fn drop_members(value: &mut Value, old: Option<&Value>, parent: &str, members: &[&str]) {
    let Some(parent_of) = value.get_mut(parent).and_then(Value::as_object_mut) else {
        return;
    };
    for member in members {
        if old.is_none_or(|it| it[parent][*member].is_null()) {
            parent_of.remove(*member);
        }
    }
}
