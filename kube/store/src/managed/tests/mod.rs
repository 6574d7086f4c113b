mod applying;
mod kinds;
mod properties;
mod sets;
mod updating;

use super::*;
use serde_json::{Value, json};

/// A moment that later calls of a test can tell from this one.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn ctx<'a>(manager: &'a str, schema: &'a Schema, api_version: &'a str, built_in: bool) -> Ctx<'a> {
    Ctx {
        manager,
        api_version,
        subresource: "",
        schema,
        now: at(0),
        reset_fields: &[],
        built_in,
        served: &[],
        versions: None,
    }
}

/// The entries as `manager operation apiVersion[/subresource] {fields}`, without times.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let line = |entry: &Value| {
        let fields = FieldSet::from_json(&entry["fieldsV1"]).unwrap();
        let subresource = text(entry, "subresource");
        let slash = if subresource.is_empty() { "" } else { "/" };
        format!(
            "{} {} {}{slash}{subresource} {fields}",
            text(entry, "manager"),
            text(entry, "operation"),
            text(entry, "apiVersion")
        )
    };
    entries.iter().map(line).collect()
}

fn content(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    object
}
