//! ConfigMaps and Secrets: their keys, how much they hold, and what is frozen.

use super::{
    defaults::{entry, set},
    strategy::{Columns, Strategy},
    validation::{
        data_key_errors,
        fields::{FieldRule::*, FieldRules},
        text,
    },
};
use crate::table::cells;
use base64::{Engine, engine::general_purpose::STANDARD};
use kube_store::{patch::go_syntax_error, schema::decode::go_kind, status::FieldError};
use serde_json::{Map, Value, json};

/// ConfigMap.
pub struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn columns(&self) -> Columns {
        Columns::new("Name|Data|Age", |it, now| {
            vec![
                cells::name(it),
                (cells::count(it, &["data"]) + cells::count(it, &["binaryData"])).into(),
                cells::age(it, now),
            ]
        })
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let mut bytes = 0;
        for member in ["data", "binaryData"] {
            for (key, value) in new.get(member).and_then(Value::as_object).into_iter().flatten() {
                let field = format!("{member}[{key}]");
                errors.extend(
                    data_key_errors(key)
                        .iter()
                        .map(|it| FieldError::invalid(&field, &json!(key), it)),
                );
                let text = value.as_str().unwrap_or("");
                bytes += if member == "data" {
                    text.len()
                } else {
                    decoded_length(text)
                };
                if member == "data" && new.get("binaryData").is_some_and(|it| it.get(key).is_some()) {
                    errors.push(FieldError::invalid(
                        field,
                        &json!(key),
                        "duplicate of key present in binaryData",
                    ));
                }
            }
        }
        if bytes > DATA_BYTES_MAX {
            errors.push(FieldError {
                field: "[]".to_owned(),
                ..FieldError::too_long("", DATA_BYTES_MAX)
            });
        }
        frozen(new, old, &["immutable", "data", "binaryData"], errors);
    }
}

/// Secret.
pub struct Secrets;

impl Strategy for Secrets {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn columns(&self) -> Columns {
        Columns::new("Name|Type|Data|Age", |it, now| {
            vec![
                cells::name(it),
                cells::text(it, &["type"]).into(),
                cells::count(it, &["data"]).into(),
                cells::age(it, now),
            ]
        })
    }

    fn default(&self, object: &mut Map<String, Value>) {
        if let Some(Value::Object(strings)) = object.remove("stringData") {
            let data = entry(object, "data");
            for (key, value) in strings {
                data.insert(key, STANDARD.encode(value.as_str().unwrap_or("")).into());
            }
        }
        set(object, "type", "Opaque");
    }

    fn fields(&self) -> FieldRules {
        &[("type", Immutable)]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let data = new.get("data").and_then(Value::as_object);
        let mut bytes = 0;
        for (key, value) in data.into_iter().flatten() {
            let found = data_key_errors(key);
            errors.extend(
                found
                    .iter()
                    .map(|it| FieldError::invalid(format!("data[{key}]"), &json!(key), it)),
            );
            bytes += decoded_length(value.as_str().unwrap_or(""));
        }
        if bytes > DATA_BYTES_MAX {
            errors.push(FieldError::too_long("data", DATA_BYTES_MAX));
        }
        let mut needs = |key: &str| {
            if data.is_none_or(|it| !it.contains_key(key)) {
                errors.push(FieldError::required(format!("data[{key}]"), ""));
            }
        };
        let json_key = |key: &str, errors: &mut Vec<FieldError>| {
            let Some(value) = data.and_then(|it| it.get(key)).and_then(Value::as_str) else {
                errors.push(FieldError::required(format!("data[{key}]"), ""));
                return;
            };
            let decoded = STANDARD.decode(value).unwrap_or_default();
            let why = match serde_json::from_slice(&decoded) {
                Ok(Value::Object(_) | Value::Null) => return,
                Ok(other) => format!(
                    "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    go_kind(&other)
                ),
                Err(error) => go_syntax_error(&decoded, &error),
            };
            // The value stays out of the message: it is a secret.
            errors.push(FieldError::invalid(
                format!("data[{key}]"),
                &json!("<secret contents redacted>"),
                why,
            ));
        };
        match text(new, "/type") {
            "kubernetes.io/tls" => ["tls.crt", "tls.key"].into_iter().for_each(&mut needs),
            // Of these it is the only one that may not be empty either.
            "kubernetes.io/ssh-auth" if text(new, "/data/ssh-privatekey").is_empty() => {
                errors.push(FieldError::required("data[ssh-privatekey]", ""));
            }
            "kubernetes.io/basic-auth" => {
                if data.is_none_or(|it| !it.contains_key("username") && !it.contains_key("password")) {
                    ["username", "password"].into_iter().for_each(&mut needs);
                }
            }
            "kubernetes.io/dockerconfigjson" => json_key(".dockerconfigjson", errors),
            "kubernetes.io/dockercfg" => json_key(".dockercfg", errors),
            "kubernetes.io/service-account-token" => {
                const KEY: &str = "kubernetes.io/service-account.name";
                let owner = new
                    .pointer("/metadata/annotations")
                    .and_then(|it| it.get(KEY))
                    .and_then(Value::as_str);
                if owner.unwrap_or("").is_empty() {
                    errors.push(FieldError::required(format!("metadata.annotations[{KEY}]"), ""));
                }
            }
            _ => {}
        }
        frozen(new, old, &["immutable", "data"], errors);
    }
}

/// How much a Secret or a ConfigMap may hold.
const DATA_BYTES_MAX: usize = 1024 * 1024;

fn decoded_length(text: &str) -> usize {
    STANDARD.decode(text).map_or(text.len(), |it| it.len())
}

fn frozen(new: &Value, old: Option<&Value>, members: &[&str], errors: &mut Vec<FieldError>) {
    let Some(old) = old.filter(|it| it.get("immutable") == Some(&json!(true))) else {
        return;
    };
    for member in members {
        if new.get(*member) != old.get(*member) {
            errors.push(FieldError::forbidden(
                *member,
                "field is immutable when `immutable` is set",
            ));
        }
    }
}
