//! Where pods may run: labels of nodes, taints and what tolerates them, affinity, and how pods are spread.

use super::{label, list, qualified_name, subdomain, supported, text};
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
pub(super) fn label_selector(selector: &Value, place: &str, errors: &mut Vec<FieldError>) {
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

pub(super) fn tolerations(tolerations: &[Value], field: &str, errors: &mut Vec<FieldError>) {
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
pub(super) fn taints(node: &Value, errors: &mut Vec<FieldError>) {
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

pub(super) fn affinity(affinity: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let nodes = &affinity["nodeAffinity"];
    let field = format!("{place}.nodeAffinity.{REQUIRED}");
    if nodes[REQUIRED].is_object() {
        node_selector(&nodes[REQUIRED], &field, errors);
    }
    for (at, term) in list(nodes, &format!("/{PREFERRED}")).iter().enumerate() {
        let field = format!("{place}.nodeAffinity.{PREFERRED}[{at}]");
        weight(term, &field, errors);
        // What no node can have is merely never preferred.
        node_term(&term["preference"], false, &format!("{field}.preference"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (at, term) in list(&affinity[kind], &format!("/{REQUIRED}")).iter().enumerate() {
            pod_term(term, &format!("{place}.{kind}.{REQUIRED}[{at}]"), errors);
        }
        for (at, term) in list(&affinity[kind], &format!("/{PREFERRED}")).iter().enumerate() {
            let field = format!("{place}.{kind}.{PREFERRED}[{at}]");
            weight(term, &field, errors);
            pod_term(&term["podAffinityTerm"], &format!("{field}.podAffinityTerm"), errors);
        }
    }
}

fn weight(term: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let weight = term["weight"].as_i64().unwrap_or_default();
    if !(1..=100).contains(&weight) {
        let detail = "must be in the range 1-100";
        errors.push(FieldError::invalid(format!("{place}.weight"), &json!(weight), detail));
    }
}

/// Errors of what selects nodes.
pub(super) fn node_selector(selector: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{place}.nodeSelectorTerms");
    let terms = list(selector, "/nodeSelectorTerms");
    if terms.is_empty() {
        let detail = "must have at least one node selector term";
        errors.push(FieldError::required(&field, detail));
    }
    for (at, term) in terms.iter().enumerate() {
        node_term(term, true, &format!("{field}[{at}]"), errors);
    }
}

fn node_term(term: &Value, with_values: bool, place: &str, errors: &mut Vec<FieldError>) {
    for (at, expression) in list(term, "/matchExpressions").iter().enumerate() {
        let field = format!("{place}.matchExpressions[{at}]");
        let known = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        expression_errors(expression, &known, &field, errors);
        if with_values {
            label_values(expression, &field, errors);
        }
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

fn pod_term(term: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for selector in ["labelSelector", "namespaceSelector"] {
        label_selector(&term[selector], &format!("{place}.{selector}"), errors);
    }
    for namespace in list(term, "/namespaces") {
        let namespace = namespace.as_str().unwrap_or_default();
        label(namespace, &format!("{place}.namespace"), errors);
    }
    label_keys(term, place, errors);
    let (topology, field) = (text(term, "/topologyKey"), format!("{place}.topologyKey"));
    if topology.is_empty() {
        errors.push(FieldError::required(&field, "can not be empty"));
    }
    qualified_name(topology, &field, errors);
}

pub(super) fn spread(constraints: &[Value], place: &str, errors: &mut Vec<FieldError>) {
    let kind = |it: &Value| {
        let (key, action) = (text(it, "/topologyKey"), text(it, "/whenUnsatisfiable"));
        format!("{{{key}, {action}}}")
    };
    for (at, constraint) in constraints.iter().enumerate() {
        let field = |name: &str| format!("{place}[{at}].{name}");
        let above_zero = |name: &str, number: i64, errors: &mut Vec<FieldError>| {
            if number <= 0 {
                errors.push(FieldError::invalid(
                    field(name),
                    &json!(number),
                    "must be greater than zero",
                ));
            }
        };
        above_zero("maxSkew", constraint["maxSkew"].as_i64().unwrap_or_default(), errors);
        if text(constraint, "/topologyKey").is_empty() {
            errors.push(FieldError::required(field("topologyKey"), "can not be empty"));
        }
        let action = text(constraint, "/whenUnsatisfiable");
        supported(
            &json!(action),
            field("whenUnsatisfiable"),
            &["DoNotSchedule", "ScheduleAnyway"],
            errors,
        );
        let this = kind(constraint);
        if constraints[at + 1..].iter().any(|it| kind(it) == this) {
            errors.push(FieldError::duplicate(
                field("{topologyKey, whenUnsatisfiable}"),
                &json!(this),
            ));
        }
        if let Some(least) = constraint["minDomains"].as_i64() {
            above_zero("minDomains", least, errors);
            if action != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(FieldError::invalid(field("minDomains"), &json!(least), detail));
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if !constraint[policy].is_null() {
                supported(&constraint[policy], field(policy), &["Honor", "Ignore"], errors);
            }
        }
        label_keys(constraint, &format!("{place}[{at}]"), errors);
        label_selector(&constraint["labelSelector"], &field("labelSelector"), errors);
    }
}

/// Errors of the labels whose values are those of the pod itself: they say more of a selector that is there, once.
fn label_keys(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let selector = &it["labelSelector"];
    let keys = |member: &str| {
        let all = it[member].as_array().into_iter().flatten();
        all.map(|it| it.as_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    let (same, other) = (keys("matchLabelKeys"), keys("mismatchLabelKeys"));
    for (member, keys) in [("matchLabelKeys", &same), ("mismatchLabelKeys", &other)] {
        let field = format!("{place}.{member}");
        if selector.is_null() && !keys.is_empty() {
            let detail = "must not be specified when labelSelector is not set";
            errors.push(FieldError::forbidden(field, detail));
            continue;
        }
        for (at, key) in keys.iter().enumerate() {
            qualified_name(key, &format!("{field}[{at}]"), errors);
        }
    }
    // A pod's own values are part of the selector by now, so that what was there before is there twice.
    let labels = selector["matchLabels"].as_object();
    let mut seen: HashSet<&str> = labels.into_iter().flatten().map(|it| it.0.as_str()).collect();
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        if !seen.insert(key)
            && let Some(at) = same.iter().rposition(|it| *it == key)
        {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(format!("{place}[{at}]"), &json!(key), detail));
        }
    }
    for (at, key) in same.iter().enumerate().filter(|(_, key)| other.contains(key)) {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        let field = format!("{place}.matchLabelKeys[{at}]");
        errors.push(FieldError::invalid(field, &json!(key), detail));
    }
}
