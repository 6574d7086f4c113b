//! From OpenAPI v3 to `Schema`.
//!
//! One reader serves custom resources (`openAPIV3Schema`) and the built-in tables; only the latter have references.

use super::{Checks, ListType, Rule, Schema, Type};
use serde_json::{Map, Value};
use std::sync::{Arc, LazyLock, OnceLock};

/// Finds the schema of a reference such as `io.k8s.api.core.v1.PodSpec`.
pub type Resolve<'a> = dyn Fn(&str) -> Option<Arc<Schema>> + 'a;

impl Schema {
    /// Reads the `openAPIV3Schema` of a custom resource. Lenient: `structural::check_crd` says what is wrong with one.
    pub fn from_openapi(node: &Value) -> Result<Schema, String> {
        Self::from_openapi_with(node, &|_| None)
    }

    /// Reads a schema whose `$ref` members are resolved by `resolve`.
    pub fn from_openapi_with(node: &Value, resolve: &Resolve<'_>) -> Result<Schema, String> {
        let Some(map) = node.as_object() else {
            return Err(format!("a schema must be an object, not {node}"));
        };
        read(map, resolve)
    }

    /// The schema of a member of an object: a property, else the values of a map.
    pub fn child(&self, key: &str) -> Option<&Arc<Schema>> {
        self.properties.get(key).or(self.additional.as_ref())
    }
}

fn text(map: &Map<String, Value>, key: &str) -> Option<Arc<str>> {
    map.get(key).and_then(Value::as_str).map(Arc::from)
}

fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn strings(map: &Map<String, Value>, key: &str) -> Vec<String> {
    let items = map
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    items.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// The most frequent nodes of all, made once: a text, and one that is left out when it is empty.
fn plain_string(omit_zero: bool) -> Arc<Schema> {
    static PLAIN: LazyLock<[Arc<Schema>; 2]> = LazyLock::new(|| {
        [false, true].map(|omit_zero| {
            Arc::new(Schema {
                ty: Type::String,
                omit_zero,
                ..Schema::default()
            })
        })
    });
    PLAIN[usize::from(omit_zero)].clone()
}

fn child(value: &Value, resolve: &Resolve<'_>) -> Result<Arc<Schema>, String> {
    match value {
        Value::Object(map) => match map.get("$ref").and_then(Value::as_str) {
            // The common case of a built-in table: the shared definition itself, not a copy.
            Some(name) if map.len() == 1 => resolve(name).ok_or_else(|| format!("no definition is named {name}")),
            _ if map.get("type").is_some_and(|it| it == "string")
                && map.keys().all(|it| matches!(it.as_str(), "type" | "x-omit-zero")) =>
            {
                Ok(plain_string(flag(map, "x-omit-zero")))
            }
            _ => Ok(Arc::new(read(map, resolve)?)),
        },
        Value::Bool(_) => Ok(Arc::new(Schema::default())),
        other => Err(format!("a schema must be an object, not {other}")),
    }
}

fn children(map: &Map<String, Value>, key: &str, resolve: &Resolve<'_>) -> Result<Vec<Arc<Schema>>, String> {
    let items = map
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    items.iter().map(|it| child(it, resolve)).collect()
}

fn read(map: &Map<String, Value>, resolve: &Resolve<'_>) -> Result<Schema, String> {
    let mut schema = match map.get("$ref").and_then(Value::as_str) {
        Some(name) => (*resolve(name).ok_or_else(|| format!("no definition is named {name}"))?).clone(),
        None => Schema::default(),
    };
    if let Some(ty) = map.get("type").and_then(Value::as_str) {
        schema.ty = match ty {
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            "" => Type::Any,
            other => return Err(format!("unknown type {other:?}")),
        };
    }
    if let Some(description) = text(map, "description") {
        schema.description = Some(description);
    }
    if let Some(format) = text(map, "format") {
        schema.format = Some(format);
    }
    if let Some(properties) = map.get("properties").and_then(Value::as_object) {
        for (key, value) in properties {
            schema
                .properties
                .insert(key.clone(), child(value, resolve).map_err(|it| format!("{key}: {it}"))?);
        }
    }
    match map.get("additionalProperties") {
        None | Some(Value::Null) | Some(Value::Bool(false)) => {}
        Some(value) => schema.additional = Some(child(value, resolve)?),
    }
    match map.get("items") {
        None | Some(Value::Null) => {}
        Some(value) => schema.items = Some(child(value, resolve)?),
    }
    let required = strings(map, "required");
    if !required.is_empty() {
        schema.required = required;
    }
    if let Some(default) = map.get("default").filter(|it| !it.is_null()) {
        schema.default = Some(default.clone());
    }
    schema.nullable |= flag(map, "nullable");
    schema.preserve_unknown |= flag(map, "x-kubernetes-preserve-unknown-fields");
    schema.embedded_resource |= flag(map, "x-kubernetes-embedded-resource");
    schema.int_or_string |= flag(map, "x-kubernetes-int-or-string");
    schema.opaque |= flag(map, "x-opaque");
    schema.omit_zero |= flag(map, "x-omit-zero");
    if let Some(map_type) = map.get("x-kubernetes-map-type").and_then(Value::as_str) {
        schema.atomic_map = map_type == "atomic";
    }
    schema.list_type = match map.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map,
        Some(_) => ListType::Atomic,
        None => schema.list_type,
    };
    let keys = strings(map, "x-kubernetes-list-map-keys");
    if !keys.is_empty() {
        schema.list_map_keys = keys;
    }
    for strategy in map
        .get("x-kubernetes-patch-strategy")
        .and_then(Value::as_str)
        .unwrap_or("")
        .split(',')
    {
        match strategy {
            "merge" => schema.patch_merge = true,
            "retainKeys" => schema.patch_retain_keys = true,
            "replace" => schema.patch_replace = true,
            _ => {}
        }
    }
    if let Some(key) = map.get("x-kubernetes-patch-merge-key").and_then(Value::as_str) {
        schema.patch_merge_key = Some(key.to_owned());
    }
    let rules = map
        .get("x-kubernetes-validations")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    schema.rules.extend(rules.iter().filter_map(Value::as_object).map(rule));
    schema.checks = checks(map, resolve)?;
    schema.rules_below = !schema.rules.is_empty()
        || schema.properties.values().any(|it| it.rules_below)
        || schema.additional.as_ref().is_some_and(|it| it.rules_below)
        || schema.items.as_ref().is_some_and(|it| it.rules_below);
    Ok(schema)
}

fn rule(map: &Map<String, Value>) -> Rule {
    let get = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
    Rule {
        rule: get("rule"),
        message: get("message"),
        message_expression: get("messageExpression"),
        reason: get("reason"),
        field_path: get("fieldPath"),
        optional_old_self: flag(map, "optionalOldSelf"),
    }
}

fn checks(map: &Map<String, Value>, resolve: &Resolve<'_>) -> Result<Option<Box<Checks>>, String> {
    const KEYS: [&str; 16] = [
        "enum",
        "pattern",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "uniqueItems",
    ];
    if !KEYS.iter().any(|key| map.contains_key(*key)) {
        return Ok(None);
    }
    let number = |key: &str| map.get(key).and_then(Value::as_f64);
    let count = |key: &str| map.get(key).and_then(Value::as_u64);
    let pattern = map.get("pattern").and_then(Value::as_str).filter(|it| !it.is_empty());
    Ok(Some(Box::new(Checks {
        enumeration: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        pattern: pattern.map(Pattern::new),
        minimum: number("minimum"),
        exclusive_minimum: flag(map, "exclusiveMinimum"),
        maximum: number("maximum"),
        exclusive_maximum: flag(map, "exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        all_of: children(map, "allOf", resolve)?,
        any_of: children(map, "anyOf", resolve)?,
        one_of: children(map, "oneOf", resolve)?,
        not: match map.get("not") {
            None | Some(Value::Null) => None,
            Some(value) => Some(child(value, resolve)?),
        },
    })))
}

/// A pattern, compiled when it is first needed: a server holds many CRDs whose objects it never sees.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    compiled: OnceLock<Option<regex::Regex>>,
}

impl Pattern {
    /// A pattern as a CRD writes it.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            compiled: OnceLock::new(),
        }
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a text matches. A pattern that does not compile, which `structural::check_crd` refuses,
    /// matches anything.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled
            .get_or_init(|| go_regex::compile(&self.text).ok())
            .as_ref()
            .is_none_or(|it| it.is_match(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_keeps_what_the_crd_says() {
        let schema = Schema::from_openapi(&json!({
            "type": "object",
            "required": ["spec"],
            "properties": {"spec": {
                "type": "array",
                "items": {"type": "object", "properties": {"k": {"type": "string", "default": "x"}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "x-kubernetes-validations": [{"rule": "self.size() > 0", "message": "m"}],
            }},
        }))
        .expect("parses");
        let spec = &schema.properties["spec"];
        assert_eq!(
            (spec.ty, spec.list_type, spec.list_map_keys.as_slice()),
            (Type::Array, ListType::Map, &["k".to_owned()][..])
        );
        assert!(schema.rules_below);
        assert_eq!(
            spec.items.as_ref().expect("items").properties["k"].default,
            Some(json!("x"))
        );
    }
}
