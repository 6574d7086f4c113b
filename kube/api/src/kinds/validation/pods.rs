//! What a pod is made of, whether it stands alone or in a template.

use super::{
    containers::{Setting, container},
    fields, label, list, published, scheduling, text,
    volumes::volumes,
};
use kube_store::{
    schema::metadata::{validate_annotations, validate_labels},
    status::FieldError,
};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Errors of a template of pods.
pub fn template(template: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let metadata = &template["metadata"];
    errors.extend(validate_labels(&metadata["labels"], &format!("{field}.labels")));
    errors.extend(validate_annotations(
        &metadata["annotations"],
        &format!("{field}.annotations"),
    ));
    let place = format!("{field}.spec");
    pod_spec(&template["spec"], &place, errors);
    if !list(template, "/spec/ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(
            format!("{field}.spec.ephemeralContainers"),
            detail,
        ));
    }
}

pub fn pod_spec(spec: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let volumes = volumes(spec, field, errors);
    if list(spec, "/containers").is_empty() {
        errors.push(FieldError::required(format!("{field}.containers"), ""));
    }
    let mut names = HashSet::new();
    let setting = Setting {
        volumes,
        grace: spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64),
    };
    for kind in ["containers", "initContainers"] {
        for (at, container) in list(spec, &format!("/{kind}")).iter().enumerate() {
            let place = format!("{field}.{kind}[{at}]");
            let name = text(container, "/name");
            if name.is_empty() {
                errors.push(FieldError::required(format!("{place}.name"), ""));
            } else {
                label(name, &format!("{place}.name"), errors);
                if !names.insert(name) {
                    errors.push(FieldError::duplicate(format!("{place}.name"), &json!(name)));
                }
            }
            self::container(container, &place, kind == "initContainers", &setting, errors);
        }
    }
    errors.extend(validate_labels(&spec["nodeSelector"], &format!("{field}.nodeSelector")));
    for key in ["securityContext", "topologySpreadConstraints", "os"] {
        let place = format!("{field}.{key}");
        published::member("io.k8s.api.core.v1.PodSpec", key, &spec[key], &place, errors);
    }
    scheduling::affinity(&spec["affinity"], &format!("{field}.affinity"), errors);
    gates(spec, field, errors);
    scheduling::tolerations(list(spec, "/tolerations"), &format!("{field}.tolerations"), errors);
    fields::of_part(fields::POD, spec, field, errors);
}

/// What a pod waits for is named once.
fn gates(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let mut names = HashSet::new();
    for (at, gate) in list(spec, "/schedulingGates").iter().enumerate() {
        let name = text(gate, "/name");
        if gate["name"].is_null() {
            errors.push(FieldError::required(format!("{place}.schedulingGates[{at}].name"), ""));
        } else if !names.insert(name) {
            let field = format!("{place}.schedulingGates[{at}]");
            errors.push(FieldError::duplicate(field, &json!(name)));
        }
    }
    for (at, gate) in list(spec, "/readinessGates").iter().enumerate() {
        if gate["conditionType"].is_null() {
            let field = format!("{place}.readinessGates[{at}].conditionType");
            errors.push(FieldError::required(field, ""));
        }
    }
}
