//! Pods, and the kinds that make them.

use super::{
    changed, gates, immutable, int_or_percent, invalid_shown, list, not_more_than_all,
    pods::{pod_spec, template},
    published,
    scheduling::label_selector,
    text,
};
use crate::pod_admission::UNCHANGEABLE;
use kube_store::status::FieldError;
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) fn deployment(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if !changed(new, old, "/spec") {
        return;
    }
    if selector(new, "deployment", errors) && changed(new, old, "/spec/template") {
        template(&new["spec"]["template"], "spec.template", errors);
        lasting(new, "ReplicaSet", errors);
    }
    let strategy = &new["spec"]["strategy"];
    let update = &strategy["rollingUpdate"];
    match text(strategy, "/type") {
        "Recreate" => {
            if !update.is_null() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
            }
        }
        "RollingUpdate" => rolling_deployment(update, errors),
        other => errors.push(unknown_strategy(
            "spec.strategy",
            other,
            &bounds_shown(update),
            ["Recreate", "RollingUpdate"],
        )),
    }
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
}

/// Pods that are made anew whenever they end have no time to end in.
fn lasting(new: &Value, maker: &str, errors: &mut Vec<FieldError>) {
    let spec = &new["spec"]["template"]["spec"];
    if !spec["activeDeadlineSeconds"].is_null() {
        let field = "spec.template.spec.activeDeadlineSeconds";
        let detail = format!("activeDeadlineSeconds in {maker} is not Supported");
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// The bounds of a rolling update as the server within Kubernetes has them.
fn bounds_shown(update: &Value) -> String {
    let shown = |key: &str| match &update[key] {
        Value::Null => "0".to_owned(),
        bound => bound.to_string(),
    };
    match update.is_object() {
        true => format!(
            r#"{{"MaxUnavailable":{},"MaxSurge":{}}}"#,
            shown("maxUnavailable"),
            shown("maxSurge")
        ),
        false => "null".to_owned(),
    }
}

/// An unknown kind of strategy is told of the strategy as a whole.
fn unknown_strategy(field: &str, kind: &str, update: &str, known: [&str; 2]) -> FieldError {
    let [first, second] = known;
    FieldError {
        reason: "FieldValueNotSupported",
        field: field.to_owned(),
        detail: format!(
            r#"Unsupported value: {{"Type":{kind:?},"RollingUpdate":{update}}}: supported values: "{first}", "{second}""#
        ),
    }
}

/// A number or a percentage that stands for none.
fn is_none(value: &Value) -> bool {
    match value {
        // A text that says nothing of the kind counts as none, too.
        Value::String(text) => text.strip_suffix('%').unwrap_or(text).parse().unwrap_or(0) == 0,
        value => value.as_i64().unwrap_or_default() == 0,
    }
}

fn rolling_deployment(update: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.strategy.rollingUpdate";
    let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
    let field = format!("{place}.maxUnavailable");
    int_or_percent(unavailable, &field, errors);
    int_or_percent(surge, &format!("{place}.maxSurge"), errors);
    if is_none(unavailable) && is_none(surge) {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(&field, unavailable, detail));
    }
    not_more_than_all(unavailable, &field, errors);
}

fn rolling_daemon_set(new: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.updateStrategy";
    let update = &new["spec"]["updateStrategy"]["rollingUpdate"];
    match text(new, "/spec/updateStrategy/type") {
        "RollingUpdate" => {}
        "OnDelete" => return,
        other => {
            let known = ["RollingUpdate", "OnDelete"];
            errors.push(unknown_strategy(place, other, &bounds_shown(update), known));
            return;
        }
    }
    let (unavailable, surge) = (&update["maxUnavailable"], &update["maxSurge"]);
    let bounds = [("maxUnavailable", unavailable), ("maxSurge", surge)];
    for check in [int_or_percent, not_more_than_all] {
        for (key, value) in bounds {
            check(value, &format!("{place}.rollingUpdate.{key}"), errors);
        }
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

fn rolling_stateful_set(new: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.updateStrategy.rollingUpdate";
    let update = &new["spec"]["updateStrategy"]["rollingUpdate"];
    let shown = |it: &Value| match it.is_object() {
        true => format!(
            r#"{{"Partition":{},"MaxUnavailable":null}}"#,
            it["partition"].as_i64().unwrap_or_default()
        ),
        false => "null".to_owned(),
    };
    match text(new, "/spec/updateStrategy/type") {
        "RollingUpdate" => {}
        "OnDelete" => {
            if update.is_object() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(invalid_shown(place, &shown(update), detail));
            }
        }
        other => {
            let shown = format!(r#"{{"Type":{other:?},"RollingUpdate":{}}}"#, shown(update));
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(invalid_shown("spec.updateStrategy", &shown, detail));
        }
    }
}

pub(super) fn pod_template(new: &Value, errors: &mut Vec<FieldError>) {
    template(&new["template"], "template", errors);
}

pub(super) fn controller_revision(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    match &new["data"] {
        _ if old.is_some() => immutable(new, old, "/data", "data", errors),
        Value::Object(_) => {}
        Value::Null => errors.push(FieldError::required("data", "data is mandatory")),
        _ => errors.push(FieldError::required("data", "data must be a valid JSON object")),
    }
}

pub(super) fn replica_set(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if !changed(new, old, "/spec") {
        return;
    }
    if selector(new, "deployment", errors) && changed(new, old, "/spec/template") {
        template(&new["spec"]["template"], "spec.template", errors);
        lasting(new, "ReplicaSet", errors);
    }
}

pub(super) fn daemon_set(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if !changed(new, old, "/spec") {
        return;
    }
    let given = &new["spec"]["selector"];
    if given.is_null() {
        // Upstream misses it only by what it selects: nothing.
        errors.push(template_mismatch(new));
    } else {
        selector(new, "daemonset", errors);
    }
    if changed(new, old, "/spec/template") {
        template(&new["spec"]["template"], "spec.template", errors);
        lasting(new, "DaemonSet", errors);
    }
    rolling_daemon_set(new, errors);
}

pub(super) fn stateful_set(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 2] = ["OrderedReady", "Parallel"];
    if !changed(new, old, "/spec") {
        return;
    }
    let policy = text(new, "/spec/podManagementPolicy");
    if !POLICIES.contains(&policy) {
        let detail = format!("must be '{}' or '{}'", POLICIES[0], POLICIES[1]);
        errors.push(FieldError::invalid("spec.podManagementPolicy", &json!(policy), detail));
    }
    rolling_stateful_set(new, errors);
    let (claims, field) = (&new["spec"]["volumeClaimTemplates"], "spec.volumeClaimTemplates");
    // What may not change is not checked again.
    if old.is_none() {
        published::member(
            "io.k8s.api.apps.v1.StatefulSetSpec",
            "volumeClaimTemplates",
            claims,
            field,
            errors,
        );
    }
    let readable = selector(new, "statefulset", errors);
    if changed(new, old, "/spec/template") {
        if readable {
            template(&with_claims(new), "spec.template", errors);
        }
        lasting(new, "StatefulSet", errors);
    }
    const KEPT: [&str; 4] = ["serviceName", "podManagementPolicy", "volumeClaimTemplates", "selector"];
    if old.is_some_and(|old| KEPT.iter().any(|key| new["spec"].get(*key) != old["spec"].get(*key))) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                      'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden("spec", detail));
    }
}

/// The template of a StatefulSet with the volumes that its claims become, which its containers may mount, too; what its
/// controller writes over is not looked at.
fn with_claims(new: &Value) -> Value {
    let mut template = new["spec"]["template"].clone();
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else {
        return template;
    };
    for key in ["subdomain", "hostname"] {
        spec.remove(key);
    }
    let claims = list(new, "/spec/volumeClaimTemplates");
    if claims.is_empty() {
        return template;
    }
    let mut names = HashSet::new();
    let mut volumes = Vec::new();
    for name in claims.iter().map(|it| text(it, "/metadata/name")) {
        if names.insert(name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
    let own = spec.remove("volumes").unwrap_or_default();
    let others = own.as_array().into_iter().flatten();
    volumes.extend(others.filter(|it| !names.contains(text(it, "/name"))).cloned());
    spec.insert("volumes".to_owned(), volumes.into());
    template
}

/// A workload selects its own pods: the selector is given, not empty, and matches the labels of the template. Answers whether
/// it can be read. `maker` is what upstream calls the workload.
fn selector(new: &Value, maker: &str, errors: &mut Vec<FieldError>) -> bool {
    let Some(selector) = new.pointer("/spec/selector").filter(|it| !it.is_null()) else {
        errors.push(FieldError::required("spec.selector", ""));
        errors.push(template_mismatch(new));
        return true;
    };
    let before = errors.len();
    label_selector(selector, "spec.selector", errors);
    let readable = errors.len() == before;
    let empty = |key: &str| match selector.get(key) {
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => true,
    };
    if empty("matchLabels") && empty("matchExpressions") {
        let detail = format!("empty selector is invalid for {maker}");
        errors.push(FieldError::invalid("spec.selector", selector, detail));
    } else if readable && !matches(selector, &new["spec"]["template"]["metadata"]["labels"]) {
        errors.push(template_mismatch(new));
    }
    match maker {
        _ if readable => {}
        "deployment" => errors.push(FieldError::invalid("spec.selector", selector, "invalid label selector")),
        "statefulset" => errors.push(FieldError {
            reason: "FieldValueInvalid",
            field: "spec.selector".to_owned(),
            detail: format!("Invalid value: {selector}"),
        }),
        _ => {}
    }
    readable
}

pub(super) fn template_mismatch(new: &Value) -> FieldError {
    let labels = new.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
    FieldError::invalid(
        "spec.template.metadata.labels",
        labels,
        "`selector` does not match template `labels`",
    )
}

/// Whether a label selector matches labels.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
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

pub(super) fn pod(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    // What was stored once may stay: its status is still to be written.
    if old.is_none_or(|it| it["spec"] != new["spec"]) {
        pod_spec(&new["spec"], "spec", errors);
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
    let gated = !list(old, "/spec/schedulingGates").is_empty();
    if gated {
        gates::narrowed(&new["spec"], &old["spec"], errors);
    }
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
            if gated {
                gates::remove_changeable(map);
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
