//! Values of another type than the schema's, told as `structured-merge-diff` tells them: in Go's words for values.

use super::typed::At;
use crate::{patch::go_format, schema::Type};
use serde_json::Value;

/// What is wrong with the type of a value, and of nothing below it.
pub(super) fn mistyped(value: &Value, at: At<'_>) -> Option<String> {
    let (At::Root(schema) | At::Metadata(schema) | At::FieldNode(schema)) = at else {
        return None;
    };
    if value.is_null() || schema.int_or_string || schema.opaque {
        return None;
    }
    let scalar = !value.is_object() && !value.is_array();
    if schema.format.as_deref() == Some("quantity") {
        return (!scalar).then(|| format!("expected any scalar, got &{{{}}}", go_format(value)));
    }
    // A map of which nothing is said may be anything.
    let described = !schema.properties.is_empty() || schema.additional.is_some();
    match schema.ty {
        Type::String if !value.is_string() => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            literal(value)
        )),
        Type::Integer | Type::Number if !value.is_number() => {
            Some(format!("expected numeric (int or float), got {}", type_name(value)))
        }
        Type::Boolean if !value.is_boolean() => Some(format!("expected boolean, got &{{{}}}", go_format(value))),
        Type::Object if described && !value.is_object() => Some(format!("expected map, got &{{{}}}", go_format(value))),
        Type::Array if !value.is_array() => Some(format!("expected list, got &{{{}}}", go_format(value))),
        _ => None,
    }
}

/// `%T`
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(it) if it.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `%#v`
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items = items.iter().map(literal);
            format!("{}{{{}}}", type_name(value), items.collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let members = map.iter().map(|(key, it)| format!("{key:?}:{}", literal(it)));
            format!("{}{{{}}}", type_name(value), members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
