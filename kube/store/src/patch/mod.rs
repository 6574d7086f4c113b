//! The three patch formats that carry changes: JSON patch, merge patch and strategic merge patch.
//!
//! Each takes the live object and the request body and gives the patched object. Decoding the result (defaults,
//! pruning, validation) is the caller's next step, the same as for an update. Server-side apply lives in
//! [`crate::managed`].

pub mod json;
pub mod merge;
pub mod strategic;
#[cfg(test)]
mod tests;

use crate::status::Status;
use serde_json::{Map, Value};

/// Reads a patch body; syntax errors say what Go's decoder says, because clients show it.
pub(crate) fn decode(body: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {}", go_syntax_error(body, &error))))
}

/// A merge or strategic merge patch: an object, or `null`, which changes nothing.
pub(crate) fn decode_object(body: &[u8]) -> Result<Map<String, Value>, Status> {
    match decode(body)? {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        other => Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_kind(&other)
        ))),
    }
}

/// What Go's `encoding/json` calls the type of a value in its errors.
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

/// A JSON syntax error in Go's words: the end of the input, or the character that does not fit.
pub fn go_syntax_error(body: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line_start = body
        .split_inclusive(|byte| *byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum::<usize>();
    let at = line_start + error.column().saturating_sub(1);
    let rest = String::from_utf8_lossy(body.get(at..).unwrap_or_default());
    match rest.chars().next() {
        Some(character) => format!("invalid character {character:?} looking for beginning of value"),
        None => "unexpected end of JSON input".to_owned(),
    }
}

/// A value as Go's `fmt` prints it with `%v`: `map[a:1 b:[x y]]`. Error texts of strategic merge patch contain it.
pub fn go_format(value: &Value) -> String {
    let mut text = String::new();
    write_go(value, &mut text);
    text
}

fn write_go(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write_go(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_go(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}
