//! Reading an object the way a typed Go server does: types are checked, unknown fields are dropped and told, nulls
//! count as absent, and so do zeros of fields that cannot tell them apart, times
//! and quantities take their canonical form.

use super::{Schema, Type, quantity, tell, timestamps, validate::Path};
use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Value};

/// Standard base64 that, like Go's, does not mind stray bits in the last character.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Decodes an object of a built-in kind in place. Answers the paths of unknown fields, which are removed, or the text
/// of a type error: `json: cannot unmarshal number into Go struct field ConfigMap.data of type string`.
pub fn decode(value: &mut Value, schema: &Schema, kind: &str) -> Result<Vec<String>, String> {
    let mut reader = Reader {
        kind,
        struct_name: kind.to_owned(),
        fields: Vec::new(),
        unknown: Vec::new(),
    };
    reader.node(value, schema, &Path::ROOT)?;
    Ok(reader.unknown)
}

/// The message of the 400 that a failed `decode` causes.
pub fn cannot_be_handled(kind: &str, version: &str, text: &str) -> String {
    format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {text}")
}

/// The message of the 400 that `fieldValidation=Strict` causes.
pub fn strict_error(unknown: &[String], duplicate: &[String]) -> String {
    let duplicate = duplicate.iter().map(|it| format!("duplicate field \"{it}\""));
    let unknown = unknown.iter().map(|it| format!("unknown field \"{it}\""));
    format!(
        "strict decoding error: {}",
        duplicate.chain(unknown).collect::<Vec<_>>().join(", ")
    )
}

struct Reader<'a> {
    kind: &'a str,
    /// Name of the innermost Go struct.
    struct_name: String,
    /// Field names from the root, as Go prints them: without list indices and map keys.
    fields: Vec<String>,
    unknown: Vec<String>,
}

/// Decodes the `metadata` of any object: the one part of a custom resource that Kubernetes reads into a Go struct.
pub fn decode_metadata(value: &mut Value) -> Result<Vec<String>, String> {
    let mut reader = Reader {
        kind: "ObjectMeta",
        struct_name: "ObjectMeta".to_owned(),
        fields: vec!["metadata".to_owned()],
        unknown: Vec::new(),
    };
    reader.node(value, super::object_meta::object_meta(), &Path::ROOT.field("metadata"))?;
    Ok(reader.unknown)
}

impl Reader<'_> {
    fn node(&mut self, value: &mut Value, schema: &Schema, path: &Path<'_>) -> Result<(), String> {
        if schema.opaque || schema.preserve_unknown && schema.properties.is_empty() {
            return Ok(());
        }
        match schema.format.as_deref() {
            Some("quantity") => return self.quantity(value, schema),
            Some("date-time") => return time(value, timestamps::normalise_seconds),
            Some("micro-time") => return time(value, timestamps::normalise_micros),
            Some("byte") if schema.ty == Type::String => return self.bytes(value, schema),
            _ => {}
        }
        if schema.int_or_string {
            return self.int_or_string(value);
        }
        match (schema.ty, &mut *value) {
            (Type::Any, _) => Ok(()),
            (Type::Object, Value::Object(map)) if schema.properties.is_empty() => match &schema.additional {
                Some(values) => self.map(map, values, path),
                None => {
                    // A struct without fields.
                    for key in map.keys() {
                        tell(&mut self.unknown, || path.field(key).dotted());
                    }
                    map.clear();
                    Ok(())
                }
            },
            (Type::Object, Value::Object(map)) => self.structure(map, schema, path),
            (Type::Array, Value::Array(items)) => {
                let Some(schema) = &schema.items else { return Ok(()) };
                for (at, item) in items.iter_mut().enumerate() {
                    if item.is_null() {
                        *item = zero(schema);
                    }
                    self.node(item, schema, &path.index(at))?;
                }
                Ok(())
            }
            (Type::String, Value::String(_)) | (Type::Boolean, Value::Bool(_)) => Ok(()),
            (Type::Integer, Value::Number(number)) => {
                let fits = match (number.as_i64(), schema.format.as_deref()) {
                    (Some(it), Some("int32")) => i32::try_from(it).is_ok(),
                    (Some(_), _) => true,
                    (None, _) => false,
                };
                if fits {
                    Ok(())
                } else {
                    Err(self.mismatch(&format!("number {number}"), schema))
                }
            }
            (Type::Number, Value::Number(_)) => Ok(()),
            (_, value) => Err(self.mismatch(go_kind(value), schema)),
        }
    }

    fn map(&mut self, map: &mut Map<String, Value>, values: &Schema, path: &Path<'_>) -> Result<(), String> {
        for (key, value) in map.iter_mut() {
            if value.is_null() {
                *value = zero(values);
            }
            // A plain string is the overwhelming case.
            if !(value.is_string() && values.ty == Type::String && values.format.is_none()) {
                self.node(value, values, &path.field(key))?;
            }
            // Maps of quantities are lists of resources.
            if values.format.as_deref() == Some("quantity")
                && let Some(text) = value.as_str()
                && let Some(rounded) = quantity::in_thousandths(text)
            {
                *value = Value::String(rounded);
            }
        }
        Ok(())
    }

    fn structure(&mut self, map: &mut Map<String, Value>, schema: &Schema, path: &Path<'_>) -> Result<(), String> {
        let outer = match &schema.name {
            Some(name) if !self.fields.is_empty() => {
                let name = name.rsplit('.').next().unwrap_or(name).to_owned();
                Some(std::mem::replace(&mut self.struct_name, name))
            }
            _ => None,
        };
        let mut gone = Vec::new();
        for (key, value) in map.iter_mut() {
            let Some(child) = schema.properties.get(key) else {
                if !schema.preserve_unknown {
                    tell(&mut self.unknown, || path.field(key).dotted());
                    gone.push(key.clone());
                }
                continue;
            };
            if value.is_null() {
                gone.push(key.clone());
                continue;
            }
            // Most members are plain texts, which need no field name.
            let plain = value.is_string() && child.ty == Type::String && child.format.is_none();
            if plain || (value.is_boolean() && child.ty == Type::Boolean) {
                if child.omit_zero && is_zero(value) {
                    gone.push(key.clone());
                }
                continue;
            }
            self.fields.push(key.clone());
            self.node(value, child, &path.field(key))?;
            self.fields.pop();
            // Go leaves empty maps and lists out (`omitempty`); an emptied `managedFields` still means "forget them".
            let empty = match value {
                Value::Object(map) => map.is_empty() && child.properties.is_empty() && child.additional.is_some(),
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            let left_out = empty && key != "managedFields" && !schema.required.iter().any(|it| it == key);
            if left_out || (child.omit_zero && is_zero(value)) {
                gone.push(key.clone());
            }
        }
        for key in gone {
            map.remove(&key);
        }
        if let Some(outer) = outer {
            self.struct_name = outer;
        }
        Ok(())
    }

    fn quantity(&self, value: &mut Value, schema: &Schema) -> Result<(), String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => return Err(self.mismatch(go_kind(other), schema)),
        };
        *value = Value::String(quantity::canonical(&text)?);
        Ok(())
    }

    fn bytes(&self, value: &mut Value, schema: &Schema) -> Result<(), String> {
        let Value::String(text) = value else {
            return Err(self.mismatch(go_kind(value), schema));
        };
        let plain = text.replace(['\r', '\n'], "");
        match BASE64.decode(plain.as_bytes()) {
            Ok(bytes) => {
                // Stray bits in the last character vanish when Go writes the bytes again.
                *text = BASE64.encode(bytes);
                Ok(())
            }
            Err(_) => {
                let at = base64_fault(text.as_bytes());
                Err(format!("illegal base64 data at input byte {at}"))
            }
        }
    }

    fn int_or_string(&self, value: &Value) -> Result<(), String> {
        let found = match value {
            Value::String(_) => return Ok(()),
            Value::Number(number) if number.as_i64().is_some_and(|it| i32::try_from(it).is_ok()) => return Ok(()),
            Value::Number(number) => format!("number {number}"),
            other => go_kind(other).to_owned(),
        };
        Err(self.mismatch_of(&found, "int32", "int32"))
    }

    fn mismatch(&self, found: &str, schema: &Schema) -> String {
        self.mismatch_of(found, &root_type(schema, self.kind), &go_type(schema))
    }

    /// The text of a type error, for the object as a whole or for one of its fields.
    fn mismatch_of(&self, found: &str, whole: &str, field: &str) -> String {
        if self.fields.is_empty() {
            return format!("json: cannot unmarshal {found} into Go value of type {whole}");
        }
        let (owner, fields) = (&self.struct_name, self.fields.join("."));
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{fields} of type {field}")
    }
}

/// Where Go finds the first fault of text that is not base64. A group that is not whole is told by its first byte.
fn base64_fault(text: &[u8]) -> usize {
    let is_break = |it: &u8| matches!(it, b'\r' | b'\n');
    let after_breaks = |at: usize| at + text[at.min(text.len())..].iter().take_while(|it| is_break(it)).count();
    let mut in_group = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            it if is_break(it) => {}
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => in_group = (in_group + 1) % 4,
            b'=' if in_group == 2 => {
                let next = after_breaks(at + 1);
                return match text.get(next) {
                    None => text.len(),
                    Some(b'=') => after_breaks(next + 1),
                    Some(_) => next - 1,
                };
            }
            b'=' if in_group == 3 => return after_breaks(at + 1),
            _ => return at,
        }
    }
    text.len() - in_group
}

fn root_type(schema: &Schema, kind: &str) -> String {
    if schema.name.is_some() {
        go_type(schema)
    } else {
        format!("v1.{kind}")
    }
}

fn time(value: &mut Value, normalise: fn(&str) -> Result<String, String>) -> Result<(), String> {
    match value {
        Value::String(text) => {
            *text = normalise(text)?;
            Ok(())
        }
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type string",
            go_kind(other)
        )),
    }
}

/// What Go calls a JSON value of this kind.
pub fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a scalar is what Go's type of it begins with.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(it) => !it,
        Value::String(it) => it.is_empty(),
        Value::Number(it) => it.as_f64() == Some(0.0),
        _ => false,
    }
}

/// The zero value that a null stands for inside a list or a map.
fn zero(schema: &Schema) -> Value {
    match schema.ty {
        Type::Object => Value::Object(Map::new()),
        Type::Array => Value::Array(Vec::new()),
        Type::String if schema.format.is_none() || schema.format.as_deref() == Some("byte") => {
            Value::String(String::new())
        }
        Type::Integer | Type::Number => 0.into(),
        Type::Boolean => false.into(),
        _ if schema.format.as_deref() == Some("quantity") => "0".into(),
        _ => Value::Null,
    }
}

/// How Go prints the type of a field.
fn go_type(schema: &Schema) -> String {
    if schema.format.as_deref() == Some("quantity") {
        return "resource.Quantity".to_owned();
    }
    if let Some(name) = &schema.name {
        let mut parts = name.rsplit('.');
        let kind = parts.next().unwrap_or(name);
        return format!("{}.{kind}", parts.next().unwrap_or("v1"));
    }
    match schema.ty {
        Type::Object => match &schema.additional {
            Some(values) => format!("map[string]{}", go_type(values)),
            None => "map[string]interface {}".to_owned(),
        },
        Type::Array => match &schema.items {
            Some(items) => format!("[]{}", go_type(items)),
            None => "[]interface {}".to_owned(),
        },
        Type::String if schema.format.as_deref() == Some("byte") => "[]uint8".to_owned(),
        Type::String => "string".to_owned(),
        Type::Integer if schema.format.as_deref() == Some("int32") => "int32".to_owned(),
        Type::Integer => "int64".to_owned(),
        Type::Number => "float64".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::Any => "interface {}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        let node = json!({
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "data": {"type": "object", "additionalProperties": {"type": "string"}},
                "bytes": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
                "spec": {"type": "object", "properties": {
                    "n": {"type": "integer", "format": "int32"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "cpu": {"format": "quantity"},
                    "at": {"type": "string", "format": "micro-time"},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                }},
            },
        });
        let mut schema = Schema::from_openapi(&node).expect("parses");
        schema
            .properties
            .insert("metadata".to_owned(), crate::schema::object_meta::object_meta().clone());
        schema
    }

    #[test]
    fn type_errors_read_like_go() {
        let table = [
            (
                json!({"data": 5}),
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
            ),
            (
                json!({"data": {"a": 5}}),
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                json!({"metadata": {"labels": {"a": true}}}),
                "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"spec": {"n": 3_000_000_000u64}}),
                "json: cannot unmarshal number 3000000000 into Go struct field ConfigMap.spec.n of type int32",
            ),
            (
                json!({"spec": {"port": true}}),
                "json: cannot unmarshal bool into Go struct field ConfigMap.spec.port of type int32",
            ),
            (json!({"bytes": {"a": "!"}}), "illegal base64 data at input byte 0"),
            (json!({"bytes": {"a": "x"}}), "illegal base64 data at input byte 0"),
            (
                json!({"bytes": {"a": "eHh4\neA="}}),
                "illegal base64 data at input byte 8",
            ),
            (
                json!({"bytes": {"a": "eA=="  , "b": "eA==x"}}),
                "illegal base64 data at input byte 4",
            ),
            (
                json!({"spec": {"at": "2026-01-01T00:00:00Z"}}),
                r#"parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
            ),
        ];
        for (mut value, want) in table {
            assert_eq!(
                decode(&mut value, &schema(), "ConfigMap"),
                Err(want.to_owned()),
                "{value}"
            );
        }
    }

    #[test]
    fn unknown_fields_are_removed_and_reported() {
        let mut value =
            json!({"foo": 1, "metadata": {"bar": 1, "name": "x"}, "spec": {"list": [{"name": "a", "x": 1}]}});
        let unknown = decode(&mut value, &schema(), "ConfigMap").expect("decodes");
        assert_eq!(unknown, ["foo", "metadata.bar", "spec.list[0].x"]);
        assert_eq!(
            value,
            json!({"metadata": {"name": "x"}, "spec": {"list": [{"name": "a"}]}})
        );
    }

    #[test]
    fn zero_plain_fields_count_as_absent_but_zero_pointers_stay() {
        let plain = |ty: &str| json!({"type": ty, "x-omit-zero": true});
        let schema = Schema::from_openapi(&json!({"type": "object", "properties": {
            "text": plain("string"), "truth": plain("boolean"), "number": plain("integer"),
            "bytes": {"type": "string", "format": "byte", "x-omit-zero": true},
            "inner": {"type": "object", "properties": {"text": plain("string")}},
            "pointers": {"type": "object", "properties": {
                "text": {"type": "string"}, "truth": {"type": "boolean"}, "number": {"type": "integer"},
            }},
        }}))
        .expect("parses");
        let mut value = json!({
            "text": "", "truth": false, "number": 0, "bytes": "", "inner": {"text": ""},
            "pointers": {"text": "", "truth": false, "number": 0},
        });
        assert_eq!(decode(&mut value, &schema, "ConfigMap"), Ok(vec![]));
        let want = json!({"inner": {}, "pointers": {"text": "", "truth": false, "number": 0}});
        assert_eq!(value, want);
        let whole = json!({"text": "a", "truth": true, "number": -1, "bytes": "AA==", "inner": {"text": " "}});
        let mut value = whole.clone();
        assert_eq!(decode(&mut value, &schema, "ConfigMap"), Ok(vec![]));
        assert_eq!(value, whole);
        let mut wrong = json!({"truth": ""});
        let why = "json: cannot unmarshal string into Go struct field ConfigMap.truth of type bool";
        assert_eq!(decode(&mut wrong, &schema, "ConfigMap"), Err(why.to_owned()));
    }

    #[test]
    fn empty_metadata_of_any_object_counts_as_absent() {
        let mut meta = json!({
            "name": "x", "generateName": "", "namespace": "", "uid": "", "resourceVersion": "", "generation": 0,
            "deletionGracePeriodSeconds": 0, "labels": {"a": ""},
            "managedFields": [{"manager": "m", "subresource": ""}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": "", "controller": false}],
        });
        assert_eq!(decode_metadata(&mut meta), Ok(vec![]));
        let want = json!({
            "name": "x", "deletionGracePeriodSeconds": 0, "labels": {"a": ""}, "managedFields": [{"manager": "m"}],
            "ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "", "uid": "", "controller": false}],
        });
        assert_eq!(meta, want);
    }

    #[test]
    fn nulls_and_empty_collections_are_dropped_and_values_normalized() {
        let mut value = json!({
            "data": {}, "metadata": {"creationTimestamp": null, "labels": {}, "managedFields": []},
            "spec": {"cpu": "1000m", "n": null, "list": [], "at": "2026-01-01T01:00:00.000000+01:00"},
        });
        assert_eq!(decode(&mut value, &schema(), "ConfigMap"), Ok(vec![]));
        let want =
            json!({"metadata": {"managedFields": []}, "spec": {"cpu": "1", "at": "2026-01-01T00:00:00.000000Z"}});
        assert_eq!(value, want);
    }
}
