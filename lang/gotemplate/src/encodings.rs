//! JSON, YAML and base64 as Go's libraries read and write them, for those who build on templates.

use serde_json::Value as Json;

use crate::{json, sprig, yaml, yaml_lines};

/// The document as Go's `json.Marshal` writes it: compact, with `<`, `>` and `&` escaped.
pub fn json_of(document: &Json) -> String {
    json::write(document, json::COMPACT)
}

/// The document as go-yaml 3 writes it with an indent of two, with a line break at its end.
pub fn yaml_of(document: &Json) -> String {
    yaml::write(document, yaml::Dialect::Pretty)
}

/// The document as `sigs.k8s.io/yaml` writes it, with a line break at its end.
pub fn kubernetes_yaml_of(document: &Json) -> String {
    yaml::write(document, yaml::Dialect::Sigs)
}

/// The document of a YAML text as `sigs.k8s.io/yaml` reads it: `yes` and `on` are truths. An empty text is null.
///
/// # Errors
/// When the text is no YAML; the words are not Go's.
pub fn read_kubernetes_yaml(text: &str) -> Result<Json, String> {
    yaml::read(text).map(whole)
}

/// The document of a YAML text as go-yaml 3 reads it: `yes` and `on` are strings. An empty text is null.
///
/// # Errors
/// When the text is no YAML; the words are not Go's.
pub fn read_yaml(text: &str) -> Result<Json, String> {
    let read = yaml::read_as(text, yaml::Dialect::Pretty).or_else(|why| {
        // The lines are looked at only where the parser does not take them as they are.
        let deepened = yaml_lines::deepened(text);
        match deepened == text {
            true => Err(why),
            false => yaml::read_as(&deepened, yaml::Dialect::Pretty).map_err(|_| why),
        }
    });
    read.map(whole)
}

/// Go's JSON has no point in whole numbers, and whoever reads them then has integers.
fn whole(document: Json) -> Json {
    match document {
        Json::Number(number) if number.is_f64() => {
            let text = json::number_text(&number);
            serde_json::from_str(&text).unwrap_or(Json::Number(number))
        }
        Json::Array(items) => Json::Array(items.into_iter().map(whole).collect()),
        Json::Object(entries) => Json::Object(entries.into_iter().map(|(key, it)| (key, whole(it))).collect()),
        other => other,
    }
}

/// The bytes of base64 with padding. Line breaks are skipped.
///
/// # Errors
/// The place where Go's decoder stops.
pub fn decode_base64(text: &[u8]) -> Result<Vec<u8>, usize> {
    sprig::encoding::decode_base64(text)
}

/// Base64 with padding.
pub fn base64_of(bytes: &[u8]) -> String {
    crate::base64_of(bytes)
}

/// A value as `%v` prints it.
pub fn display(value: &crate::Value) -> String {
    crate::gofmt::display(value)
}
