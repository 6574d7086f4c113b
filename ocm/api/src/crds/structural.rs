//! From JSON Schema to the structural schemas that Kubernetes accepts.

use serde_json::{Map, Value, json};

/// Our marks on the way: see `crate::schema`.
const DEFAULT: &str = "x-default";
const OPTIONAL: &str = "x-optional";
const NULLABLE: &str = "x-nullable";

/// Makes one schema, and all that it holds, structural.
pub(super) fn structural(schema: Value) -> Value {
    let Value::Object(mut it) = schema else {
        // `true` stands for "anything", which Kubernetes spells out.
        return json!({ "x-kubernetes-preserve-unknown-fields": true });
    };
    for noise in ["$schema", "title", "default", "nullable", "additionalItems"] {
        it.remove(noise);
    }
    drop_null(&mut it);
    name_values(&mut it);
    if let Some(default) = it.remove(DEFAULT) {
        it.insert("default".to_owned(), default);
    }
    if it.remove(NULLABLE).is_some() {
        it.insert("nullable".to_owned(), true.into());
    }
    if let Some(Value::Object(properties)) = it.remove("properties") {
        settle_properties(&mut it, properties);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(schema) = it.remove(inner) {
            it.insert(inner.to_owned(), structural(schema));
        }
    }
    Value::Object(it)
}

/// Go has no null; an optional field is one that may be missing.
fn drop_null(it: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = it.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            it.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = it.get_mut("enum") {
        values.retain(|one| !one.is_null());
    }
    let Some(Value::Array(mut any_of)) = it.remove("anyOf") else {
        return;
    };
    any_of.retain(|one| one["type"] != "null");
    match (any_of.len(), any_of.pop()) {
        (1, Some(Value::Object(only))) => {
            for (key, value) in only {
                it.entry(key).or_insert(value);
            }
        }
        (_, last) => {
            any_of.extend(last);
            it.insert("anyOf".to_owned(), any_of.into());
        }
    }
}

/// An enum with documented variants arrives as a choice of constants; Kubernetes wants a list of values.
fn name_values(it: &mut Map<String, Value>) {
    // Alternatives of an object's fields stay as they are.
    let names_values = |it: &Value| {
        let choices = it.as_array().into_iter().flatten();
        choices
            .into_iter()
            .all(|it| it["const"].is_string() || it["enum"].is_array())
    };
    if !it.get("oneOf").is_some_and(names_values) {
        return;
    }
    let Some(Value::Array(choices)) = it.remove("oneOf") else {
        return;
    };
    let mut values = vec![];
    let mut lines = vec![];
    for choice in &choices {
        match (&choice["const"], &choice["enum"], choice["description"].as_str()) {
            (Value::String(value), _, about) => {
                values.push(json!(value));
                lines.extend(about.map(|about| format!("{value}: {about}")));
            }
            (_, Value::Array(several), _) => values.extend(several.iter().cloned()),
            _ => {}
        }
    }
    it.insert("type".to_owned(), "string".into());
    it.insert("enum".to_owned(), values.into());
    if let (false, Some(Value::String(description))) = (lines.is_empty(), it.get_mut("description")) {
        *description = format!("{description}\n{}", lines.join("\n"));
    }
}

fn settle_properties(it: &mut Map<String, Value>, properties: Map<String, Value>) {
    let mut required: Vec<Value> = match it.remove("required") {
        Some(Value::Array(required)) => required,
        _ => vec![],
    };
    let mut settled = Map::new();
    for (name, mut schema) in properties {
        if schema
            .as_object_mut()
            .is_some_and(|schema| schema.remove(OPTIONAL).is_some())
        {
            required.retain(|one| *one != name.as_str());
        }
        settled.insert(name, structural(schema));
    }
    required.sort_by_key(|one| one.to_string());
    if !required.is_empty() {
        it.insert("required".to_owned(), required.into());
    }
    it.insert("properties".to_owned(), settled.into());
}
