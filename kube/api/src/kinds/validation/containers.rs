//! The containers of a pod: what they ask for, how they are asked whether they live, and what they mount.

use super::{environment::environment, list, port_errors, published, resources, text, volumes::mounts};
use kube_store::status::FieldError;
use serde_json::{Value, json};
use std::collections::HashSet;

/// What of a pod its containers are checked against.
pub struct Setting<'p> {
    /// The volumes that they may mount.
    pub volumes: HashSet<&'p str>,
    /// How many seconds they have to stop.
    pub grace: Option<i64>,
}

/// Errors of one container. `is_init` says that it runs to its end before the others start.
pub fn container(container: &Value, place: &str, is_init: bool, setting: &Setting<'_>, errors: &mut Vec<FieldError>) {
    let image = text(container, "/image");
    if image.is_empty() {
        errors.push(FieldError::required(format!("{place}.image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(format!("{place}.image"), &json!(image), detail));
    }
    ports(container, place, errors);
    environment(container, place, errors);
    mounts(container, place, &setting.volumes, errors);
    let resources = &container["resources"];
    resources::of_container(resources, &format!("{place}.resources"), errors);
    // Processes run as their node does.
    let (context, field) = (&container["securityContext"], format!("{place}.securityContext"));
    published::member(
        "io.k8s.api.core.v1.Container",
        "securityContext",
        context,
        &field,
        errors,
    );
    hooks_and_probes(container, place, is_init, setting.grace, errors);
}

fn ports(container: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let mut names = HashSet::new();
    for (at, port) in list(container, "/ports").iter().enumerate() {
        let field = format!("{place}.ports[{at}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            let wrong = port_name_errors(name);
            if wrong.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{field}.name"), &json!(name)));
            }
            errors.extend(
                wrong
                    .iter()
                    .map(|it| FieldError::invalid(format!("{field}.name"), &json!(name), it)),
            );
        }
        match port.get("containerPort").and_then(Value::as_i64).unwrap_or(0) {
            0 => errors.push(FieldError::required(format!("{field}.containerPort"), "")),
            number => port_errors(number, &format!("{field}.containerPort"), errors),
        }
        if let Some(number) = port.get("hostPort").and_then(Value::as_i64).filter(|it| *it != 0) {
            port_errors(number, &format!("{field}.hostPort"), errors);
        }
    }
}

/// What is wrong with the name of a port (RFC 6335, section 5.1).
fn port_name_errors(name: &str) -> Vec<&'static str> {
    let is_letter = |it: u8| it.is_ascii_lowercase();
    let rules = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            !name
                .bytes()
                .all(|it| is_letter(it) || it.is_ascii_digit() || it == b'-'),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(is_letter), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (
            name.starts_with('-') || name.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    rules.into_iter().filter(|(broken, _)| *broken).map(|it| it.1).collect()
}

/// A port by number, or by the name that a container gives it.
pub fn port_or_name(port: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match port {
        Value::String(name) => errors.extend(
            port_name_errors(name)
                .iter()
                .map(|it| FieldError::invalid(field, port, it)),
        ),
        number => port_errors(number.as_i64().unwrap_or_default(), field, errors),
    }
}

fn hooks_and_probes(container: &Value, place: &str, is_init: bool, grace: Option<i64>, errors: &mut Vec<FieldError>) {
    let given = |key: &str| container.get(key).filter(|it| !it.is_null());
    if is_init && text(container, "/restartPolicy") != "Always" {
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if given(key).is_some() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(format!("{place}.{key}"), detail));
            }
        }
        return;
    }
    for hook in ["postStart", "preStop"] {
        let handler = container.pointer(&format!("/lifecycle/{hook}"));
        if let Some(handler) = handler.filter(|it| !it.is_null()) {
            self::handler(handler, &format!("{place}.lifecycle.{hook}"), grace, errors);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = given(key) else { continue };
        let field = format!("{place}.{key}");
        handler(probe, &field, grace, errors);
        let seconds = probe.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
        if let Some(seconds) = seconds {
            let field = format!("{field}.terminationGracePeriodSeconds");
            if key == "readinessProbe" {
                let detail = "must not be set for readinessProbes";
                errors.push(FieldError::invalid(field, &json!(seconds), detail));
            } else if seconds <= 0 {
                errors.push(FieldError::invalid(field, &json!(seconds), "must be greater than 0"));
            }
        }
        // Only being ready may take more than one success.
        let successes = probe
            .get("successThreshold")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        if key != "readinessProbe" && successes != 1 {
            let field = format!("{field}.successThreshold");
            errors.push(FieldError::invalid(field, &json!(successes), "must be 1"));
        }
    }
}

/// What a probe or a hook does: exactly one thing.
fn handler(handler: &Value, place: &str, grace: Option<i64>, errors: &mut Vec<FieldError>) {
    let mut first = true;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let Some(action) = handler.get(kind).filter(|it| !it.is_null()) else {
            continue;
        };
        let field = format!("{place}.{kind}");
        if !std::mem::take(&mut first) {
            errors.push(FieldError::forbidden(field, "may not specify more than 1 handler type"));
            continue;
        }
        match kind {
            "exec" if list(action, "/command").is_empty() => {
                errors.push(FieldError::required(format!("{field}.command"), ""));
            }
            "httpGet" => {
                port_or_name(&action["port"], &format!("{field}.port"), errors);
                for header in list(action, "/httpHeaders") {
                    let name = text(header, "/name");
                    let good = |it: u8| it == b'-' || it.is_ascii_alphanumeric();
                    if name.is_empty() || !name.bytes().all(good) {
                        let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
                                      validation is '[-A-Za-z0-9]+')";
                        errors.push(FieldError::invalid(
                            format!("{field}.httpHeaders"),
                            &json!(name),
                            detail,
                        ));
                    }
                }
            }
            "tcpSocket" | "grpc" => port_or_name(&action["port"], &format!("{field}.port"), errors),
            "sleep" => {
                let seconds = action.get("seconds").and_then(Value::as_i64).unwrap_or_default();
                if let Some(grace) = grace.filter(|it| seconds < 0 || seconds > *it) {
                    let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.push(FieldError::invalid(field, &json!(seconds), detail));
                }
            }
            _ => {}
        }
    }
    if first {
        errors.push(FieldError::required(place, "must specify a handler type"));
    }
}
