//! Where the variables of a container come from: its pod, its resources, ConfigMaps and Secrets.

use super::{data_key_errors, list, subdomain, supported, text};
use kube_store::{
    schema::{metadata::qualified_name_errors, quantity},
    status::FieldError,
};
use serde_json::{Value, json};

/// What of a pod a variable can hold.
const OF_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// What of a pod a file can hold.
pub const OF_FILES: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
/// What of a pod has a path, though nothing may hold it.
const PATHS: [&str; 4] = ["spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase"];
const NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than '='";

fn is_name(name: &str) -> bool {
    name.bytes().all(|it| (b' '..=b'~').contains(&it) && it != b'=')
}

pub fn environment(container: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (at, variable) in list(container, "/env").iter().enumerate() {
        // There may be many, and hardly one is wrong: its place is only written for one that is.
        let field = |name: &str| format!("{place}.env[{at}].{name}");
        let name = text(variable, "/name");
        if name.is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        } else if !is_name(name) {
            errors.push(FieldError::invalid(field("name"), &json!(name), NAME));
        }
        let Some(source) = variable.get("valueFrom").filter(|it| !it.is_null()) else {
            continue;
        };
        value_from(source, &field("valueFrom"), errors);
        let count = source
            .as_object()
            .map_or(0, |it| it.values().filter(|it| !it.is_null()).count());
        let detail = match count {
            0 => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            }
            _ if !text(variable, "/value").is_empty() => "may not be specified when `value` is not empty",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(field("valueFrom"), &json!(""), detail));
    }
    all_of(container, place, errors);
}

fn value_from(source: &Value, place: &str, errors: &mut Vec<FieldError>) {
    if source["fieldRef"].is_object() {
        field_ref(&source["fieldRef"], &OF_VARIABLES, &format!("{place}.fieldRef"), errors);
    }
    if source["resourceFieldRef"].is_object() {
        resource_ref(
            &source["resourceFieldRef"],
            &format!("{place}.resourceFieldRef"),
            errors,
        );
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let key_ref = &source[kind];
        if !key_ref.is_object() {
            continue;
        }
        subdomain(text(key_ref, "/name"), &format!("{place}.{kind}.name"), errors);
        let (key, field) = (text(key_ref, "/key"), format!("{place}.{kind}.key"));
        if key.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else {
            let wrong = data_key_errors(key);
            errors.extend(wrong.iter().map(|it| FieldError::invalid(&field, &json!(key), it)));
        }
    }
}

/// Errors of what tells something of the pod. One that names no version of the API means the first.
pub fn field_ref(given: &Value, known: &[&str], place: &str, errors: &mut Vec<FieldError>) {
    let path = text(given, "/fieldPath");
    let field = format!("{place}.fieldPath");
    let version = text(given, "/apiVersion");
    if path.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let unreadable = |why: String| {
        let detail = format!("error converting fieldPath: {why}");
        FieldError::invalid(&field, &json!(path), detail)
    };
    if !["", "v1"].contains(&version) {
        errors.push(unreadable(format!("unsupported pod version: {version}")));
        return;
    }
    let subscripted = path.strip_suffix("']").and_then(|it| it.split_once("['"));
    if let Some((whole, key)) = subscripted.filter(|it| !it.0.is_empty()) {
        let key = match whole {
            "metadata.annotations" => key.to_lowercase(),
            "metadata.labels" => key.to_owned(),
            _ => {
                errors.push(unreadable(format!("field label does not support subscript: {path}")));
                return;
            }
        };
        let wrong = qualified_name_errors(&key);
        errors.extend(wrong.iter().map(|it| FieldError::invalid(place, &json!(key), it)));
        return;
    }
    if ![&OF_VARIABLES[..], &OF_FILES, &PATHS]
        .iter()
        .any(|it| it.contains(&path))
    {
        errors.push(unreadable(format!("field label not supported: {path}")));
        return;
    }
    // Old clients say `host` for the name of the node.
    let path = if path == "spec.host" { "spec.nodeName" } else { path };
    supported(&json!(path), field, known, errors);
}

/// Errors of what tells how much a container may have.
pub fn resource_ref(given: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const KNOWN: [&str; 6] = [
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = text(given, "/resource");
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if resource.is_empty() {
        errors.push(FieldError::required(format!("{place}.resource"), ""));
    } else if !huge {
        supported(&json!(resource), format!("{place}.resource"), &KNOWN, errors);
    }
    let divisor = text(given, "/divisor");
    let Ok(divisor) = quantity::canonical(divisor) else {
        return;
    };
    const BYTES: [&str; 13] = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    let (known, what) = match resource.split_once('.').map_or("", |it| it.1) {
        "cpu" => (&["1m", "1"][..], "cpu"),
        "memory" => (&BYTES[..], "memory"),
        "ephemeral-storage" => (&BYTES[..], "local ephemeral storage"),
        _ if huge => (&BYTES[..], "hugepages"),
        _ => return,
    };
    if divisor != "0" && !known.contains(&divisor.as_str()) {
        let shown = match known {
            ["1m", "1"] => "1m and 1".to_owned(),
            bytes => bytes.join(", "),
        };
        let detail = format!("only divisor's values {shown} are supported with the {what} resource");
        errors.push(FieldError::invalid(
            format!("{place}.divisor"),
            &json!(resource),
            detail,
        ));
    }
}

/// Errors of what becomes variables as a whole.
fn all_of(container: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (at, source) in list(container, "/envFrom").iter().enumerate() {
        let field = |name: &str| format!("{place}.envFrom[{at}].{name}");
        let prefix = text(source, "/prefix");
        if !is_name(prefix) {
            errors.push(FieldError::invalid(field("prefix"), &json!(prefix), NAME));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            if !source[kind].is_object() {
                continue;
            }
            count += 1;
            match text(&source[kind], "/name") {
                "" => errors.push(FieldError::required(field(&format!("{kind}.name")), "")),
                // Upstream takes it for the beginning of a name.
                name => subdomain(
                    name.strip_suffix('-').filter(|it| !it.is_empty()).unwrap_or(name),
                    &field(&format!("{kind}.name")),
                    errors,
                ),
            }
        }
        let detail = match count {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(format!("{place}.envFrom"), &json!(""), detail));
    }
}
