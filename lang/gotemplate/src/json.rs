//! JSON as Go's `encoding/json` writes it: `<`, `>` and `&` escaped unless told otherwise, floats in Go's form.

use serde_json::Value as Json;

use crate::strconv::json_float;

/// How a document is laid out.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub escape_html: bool,
    pub indent: Option<&'static str>,
}

pub(crate) const COMPACT: Style = Style {
    escape_html: true,
    indent: None,
};

pub(crate) fn write(json: &Json, style: Style) -> String {
    let mut out = String::new();
    node(&mut out, json, style, 0);
    out
}

fn node(out: &mut String, json: &Json, style: Style, depth: usize) {
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Json::Number(number) => out.push_str(&number_text(number)),
        Json::String(text) => string(out, text, style.escape_html),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                separate(out, style, depth + 1, at > 0);
                crate::limits::with_stack(|| node(out, item, style, depth + 1));
            }
            close(out, style, depth, items.is_empty());
            out.push(']');
        }
        Json::Object(entries) => {
            out.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                separate(out, style, depth + 1, at > 0);
                string(out, key, style.escape_html);
                out.push_str(if style.indent.is_some() { ": " } else { ":" });
                crate::limits::with_stack(|| node(out, value, style, depth + 1));
            }
            close(out, style, depth, entries.is_empty());
            out.push('}');
        }
    }
}

fn separate(out: &mut String, style: Style, depth: usize, comma: bool) {
    if comma {
        out.push(',');
    }
    if let Some(indent) = style.indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(indent, depth));
    }
}

fn close(out: &mut String, style: Style, depth: usize, empty: bool) {
    if let (Some(indent), false) = (style.indent, empty) {
        out.push('\n');
        out.extend(std::iter::repeat_n(indent, depth));
    }
}

pub(crate) fn number_text(number: &serde_json::Number) -> String {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(value), ..) => value.to_string(),
        (_, Some(value), _) => value.to_string(),
        (.., Some(value)) => json_float(value),
        _ => number.to_string(),
    }
}

fn string(out: &mut String, text: &str, escape_html: bool) {
    out.push('"');
    for it in text.chars() {
        match it {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' if escape_html => out.push_str(&format!("\\u{:04x}", it as u32)),
            '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", it as u32)),
            it if it < ' ' => out.push_str(&format!("\\u{:04x}", it as u32)),
            it => out.push(it),
        }
    }
    out.push('"');
}
