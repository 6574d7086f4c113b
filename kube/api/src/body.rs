//! What request bodies say: media type, JSON or YAML.

use crate::{
    call::Call,
    options::{FieldValidation, WriteOptions},
    protobuf,
};
use http::{HeaderMap, header};
use kube_store::{
    schema::{decode, duplicates},
    status::Status,
};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;
use std::collections::HashSet;

/// The media type of a request, without parameters.
pub fn media_type(headers: &HeaderMap) -> String {
    let text = headers
        .get(header::CONTENT_TYPE)
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Parses the object of a create or update.
///
/// # Errors
/// 415 for a media type that is not read, 400 for a body that cannot be parsed.
pub fn parse_object(call: &mut Call<'_>, bytes: &[u8], media: &str, options: &WriteOptions) -> Result<Value, Status> {
    let unrecognized = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: {why}",
            call.resource.kind
        ))
    };
    match media {
        "" | "application/json" => {
            let (value, repeats) = duplicates::parse(bytes).map_err(|it| unrecognized(it.to_string()))?;
            if repeats && options.field_validation != FieldValidation::Ignore {
                let twice = duplicates::duplicates(bytes);
                if options.field_validation == FieldValidation::Strict {
                    let text = decode::strict_error(&[], &twice);
                    let (kind, version) = (&call.resource.kind, &call.version);
                    return Err(Status::bad_request(decode::cannot_be_handled(kind, version, &text)));
                }
                call.warnings
                    .extend(twice.iter().map(|it| format!("duplicate field \"{it}\"")));
            }
            Ok(value)
        }
        "application/yaml" => {
            let (value, may_repeat) = read_yaml(bytes).map_err(unrecognized)?;
            if may_repeat && options.field_validation != FieldValidation::Ignore {
                let twice = repeated_keys(bytes);
                if !twice.is_empty() && options.field_validation == FieldValidation::Strict {
                    let text = format!(
                        "strict decoding error: yaml: unmarshal errors:\n  {}",
                        twice.join("\n  ")
                    );
                    let (kind, version) = (&call.resource.kind, &call.version);
                    return Err(Status::bad_request(decode::cannot_be_handled(kind, version, &text)));
                }
                call.warnings.extend(twice);
            }
            Ok(value)
        }
        protobuf::MEDIA_TYPE if call.resource.is_builtin() => {
            let api_version = call.resource.api_version(&call.version);
            protobuf::to_json(bytes, (&api_version, &call.resource.kind)).map_err(|why| {
                let kind = &call.resource.kind;
                Status::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): {why}"
                ))
            })
        }
        _ => Err(unsupported()),
    }
}

/// Parses an applied configuration.
///
/// # Errors
/// 400 for what cannot be read, and for a key that is there twice when validation is strict.
pub fn parse_applied(call: &mut Call<'_>, bytes: &[u8], options: &WriteOptions) -> Result<Value, Status> {
    let read = read_yaml(bytes).map_err(|it| Status::bad_request(format!("error decoding YAML: {it}")));
    let (config, may_repeat) = read?;
    if !may_repeat || options.field_validation == FieldValidation::Ignore {
        return Ok(config);
    }
    let twice = repeated_keys(bytes);
    if !twice.is_empty() && options.field_validation == FieldValidation::Strict {
        return Err(Status::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
            twice.join("\n  ")
        )));
    }
    call.warnings.extend(twice);
    Ok(config)
}

/// Parses a body that need not be an object of the resource: options, reviews.
///
/// # Errors
/// As `parse_object`.
pub fn parse_any(bytes: &[u8], media: &str) -> Result<Value, Status> {
    match media {
        "" | "application/json" => {
            serde_json::from_slice(bytes).map_err(|it| Status::bad_request(format!("the body cannot be parsed: {it}")))
        }
        "application/yaml" => {
            parse_yaml(bytes).map_err(|it| Status::bad_request(format!("the body cannot be parsed: {it}")))
        }
        protobuf::MEDIA_TYPE => protobuf::to_json(bytes, ("v1", "DeleteOptions"))
            .map_err(|it| Status::bad_request(format!("the body cannot be parsed: {it}"))),
        _ => Err(unsupported()),
    }
}

fn unsupported() -> Status {
    Status::unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf",
    )
}

/// YAML as Kubernetes clients write it: one document, bounded aliases; of a key that is given twice the last counts.
pub fn parse_yaml(bytes: &[u8]) -> Result<Value, String> {
    read_yaml(bytes).map(|(value, _)| value)
}

/// The value, and whether the text may give a key twice.
fn read_yaml(bytes: &[u8]) -> Result<(Value, bool), String> {
    // Every JSON text is a YAML text of the same meaning, clients mostly send JSON, and that is read five times as
    // fast. What only looks like it, such as a map in flow style, is YAML's to read.
    if bytes.trim_ascii_start().starts_with(b"{")
        && let Ok(read) = duplicates::parse(bytes)
    {
        return Ok(read);
    }
    let text = std::str::from_utf8(bytes).map_err(|it| it.to_string())?;
    let value = serde_saphyr::from_str_with_options(text, yaml_options()).map_err(|it| it.to_string())?;
    Ok((value, true))
}

/// What is said of the keys that a text of YAML gives twice.
fn repeated_keys(bytes: &[u8]) -> Vec<String> {
    duplicate_lines(bytes)
        .into_iter()
        .map(|(line, key)| format!("line {line}: key {key:?} already set in map"))
        .collect()
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough }
}

/// Line and key of each key that its map has already.
fn duplicate_lines(bytes: &[u8]) -> Vec<(u64, String)> {
    let parsed = std::str::from_utf8(bytes)
        .ok()
        .map(|it| serde_saphyr::from_str_with_options(it, yaml_options()));
    // Who parses the value itself reports what is wrong.
    match parsed {
        Some(Ok(Repeated(lines))) => lines,
        _ => Vec::new(),
    }
}

/// How many repeated keys are told: as many as of JSON.
const REPEATED_MAX: usize = 100;

/// What a piece of YAML repeats.
struct Repeated(Vec<(u64, String)>);

impl<'de> Deserialize<'de> for Repeated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Repeated;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any YAML value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<Repeated, E> {
        Ok(Repeated(Vec::new()))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Repeated, E> {
        Ok(Repeated(Vec::new()))
    }
    fn visit_u64<E>(self, _: u64) -> Result<Repeated, E> {
        Ok(Repeated(Vec::new()))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Repeated, E> {
        Ok(Repeated(Vec::new()))
    }
    fn visit_str<E>(self, _: &str) -> Result<Repeated, E> {
        Ok(Repeated(Vec::new()))
    }
    fn visit_unit<E>(self) -> Result<Repeated, E> {
        Ok(Repeated(Vec::new()))
    }
    fn visit_none<E>(self) -> Result<Repeated, E> {
        Ok(Repeated(Vec::new()))
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Repeated, D::Error> {
        Deserialize::deserialize(deserializer)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Repeated, A::Error> {
        let mut all = Vec::new();
        while let Some(Repeated(more)) = items.next_element()? {
            all.extend(more);
            all.truncate(REPEATED_MAX);
        }
        Ok(Repeated(all))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Repeated, A::Error> {
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            if !seen.insert(key.value.clone()) {
                all.push((key.defined.line(), key.value));
            }
            let Repeated(more) = entries.next_value()?;
            all.extend(more);
            all.truncate(REPEATED_MAX);
        }
        Ok(Repeated(all))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_parses_as_yaml_does_and_flow_style_works() {
        let texts = [
            r#"{"a": 1, "b": [true, null, -2, 1.5, 1e3, "x: y # z", "\u00e9\n"], "c": {"d": {}}, "e": 18446744073709551615}"#,
            r#" {"twice": 1, "twice": 2}"#,
        ];
        for text in texts {
            let as_yaml: Value = serde_saphyr::from_str_with_options(text, yaml_options()).unwrap();
            assert_eq!(parse_yaml(text.as_bytes()).unwrap(), as_yaml, "{text}");
        }
        assert_eq!(
            parse_yaml(b"{a: 1, b: [x, z]}").unwrap(),
            json!({"a": 1, "b": ["x", "z"]})
        );
        assert_eq!(parse_yaml(b"{}\n# a word").unwrap(), json!({}));
        assert!(parse_yaml(b"{\"a\": ").is_err());
    }

    #[test]
    fn repeated_keys_are_reported_with_their_line_in_any_style() {
        let table = [
            (
                "{\"a\": 1,\n \"b\": {\"c\": 1, \"c\": 2}}",
                true,
                Some("line 2: key \"c\""),
            ),
            ("{\"a\": 1, \"b\": [{\"a\": 1}, {\"a\": 1}]}", false, None),
            ("{a: 1, b: {a: 1, a: 2}}", true, Some("line 1: key \"a\"")),
            ("a: 1\nb:\n- a: 1\n- a: 1\n", true, None),
            ("a: 1\na: 2\n", true, Some("line 2: key \"a\"")),
        ];
        for (text, may_repeat, said) in table {
            assert_eq!(read_yaml(text.as_bytes()).unwrap().1, may_repeat, "{text}");
            let want: Vec<String> = said.iter().map(|it| format!("{it} already set in map")).collect();
            assert_eq!(repeated_keys(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn of_many_repeated_keys_only_the_first_are_reported() {
        let found = duplicate_lines("a: 1\n".repeat(1000).as_bytes());
        assert_eq!(found.len(), REPEATED_MAX);
        assert_eq!(found[0], (2, "a".to_owned()));
    }
}
