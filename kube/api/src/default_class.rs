//! Classes that stand in where an object names none: which is one.

use serde_json::Value;

/// Marks the default one of storage classes, in the name of today and of before.
pub const OF_STORAGE: &[&str] = &[
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// Marks the default one of ingress classes.
pub const OF_INGRESSES: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];

/// Whether a class bears one of the annotations that make it the default.
pub fn is_default(class: &Value, keys: &[&str]) -> bool {
    let annotations = &class["metadata"]["annotations"];
    keys.iter().any(|key| annotations[*key] == "true")
}

/// The name of a class, and whether it is the default one.
pub fn class_title(it: &Value, keys: &[&str]) -> Value {
    let mark = if is_default(it, keys) { " (default)" } else { "" };
    format!("{}{mark}", it["metadata"]["name"].as_str().unwrap_or_default()).into()
}
