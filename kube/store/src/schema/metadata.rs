//! Rules for `metadata` that hold for every kind: names, labels, annotations, finalizers and owners.

use super::validate::Told;
use crate::status::FieldError;
use regex::Regex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

/// What a name of a kind may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS-1123 subdomain, at most 253 characters.
    Subdomain,
    /// DNS-1123 label, at most 63 characters.
    Label,
    /// DNS-1035 label: a label that starts with a letter.
    Label1035,
    /// Anything that can stand in a URL path.
    PathSegment,
}

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const ANNOTATION_BYTES_MAX: usize = 256 * 1024;

macro_rules! whole {
    ($pattern:expr, $text:expr) => {{
        static PATTERN: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(&format!("^(?:{})$", $pattern)).expect("a constant pattern"));
        PATTERN.is_match($text)
    }};
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// The same of keys and values of labels, of which Kubernetes says it in other words.
fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// What is wrong with a DNS-1123 label.
pub fn label_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !whole!(LABEL, text) && whole!(SUBDOMAIN, text) {
        errors.push("must not contain dots".to_owned());
    } else if !whole!(LABEL, text) {
        errors.push(format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric \
             character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')"
        ));
    }
    errors
}

/// What is wrong with a name that stands for all names below a DNS-1123 subdomain.
pub fn wildcard_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253));
    }
    let below = text.strip_prefix("*.");
    if !below.is_some_and(|it| whole!(SUBDOMAIN, it)) {
        errors.push(format!(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case \
             alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation \
             is '\\*\\.{SUBDOMAIN}')"
        ));
    }
    errors
}

/// What is wrong with a DNS-1035 label.
pub fn label_1035_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !whole!(LABEL_1035, text) {
        errors.push(format!(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an \
             alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{LABEL_1035}')"
        ));
    }
    errors
}

/// What is wrong with a DNS-1123 subdomain.
pub fn subdomain_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253));
    }
    if !whole!(SUBDOMAIN, text) {
        errors.push(format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
             alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"
        ));
    }
    errors
}

/// What is wrong with a path segment.
pub fn path_segment_errors(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    let contains = |it: &&str| text.contains(*it);
    ["/", "%"]
        .iter()
        .filter(|it| contains(it))
        .map(|it| format!("may not contain '{it}'"))
        .collect()
}

/// What is wrong with a qualified name such as `example.com/name`.
pub fn qualified_name_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let shape =
        format!("{rule} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{QUALIFIED}')");
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(
                    subdomain_errors(prefix)
                        .into_iter()
                        .map(|it| if it == too_long(253) { too_many_bytes(253) } else { it })
                        .map(|it| format!("prefix part {it}")),
                );
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_many_bytes(63)));
    }
    if !whole!(QUALIFIED, name) {
        errors.push(format!("name part {shape}"));
    }
    errors
}

/// What is wrong with the value of a label.
pub fn label_value_errors(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_many_bytes(63));
    }
    if !whole!(LABEL_VALUE, text) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{LABEL_VALUE}')"
        ));
    }
    errors
}

/// What is wrong with a name under a rule. `prefix` says that it is a `generateName`, which may end in `-`.
pub fn name_errors(name: &str, rule: NameRule, prefix: bool) -> Vec<String> {
    let masked = match name.strip_suffix('-') {
        Some(head) if prefix && !head.is_empty() => format!("{head}a"),
        _ => name.to_owned(),
    };
    match rule {
        NameRule::Subdomain => subdomain_errors(&masked),
        NameRule::Label => label_errors(&masked),
        NameRule::Label1035 => label_1035_errors(&masked),
        NameRule::PathSegment => path_segment_errors(&masked),
    }
}

/// Errors of a map of labels at `field`.
pub fn validate_labels(labels: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.as_object().into_iter().flatten() {
        errors.extend(
            qualified_name_errors(key)
                .iter()
                .map(|it| FieldError::invalid(field, &json!(key), it)),
        );
        let text = value.as_str().unwrap_or("");
        errors.extend(
            label_value_errors(text)
                .iter()
                .map(|it| FieldError::invalid(field, value, it)),
        );
    }
    errors
}

/// Errors of a map of annotations at `field`.
pub fn validate_annotations(annotations: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        // Annotation keys may have upper case prefixes, unlike label keys.
        errors.extend(
            qualified_name_errors(&key.to_lowercase())
                .iter()
                .map(|it| FieldError::invalid(field, &json!(key), it)),
        );
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATION_BYTES_MAX {
        errors.push(FieldError::too_long(field, ANNOTATION_BYTES_MAX));
    }
    errors
}

/// Whether the object lives in a namespace; `None` when it is not known, as in embedded resources.
pub type Namespaced = Option<bool>;

/// Errors and warnings of `metadata` as a create sees it. `builtin` demands domain-qualified finalizers, which custom
/// resources are only warned about.
pub fn validate_metadata(
    meta: &Value,
    rule: NameRule,
    namespaced: bool,
    builtin: bool,
) -> (Vec<FieldError>, Vec<String>) {
    let (mut errors, _) = validate(meta, "metadata", rule, Some(namespaced));
    let name = meta.get("name").and_then(Value::as_str).unwrap_or("");
    let generate_name = meta.get("generateName").and_then(Value::as_str).unwrap_or("");
    if name.is_empty() && generate_name.is_empty() {
        errors.insert(
            0,
            FieldError::required("metadata.name", "name or generateName is required"),
        );
    }
    let mut warnings = Vec::new();
    for (at, finalizer) in finalizers(meta).enumerate() {
        // The last is what Kubernetes itself puts on every CustomResourceDefinition.
        const STANDARD: [&str; 4] = [
            "orphan",
            "foregroundDeletion",
            "kubernetes",
            "customresourcecleanup.apiextensions.k8s.io",
        ];
        if finalizer.contains('/') || STANDARD.contains(&finalizer) || !qualified_name_errors(finalizer).is_empty() {
            continue;
        }
        if builtin {
            let text = "name is neither a standard finalizer name nor is it fully qualified";
            let field = format!("metadata.finalizers[{at}]");
            errors.push(FieldError::invalid(field, &json!(finalizer), text));
        } else {
            warnings.push(format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
            ));
        }
    }
    if let Some(text) = duplicate_owners(meta) {
        warnings.push(text);
    }
    (errors, warnings)
}

fn finalizers(meta: &Value) -> impl Iterator<Item = &str> {
    meta.get("finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn owners(meta: &Value) -> &[Value] {
    meta.get("ownerReferences")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn duplicate_owners(meta: &Value) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for owner in owners(meta) {
        *counts
            .entry(owner.get("uid").and_then(Value::as_str).unwrap_or(""))
            .or_default() += 1;
    }
    let twice: Vec<&str> = counts
        .iter()
        .filter(|(_, count)| **count > 1)
        .map(|(uid, _)| *uid)
        .collect();
    if twice.is_empty() {
        return None;
    }
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early \
         as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        twice.join(", ")
    ))
}

/// Removes owner references whose uid was seen before.
/// Returns the uids that were there twice.
pub fn deduplicate_owners(meta: &mut Value) -> Vec<String> {
    let Some(Value::Array(items)) = meta.get_mut("ownerReferences") else {
        return Vec::new();
    };
    let mut seen: HashMap<String, bool> = HashMap::new();
    let mut twice = Vec::new();
    items.retain(|it| {
        let uid = it.get("uid").and_then(Value::as_str).unwrap_or("");
        match seen.get_mut(uid) {
            None => {
                seen.insert(uid.to_owned(), false);
                true
            }
            Some(told) => {
                if !std::mem::replace(told, true) {
                    twice.push(uid.to_owned());
                }
                false
            }
        }
    });
    twice
}

/// Errors and warnings of `metadata` wherever it stands; a missing name is no error here.
pub fn validate(meta: &Value, field: &str, rule: NameRule, namespaced: Namespaced) -> (Vec<FieldError>, Vec<String>) {
    let mut errors = Vec::new();
    let text = |key: &str| meta.get(key).and_then(Value::as_str).unwrap_or("");
    for (key, prefix) in [("generateName", true), ("name", false)] {
        let name = text(key);
        if !name.is_empty() {
            let found = name_errors(name, rule, prefix);
            errors.extend(
                found
                    .iter()
                    .map(|it| FieldError::invalid(format!("{field}.{key}"), &json!(name), it)),
            );
        }
    }
    let namespace = text("namespace");
    match namespaced {
        Some(true) if namespace.is_empty() => errors.push(FieldError::required(format!("{field}.namespace"), "")),
        Some(false) if !namespace.is_empty() => {
            errors.push(FieldError::forbidden(
                format!("{field}.namespace"),
                "not allowed on this type",
            ));
        }
        _ => {
            if !namespace.is_empty() {
                let found = label_errors(namespace);
                errors.extend(
                    found
                        .iter()
                        .map(|it| FieldError::invalid(format!("{field}.namespace"), &json!(namespace), it)),
                );
            }
        }
    }
    if let Some(generation) = meta.get("generation").filter(|it| it.as_i64().is_some_and(|it| it < 0)) {
        errors.push(FieldError::invalid(
            format!("{field}.generation"),
            generation,
            "must be greater than or equal to 0",
        ));
    }
    if let Some(labels) = meta.get("labels") {
        errors.extend(validate_labels(labels, &format!("{field}.labels")));
    }
    if let Some(annotations) = meta.get("annotations") {
        errors.extend(validate_annotations(annotations, &format!("{field}.annotations")));
    }
    errors.extend(validate_owners(meta, &format!("{field}.ownerReferences")));
    let at = format!("{field}.finalizers");
    for finalizer in finalizers(meta) {
        errors.extend(
            qualified_name_errors(finalizer)
                .iter()
                .map(|it| FieldError::invalid(&at, &json!(finalizer), it)),
        );
    }
    let has = |name: &str| finalizers(meta).any(|it| it == name);
    if has("orphan") && has("foregroundDeletion") {
        let text = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(
            &at,
            &json!(finalizers(meta).collect::<Vec<_>>()),
            text,
        ));
    }
    (errors, Vec::new())
}

fn validate_owners(meta: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    // An error may show all owners: all errors together would be as long as their number, squared.
    let mut told = Told::default();
    for owner in owners(meta) {
        if told.is_enough(&errors) {
            break;
        }
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or("");
        let version = text("apiVersion").rsplit('/').next().unwrap_or("");
        if version.is_empty() {
            errors.push(FieldError::invalid(
                format!("{field}.apiVersion"),
                &json!(version),
                "version must not be empty",
            ));
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                errors.push(FieldError::invalid(
                    format!("{field}.{key}"),
                    &json!(""),
                    "must not be empty",
                ));
            }
        }
        if text("kind") == "Event" && matches!(text("apiVersion"), "v1" | "events.k8s.io/v1") {
            let shown = format!(
                "{} is disallowed from being an owner",
                text("apiVersion").to_owned() + ", Kind=Event"
            );
            errors.push(FieldError::invalid(field, owner, shown));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(other) = &controller {
                let shown = json!(owners(meta));
                let text = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {other} and {this}"
                );
                errors.push(FieldError::invalid(field, &shown, text));
            } else {
                controller = Some(this);
            }
        }
    }
    errors
}

/// What an update may not do to `metadata`: the uid, the deletion timestamp and, while deleting, the finalizers.
pub fn validate_metadata_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for key in ["name", "namespace", "uid"] {
        let (new, old) = (new.get(key), old.get(key));
        if let Some(value) = new.filter(|it| Some(*it) != old) {
            errors.push(FieldError::invalid(
                format!("metadata.{key}"),
                value,
                "field is immutable",
            ));
        }
    }
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (new.get(key), old.get(key));
        if let Some(value) = new.filter(|it| Some(*it) != old) {
            errors.push(FieldError::invalid(
                format!("metadata.{key}"),
                value,
                "field is immutable",
            ));
        }
    }
    if old.get("deletionTimestamp").is_some() {
        let had: Vec<&str> = finalizers(old).collect();
        let added: Vec<&str> = finalizers(new).filter(|it| !had.contains(it)).collect();
        if !added.is_empty() {
            errors.push(FieldError::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    added.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>().join(", ")
                ),
            ));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(meta: Value, rule: NameRule, builtin: bool) -> Vec<String> {
        let (errors, warnings) = validate_metadata(&meta, rule, false, builtin);
        let errors = errors.iter().map(|it| format!("{}: {}", it.field, it.detail));
        errors
            .chain(warnings.into_iter().map(|it| format!("warning {it}")))
            .collect()
    }

    #[test]
    fn good_metadata_passes() {
        let table = [
            (json!({"name": "a.b-c"}), NameRule::Subdomain),
            (json!({"generateName": "a-"}), NameRule::Label),
            (json!({"name": "system:Any thing"}), NameRule::PathSegment),
            (
                json!({
                    "name": "a", "labels": {"example.com/Name_1": "", "x": "Value.1"}, "annotations": {"Example.com/x": "any\nthing"},
                    "finalizers": ["example.com/f", "orphan"],
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}],
                }),
                NameRule::Subdomain,
            ),
        ];
        for (meta, rule) in table {
            assert_eq!(check(meta.clone(), rule, true), Vec::<String>::new(), "{meta}");
        }
    }

    #[test]
    fn invalid_metadata_is_refused_with_kubernetes_message() {
        let table = [
            (
                json!({}),
                "metadata.name: Required value: name or generateName is required",
            ),
            (
                json!({"name": "A"}),
                r#"metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            ),
            (
                json!({"name": "a", "labels": {"bad key!": "x"}}),
                r#"metadata.labels: Invalid value: "bad key!": name part must consist of"#,
            ),
            (
                json!({"name": "a", "labels": {"x": "bad value"}}),
                r#"metadata.labels: Invalid value: "bad value": a valid label must be"#,
            ),
            (
                json!({"name": "a", "annotations": {"x": "y".repeat(262144)}}),
                "metadata.annotations: Too long: may not be more than 262144 bytes",
            ),
            (
                json!({"name": "a", "finalizers": ["foo"]}),
                r#"metadata.finalizers[0]: Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified"#,
            ),
            (
                json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}),
                r#"metadata.ownerReferences.uid: Invalid value: "": must not be empty"#,
            ),
            (
                json!({"name": "a", "namespace": "x"}),
                "metadata.namespace: Forbidden: not allowed on this type",
            ),
        ];
        for (meta, want) in table {
            let found = check(meta.clone(), NameRule::Subdomain, true);
            assert!(
                found.first().is_some_and(|it| it.starts_with(want)),
                "{meta}: {found:?}"
            );
        }
    }

    #[test]
    fn custom_resources_are_only_warned_about_plain_finalizers() {
        assert_eq!(
            check(json!({"name": "a", "finalizers": ["foo"]}), NameRule::Subdomain, false),
            [
                "warning metadata.finalizers: \"foo\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"
            ]
        );
    }

    #[test]
    fn an_object_being_deleted_takes_no_new_finalizers() {
        let old = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]});
        let new = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b", "x"]});
        let errors = validate_metadata_update(&new, &old);
        assert_eq!(
            errors[0].detail,
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x\"}"
        );
        assert!(validate_metadata_update(&old, &old).is_empty());
    }

    #[test]
    fn owners_that_are_there_twice_are_found_soon() {
        let owners: Vec<_> = (0..100_000).map(|at| json!({"uid": (at / 3).to_string()})).collect();
        let mut meta = json!({"ownerReferences": owners});
        let twice = deduplicate_owners(&mut meta);
        assert_eq!(twice.len(), 33_333);
        assert_eq!(meta["ownerReferences"].as_array().map(Vec::len), Some(33_334));
    }
}
