//! Rules of the built-in kinds that clients notice, in the words of kube-apiserver. `metadata` has its own module in
//! `kube_store::schema::metadata`, definitions of custom resources have `kube_store::schema::structural`; here are the names of kinds
//! and what stands beside `metadata`.

mod access;
mod addresses;
mod admission;
mod budgets;
mod containers;
mod endpoints;
mod environment;
mod events;
mod fields;
mod gates;
mod jobs;
mod nodes;
mod pods;
mod priorities;
mod published;
mod resources;
mod scheduling;
mod services;
mod volumes;
mod workloads;

pub(crate) use services::health_checked;

use base64::{Engine, engine::general_purpose::STANDARD};
use kube_store::{
    patch::go_syntax_error,
    schema::decode::go_kind,
    schema::metadata::{label_errors, qualified_name_errors, subdomain_errors},
    status::FieldError,
};
use serde_json::{Value, json};

/// Errors of an object of a built-in kind besides its metadata. `new` is decoded and defaulted; `old` is the stored
/// object of an update.
pub fn validate(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (group, kind) {
        ("", "ConfigMap") => config_map(new, old, &mut errors),
        ("", "Secret") => secret(new, old, &mut errors),
        ("", "Namespace") => namespace(new, &mut errors),
        ("", "Service") => services::service(new, old, &mut errors),
        ("", "Event") => events::core(new, &mut errors),
        ("events.k8s.io", "Event") => events::event(new, old, &mut errors),
        ("policy", "PodDisruptionBudget") => budgets::disruption_budget(new, old, &mut errors),
        ("", "Node") => nodes::node(new, old, &mut errors),
        ("", "Pod") => workloads::pod(new, old, &mut errors),
        ("", "PodTemplate") => workloads::pod_template(new, &mut errors),
        ("apps", "ControllerRevision") => workloads::controller_revision(new, old, &mut errors),
        ("", "Endpoints") => endpoints::endpoints(new, old, &mut errors),
        ("discovery.k8s.io", "EndpointSlice") => endpoints::slice(new, old, &mut errors),
        ("apps", "Deployment") => workloads::deployment(new, old, &mut errors),
        ("apps", "ReplicaSet") => workloads::replica_set(new, old, &mut errors),
        ("apps", "DaemonSet") => workloads::daemon_set(new, old, &mut errors),
        ("apps", "StatefulSet") => workloads::stateful_set(new, old, &mut errors),
        ("batch", "Job") => jobs::job(new, old, &mut errors),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => access::role(kind, new, &mut errors),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            access::binding(kind, new, old, &mut errors)
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => access::signing_request(new, old, &mut errors),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            admission::webhooks(new, &mut errors);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission::policy(new, &mut errors),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => admission::binding(new, &mut errors),
        ("scheduling.k8s.io", "PriorityClass") => priorities::priority_class(new, old, &mut errors),
        ("apiregistration.k8s.io", "APIService") => {
            let (version, group) = (text(new, "/spec/version"), text(new, "/spec/group"));
            let name = text(new, "/metadata/name");
            if name != format!("{version}.{group}") {
                let detail = format!(
                    "must be `spec.version+\".\"+spec.group`: {:?}",
                    format!("{version}.{group}")
                );
                errors.push(FieldError::invalid("metadata.name", &json!(name), detail));
            }
        }
        // Nothing here acts on these.
        (
            "",
            "LimitRange" | "PersistentVolume" | "PersistentVolumeClaim" | "ReplicationController" | "ResourceQuota",
        )
        | ("batch", "CronJob")
        | ("autoscaling" | "networking.k8s.io" | "node.k8s.io" | "storage.k8s.io", _) => {
            published::object(kind, new, old, &mut errors);
        }
        _ => {}
    }
    fields::of_kind(group, kind, new, old, &mut errors);
    errors
}

/// The value at a JSON pointer of plain names. Unlike [`Value::pointer`] it has nothing to unescape, and so no text to make for
/// each step: a Deployment is asked some hundred times.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |it, key| it.get(key))
}

/// The text at a JSON pointer, or nothing.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or("")
}

/// The list at a JSON pointer, or nothing.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// A value at a pointer that an update may not change.
fn immutable(new: &Value, old: Option<&Value>, pointer: &str, field: &str, errors: &mut Vec<FieldError>) {
    let Some(old) = old else { return };
    if at(new, pointer) != at(old, pointer) {
        errors.push(FieldError::invalid(
            field,
            at(new, pointer).unwrap_or(&Value::Null),
            "field is immutable",
        ));
    }
}

/// Whether something has still to be checked. What was stored once may stay: its status, and how many there are, is still to be written.
pub(crate) fn changed(new: &Value, old: Option<&Value>, pointer: &str) -> bool {
    old.is_none_or(|it| it.pointer(pointer) != new.pointer(pointer))
}

/// The protocols of a port.
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// A value that has to be one of the known texts.
fn supported(value: &Value, field: impl Into<String>, known: &[&str], errors: &mut Vec<FieldError>) {
    if !value.as_str().is_some_and(|it| known.contains(&it)) {
        errors.push(FieldError::not_supported(field, value, known));
    }
}

fn port_errors(number: i64, field: &str, errors: &mut Vec<FieldError>) {
    if !(1..=65535).contains(&number) {
        let detail = "must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(field, &json!(number), detail));
    }
}

/// The number of a percentage, if a text is one.
fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// A number that is not negative, or a percentage.
fn int_or_percent(value: &Value, field: &str, errors: &mut Vec<FieldError>) {
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
fn not_more_than_all(value: &Value, field: &str, errors: &mut Vec<FieldError>) {
    if value.as_str().and_then(percent).is_some_and(|it| it > 100) {
        errors.push(FieldError::invalid(field, value, "must not be greater than 100%"));
    }
}

/// How much a Secret or a ConfigMap may hold.
const DATA_BYTES_MAX: usize = 1024 * 1024;

/// What is wrong with a key of a Secret or a ConfigMap.
fn data_key_errors(key: &str) -> Vec<String> {
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
fn no_backsteps(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    if path.split('/').any(|it| it == "..") {
        errors.push(FieldError::invalid(field, &json!(path), "must not contain '..'"));
    }
}

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

fn config_map(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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

fn secret(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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

/// Finalizers of one word, which were there before names had to have a prefix.
const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

fn namespace(new: &Value, errors: &mut Vec<FieldError>) {
    for finalizer in list(new, "/spec/finalizers") {
        let name = finalizer.as_str().unwrap_or("");
        qualified_name(name, "spec.finalizers", errors);
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid("spec.finalizers", finalizer, detail));
        }
    }
}

/// Errors of a name that must be a subdomain, at a field.
fn subdomain(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    errors.extend(
        subdomain_errors(name)
            .iter()
            .map(|it| FieldError::invalid(field, &json!(name), it)),
    );
}

/// Errors of a name that must be a label, at a field.
fn label(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    errors.extend(
        label_errors(name)
            .iter()
            .map(|it| FieldError::invalid(field, &json!(name), it)),
    );
}

/// Errors of a qualified name, at a field.
fn qualified_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    errors.extend(
        qualified_name_errors(name)
            .iter()
            .map(|it| FieldError::invalid(field, &json!(name), it)),
    );
}

/// An invalid value that is shown otherwise than clients write it: as the server within Kubernetes has it.
fn invalid_shown(field: impl Into<String>, shown: &str, detail: &str) -> FieldError {
    FieldError {
        reason: "FieldValueInvalid",
        field: field.into(),
        detail: format!("Invalid value: {shown}: {detail}"),
    }
}

/// What a check says, a text for each error.
#[cfg(test)]
fn said(check: impl FnOnce(&mut Vec<FieldError>)) -> Vec<String> {
    let mut errors = Vec::new();
    check(&mut errors);
    errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
}

/// The same of a check of whole objects.
#[cfg(test)]
fn said_of(check: fn(&Value, Option<&Value>, &mut Vec<FieldError>), new: &Value, old: Option<&Value>) -> Vec<String> {
    said(|it| check(new, old, it))
}

#[cfg(test)]
mod tests;
