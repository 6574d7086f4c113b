//! Pods, and the kinds that make them.

use super::{immutable, label, list, non_negative, text};
use crate::pod_admission::UNCHANGEABLE;
use kube_store::{
    schema::metadata::{subdomain_errors, validate_annotations, validate_labels},
    status::FieldError,
};
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) fn deployment(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    non_negative(new, "/spec/replicas", "spec.replicas", errors);
    non_negative(new, "/spec/minReadySeconds", "spec.minReadySeconds", errors);
    non_negative(new, "/spec/revisionHistoryLimit", "spec.revisionHistoryLimit", errors);
    selector(new, errors);
    match text(new, "/spec/strategy/type") {
        "Recreate" => {
            if new.pointer("/spec/strategy/rollingUpdate").is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
            }
        }
        "RollingUpdate" => {}
        other => {
            errors.push(FieldError::not_supported(
                "spec.strategy.type",
                &json!(other),
                &["Recreate", "RollingUpdate"],
            ));
        }
    }
    immutable(new, old, "/spec/selector", "spec.selector", errors);
    template(&new["spec"]["template"], "spec.template", &["Always"], errors);
}

pub(super) fn selected(kind: &str, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if kind != "DaemonSet" {
        non_negative(new, "/spec/replicas", "spec.replicas", errors);
    }
    selector(new, errors);
    if kind == "StatefulSet" {
        if let Some(old) = old {
            const KEPT: [&str; 4] = ["serviceName", "podManagementPolicy", "volumeClaimTemplates", "selector"];
            if KEPT.iter().any(|key| new["spec"].get(*key) != old["spec"].get(*key)) {
                let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                              'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
                errors.push(FieldError::forbidden("spec", detail));
            }
        }
    } else {
        immutable(new, old, "/spec/selector", "spec.selector", errors);
    }
    template(&with_claims(new), "spec.template", &["Always"], errors);
}

/// The template of a workload with the volumes that its claims become: its containers may mount them, too.
fn with_claims(new: &Value) -> Value {
    let mut template = new["spec"]["template"].clone();
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    let claims = list(new, "/spec/volumeClaimTemplates");
    if claims.is_empty() {
        return template;
    }
    if let Some(volumes) = spec.entry("volumes").or_insert_with(|| json!([])).as_array_mut() {
        let mut names: HashSet<Value> = volumes.iter().map(|it| it["name"].clone()).collect();
        for claim in claims {
            let name = &claim["metadata"]["name"];
            if names.insert(name.clone()) {
                volumes.push(json!({"name": name}));
            }
        }
    }
    template
}

/// A workload selects its own pods: the selector is given, not empty, and matches the labels of the template.
fn selector(new: &Value, errors: &mut Vec<FieldError>) {
    let Some(selector) = new.pointer("/spec/selector") else {
        errors.push(FieldError::required("spec.selector", ""));
        errors.push(template_mismatch(new));
        return;
    };
    let before = errors.len();
    if let Some(labels) = selector.get("matchLabels") {
        errors.extend(validate_labels(labels, "spec.selector.matchLabels"));
    }
    for (at, expression) in list(selector, "/matchExpressions").iter().enumerate() {
        let field = format!("spec.selector.matchExpressions[{at}]");
        let values = !list(expression, "/values").is_empty();
        match text(expression, "/operator") {
            "In" | "NotIn" if !values => errors.push(FieldError::required(
                format!("{field}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if values => errors.push(FieldError::forbidden(
                format!("{field}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(
                    format!("{field}.operator"),
                    &json!(other),
                    "not a valid selector operator",
                ));
            }
        }
    }
    let empty = |key: &str| match selector.get(key) {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => true,
    };
    if empty("matchLabels") && empty("matchExpressions") {
        errors.push(FieldError::invalid(
            "spec.selector",
            selector,
            "empty selector is invalid for deployment",
        ));
    }
    if errors.len() == before
        && !matches(
            selector,
            new.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null),
        )
    {
        errors.push(template_mismatch(new));
    }
}

fn template_mismatch(new: &Value) -> FieldError {
    let labels = new.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
    FieldError::invalid(
        "spec.template.metadata.labels",
        labels,
        "`selector` does not match template `labels`",
    )
}

/// Whether a label selector matches labels.
fn matches(selector: &Value, labels: &Value) -> bool {
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

pub(super) fn job(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    for key in [
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ] {
        non_negative(new, &format!("/spec/{key}"), &format!("spec.{key}"), errors);
    }
    template(
        &new["spec"]["template"],
        "spec.template",
        &["OnFailure", "Never"],
        errors,
    );
    let indexed = text(new, "/spec/completionMode") == "Indexed";
    if !indexed {
        immutable(new, old, "/spec/completions", "spec.completions", errors);
    }
    immutable(new, old, "/spec/selector", "spec.selector", errors);
    immutable(new, old, "/spec/completionMode", "spec.completionMode", errors);
    let suspended = old.is_some_and(|it| it.pointer("/spec/suspend") == Some(&json!(true)));
    if !suspended {
        immutable(new, old, "/spec/template", "spec.template", errors);
    }
}

pub(super) fn cron_job(new: &Value, errors: &mut Vec<FieldError>) {
    let schedule = text(new, "/spec/schedule");
    if schedule.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else if !schedule.starts_with('@') && schedule.split_whitespace().count() != 5 {
        let detail = format!(
            "expected exactly 5 fields, found {}: [{schedule}]",
            schedule.split_whitespace().count()
        );
        errors.push(FieldError::invalid("spec.schedule", &json!(schedule), detail));
    }
    const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];
    let policy = text(new, "/spec/concurrencyPolicy");
    if !POLICIES.contains(&policy) {
        errors.push(FieldError::not_supported(
            "spec.concurrencyPolicy",
            &json!(policy),
            &POLICIES,
        ));
    }
    if text(new, "/metadata/name").len() > 52 {
        let detail = "must be no more than 52 characters";
        errors.push(FieldError::invalid(
            "metadata.name",
            &json!(text(new, "/metadata/name")),
            detail,
        ));
    }
    let path = "spec.jobTemplate.spec.template";
    let pod = new.pointer("/spec/jobTemplate/spec/template").unwrap_or(&Value::Null);
    template(pod, path, &["OnFailure", "Never"], errors);
}

fn template(template: &Value, field: &str, restarts: &[&str], errors: &mut Vec<FieldError>) {
    if let Some(labels) = template.pointer("/metadata/labels") {
        errors.extend(validate_labels(labels, &format!("{field}.metadata.labels")));
    }
    if let Some(annotations) = template.pointer("/metadata/annotations") {
        errors.extend(validate_annotations(
            annotations,
            &format!("{field}.metadata.annotations"),
        ));
    }
    pod_spec(&template["spec"], &format!("{field}.spec"), errors);
    let restart = text(template, "/spec/restartPolicy");
    if !restarts.contains(&restart) {
        errors.push(FieldError::not_supported(
            format!("{field}.spec.restartPolicy"),
            &json!(restart),
            restarts,
        ));
    }
}

pub(super) fn pod(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    pod_spec(&new["spec"], "spec", errors);
    let Some(old) = old else { return };
    // Images, deadlines and added tolerations may change; the rest of a pod may not.
    let rest = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container.as_object_mut().map(|it| it.remove("image"));
            }
        }
        if let Some(map) = spec.as_object_mut() {
            for key in [
                "activeDeadlineSeconds",
                "tolerations",
                "terminationGracePeriodSeconds",
                "schedulingGates",
                "nodeName",
                "ephemeralContainers",
            ] {
                map.remove(key);
            }
        }
        spec
    };
    if rest(new) != rest(old) {
        errors.push(FieldError::forbidden("spec", UNCHANGEABLE));
    }
}

fn pod_spec(spec: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut volumes = HashSet::new();
    for (at, volume) in list(spec, "/volumes").iter().enumerate() {
        let place = format!("{field}.volumes[{at}].name");
        let name = text(volume, "/name");
        if name.is_empty() {
            errors.push(FieldError::required(place, ""));
        } else {
            label(name, &place, errors);
            if volumes.contains(&name) {
                errors.push(FieldError::duplicate(place, &json!(name)));
            }
        }
        let sources = volume
            .as_object()
            .map_or(0, |it| it.keys().filter(|key| *key != "name").count());
        if sources > 1 {
            let detail = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{field}.volumes[{at}]"), detail));
        }
        volumes.insert(name);
    }
    if list(spec, "/containers").is_empty() {
        errors.push(FieldError::required(format!("{field}.containers"), ""));
    }
    let mut names = HashSet::new();
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
            self::container(container, &place, &volumes, errors);
        }
    }
    const POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
    let restart = text(spec, "/restartPolicy");
    if !POLICIES.contains(&restart) {
        errors.push(FieldError::not_supported(
            format!("{field}.restartPolicy"),
            &json!(restart),
            &POLICIES,
        ));
    }
    const DNS: [&str; 4] = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    let dns = text(spec, "/dnsPolicy");
    if !DNS.contains(&dns) {
        errors.push(FieldError::not_supported(
            format!("{field}.dnsPolicy"),
            &json!(dns),
            &DNS,
        ));
    }
    let account = text(spec, "/serviceAccountName");
    if !account.is_empty() {
        let place = format!("{field}.serviceAccountName");
        errors.extend(
            subdomain_errors(account)
                .iter()
                .map(|it| FieldError::invalid(&place, &json!(account), it)),
        );
    }
    for (at, toleration) in list(spec, "/tolerations").iter().enumerate() {
        let place = format!("{field}.tolerations[{at}]");
        if text(toleration, "/key").is_empty() && text(toleration, "/operator") != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(
                format!("{place}.operator"),
                &json!(text(toleration, "/operator")),
                detail,
            ));
        }
        let effect = text(toleration, "/effect");
        if toleration.get("tolerationSeconds").is_some_and(|it| !it.is_null()) && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(format!("{place}.effect"), &json!(effect), detail));
        }
    }
}

fn container(container: &Value, place: &str, volumes: &HashSet<&str>, errors: &mut Vec<FieldError>) {
    let image = text(container, "/image");
    if image.is_empty() {
        errors.push(FieldError::required(format!("{place}.image"), ""));
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(format!("{place}.image"), &json!(image), detail));
    }
    const PULLS: [&str; 3] = ["Always", "IfNotPresent", "Never"];
    let pull = text(container, "/imagePullPolicy");
    if !PULLS.contains(&pull) {
        errors.push(FieldError::not_supported(
            format!("{place}.imagePullPolicy"),
            &json!(pull),
            &PULLS,
        ));
    }
    for (at, port) in list(container, "/ports").iter().enumerate() {
        let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or(0);
        let field = format!("{place}.ports[{at}].containerPort");
        if number == 0 {
            errors.push(FieldError::required(field, ""));
        } else if !(1..=65535).contains(&number) {
            errors.push(FieldError::invalid(
                field,
                &json!(number),
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
    for (at, variable) in list(container, "/env").iter().enumerate() {
        if text(variable, "/name").is_empty() {
            errors.push(FieldError::required(format!("{place}.env[{at}].name"), ""));
        }
        if variable.get("valueFrom").is_some() && !text(variable, "/value").is_empty() {
            let detail = "may not be specified when `value` is not empty";
            errors.push(FieldError::invalid(
                format!("{place}.env[{at}].valueFrom"),
                &json!(""),
                detail,
            ));
        }
    }
    let mut paths = HashSet::new();
    for (at, mount) in list(container, "/volumeMounts").iter().enumerate() {
        let field = format!("{place}.volumeMounts[{at}]");
        let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{field}.name"), ""));
        } else if !volumes.contains(name) {
            errors.push(FieldError {
                reason: "FieldValueNotFound",
                field: format!("{field}.name"),
                detail: format!("Not found: {name:?}"),
            });
        }
        if path.is_empty() {
            errors.push(FieldError::required(format!("{field}.mountPath"), ""));
        } else if !paths.insert(path) {
            errors.push(FieldError::invalid(
                format!("{field}.mountPath"),
                &json!(path),
                "must be unique",
            ));
        }
    }
}
