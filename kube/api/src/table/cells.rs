//! Small readings that many cells are made of.

use super::duration::since;
use jiff::Timestamp;
use serde_json::Value;

/// What Kubernetes prints where there is nothing.
pub const NONE: &str = "<none>";
/// What it prints where a value was not chosen.
pub const UNSET: &str = "<unset>";

/// The value at a path of fields; `null` when it is not there.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> &'a Value {
    static NULL: Value = Value::Null;
    path.iter().try_fold(object, |it, key| it.get(key)).unwrap_or(&NULL)
}

pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).as_str().unwrap_or_default()
}

pub fn number(object: &Value, path: &[&str]) -> i64 {
    at(object, path).as_i64().unwrap_or_default()
}

pub fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Number of items of a list or entries of a map.
pub fn count(object: &Value, path: &[&str]) -> i64 {
    let len = match at(object, path) {
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    i64::try_from(len).unwrap_or(i64::MAX)
}

pub fn name(object: &Value) -> Value {
    text(object, &["metadata", "name"]).into()
}

pub fn age(object: &Value, now: Timestamp) -> Value {
    since(at(object, &["metadata", "creationTimestamp"]).as_str(), now).into()
}

/// The text, or another one where it is empty.
pub fn or<'a>(text: &'a str, empty: &'a str) -> &'a str {
    if text.is_empty() { empty } else { text }
}

/// `a=1,b=2`, or `<none>`.
pub fn labels(labels: &Value) -> String {
    let Some(map) = labels.as_object() else {
        return NONE.to_owned();
    };
    let pairs: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or(&pairs.join(","), NONE).to_owned()
}

/// A `LabelSelector` as text, or `<none>`.
pub fn selector(selector: &Value) -> String {
    match kube_store::selector::LabelSelector::from_json(selector) {
        _ if selector.is_null() => NONE.to_owned(),
        Ok(selector) => or(&selector.to_string(), NONE).to_owned(),
        Err(_) => "<error>".to_owned(),
    }
}

/// Names and images of the containers of a pod template, each joined by commas.
pub fn containers(object: &Value, path: &[&str]) -> (Value, Value) {
    let joined = |field: &str| {
        let texts: Vec<&str> = list(object, path).iter().map(|it| text(it, &[field])).collect();
        Value::from(texts.join(","))
    };
    (joined("name"), joined("image"))
}

/// At most three of them, and how many more there are.
pub fn at_most_three(items: Vec<String>, empty: &str) -> String {
    match items.len() {
        0 => empty.to_owned(),
        1..=3 => items.join(","),
        len => format!("{} + {} more...", items[..3].join(","), len - 3),
    }
}

/// Whether a condition of this type is `True`.
pub fn condition(object: &Value, ty: &str) -> bool {
    list(object, &["status", "conditions"])
        .iter()
        .any(|it| text(it, &["type"]) == ty && text(it, &["status"]) == "True")
}

/// A number or string as a string, as `intstr` prints it.
pub fn int_or_string(value: &Value, absent: &str) -> String {
    match value {
        Value::Null => absent.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
