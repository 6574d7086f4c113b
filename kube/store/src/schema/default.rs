//! Defaults of custom resources, and the numbers of JSON as Go prints them.

use super::Schema;
use serde_json::{Map, Number, Value};

/// Fills in the schema's defaults in place. A null that the schema does not allow counts as absent:
/// it takes the default, or goes.
pub fn apply_defaults(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            prune_nulls(map, schema);
            for (key, child) in &schema.properties {
                if let Some(default) = &child.default {
                    let missing = match map.get(key) {
                        None => true,
                        Some(found) => found.is_null() && !child.nullable,
                    };
                    if missing {
                        map.insert(key.clone(), default.clone());
                    }
                }
            }
            for (key, child) in map.iter_mut() {
                if let Some(schema) = schema.child(key) {
                    fill(child, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|it| fill(it, schema));
            }
        }
        _ => {}
    }
}

fn fill(value: &mut Value, schema: &Schema) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
    apply_defaults(value, schema);
}

/// Removes nulls that are neither allowed nor replaced by a default.
fn prune_nulls(map: &mut Map<String, Value>, schema: &Schema) {
    map.retain(|key, value| {
        if !value.is_null() {
            return true;
        }
        schema
            .child(key)
            .is_none_or(|child| child.nullable || child.default.is_some())
    });
}

/// Writes numbers as Go does: whole floats become integers, integers beyond 64 bits become floats of the same length.
pub fn normalise_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(changed) = normalise(number) {
                *number = changed;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise_numbers),
        Value::Object(map) => map.values_mut().for_each(normalise_numbers),
        _ => {}
    }
}

fn normalise(number: &Number) -> Option<Number> {
    if number.is_i64() {
        return None;
    }
    let float = number.as_f64()?;
    if float.fract() != 0.0 || float.abs() >= 1e21 {
        return None;
    }
    // A float between 2^63 and 1e21 prints without an exponent in Go; below 2^64 we can say the same.
    let text = format!("{float:.0}");
    let shortest = format!("{float}");
    let text = if float.abs() >= 9007199254740992.0 {
        shortest
    } else {
        text
    };
    match text.as_str() {
        "-0" => Some(0.into()),
        text => text
            .parse::<i64>()
            .map(Number::from)
            .or_else(|_| text.parse::<u64>().map(Number::from))
            .ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_fill_objects_lists_and_maps() {
        let schema = Schema::from_openapi(&json!({
            "type": "object",
            "properties": {"spec": {"type": "object", "default": {}, "properties": {
                "n": {"type": "integer", "default": 3},
                "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"p": {"type": "string", "default": "q"}}}},
            }}},
        }))
        .expect("parses");
        let table = [
            (json!({}), json!({"spec": {"n": 3}})),
            (
                json!({"spec": {"n": 1, "list": [{}], "map": {"a": {}}}}),
                json!({"spec": {"n": 1, "list": [{"p": "TCP"}], "map": {"a": {"p": "q"}}}}),
            ),
        ];
        for (mut value, want) in table {
            apply_defaults(&mut value, &schema);
            assert_eq!(value, want);
        }
    }

    #[test]
    fn nulls_stay_only_where_the_schema_allows_them() {
        let schema = Schema::from_openapi(&json!({
            "type": "object",
            "properties": {
                "nullable": {"type": "string", "nullable": true},
                "nullable_default": {"type": "string", "nullable": true, "default": "x"},
                "default": {"type": "string", "default": "x"},
                "plain": {"type": "string"},
            },
        }))
        .expect("parses");
        let mut value = json!({"nullable": null, "nullable_default": null, "default": null, "plain": null});
        apply_defaults(&mut value, &schema);
        assert_eq!(
            value,
            json!({"nullable": null, "nullable_default": null, "default": "x"})
        );
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (text, want) in [
            ("12345678901234567890", "12345678901234567000"),
            ("1.0", "1"),
            ("1e3", "1000"),
            ("-0.0", "0"),
            ("1.5", "1.5"),
            ("9223372036854775807", "9223372036854775807"),
            ("-3.0", "-3"),
        ] {
            let mut value: Value = serde_json::from_str(text).expect("JSON");
            normalise_numbers(&mut value);
            assert_eq!(value.to_string(), want, "{text}");
        }
    }
}
