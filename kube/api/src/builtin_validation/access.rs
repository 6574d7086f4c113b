//! Roles, bindings and certificate signing requests.

use super::{list, scheduling::label_selector, subdomain, text};
use crate::csr::USAGES;
use base64::{Engine, engine::general_purpose::STANDARD};
use kube_store::{schema::metadata::path_segment_errors, status::FieldError};
use serde_json::{Value, json};
use std::collections::HashSet;

fn empty(rule: &Value, key: &str) -> bool {
    rule.get(key).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

pub(super) fn role(kind: &str, new: &Value, errors: &mut Vec<FieldError>) {
    for (at, rule) in list(new, "/rules").iter().enumerate() {
        let field = format!("rules[{at}]");
        if empty(rule, "verbs") {
            errors.push(FieldError::required(
                format!("{field}.verbs"),
                "verbs must contain at least one value",
            ));
        }
        if !empty(rule, "nonResourceURLs") {
            let shown = &rule["nonResourceURLs"];
            let place = format!("{field}.nonResourceURLs");
            if kind == "Role" {
                errors.push(FieldError::invalid(
                    &place,
                    shown,
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            if !empty(rule, "apiGroups") || !empty(rule, "resources") || !empty(rule, "resourceNames") {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(place, shown, detail));
            }
            continue;
        }
        if empty(rule, "apiGroups") {
            let detail = "resource rules must supply at least one api group";
            errors.push(FieldError::required(format!("{field}.apiGroups"), detail));
        }
        if empty(rule, "resources") {
            let detail = "resource rules must supply at least one resource";
            errors.push(FieldError::required(format!("{field}.resources"), detail));
        }
    }
    if new
        .pointer("/aggregationRule")
        .is_some_and(|it| empty(it, "clusterRoleSelectors"))
    {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required("aggregationRule.clusterRoleSelectors", detail));
    }
    for (at, selector) in list(new, "/aggregationRule/clusterRoleSelectors").iter().enumerate() {
        let field = format!("aggregationRule.clusterRoleSelectors[{at}]");
        let before = errors.len();
        label_selector(selector, &field, errors);
        if errors.len() > before {
            errors.push(FieldError::invalid(field, &Value::Null, "invalid label selector."));
        }
    }
}

pub(super) fn binding(kind: &str, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let role = |key: &str| text(new, &format!("/roleRef/{key}"));
    if role("apiGroup") != GROUP {
        errors.push(FieldError::not_supported(
            "roleRef.apiGroup",
            &json!(role("apiGroup")),
            &[GROUP],
        ));
    }
    let kinds: &[&str] = if kind == "RoleBinding" {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&role("kind")) {
        errors.push(FieldError::not_supported("roleRef.kind", &json!(role("kind")), kinds));
    }
    if role("name").is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    } else {
        let found = path_segment_errors(role("name"));
        errors.extend(
            found
                .iter()
                .map(|it| FieldError::invalid("roleRef.name", &json!(role("name")), it)),
        );
    }
    if let Some(old) = old
        && old.get("roleRef") != new.get("roleRef")
    {
        // Go prints its struct with the names of the fields.
        let shown = json!({"APIGroup": role("apiGroup"), "Kind": role("kind"), "Name": role("name")});
        errors.push(FieldError::invalid("roleRef", &shown, "cannot change roleRef"));
    }
    for (at, subject) in list(new, "/subjects").iter().enumerate() {
        let field = format!("subjects[{at}]");
        let get = |key: &str| subject.get(key).and_then(Value::as_str).unwrap_or("");
        if get("name").is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        }
        let group = format!("{field}.apiGroup");
        match get("kind") {
            "ServiceAccount" => {
                if !get("name").is_empty() {
                    subdomain(get("name"), &format!("{field}.name"), errors);
                }
                if !get("apiGroup").is_empty() {
                    errors.push(FieldError::not_supported(group, &json!(get("apiGroup")), &[""]));
                }
                if kind == "ClusterRoleBinding" && get("namespace").is_empty() {
                    errors.push(FieldError::required(format!("{field}.namespace"), ""));
                }
            }
            "User" | "Group" => {
                if get("apiGroup") != GROUP {
                    errors.push(FieldError::not_supported(group, &json!(get("apiGroup")), &[GROUP]));
                }
            }
            other => {
                let kinds = ["ServiceAccount", "User", "Group"];
                errors.push(FieldError::not_supported(
                    format!("{field}.kind"),
                    &json!(other),
                    &kinds,
                ));
            }
        }
    }
}

pub(super) fn signing_request(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    // The request itself cannot change, so an update has nothing new to say about it.
    if old.is_some() {
        return;
    }
    let request = text(new, "/spec/request");
    let pem = STANDARD.decode(request).unwrap_or_default();
    let pem = String::from_utf8_lossy(&pem);
    let reason = match (
        pem.contains("-----BEGIN CERTIFICATE REQUEST-----"),
        pem.contains("-----BEGIN "),
    ) {
        (true, _) => None,
        (false, _) => Some("PEM block type must be CERTIFICATE REQUEST"),
    };
    if let Some(reason) = reason {
        errors.push(FieldError::invalid("spec.request", &json!(request), reason));
    }
    let usages = list(new, "/spec/usages");
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    let mut seen = HashSet::new();
    for (at, usage) in usages.iter().enumerate() {
        let name = usage.as_str().unwrap_or("");
        let field = format!("spec.usages[{at}]");
        if !USAGES.contains(&name) {
            errors.push(FieldError::not_supported(field, usage, USAGES));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(field, usage));
        }
    }
    let signer = text(new, "/spec/signerName");
    if signer == "kubernetes.io/legacy-unknown" {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid("spec.signerName", &json!(signer), detail));
    }
    match signer.split_once('/') {
        _ if signer.is_empty() => errors.push(FieldError::required("spec.signerName", "")),
        None => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            errors.push(FieldError::invalid("spec.signerName", &json!(signer), detail));
        }
        Some((domain, path)) => {
            if !domain.contains('.') {
                let detail = "should be a domain with at least two segments separated by dots";
                errors.push(FieldError::invalid("spec.signerName", &json!(domain), detail));
            }
            if path.is_empty() {
                let detail = "validation regex: must be a valid path component";
                errors.push(FieldError::invalid("spec.signerName", &json!(path), detail));
            }
        }
    }
    if let Some(seconds) = new
        .pointer("/spec/expirationSeconds")
        .filter(|it| it.as_i64().is_some_and(|it| it < 600))
    {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", seconds, detail));
    }
}
