//! Priority classes: what nobody but the system may exceed, and what stays.

use super::text;
use crate::pod_admission::SYSTEM_PRIORITIES;
use kube_store::status::FieldError;
use serde_json::Value;

/// What nobody but the system may exceed.
const PRIORITY_MAX: i64 = 1_000_000_000;

pub(super) fn priority_class(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let (name, value) = (text(new, "/metadata/name"), new["value"].as_i64().unwrap_or_default());
    if name.starts_with("system-") {
        let known = SYSTEM_PRIORITIES.iter().find(|it| it.0 == name);
        let error = match known {
            None => Some(format!("{name} is not a known system priority class")),
            Some(it) if it.1 != value => Some(format!("value of {name} PriorityClass must be {}", it.1)),
            Some(_) => None,
        };
        if let Some(error) = error {
            let detail = "priority class names with 'system-' prefix are reserved for system use only. error: ";
            errors.push(FieldError::forbidden("metadata.name", format!("{detail}{error}")));
        }
    } else if value > PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        errors.push(FieldError::forbidden("value", detail));
    }
    if old.is_some_and(|it| it["value"] != new["value"]) {
        errors.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
}
