//! What rules of several kinds are made of, in the words of kube-apiserver. `metadata` has its own module in
//! `kube_store::schema::metadata`, definitions of custom resources have `kube_store::schema::structural`.

pub mod addresses;
pub mod containers;
pub mod environment;
pub mod fields;
pub mod gates;
pub mod pods;
pub mod published;
pub mod resources;
pub mod scheduling;
pub mod volumes;

use kube_store::{
    schema::metadata::{label_errors, qualified_name_errors, subdomain_errors},
    status::FieldError,
};
use serde_json::{Value, json};

/// The value at a JSON pointer of plain names. Unlike [`Value::pointer`] it has nothing to unescape, and so no text to
/// make for each step: a Deployment is asked some hundred times.
pub fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |it, key| it.get(key))
}

/// The text at a JSON pointer, or nothing.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or("")
}

/// The list at a JSON pointer, or nothing.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// A value at a pointer that an update may not change.
pub fn immutable(new: &Value, old: Option<&Value>, pointer: &str, field: &str, errors: &mut Vec<FieldError>) {
    let Some(old) = old else { return };
    if at(new, pointer) != at(old, pointer) {
        errors.push(FieldError::invalid(
            field,
            at(new, pointer).unwrap_or(&Value::Null),
            "field is immutable",
        ));
    }
}

/// Whether something has still to be checked. What was stored once may stay: its status, and how many there are,
/// is still to be written.
pub fn changed(new: &Value, old: Option<&Value>, pointer: &str) -> bool {
    old.is_none_or(|it| it.pointer(pointer) != new.pointer(pointer))
}

/// The protocols of a port.
pub const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A value that has to be one of the known texts.
pub fn supported(value: &Value, field: impl Into<String>, known: &[&str], errors: &mut Vec<FieldError>) {
    if !value.as_str().is_some_and(|it| known.contains(&it)) {
        errors.push(FieldError::not_supported(field, value, known));
    }
}

pub fn port_errors(number: i64, field: &str, errors: &mut Vec<FieldError>) {
    if !(1..=65535).contains(&number) {
        let detail = "must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(field, &json!(number), detail));
    }
}

/// The number of a percentage, if a text is one.
pub fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// A number that is not negative, or a percentage.
pub fn int_or_percent(value: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Number(it) if it.as_i64().is_some_and(|it| it < 0) => {
            errors.push(FieldError::invalid(field, value, "must be greater than or equal to 0"));
        }
        Value::String(it) if percent(it).is_none() => errors.push(FieldError::invalid(
            field,
            value,
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
             regex used for validation is '[0-9]+%')",
        )),
        _ => {}
    }
}

/// A number, or a percentage of at most all there is.
pub fn not_more_than_all(value: &Value, field: &str, errors: &mut Vec<FieldError>) {
    if value.as_str().and_then(percent).is_some_and(|it| it > 100) {
        errors.push(FieldError::invalid(field, value, "must not be greater than 100%"));
    }
}

/// What is wrong with a key of a Secret or a ConfigMap.
pub fn data_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if key.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|it| it.is_ascii_alphanumeric() || b"-._".contains(&it)) {
        errors.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex \
             used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    if key == "." || key == ".." {
        errors.push(format!("must not be '{key}'"));
    } else if key.starts_with("..") {
        errors.push("must not start with '..'".to_owned());
    }
    errors
}

/// Errors of a path that leaves its directory.
pub fn no_backsteps(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    if path.split('/').any(|it| it == "..") {
        errors.push(FieldError::invalid(field, &json!(path), "must not contain '..'"));
    }
}

/// Errors of a name that must be a subdomain, at a field.
pub fn subdomain(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    errors.extend(
        subdomain_errors(name)
            .iter()
            .map(|it| FieldError::invalid(field, &json!(name), it)),
    );
}

/// Errors of a name that must be a label, at a field.
pub fn label(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    errors.extend(
        label_errors(name)
            .iter()
            .map(|it| FieldError::invalid(field, &json!(name), it)),
    );
}

/// Errors of a qualified name, at a field.
pub fn qualified_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    errors.extend(
        qualified_name_errors(name)
            .iter()
            .map(|it| FieldError::invalid(field, &json!(name), it)),
    );
}

/// An invalid value that is shown otherwise than clients write it: as the server within Kubernetes has it.
pub fn invalid_shown(field: impl Into<String>, shown: &str, detail: &str) -> FieldError {
    FieldError {
        reason: "FieldValueInvalid",
        field: field.into(),
        detail: format!("Invalid value: {shown}: {detail}"),
    }
}

/// What a check says, a text for each error.
#[cfg(test)]
pub fn said(check: impl FnOnce(&mut Vec<FieldError>)) -> Vec<String> {
    let mut errors = Vec::new();
    check(&mut errors);
    errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
}

/// The same of a check of whole objects.
#[cfg(test)]
pub fn said_of(
    check: fn(&Value, Option<&Value>, &mut Vec<FieldError>),
    new: &Value,
    old: Option<&Value>,
) -> Vec<String> {
    said(|it| check(new, old, it))
}
