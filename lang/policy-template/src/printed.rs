//! Values of JSON as Go prints them: comparisons and messages of policies are made of these texts.

use gotemplate::{
    Numbers, Value,
    encodings::{decode_base64, display},
};
use serde_json::Value as Json;

/// A value as `fmt.Sprint` writes it: `map[a:1 b:[x y]]`, `<nil>`, `1.5`.
pub fn printed(value: &Json) -> String {
    let mut out = String::new();
    print(value, &mut out);
    out
}

fn print(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push_str("<nil>"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::String(text) => out.push_str(text),
        Json::Number(number) => match number.as_i64() {
            Some(number) => out.push_str(&number.to_string()),
            None => out.push_str(&display(&Value::from_json(value, Numbers::Int64))),
        },
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                print(item, out);
            }
            out.push(']');
        }
        Json::Object(entries) => {
            out.push_str("map[");
            for (at, (key, item)) in entries.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                print(item, out);
            }
            out.push(']');
        }
    }
}

/// The name of the type that Go gives a value of JSON, as `%T` prints it.
pub fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::String(_) => "string",
        Json::Number(number) if number.is_f64() => "float64",
        Json::Number(_) => "int64",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

/// The byte of a text at which Go's decoder of base64 stops, for its message; 0 for a text that is base64.
pub fn base64_error(text: &str) -> usize {
    decode_base64(text.as_bytes()).err().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let value = json!({"b": [1, "x", null, 1.5, true], "a": {}, "c": 1e21});
        assert_eq!(printed(&value), "map[a:map[] b:[1 x <nil> 1.5 true] c:1e+21]");
        assert_eq!(type_name(&value["b"]), "[]interface {}");
    }
}
