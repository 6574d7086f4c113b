//! Where pods may run: labels of nodes, taints and what tolerates them, affinity to nodes.

use super::{list, published, qualified_name, subdomain, supported, text};
use kube_store::{
    schema::metadata::{label_value_errors, validate_labels},
    status::FieldError,
};
use serde_json::{Value, json};
use std::collections::HashSet;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Errors of a selector of labels; one that is absent selects nothing, or everything.
pub fn label_selector(selector: &Value, place: &str, errors: &mut Vec<FieldError>) {
    errors.extend(validate_labels(
        &selector["matchLabels"],
        &format!("{place}.matchLabels"),
    ));
    for (at, expression) in list(selector, "/matchExpressions").iter().enumerate() {
        let field = format!("{place}.matchExpressions[{at}]");
        expression_errors(expression, &["In", "NotIn", "Exists", "DoesNotExist"], &field, errors);
        label_values(expression, &field, errors);
    }
}

fn label_values(expression: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (at, value) in list(expression, "/values").iter().enumerate() {
        let wrong = label_value_errors(value.as_str().unwrap_or_default());
        errors.extend(
            wrong
                .iter()
                .map(|it| FieldError::invalid(format!("{place}.values[{at}]"), value, it)),
        );
    }
}

/// Errors of one expression of a selector, but for its values.
fn expression_errors(expression: &Value, known: &[&str], place: &str, errors: &mut Vec<FieldError>) {
    let count = list(expression, "/values").len();
    let values = format!("{place}.values");
    match text(expression, "/operator") {
        operator if !known.contains(&operator) => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(
                format!("{place}.operator"),
                &json!(operator),
                detail,
            ));
        }
        "In" | "NotIn" if count == 0 => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(values, detail));
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(values, detail));
        }
        "Gt" | "Lt" if count != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(values, detail));
        }
        _ => {}
    }
    qualified_name(text(expression, "/key"), &format!("{place}.key"), errors);
}

pub fn tolerations(tolerations: &[Value], field: &str, errors: &mut Vec<FieldError>) {
    for (at, toleration) in tolerations.iter().enumerate() {
        let field = |name: &str| format!("{field}[{at}].{name}");
        let (name, operator, value) = (
            text(toleration, "/key"),
            text(toleration, "/operator"),
            text(toleration, "/value"),
        );
        if !name.is_empty() {
            qualified_name(name, &field("key"), errors);
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(field("operator"), &json!(operator), detail));
        }
        let effect = text(toleration, "/effect");
        if !toleration["tolerationSeconds"].is_null() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(field("effect"), &json!(effect), detail));
        }
        match operator {
            "" | "Equal" => {
                let wrong = label_value_errors(value);
                if !wrong.is_empty() {
                    errors.push(FieldError::invalid(field("operator"), &json!(value), wrong.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(field("operator"), &json!(value), detail));
            }
            "Exists" => {}
            // They are known, and off.
            "Lt" | "Gt" => {
                let known = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(FieldError::not_supported(field("operator"), &json!(operator), &known));
            }
            _ => supported(&json!(operator), field("operator"), &["Equal", "Exists"], errors),
        }
        if !effect.is_empty() {
            supported(&json!(effect), field("effect"), &EFFECTS, errors);
        }
    }
}

/// Errors of the taints of a node, where upstream sees them.
pub fn taints(node: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for (at, taint) in list(node, "/spec/taints").iter().enumerate() {
        let place = format!("metadata.taints[{at}]");
        let (name, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        qualified_name(name, &format!("{place}.key"), errors);
        let wrong = label_value_errors(value);
        if !wrong.is_empty() {
            let field = format!("{place}.value");
            errors.push(FieldError::invalid(field, &json!(value), wrong.join(";")));
        }
        match effect {
            "" => errors.push(FieldError::required(format!("{place}.effect"), "")),
            _ => supported(&json!(effect), format!("{place}.effect"), &EFFECTS, errors),
        }
        if !seen.insert((name, effect)) {
            let added = &taint["timeAdded"];
            let shown = format!(r#"{{"Key":{name:?},"Value":{value:?},"Effect":{effect:?},"TimeAdded":{added}}}"#);
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field: place,
                detail: format!("Duplicate value: {shown}: taints must be unique by key and effect pair"),
            });
        }
    }
}

pub fn affinity(affinity: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let nodes = &affinity["nodeAffinity"];
    if nodes[REQUIRED].is_object() {
        node_selector(&nodes[REQUIRED], &format!("{place}.nodeAffinity.{REQUIRED}"), errors);
    }
    // Of the rest nothing is asked where pods are placed.
    for (kind, definition, key, value) in [
        ("nodeAffinity.", "NodeAffinity", PREFERRED, &nodes[PREFERRED]),
        ("", "Affinity", "podAffinity", &affinity["podAffinity"]),
        ("", "Affinity", "podAntiAffinity", &affinity["podAntiAffinity"]),
    ] {
        let definition = format!("io.k8s.api.core.v1.{definition}");
        published::member(&definition, key, value, &format!("{place}.{kind}{key}"), errors);
    }
}

/// Errors of what selects nodes.
fn node_selector(selector: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{place}.nodeSelectorTerms");
    let terms = list(selector, "/nodeSelectorTerms");
    if terms.is_empty() {
        let detail = "must have at least one node selector term";
        errors.push(FieldError::required(&field, detail));
    }
    for (at, term) in terms.iter().enumerate() {
        node_term(term, &format!("{field}[{at}]"), errors);
    }
}

fn node_term(term: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for (at, expression) in list(term, "/matchExpressions").iter().enumerate() {
        let field = format!("{place}.matchExpressions[{at}]");
        let known = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        expression_errors(expression, &known, &field, errors);
        label_values(expression, &field, errors);
    }
    for (at, expression) in list(term, "/matchFields").iter().enumerate() {
        let field = |name: &str| format!("{place}.matchFields[{at}].{name}");
        let (name, operator) = (text(expression, "/key"), text(expression, "/operator"));
        let values = list(expression, "/values");
        match operator {
            "In" | "NotIn" if values.len() != 1 => errors.push(FieldError::required(
                field("values"),
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            )),
            "In" | "NotIn" => {}
            _ => {
                let detail = "not a valid selector operator";
                errors.push(FieldError::invalid(field("operator"), &json!(operator), detail));
            }
        }
        if name == "metadata.name" {
            for (at, value) in values.iter().enumerate() {
                let value = value.as_str().unwrap_or_default();
                subdomain(value, &format!("{}[{at}]", field("values")), errors);
            }
        } else {
            let detail = "not a valid field selector key";
            errors.push(FieldError::invalid(field("key"), &json!(name), detail));
        }
    }
}

/// The labels of a template that its selector does not match.
pub fn template_mismatch(new: &Value) -> FieldError {
    let labels = new.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
    FieldError::invalid(
        "spec.template.metadata.labels",
        labels,
        "`selector` does not match template `labels`",
    )
}

/// Whether a label selector matches labels.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    let wanted = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let equal = wanted.into_iter().all(|(key, value)| labels.get(key) == Some(value));
    let expressions = list(selector, "/matchExpressions").iter().all(|it| {
        let found = labels.get(text(it, "/key"));
        let among = found.is_some_and(|it_is| list(it, "/values").contains(it_is));
        match text(it, "/operator") {
            "In" => among,
            "NotIn" => !among,
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => false,
        }
    });
    equal && expressions
}
