//! The volumes of a pod: one source each, and where what they hold is put.

use super::{
    environment::{OF_FILES, field_ref, resource_ref},
    label, list, no_backsteps, published, text,
};
use kube_store::{schema::quantity, status::FieldError};
use serde_json::{Value, json};
use std::collections::HashSet;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Errors of the volumes of a pod, and the names of those that its containers may use.
pub fn volumes<'v>(spec: &'v Value, field: &str, errors: &mut Vec<FieldError>) -> HashSet<&'v str> {
    let mut volumes = HashSet::new();
    for (at, volume) in list(spec, "/volumes").iter().enumerate() {
        let place = format!("{field}.volumes[{at}]");
        let name = text(volume, "/name");
        let before = errors.len();
        let members = volume.as_object().into_iter().flatten();
        let mut sources = members.filter(|(key, value)| *key != "name" && !value.is_null());
        // Of several only the first is looked at.
        match sources.next() {
            Some((kind, it)) => source(kind, it, &format!("{place}.{kind}"), errors),
            None => errors.push(FieldError::required(&place, "must specify a volume type")),
        }
        for (kind, _) in sources {
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{place}.{kind}"), detail));
        }
        let field = format!("{place}.name");
        if name.is_empty() {
            errors.push(FieldError::required(&field, ""));
        } else {
            label(name, &field, errors);
        }
        if volumes.contains(name) {
            errors.push(FieldError::duplicate(field, &json!(name)));
        }
        // One that is wrong is as good as none.
        if errors.len() == before {
            volumes.insert(name);
        }
    }
    volumes
}

/// Errors of a member that has to be there.
fn needed(it: &Value, key: &str, place: &str, errors: &mut Vec<FieldError>) {
    let value = &it[key];
    if value.is_null() || *value == "" || *value == json!([]) {
        errors.push(FieldError::required(format!("{place}.{key}"), ""));
    }
}

/// Errors of one source of a pod's volume.
fn source(kind: &str, it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    // Of those that have one, the name comes before it.
    let named = match kind {
        "secret" => Some("secretName"),
        "configMap" => Some("name"),
        _ => None,
    };
    if let Some(name) = named {
        needed(it, name, place, errors);
    }
    mode(it, "defaultMode", place, errors);
    match kind {
        "emptyDir" => {
            let limit = it["sizeLimit"].as_str().and_then(quantity::milli);
            if limit.is_some_and(|it| it < 0) {
                let detail = "SizeLimit field must be a valid resource quantity";
                errors.push(FieldError::forbidden(format!("{place}.sizeLimit"), detail));
            }
        }
        "hostPath" => host_path(it, place, errors),
        "secret" | "configMap" => {
            items(it, place, &mut HashSet::new(), errors);
        }
        "downwardAPI" => {
            for file in list(it, "/items") {
                downward_file(file, place, errors);
            }
        }
        "projected" => projected(it, place, errors),
        // Nothing here mounts the others.
        _ => published::member("io.k8s.api.core.v1.Volume", kind, it, place, errors),
    }
}

fn host_path(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let path = text(it, "/path");
    if path.is_empty() {
        errors.push(FieldError::required(format!("{place}.path"), ""));
        return;
    }
    no_backsteps(path, &format!("{place}.path"), errors);
    published::member("io.k8s.api.core.v1.Volume", "hostPath", it, place, errors);
}

fn mode(it: &Value, key: &str, place: &str, errors: &mut Vec<FieldError>) {
    if let Some(mode) = it[key].as_i64().filter(|it| !(0..=0o777).contains(it)) {
        errors.push(FieldError::invalid(format!("{place}.{key}"), &json!(mode), MODE));
    }
}

/// Errors of a path within a volume.
fn descending(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    if path.starts_with('/') {
        errors.push(FieldError::invalid(field, &json!(path), "must be a relative path"));
    }
    no_backsteps(path, field, errors);
}

/// Errors of a path within a volume that the node fills: it hides its own files behind `..`.
fn not_reserved(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    descending(path, field, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(FieldError::invalid(field, &json!(path), "must not start with '..'"));
    }
}

/// Errors of the keys that become files; the names of those that are there before.
fn items<'v>(it: &'v Value, place: &str, paths: &mut HashSet<&'v str>, errors: &mut Vec<FieldError>) -> usize {
    let mut twice = 0;
    for (at, item) in list(it, "/items").iter().enumerate() {
        let place = format!("{place}.items[{at}]");
        needed(item, "key", &place, errors);
        needed(item, "path", &place, errors);
        let path = text(item, "/path");
        not_reserved(path, &format!("{place}.path"), errors);
        mode(item, "mode", &place, errors);
        if !path.is_empty() && !paths.insert(path) {
            twice += 1;
        }
    }
    twice
}

fn downward_file(file: &Value, place: &str, errors: &mut Vec<FieldError>) {
    needed(file, "path", place, errors);
    not_reserved(text(file, "/path"), &format!("{place}.path"), errors);
    match (file["fieldRef"].is_object(), file["resourceFieldRef"].is_object()) {
        (true, both) => {
            field_ref(&file["fieldRef"], &OF_FILES, &format!("{place}.fieldRef"), errors);
            if both {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(place, &json!("resource"), detail));
            }
        }
        (false, true) if text(file, "/resourceFieldRef/containerName").is_empty() => {
            let field = format!("{place}.resourceFieldRef.containerName");
            errors.push(FieldError::required(field, ""));
        }
        (false, true) => resource_ref(&file["resourceFieldRef"], &format!("{place}.resourceFieldRef"), errors),
        (false, false) => {
            let detail = "one of fieldRef and resourceFieldRef is required";
            errors.push(FieldError::required(place, detail));
        }
    }
    mode(file, "mode", place, errors);
}

fn projected(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let mut paths = HashSet::new();
    for (at, source) in list(it, "/sources").iter().enumerate() {
        let field = |kind: &str| format!("{place}.sources[{at}].{kind}");
        let conflict = |shown: &str| FieldError::invalid(place, &json!(shown), "conflicting duplicate paths");
        for kind in ["secret", "configMap"] {
            let from = &source[kind];
            if from.is_object() {
                needed(from, "name", &field(kind), errors);
                let twice = items(from, &field(kind), &mut paths, errors);
                errors.extend((0..twice).map(|_| conflict(text(from, "/name"))));
            }
        }
        for file in list(source, "/downwardAPI/items") {
            downward_file(file, &field("downwardAPI"), errors);
            let path = text(file, "/path");
            if !path.is_empty() && !paths.insert(path) {
                errors.push(conflict(path));
            }
        }
        let token = &source["serviceAccountToken"];
        if token.is_object() {
            let seconds = token["expirationSeconds"].as_i64();
            let wrong = match seconds {
                Some(it) if it < 600 => Some("may not specify a duration less than 10 minutes"),
                Some(it) if it > 1 << 32 => Some("may not specify a duration larger than 2^32 seconds"),
                _ => None,
            };
            if let Some(detail) = wrong {
                let field = field("serviceAccountToken.expirationSeconds");
                errors.push(FieldError::invalid(field, &json!(seconds), detail));
            }
            needed(token, "path", place, errors);
            not_reserved(text(token, "/path"), &format!("{place}.path"), errors);
        }
        let kinds = source
            .as_object()
            .map_or(0, |it| it.values().filter(|it| !it.is_null()).count());
        if kinds > 1 {
            let field = format!("{place}.sources[{at}]");
            errors.push(FieldError::forbidden(
                field,
                "may not specify more than 1 volume type per source",
            ));
        }
    }
}

/// Errors of what a container mounts.
pub fn mounts(container: &Value, place: &str, volumes: &HashSet<&str>, errors: &mut Vec<FieldError>) {
    let all = format!("{place}.volumeMounts");
    let mut paths = HashSet::new();
    for (at, mount) in list(container, "/volumeMounts").iter().enumerate() {
        let field = |key: &str| format!("{all}[{at}].{key}");
        let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        }
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(field("name"), &json!(name)));
        }
        if path.is_empty() {
            errors.push(FieldError::required(field("mountPath"), ""));
        }
        if !paths.insert(path) {
            errors.push(FieldError::invalid(field("mountPath"), &json!(path), "must be unique"));
        }
        let (sub, by_expression) = (text(mount, "/subPath"), text(mount, "/subPathExpr"));
        // Upstream forgets which of the mounts it is.
        descending(sub, &format!("{all}.subPath"), errors);
        if !sub.is_empty() && !by_expression.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(field("subPathExpr"), &json!(by_expression), detail));
        }
        descending(by_expression, &format!("{all}.subPathExpr"), errors);
    }
}
