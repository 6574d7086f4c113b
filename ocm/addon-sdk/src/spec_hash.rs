//! The hash of a configuration object: what it says, without its metadata and status.
//! Upstream: addon-framework `pkg/utils`, `GetSpecHash`: SHA-256 of what Go's `encoding/json` makes of the remaining
//! fields. Other programs write and compare the same hash, so the JSON must be Go's byte for byte.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// What is no configuration.
const LEFT_OUT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// The hash of an object, as lower-case hexadecimal.
///
/// ```
/// use ocm_addon_sdk::spec_hash;
/// use serde_json::json;
///
/// let a = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
/// let b = json!({"kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"k": "v"}});
/// assert_eq!(spec_hash::of(&a), spec_hash::of(&b));
/// ```
pub fn of(object: &Value) -> String {
    let mut text = String::from("{");
    let fields = object.as_object().into_iter().flatten();
    let mut fields: Vec<_> = fields.filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())).collect();
    fields.sort_by_key(|(key, _)| key.as_bytes());
    write_fields(&mut text, &fields);
    text.push('}');
    let mut hash = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        use std::fmt::Write;
        write!(hash, "{byte:02x}").expect("writing to a string cannot fail");
    }
    hash
}

fn write_fields(out: &mut String, fields: &[(&String, &Value)]) {
    for (number, (key, value)) in fields.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        write(out, value);
    }
}

fn write(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        // Go's reader of objects makes an int64 of a number, or else a float64.
        Value::Number(number) => match number.as_i64() {
            Some(whole) => out.push_str(&whole.to_string()),
            None => write_float(out, number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => write_string(out, text),
        Value::Array(list) => {
            out.push('[');
            for (number, item) in list.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            // Go sorts by bytes; serde_json's map does too unless somebody switches that off.
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(key, _)| key.as_bytes());
            out.push('{');
            write_fields(out, &fields);
            out.push('}');
        }
    }
}

// Go escapes what could end a script element, and the two line separators that JavaScript once tripped over.
fn write_string(out: &mut String, text: &str) {
    use std::fmt::Write;
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(letter)).expect("writing to a string cannot fail");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

// Go writes the shortest digits that read back as the same number, in decimals unless the number is very small or very
// large, and then with an exponent of one digit where one is enough.
fn write_float(out: &mut String, float: f64) {
    let size = float.abs();
    if size == 0.0 {
        out.push_str(if float.is_sign_negative() { "-0" } else { "0" });
    } else if (1e-6..1e21).contains(&size) {
        out.push_str(&format!("{float}"));
    } else {
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').expect("this format has an exponent");
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("+", exponent),
        };
        out.push_str(&format!("{digits}e{sign}{exponent}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        let mut out = String::new();
        write(&mut out, value);
        out
    }

    #[test]
    fn strings_are_escaped_as_go_escapes_them() {
        let tricky = "a<b>&\"\\/\u{2028}\u{2029}\n\r\t\u{8}\u{c}\u{0}\u{1f}\u{7f}é😀'`";
        let expected = r#""a\u003cb\u003e\u0026\"\\/\u2028\u2029\n\r\t\b\f\u0000\u001f"#.to_owned() + "\u{7f}é😀'`\"";
        assert_eq!(text(&json!(tricky)), expected);
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        let numbers = [
            (json!(0), "0"),
            (json!(-1), "-1"),
            (json!(9_007_199_254_740_993_i64), "9007199254740993"),
            (json!(u64::MAX), "18446744073709552000"),
            (json!(1.0), "1"),
            (json!(0.1), "0.1"),
            (json!(-2.5), "-2.5"),
            (json!(1e20), "100000000000000000000"),
            (json!(1e21), "1e+21"),
            (json!(1.5e300), "1.5e+300"),
            (json!(0.000001), "0.000001"),
            (json!(1e-7), "1e-7"),
            (json!(1.25e-10), "1.25e-10"),
        ];
        for (number, expected) in numbers {
            assert_eq!(text(&number), expected);
        }
    }

    #[test]
    fn keys_are_sorted_by_their_bytes() {
        assert_eq!(
            text(&json!({"b": 1, "a": {"z": null, "Z": [true, false]}, "<": ""})),
            r#"{"\u003c":"","a":{"Z":[true,false],"z":null},"b":1}"#
        );
    }

    #[test]
    fn the_hash_covers_everything_but_names_and_status() {
        // printf '{"spec":{"a":"\\u003c"}}' | sha256sum
        let object = json!({
            "apiVersion": "x/v1", "kind": "X", "metadata": {"name": "n"}, "spec": {"a": "<"}, "status": {"b": 1},
        });
        assert_eq!(of(&object), HASH_OF_SPEC);
        // printf '{}' | sha256sum
        assert_eq!(of(&json!({"metadata": {}})), HASH_OF_NOTHING);
    }

    const HASH_OF_SPEC: &str = "7baa1d4f8d1b2231e9ecef7d462ca84ab522e7288c1ac6a183088956693522c9";
    const HASH_OF_NOTHING: &str = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
}
