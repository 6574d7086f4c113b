//! The manifests of an add-on's `deploy` folder, which are part of the binary, as somebody wants them.

use anyhow::{Context, Result};
use serde_json::Value;

/// The namespace that the manifests name.
const NAMESPACE: &str = "open-cluster-management";

/// The objects of manifests, in a namespace, with images put into the places of others.
///
/// # Errors
/// When a manifest cannot be read.
pub fn read(
    manifests: impl IntoIterator<Item = &'static str>,
    namespace: &str,
    image: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for text in manifests {
        for document in text.split("\n---\n") {
            let mut object: Value = serde_saphyr::from_str(document).context("a manifest of an add-on")?;
            put(&mut object, &|text| match text {
                NAMESPACE => Some(namespace.to_owned()),
                _ => image(text),
            });
            objects.push(object);
        }
    }
    Ok(objects)
}

/// Replaces texts wherever they are a whole value.
fn put(value: &mut Value, with: &dyn Fn(&str) -> Option<String>) {
    match value {
        Value::String(text) => {
            if let Some(new) = with(text) {
                *text = new;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|it| put(it, with)),
        Value::Object(map) => map.values_mut().for_each(|it| put(it, with)),
        _ => {}
    }
}
