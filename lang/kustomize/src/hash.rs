//! The suffix that the name of a generated object gets: a hash of its content.
//! Upstream: api/hasher.

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::{error::Result, node::YamlNode, resource::BuildObject};

pub(crate) fn suffix(resource: &BuildObject) -> Result<String> {
    let part = |field: &str| -> Result<Json> {
        match resource.node.get(field) {
            None => Ok(json!("")),
            Some(it @ YamlNode::Scalar(_)) => Ok(json!(it.text())),
            Some(it @ YamlNode::Map(_)) => it.to_json(),
            // Upstream reads nothing from a list.
            Some(YamlNode::List(_)) => Ok(Json::Null),
        }
    };
    // The name is not part of it, by an oversight that nobody can correct any more.
    let mut content = match resource.kind() {
        "Secret" => json!({"kind": "Secret", "type": part("type")?, "name": "", "data": part("data")?}),
        kind => json!({"kind": kind, "name": "", "data": part("data")?}),
    };
    let further = if resource.kind() == "Secret" {
        "stringData"
    } else {
        "binaryData"
    };
    let more = part(further)?;
    if more.is_object() {
        content[further] = more;
    }
    let digest = Sha256::digest(go_json(&content).as_bytes());
    let hex: String = digest.iter().take(5).map(|it| format!("{it:02x}")).collect();
    // No vowels, and no digits that look like some: no name may become a word.
    let safe = |it| match it {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        it => it,
    };
    Ok(hex.chars().map(safe).collect())
}

/// JSON as Go writes it: with keys in their order, and without what HTML would read.
pub(crate) fn go_json(json: &Json) -> String {
    escaped(&json.to_string())
}

/// As [`go_json`], with every value on a line.
pub(crate) fn go_json_indented(json: &Json) -> String {
    escaped(&serde_json::to_string_pretty(json).unwrap_or_default())
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            it => out.push(it),
        }
    }
    out
}
