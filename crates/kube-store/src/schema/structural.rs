//! Whether a CustomResourceDefinition is well formed.

use serde_json::{Map, Value, json};

/// Fills in what a CustomResourceDefinition leaves out: names derived from the kind, and the conversion.
pub fn default_crd(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or("").to_owned();
        if !kind.is_empty() {
            let absent =
                |names: &Map<String, Value>, key: &str| names.get(key).and_then(Value::as_str).unwrap_or("").is_empty();
            if absent(names, "singular") {
                names.insert("singular".to_owned(), kind.to_lowercase().into());
            }
            if absent(names, "listKind") {
                names.insert("listKind".to_owned(), format!("{kind}List").into());
            }
        }
    }
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(service) = conversion
        .pointer_mut("/webhook/clientConfig/service")
        .and_then(Value::as_object_mut)
    {
        service.entry("port").or_insert(json!(443));
    }
}
