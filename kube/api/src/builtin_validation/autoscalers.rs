//! What scales by metrics, and how fast it may. Facts from Kubernetes `pkg/apis/autoscaling/validation`.

use super::{changed, label, list, non_negative, quotas, supported, text};
use crate::conversion::{Conversion, autoscaler::Autoscalers};
use kube_store::{
    schema::{metadata::path_segment_errors, quantity},
    status::FieldError,
};
use serde_json::{Value, json};
use std::borrow::Cow;

/// The object as `autoscaling/v2` says it, which is what the messages name: what is wrong with one of the older version is wrong there.
fn newest(object: &Value) -> Cow<'_, Value> {
    if text(object, "/apiVersion") != "autoscaling/v1" {
        return Cow::Borrowed(object);
    }
    let mut newer = object.clone();
    Autoscalers.convert(&mut newer, "autoscaling/v2");
    Cow::Owned(newer)
}

/// Errors of a HorizontalPodAutoscaler in any version.
pub(super) fn autoscaler(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let (new, old) = (newest(new), old.map(newest));
    let (new, old) = (&*new, old.as_deref());
    if changed(new, old, "/spec") {
        spec(&new["spec"], old.map(|it| &it["spec"]), errors);
    }
    if old.is_some() && changed(new, old, "/status") {
        for counter in ["currentReplicas", "desiredReplicas"] {
            non_negative(new, &format!("/status/{counter}"), &format!("status.{counter}"), errors);
        }
    }
}

fn spec(spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let number = |key: &str| spec[key].as_i64();
    let (least, most) = (number("minReplicas"), number("maxReplicas").unwrap_or_default());
    // One that scales to nothing was stored when that was switched on.
    let bound = i64::from(old.is_none_or(|it| it["minReplicas"] != 0));
    if let Some(least) = least.filter(|it| *it < bound) {
        let detail = format!("must be greater than or equal to {bound}");
        errors.push(FieldError::invalid("spec.minReplicas", &json!(least), detail));
    }
    if most == 0 {
        let detail = "must be set and greater than 0";
        errors.push(FieldError::required("spec.maxReplicas", detail));
    } else if most < 0 {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid("spec.maxReplicas", &json!(most), detail));
    }
    if least.is_some_and(|it| most < it) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", &json!(most), detail));
    }
    let target = &spec["scaleTargetRef"];
    let same = |it: &Value| {
        ["apiVersion", "kind"]
            .iter()
            .all(|key| it["scaleTargetRef"][*key] == target[*key])
    };
    let group = match old {
        Some(old) if same(old) => Group::Unchecked,
        // The only kind of the core group that scales.
        _ if target["kind"] == "ReplicationController" => Group::Optional,
        _ => Group::Needed,
    };
    reference(target, group, "spec.scaleTargetRef", errors);
    metrics(spec, old, least, errors);
    for direction in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][direction];
        if rules.is_object() {
            scaling_rules(rules, &format!("spec.behavior.{direction}"), errors);
        }
    }
}

/// What is asked of the `apiVersion` of a reference.
#[derive(Clone, Copy)]
enum Group {
    Needed,
    Optional,
    /// What was stored once may stay.
    Unchecked,
}

/// What is wrong with an `apiVersion`.
fn api_version_error(version: &str, group: Group) -> Option<String> {
    let has_group = match version.split('/').collect::<Vec<_>>().as_slice() {
        [_] => false,
        [group, _] => !group.is_empty(),
        _ => return Some(format!("unexpected GroupVersion string: {version}")),
    };
    (matches!(group, Group::Needed) && !has_group).then(|| "apiVersion must specify API group".to_owned())
}

fn path_segment(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let wrong = path_segment_errors(name);
    errors.extend(wrong.iter().map(|it| FieldError::invalid(field, &json!(name), it)));
}

/// Errors of what refers to an object of any kind.
fn reference(to: &Value, group: Group, place: &str, errors: &mut Vec<FieldError>) {
    for key in ["kind", "name"] {
        let field = format!("{place}.{key}");
        match to[key].as_str().unwrap_or_default() {
            "" => errors.push(FieldError::required(field, "")),
            name => path_segment(name, &field, errors),
        }
    }
    let version = text(to, "/apiVersion");
    if !matches!(group, Group::Unchecked)
        && let Some(detail) = api_version_error(version, group)
    {
        errors.push(FieldError::invalid(
            format!("{place}.apiVersion"),
            &json!(version),
            detail,
        ));
    }
}

/// The types of metrics, and the members that hold them.
const TYPES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
/// The members in the order in which they are looked at: of several only the first is.
const MEMBERS: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];

fn metrics(spec: &Value, old: Option<&Value>, least: Option<i64>, errors: &mut Vec<FieldError>) {
    let all = list(spec, "/metrics");
    let was_wrong = |it: &Value| {
        let version = text(it, "/object/describedObject/apiVersion");
        it["type"] == "Object" && it["object"].is_object() && api_version_error(version, Group::Optional).is_some()
    };
    let group = if old.is_some_and(|it| list(it, "/metrics").iter().any(was_wrong)) {
        Group::Unchecked
    } else {
        Group::Optional
    };
    for (at, metric) in all.iter().enumerate() {
        self::metric(metric, group, &format!("spec.metrics[{at}]"), errors);
    }
    let outer = |it: &Value| ["Object", "External"].contains(&text(it, "/type"));
    if least == Some(0) && !all.iter().any(outer) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden("spec.metrics", detail));
    }
}

fn metric(metric: &Value, group: Group, place: &str, errors: &mut Vec<FieldError>) {
    let kind = text(metric, "/type");
    let field = format!("{place}.type");
    if kind.is_empty() {
        let detail = "must specify a metric source type";
        errors.push(FieldError::required(&field, detail));
    }
    let known = TYPES.map(|it| it.0);
    supported(&json!(kind), &field, &known, errors);
    let present: Vec<_> = MEMBERS.into_iter().filter(|it| metric[*it].is_object()).collect();
    if let Some(first) = present.first() {
        source(first, &metric[*first], group, &format!("{place}.{first}"), errors);
    }
    let expected = TYPES.iter().find(|it| it.0 == kind).map(|it| it.1);
    match expected {
        Some(member) if !present.contains(&member) => {
            let detail = "must populate information for the given metric source";
            errors.push(FieldError::required(format!("{place}.{member}"), detail));
        }
        Some(_) => {}
        // Upstream says it twice.
        None => supported(&json!(kind), field, &known, errors),
    }
    if present.len() != 1 {
        for member in present.iter().filter(|it| Some(**it) != expected) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(format!("{place}.{member}"), detail));
        }
    }
}

fn source(member: &str, it: &Value, group: Group, place: &str, errors: &mut Vec<FieldError>) {
    let required = |key: &str, detail: &str| FieldError::required(format!("{place}.{key}"), detail);
    match member {
        "resource" | "containerResource" => {
            let (name, container) = (text(it, "/name"), text(it, "/container"));
            if name.is_empty() {
                errors.push(required("name", "must specify a resource name"));
            } else if member == "containerResource" {
                quotas::container_resource_name(name, &format!("{place}.name"), errors);
            }
            if member == "containerResource" && container.is_empty() {
                errors.push(required("container", "must specify a container"));
            } else if member == "containerResource" {
                label(container, &format!("{place}.container"), errors);
            }
        }
        _ => {
            if member == "object" {
                let field = format!("{place}.describedObject");
                reference(&it["describedObject"], group, &field, errors);
            }
            match text(it, "/metric/name") {
                "" => errors.push(required("metric.name", "must specify a metric name")),
                name => path_segment(name, &format!("{place}.metric.name"), errors),
            }
        }
    }
    let target = &it["target"];
    metric_target(target, &format!("{place}.target"), errors);
    let has = |key: &str| !target[key].is_null();
    let average = "target.averageValue";
    match member {
        "object" if !has("value") && !has("averageValue") => {
            errors.push(required(average, "must set either a target value or averageValue"));
        }
        "external" => match (has("value"), has("averageValue")) {
            (false, false) => {
                let detail = "must set either a target value for metric or a per-pod target";
                errors.push(required(average, detail));
            }
            (true, true) => {
                let detail = "may not set both a target value for metric and a per-pod target";
                errors.push(FieldError::forbidden(format!("{place}.target.value"), detail));
            }
            _ => {}
        },
        "pods" if !has("averageValue") => {
            errors.push(required(average, "must specify a positive target averageValue"));
        }
        "resource" | "containerResource" => match (has("averageUtilization"), has("averageValue")) {
            (false, false) => {
                let detail = "must set either a target raw value or a target utilization";
                errors.push(required("target.averageUtilization", detail));
            }
            (true, true) => {
                let detail = "may not set both a target raw value and a target utilization";
                errors.push(FieldError::forbidden(format!("{place}.{average}"), detail));
            }
            _ => {}
        },
        _ => {}
    }
}

fn metric_target(target: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let field = |key: &str| format!("{place}.{key}");
    let kind = text(target, "/type");
    if kind.is_empty() {
        errors.push(FieldError::required(field("type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(field("type"), &json!(kind), detail));
    }
    for key in ["value", "averageValue"] {
        let amount = &target[key];
        if amount.as_str().and_then(quantity::milli).is_some_and(|it| it <= 0) {
            errors.push(FieldError::invalid(field(key), amount, "must be positive"));
        }
    }
    let percent = &target["averageUtilization"];
    if percent.as_i64().is_some_and(|it| it < 1) {
        let detail = "must be greater than 0";
        errors.push(FieldError::invalid(field("averageUtilization"), percent, detail));
    }
}

/// Errors of how fast it may scale in one direction.
fn scaling_rules(rules: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const WINDOW_SECONDS_MAX: i64 = 3600;
    const PERIOD_SECONDS_MAX: i64 = 1800;
    let field = |key: &str| format!("{place}.{key}");
    let window = &rules["stabilizationWindowSeconds"];
    let detail = match window.as_i64() {
        Some(it) if it < 0 => Some("must be greater than or equal to zero".to_owned()),
        Some(it) if it > WINDOW_SECONDS_MAX => Some(format!("must be less than or equal to {WINDOW_SECONDS_MAX}")),
        _ => None,
    };
    if let Some(detail) = detail {
        errors.push(FieldError::invalid(field("stabilizationWindowSeconds"), window, detail));
    }
    let select = &rules["selectPolicy"];
    if !select.is_null() {
        supported(select, field("selectPolicy"), &["Disabled", "Max", "Min"], errors);
    }
    let policies = list(rules, "/policies");
    if policies.is_empty() {
        let detail = "must specify at least one Policy";
        errors.push(FieldError::required(field("policies"), detail));
    }
    for (at, policy) in policies.iter().enumerate() {
        let field = |key: &str| format!("{place}.policies[{at}].{key}");
        let kind = json!(text(policy, "/type"));
        supported(&kind, field("type"), &["Percent", "Pods"], errors);
        let mut number = |key: &str, most: Option<i64>| {
            let number = policy[key].as_i64().unwrap_or_default();
            let detail = match most {
                _ if number <= 0 => "must be greater than zero".to_owned(),
                Some(most) if number > most => format!("must be less than or equal to {most}"),
                _ => return,
            };
            errors.push(FieldError::invalid(field(key), &json!(number), detail));
        };
        number("value", None);
        number("periodSeconds", Some(PERIOD_SECONDS_MAX));
    }
    let tolerance = &rules["tolerance"];
    if tolerance.as_str().and_then(quantity::milli).is_some_and(|it| it < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(field("tolerance"), tolerance, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An autoscaler of a Deployment with these members in its spec.
    fn scaler(version: &str, more: Value) -> Value {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"});
        let mut spec = json!({"scaleTargetRef": target, "maxReplicas": 3});
        for (key, value) in more.as_object().expect("members") {
            spec[key] = value.clone();
        }
        let mut object = json!({"apiVersion": format!("autoscaling/{version}"), "spec": spec});
        crate::builtin_defaults::default("autoscaling", "HorizontalPodAutoscaler", &mut object);
        object
    }

    fn said(new: &Value, old: Option<&Value>) -> Vec<String> {
        crate::builtin_validation::said(|it| autoscaler(new, old, it))
    }

    fn wrong(more: Value) -> Vec<String> {
        said(&scaler("v2", more), None)
    }

    #[test]
    fn an_autoscaler_that_uses_everything_passes() {
        let average = json!({"type": "AverageValue", "averageValue": "100m"});
        let service = json!({"kind": "Service", "name": "s"});
        let metrics = json!([
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c", "target": average}},
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": average}},
            {"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": service, "target": {"type": "Value", "value": "1"}}},
            {"type": "External", "external": {"metric": {"name": "m", "selector": {}}, "target": average}},
        ]);
        let behavior = json!({
            "scaleUp": {"stabilizationWindowSeconds": 0, "tolerance": "0.05"},
            "scaleDown": {"selectPolicy": "Disabled", "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1800}]},
        });
        assert_eq!(
            wrong(json!({"metrics": metrics, "behavior": behavior})),
            Vec::<String>::new()
        );
        let controller = json!({"apiVersion": "v1", "kind": "ReplicationController", "name": "x"});
        assert_eq!(wrong(json!({"scaleTargetRef": controller})), Vec::<String>::new());
        assert_eq!(said(&scaler("v1", json!({})), None), Vec::<String>::new());
    }

    #[test]
    fn how_many_replicas_and_of_what_is_said() {
        assert_eq!(
            wrong(json!({"maxReplicas": 0})),
            [
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            ]
        );
        assert_eq!(
            wrong(json!({"minReplicas": 0})),
            [
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            ]
        );
        assert_eq!(
            wrong(json!({"scaleTargetRef": {}})),
            [
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.name: Required value",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
            ]
        );
        let target = |version: &str| json!({"scaleTargetRef": {"apiVersion": version, "kind": "D", "name": "a/b"}});
        assert_eq!(
            wrong(target("a/b/c")),
            [
                "spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'",
                "spec.scaleTargetRef.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            ]
        );
        // What was stored once may stay while something else changes.
        let old = scaler(
            "v2",
            json!({"scaleTargetRef": {"kind": "D", "name": "a"}, "minReplicas": 0}),
        );
        let mut new = old.clone();
        new["status"]["desiredReplicas"] = json!(1);
        assert_eq!(said(&new, Some(&old)), Vec::<String>::new());
        new["status"]["desiredReplicas"] = json!(-1);
        assert_eq!(
            said(&new, Some(&old)),
            ["status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0"]
        );
        let mut new = old.clone();
        new["spec"]["maxReplicas"] = json!(9);
        new["spec"]["metrics"] = json!([{"type": "External", "external": {
            "metric": {"name": "m"}, "target": {"type": "Value", "value": "1"},
        }}]);
        assert_eq!(said(&new, Some(&old)), Vec::<String>::new());
    }

    #[test]
    fn a_metric_has_a_source_and_a_target() {
        let metric = |it: Value| wrong(json!({"metrics": [it]}));
        let unknown = "spec.metrics[0].type: Unsupported value: \"X\": supported values: \"ContainerResource\", \"External\", \
                       \"Object\", \"Pods\", \"Resource\"";
        assert_eq!(metric(json!({"type": "X"})), [unknown, unknown]);
        assert_eq!(
            metric(json!({"type": "Resource"})),
            ["spec.metrics[0].resource: Required value: must populate information for the given metric source"]
        );
        let either = "Required value: must set either a target raw value or a target utilization";
        assert_eq!(
            metric(json!({"type": "Resource", "resource": {"name": "", "target": {"type": "Utilization"}}})),
            [
                "spec.metrics[0].resource.name: Required value: must specify a resource name".to_owned(),
                format!("spec.metrics[0].resource.target.averageUtilization: {either}"),
            ]
        );
        assert_eq!(
            metric(
                json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "X", "averageUtilization": 0, "averageValue": "0"}}})
            ),
            [
                "spec.metrics[0].resource.target.type: Invalid value: \"X\": must be either Utilization, Value, or AverageValue",
                "spec.metrics[0].resource.target.averageValue: Invalid value: \"0\": must be positive",
                "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                "spec.metrics[0].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
            ]
        );
        assert_eq!(
            metric(json!({"type": "Pods", "pods": {"metric": {}, "target": {"type": "Value", "value": "1"}}})),
            [
                "spec.metrics[0].pods.metric.name: Required value: must specify a metric name",
                "spec.metrics[0].pods.target.averageValue: Required value: must specify a positive target averageValue",
            ]
        );
        let both = json!({"type": "Value", "value": "1", "averageValue": "1"});
        assert_eq!(
            metric(json!({"type": "External", "external": {"metric": {"name": "m"}, "target": both}, "pods": {}})),
            [
                "spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target",
                "spec.metrics[0].pods: Forbidden: must populate the given metric source only",
            ]
        );
        let named = json!({"name": "foo", "target": {"type": "Utilization", "averageUtilization": 1}});
        assert_eq!(
            metric(json!({"type": "ContainerResource", "containerResource": named})).last(),
            Some(&"spec.metrics[0].containerResource.container: Required value: must specify a container".to_owned())
        );
        assert_eq!(
            said(&scaler("v1", json!({"targetCPUUtilizationPercentage": -5})), None),
            ["spec.metrics[0].resource.target.averageUtilization: Invalid value: -5: must be greater than 0"]
        );
    }

    #[test]
    fn how_fast_it_scales_is_bounded() {
        let up = |it: Value| wrong(json!({"behavior": {"scaleUp": it}}));
        assert_eq!(
            up(json!({"policies": []})),
            ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"]
        );
        assert_eq!(
            up(
                json!({"stabilizationWindowSeconds": 4000, "selectPolicy": "X", "tolerance": "-1",
                "policies": [{"type": "X", "value": 0, "periodSeconds": 2000}]})
            ),
            [
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600",
                "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"X\": supported values: \"Disabled\", \"Max\", \"Min\"",
                "spec.behavior.scaleUp.policies[0].type: Unsupported value: \"X\": supported values: \"Percent\", \"Pods\"",
                "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 2000: must be less than or equal to 1800",
                "spec.behavior.scaleUp.tolerance: Invalid value: \"-1\": must be greater than or equal to 0",
            ]
        );
    }
}
