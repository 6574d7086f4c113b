//! Selectors of labels and fields, and JSON paths.

use super::text;
use kube_store::selector::{FieldSelector, LabelSelector};

/// Label and field selectors, and what they call keys and values.
pub fn selectors(data: &[u8]) {
    let text = text(data);
    if let Ok(selector) = LabelSelector::parse(text) {
        let _ = selector.is_everything();
        let _ = selector.requirements().len();
    }
    let _ = FieldSelector::parse(text);
    if let Ok(value) = serde_json::from_str(text) {
        let _ = LabelSelector::from_json(&value);
    }
    let _ = kube_store::selector::label_key_error(text);
    let _ = kube_store::selector::label_value_error(text);
    let _ = kube_store::jsonpath::JsonPath::parse(text);
}
