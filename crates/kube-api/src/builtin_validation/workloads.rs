//! Pods, and the kinds that make them.

use super::{
    changed, claims, immutable, int_or_percent, label, list, non_negative,
    pods::{Of, RESTARTS, pod_spec},
    schedules, subdomain, supported, text,
};
use crate::pod_admission::UNCHANGEABLE;
use kube_store::{
    schema::metadata::{validate_annotations, validate_labels},
    status::FieldError,
};
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) fn deployment(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    non_negative(new, "/spec/replicas", "spec.replicas", errors);
    non_negative(new, "/spec/minReadySeconds", "spec.minReadySeconds", errors);
    non_negative(new, "/spec/revisionHistoryLimit", "spec.revisionHistoryLimit", errors);
    let seconds = |key: &str| new["spec"][key].as_i64();
    let deadline = seconds("progressDeadlineSeconds");
    if deadline.is_some_and(|it| it <= seconds("minReadySeconds").unwrap_or_default()) {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(
            "spec.progressDeadlineSeconds",
            &json!(deadline),
            detail,
        ));
    }
    selector(new, errors);
    match text(new, "/spec/strategy/type") {
        "Recreate" => {
            if new.pointer("/spec/strategy/rollingUpdate").is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
            }
        }
        "RollingUpdate" => rolling_deployment(&new["spec"]["strategy"]["rollingUpdate"], errors),
        other => {
            errors.push(FieldError::not_supported(
                "spec.strategy.type",
                &json!(other),
                &["Recreate", "RollingUpdate"],
            ));
        }
    }
    immutable(new, old, "/spec/selector", "spec.selector", errors);
    if changed(new, old, "/spec/template") {
        template(&new["spec"]["template"], "spec.template", &["Always"], errors);
        no_deadline(new, "ReplicaSet", errors);
    }
}

/// Pods that are made anew whenever they end have no time to end in.
fn no_deadline(new: &Value, maker: &str, errors: &mut Vec<FieldError>) {
    let field = "spec.template.spec.activeDeadlineSeconds";
    if !new["spec"]["template"]["spec"]["activeDeadlineSeconds"].is_null() {
        let detail = format!("activeDeadlineSeconds in {maker} is not Supported");
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// A number or a percentage that stands for none.
fn is_none(value: &Value) -> bool {
    match value {
        Value::String(text) => text
            .strip_suffix('%')
            .is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it == b'0')),
        value => value.as_i64().unwrap_or_default() == 0,
    }
}

fn rolling_deployment(update: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.strategy.rollingUpdate";
    let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
    int_or_percent(unavailable, Some(100), &format!("{place}.maxUnavailable"), errors);
    int_or_percent(surge, None, &format!("{place}.maxSurge"), errors);
    if is_none(unavailable) && is_none(surge) {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(
            format!("{place}.maxUnavailable"),
            unavailable,
            detail,
        ));
    }
}

fn rolling_daemon_set(new: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.updateStrategy";
    let kind = text(new, "/spec/updateStrategy/type");
    const TYPES: [&str; 2] = ["OnDelete", "RollingUpdate"];
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(format!("{place}.type"), &json!(kind), &TYPES));
    }
    if kind != "RollingUpdate" {
        return;
    }
    let update = &new["spec"]["updateStrategy"]["rollingUpdate"];
    let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
    for (key, value) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
        int_or_percent(value, Some(100), &format!("{place}.rollingUpdate.{key}"), errors);
    }
    match (is_none(unavailable), is_none(surge)) {
        (false, false) => errors.push(FieldError::invalid(
            format!("{place}.rollingUpdate.maxSurge"),
            surge,
            "may not be set when maxUnavailable is non-zero",
        )),
        (true, true) => errors.push(FieldError::required(
            format!("{place}.rollingUpdate.maxUnavailable"),
            "cannot be 0 when maxSurge is 0",
        )),
        _ => {}
    }
}

fn rolling_stateful_set(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 2] = ["OrderedReady", "Parallel"];
    let policy = text(new, "/spec/podManagementPolicy");
    if !POLICIES.contains(&policy) {
        let detail = format!("must be '{}' or '{}'", POLICIES[0], POLICIES[1]);
        errors.push(FieldError::invalid("spec.podManagementPolicy", &json!(policy), detail));
    }
    let ordinals = "spec.ordinals.start";
    non_negative(new, "/spec/ordinals/start", ordinals, errors);
    let service = text(new, "/spec/serviceName");
    if !service.is_empty() && changed(new, old, "/spec/serviceName") {
        label(service, "spec.serviceName", errors);
    }
    const RETENTIONS: [&str; 2] = ["Retain", "Delete"];
    for key in ["whenDeleted", "whenScaled"] {
        let retention = &new["spec"]["persistentVolumeClaimRetentionPolicy"][key];
        if !retention.is_null() {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{key}");
            supported(retention, field, &RETENTIONS, errors);
        }
    }
    if changed(new, old, "/spec/volumeClaimTemplates") {
        for (at, claim) in list(new, "/spec/volumeClaimTemplates").iter().enumerate() {
            let field = format!("spec.volumeClaimTemplates[{at}].spec");
            claims::claim_spec(&claim["spec"], &field, errors);
        }
    }
    let place = "spec.updateStrategy.rollingUpdate";
    let update = &new["spec"]["updateStrategy"]["rollingUpdate"];
    let shown = |it: &Value| match it.is_object() {
        true => format!(
            r#"{{"Partition":{},"MaxUnavailable":{}}}"#,
            it["partition"], it["maxUnavailable"]
        ),
        false => "null".to_owned(),
    };
    let strategy = |field: &str, shown: String, detail: &str| FieldError {
        reason: "FieldValueInvalid",
        field: field.to_owned(),
        detail: format!("Invalid value: {shown}: {detail}"),
    };
    match text(new, "/spec/updateStrategy/type") {
        "RollingUpdate" => {}
        "OnDelete" => {
            if update.is_object() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(strategy(place, shown(update), detail));
            }
            return;
        }
        other => {
            let shown = format!(r#"{{"Type":{other:?},"RollingUpdate":{}}}"#, shown(update));
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(strategy("spec.updateStrategy", shown, detail));
            return;
        }
    }
    non_negative(update, "/partition", &format!("{place}.partition"), errors);
    let unavailable = &update["maxUnavailable"];
    if unavailable.is_null() {
        return;
    }
    let field = format!("{place}.maxUnavailable");
    int_or_percent(unavailable, Some(100), &field, errors);
    if is_none(unavailable) {
        errors.push(FieldError::invalid(field, unavailable, "cannot be 0"));
    }
}

pub(super) fn replication_controller(new: &Value, errors: &mut Vec<FieldError>) {
    non_negative(new, "/spec/minReadySeconds", "spec.minReadySeconds", errors);
    non_negative(new, "/spec/replicas", "spec.replicas", errors);
    let selector = new["spec"]["selector"].as_object().filter(|it| !it.is_empty());
    if selector.is_none() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    let Some(pods) = new.pointer("/spec/template").filter(|it| !it.is_null()) else {
        errors.push(FieldError::required("spec.template", ""));
        return;
    };
    let labels = &pods["metadata"]["labels"];
    if selector.is_some_and(|it| it.iter().any(|(key, value)| labels.get(key) != Some(value))) {
        errors.push(template_mismatch(new));
    }
    template(pods, "spec.template", &["Always"], errors);
}

pub(super) fn pod_template(new: &Value, errors: &mut Vec<FieldError>) {
    template(&new["template"], "template", &RESTARTS, errors);
}

pub(super) fn controller_revision(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    non_negative(new, "/revision", "revision", errors);
    match &new["data"] {
        _ if old.is_some() => immutable(new, old, "/data", "data", errors),
        Value::Object(_) => {}
        Value::Null => errors.push(FieldError::required("data", "data is mandatory")),
        _ => errors.push(FieldError::required("data", "data must be a valid JSON object")),
    }
}

pub(super) fn runtime_class(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    match text(new, "/handler") {
        "" => errors.push(FieldError::required("handler", "")),
        handler => label(handler, "handler", errors),
    }
    immutable(new, old, "/handler", "handler", errors);
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
    match kind {
        "DaemonSet" => rolling_daemon_set(new, errors),
        "StatefulSet" => rolling_stateful_set(new, old, errors),
        _ => {}
    }
    non_negative(new, "/spec/minReadySeconds", "spec.minReadySeconds", errors);
    if changed(new, old, "/spec/template") {
        template(&with_claims(new), "spec.template", &["Always"], errors);
        no_deadline(new, kind, errors);
    }
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

/// Numbers in the spec of a Job, or of those that a CronJob makes.
fn numbers_of_job(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for key in [
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        non_negative(spec, &format!("/{key}"), &format!("{path}.{key}"), errors);
    }
}

pub(super) fn job(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    numbers_of_job(&new["spec"], "spec", errors);
    if changed(new, old, "/spec") {
        completion(&new["spec"], "spec", errors);
        template(
            &new["spec"]["template"],
            "spec.template",
            &["OnFailure", "Never"],
            errors,
        );
    }
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

/// Errors of when a job is done, and what happens to its pods until then.
fn completion(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const MODES: [&str; 2] = ["NonIndexed", "Indexed"];
    const PARALLEL_MAX: i64 = 100_000;
    let field = |name: &str| format!("{place}.{name}");
    let number = |key: &str| spec[key].as_i64();
    let mode = text(spec, "/completionMode");
    if !mode.is_empty() {
        supported(&json!(mode), field("completionMode"), &MODES, errors);
    }
    let (completions, failed) = (number("completions"), number("maxFailedIndexes"));
    if failed.is_some() && spec["backoffLimitPerIndex"].is_null() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(field("backoffLimitPerIndex"), detail));
    }
    if mode == "Indexed" {
        if completions.is_none() {
            let detail = "when completion mode is Indexed";
            errors.push(FieldError::required(field("completions"), detail));
        }
        let parallel = number("parallelism").unwrap_or_default();
        if parallel > PARALLEL_MAX {
            let detail = format!("must be less than or equal to {PARALLEL_MAX} when completion mode is Indexed");
            errors.push(FieldError::invalid(field("parallelism"), &json!(parallel), detail));
        }
        if let (Some(failed), Some(completions)) = (failed, completions)
            && failed > completions
        {
            let detail = "must be less than or equal to completions";
            errors.push(FieldError::invalid(field("maxFailedIndexes"), &json!(failed), detail));
        }
    } else if mode.is_empty() || mode == "NonIndexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[key].is_null() {
                let detail = "requires indexed completion mode";
                errors.push(FieldError::invalid(field(key), &spec[key], detail));
            }
        }
    }
    let replacement = &spec["podReplacementPolicy"];
    if !replacement.is_null() && spec["podFailurePolicy"].is_null() {
        let known = ["Failed", "TerminatingOrFailed"];
        supported(replacement, field("podReplacementPolicy"), &known, errors);
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        let parts = manager
            .split_once('/')
            .filter(|it| !it.0.is_empty() && !it.1.is_empty());
        match parts {
            None => {
                let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                errors.push(FieldError::invalid(field("managedBy"), &json!(manager), detail));
            }
            Some((domain, _)) => subdomain(domain, &field("managedBy"), errors),
        }
    }
}

pub(super) fn cron_job(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    schedules::schedule(new, old, errors);
    for key in [
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ] {
        non_negative(new, &format!("/spec/{key}"), &format!("spec.{key}"), errors);
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
    if !changed(new, old, "/spec/jobTemplate") {
        return;
    }
    let (path, job) = ("spec.jobTemplate.spec", &new["spec"]["jobTemplate"]["spec"]);
    if !job["selector"].is_null() {
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::invalid(
            format!("{path}.selector"),
            &job["selector"],
            detail,
        ));
    }
    if job["manualSelector"] == true {
        let field = format!("{path}.manualSelector");
        errors.push(FieldError::not_supported(field, &json!(true), &["nil", "false"]));
    }
    numbers_of_job(job, path, errors);
    completion(job, path, errors);
    template(
        &job["template"],
        &format!("{path}.template"),
        &["OnFailure", "Never"],
        errors,
    );
}

fn template(template: &Value, field: &str, restarts: &[&str], errors: &mut Vec<FieldError>) {
    if let Some(labels) = template.pointer("/metadata/labels") {
        errors.extend(validate_labels(labels, &format!("{field}.labels")));
    }
    if let Some(annotations) = template.pointer("/metadata/annotations") {
        errors.extend(validate_annotations(annotations, &format!("{field}.annotations")));
    }
    pod_spec(&template["spec"], Of::Template, &format!("{field}.spec"), errors);
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
    // What was stored once may stay: its status is still to be written.
    if old.is_none_or(|it| it["spec"] != new["spec"]) {
        pod_spec(&new["spec"], Of::Pod, "spec", errors);
    }
    let Some(old) = old else {
        if !list(new, "/spec/ephemeralContainers").is_empty() {
            errors.push(FieldError::forbidden(
                "spec.ephemeralContainers",
                "cannot be set on create",
            ));
        }
        if !text(new, "/spec/nodeName").is_empty() && !list(new, "/spec/schedulingGates").is_empty() {
            let detail = "cannot be set until all schedulingGates have been cleared";
            errors.push(FieldError::forbidden("spec.nodeName", detail));
        }
        return;
    };
    // Images, deadlines and added tolerations may change; the rest of a pod may not.
    let rest = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                container.as_object_mut().map(|it| it.remove("image"));
            }
        }
        if let Some(map) = spec.as_object_mut() {
            for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName"] {
                map.remove(key);
            }
            // A negative one, which was stored once, counts as 1 wherever it is read.
            if let Some(grace) = map.get_mut("terminationGracePeriodSeconds") {
                *grace = grace.as_i64().map(|it| if it < 0 { 1 } else { it }).into();
            }
        }
        spec
    };
    if rest(new) != rest(old) {
        errors.push(FieldError::forbidden("spec", UNCHANGEABLE));
    }
    let deadline = |pod: &Value| pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
    let refusal = match (deadline(old), deadline(new)) {
        (Some(before), Some(now)) if before < now => Some("must be less than or equal to previous value"),
        (Some(_), None) => Some("must not update from a positive integer to nil value"),
        _ => None,
    };
    if let Some(detail) = refusal {
        let value = json!(deadline(new));
        errors.push(FieldError::invalid("spec.activeDeadlineSeconds", &value, detail));
    }
    // A toleration may come, and last longer or shorter; none may go.
    let tolerations = |pod: &Value| -> Vec<Value> {
        let mut all = list(pod, "/spec/tolerations").to_vec();
        for one in all.iter_mut().filter_map(Value::as_object_mut) {
            one.remove("tolerationSeconds");
        }
        all
    };
    let kept = tolerations(new);
    if tolerations(old).iter().any(|it| !kept.contains(it)) {
        errors.push(FieldError::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
    let gates = list(old, "/spec/schedulingGates");
    for (at, gate) in list(new, "/spec/schedulingGates").iter().enumerate() {
        if !gates.iter().any(|it| it["name"] == gate["name"]) {
            let name = text(gate, "/name");
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(
                format!("spec.schedulingGates[{at}].name"),
                detail,
            ));
        }
    }
}
