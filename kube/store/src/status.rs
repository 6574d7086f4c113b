//! Errors as Kubernetes clients parse them: `meta/v1 Status` with code, reason, details and causes.

use serde_json::{Value, json};

/// A Kubernetes `Status` of failure, answered as the body of an HTTP error.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason such as `NotFound`; empty when Kubernetes sends none.
    pub reason: &'static str,
    /// Sentence for the user.
    pub message: String,
    /// `details`; `None` leaves the member out, an empty object is written as `{}`. Boxed to keep results small.
    pub details: Option<Box<Value>>,
    /// `metadata`, where a list says how to go on; `{}` when `None`.
    pub metadata: Option<Box<Value>>,
    /// Seconds after which the client may try again; also sent as the `Retry-After` header.
    pub retry_after_seconds: Option<u32>,
}

/// One field that a request got wrong, printed in `details.causes` of a 422.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Reason of the cause, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// Path such as `spec.containers[0].image`.
    pub field: String,
    /// Everything after the field name: `Required value`, `Invalid value: "x": must be ...`.
    pub detail: String,
}

impl FieldError {
    /// `Required value[: detail]`.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let detail = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            detail,
        }
    }
    /// `Invalid value: <json>: detail`.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl AsRef<str>) -> Self {
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            detail: format!("Invalid value: {value}: {}", detail.as_ref()),
        }
    }
    /// `Forbidden: detail`.
    pub fn forbidden(field: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            detail: format!("Forbidden: {}", detail.as_ref()),
        }
    }
    /// `Duplicate value: <json>`.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            detail: format!("Duplicate value: {value}"),
        }
    }
    /// `Unsupported value: <json>: supported values: "a", "b"`.
    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list = supported
            .iter()
            .map(|it| format!("\"{it}\""))
            .collect::<Vec<_>>()
            .join(", ");
        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            detail: format!("Unsupported value: {value}: supported values: {list}"),
        }
    }
    /// `Too long: may not be more than N bytes`.
    pub fn too_long(field: impl Into<String>, bytes_max: usize) -> Self {
        Self {
            reason: "FieldValueTooLong",
            field: field.into(),
            detail: format!("Too long: may not be more than {bytes_max} bytes"),
        }
    }
    /// `Too many: M: must have at most N items`.
    pub fn too_many(field: impl Into<String>, found: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        Self {
            reason: "FieldValueTooMany",
            field: field.into(),
            detail: format!("Too many: {found}: must have at most {max} {items}"),
        }
    }
    /// `Not found: <json>`.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueNotFound",
            field: field.into(),
            detail: format!("Not found: {value}"),
        }
    }
}

/// `configmaps` or `deployments.apps`, as messages name a resource.
pub fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

fn details(name: &str, group: &str, kind: &str) -> serde_json::Map<String, Value> {
    let mut map = serde_json::Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            map.insert(key.into(), value.into());
        }
    }
    map
}

impl Status {
    /// A status without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            metadata: None,
            retry_after_seconds: None,
        }
    }
    /// 400 `BadRequest`.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }
    /// 401 `Unauthorized`.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }
    /// 403 `Forbidden` of an object: `<resource> "<name>" is forbidden: <text>`.
    pub fn forbidden(resource: &str, group: &str, name: &str, text: impl AsRef<str>) -> Self {
        let what = qualified(resource, group);
        let message = match (what.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {}", text.as_ref()),
            (_, true) => format!("{what} is forbidden: {}", text.as_ref()),
            _ => format!("{what} \"{name}\" is forbidden: {}", text.as_ref()),
        };
        Self {
            details: Some(Box::new(Value::Object(details(name, group, resource)))),
            ..Self::new(403, "Forbidden", message)
        }
    }
    /// 404 of an object: `configmaps "x" not found`.
    pub fn not_found(resource: &str, group: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(resource, group));
        Self {
            details: Some(Box::new(Value::Object(details(name, group, resource)))),
            ..Self::new(404, "NotFound", message)
        }
    }
    /// 404 of a path that names no resource.
    pub fn no_such_resource() -> Self {
        Self {
            details: Some(Box::new(json!({}))),
            ..Self::new(404, "NotFound", "the server could not find the requested resource")
        }
    }
    /// 405 `MethodNotAllowed`.
    pub fn method_not_allowed() -> Self {
        Self {
            details: Some(Box::new(json!({}))),
            ..Self::new(
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource",
            )
        }
    }
    /// 409 `AlreadyExists`.
    pub fn already_exists(resource: &str, group: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(resource, group));
        Self {
            details: Some(Box::new(Value::Object(details(name, group, resource)))),
            ..Self::new(409, "AlreadyExists", message)
        }
    }
    /// 409 `Conflict`: `Operation cannot be fulfilled on <resource> "<name>": <text>`.
    /// `kind` is what `details.kind` says.
    pub fn conflict(kind: &str, group: &str, name: &str, text: impl AsRef<str>) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {}",
            qualified(kind, group),
            text.as_ref()
        );
        Self {
            details: Some(Box::new(Value::Object(details(name, group, kind)))),
            ..Self::new(409, "Conflict", message)
        }
    }
    /// The 409 of a stale `resourceVersion`.
    pub fn stale(resource: &str, group: &str, name: &str) -> Self {
        Self::conflict(
            resource,
            group,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }
    /// 410 `Expired`.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }
    /// 415 `UnsupportedMediaType`.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }
    /// 422 `Invalid`: `<Kind>[.group] "<name>" is invalid: ...` with one cause per field.
    pub fn invalid(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Self {
        let mut texts = Vec::new();
        for error in errors {
            let text = if error.field.is_empty() {
                error.detail.clone()
            } else {
                format!("{}: {}", error.field, error.detail)
            };
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let text = if texts.len() == 1 {
            texts.remove(0)
        } else {
            format!("[{}]", texts.join(", "))
        };
        let mut map = details(name, group, kind);
        let causes = errors
            .iter()
            .map(|it| json!({"reason": it.reason, "message": it.detail, "field": it.field}));
        map.insert("causes".into(), Value::Array(causes.collect()));
        let message = format!("{} \"{name}\" is invalid: {text}", qualified(kind, group));
        Self {
            details: Some(Box::new(Value::Object(map))),
            ..Self::new(422, "Invalid", message)
        }
    }
    /// 429 while a resource is being set up; the client tries again after a second.
    pub fn initializing() -> Self {
        Self {
            details: Some(Box::new(json!({"retryAfterSeconds": 1}))),
            retry_after_seconds: Some(1),
            ..Self::new(429, "TooManyRequests", "storage is (re)initializing")
        }
    }
    /// 500 `InternalError`.
    pub fn internal(message: impl AsRef<str>) -> Self {
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {}", message.as_ref()),
        )
    }
    /// The JSON body.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = self.reason.into();
        }
        if let Some(metadata) = &self.metadata {
            body["metadata"] = (**metadata).clone();
        }
        if let Some(details) = &self.details {
            body["details"] = (**details).clone();
        }
        body
    }
    /// Whether this is a 404.
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }
    /// Whether this is a 409 of either kind.
    pub fn is_conflict(&self) -> bool {
        self.code == 409
    }
}
