//! What a namespace may have: quotas, and the limits of each thing in it.

use super::{at, list, resources::is_native, text};
use kube_store::{
    schema::{metadata::qualified_name_errors, quantity},
    status::FieldError,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What is counted, and so has whole numbers.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// What is measured, under the names that a quota has for it.
const MEASURED: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];
/// Scopes that are there or not, and have no values.
const PLAIN_SCOPES: [&str; 5] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "Terminating",
];
const VALUED_SCOPES: [&str; 2] = ["PriorityClass", "VolumeAttributesClass"];
const CONTRARY_SCOPES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

fn is_of_quota(name: &str) -> bool {
    COUNTED.contains(&name) || MEASURED.contains(&name) || is_huge_page(name)
}

/// Errors of the name of a resource: one that Kubernetes knows, or one with a prefix.
pub(super) fn resource_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let wrong = qualified_name_errors(name);
    errors.extend(wrong.iter().map(|it| FieldError::invalid(field, &json!(name), it)));
    if wrong.is_empty() && !name.contains('/') && !is_of_quota(name) && name != "storage" {
        let detail = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(field, &json!(name), detail));
    }
}

/// Errors of the name of a resource of containers, and so of pods.
pub(super) fn container_resource_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    resource_name(name, field, errors);
    let known = ["cpu", "ephemeral-storage", "memory"].contains(&name) || name.starts_with("hugepages-");
    if !name.contains('/') && !known {
        let detail = "must be a standard resource for containers";
        errors.push(FieldError::invalid(field, &json!(name), detail));
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid(field, &json!(name), detail));
    }
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && qualified_name_errors(&format!("requests.{name}")).is_empty()
}

/// Errors of an amount: not below nothing, and whole where things are counted.
pub(super) fn amount(name: &str, amount: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let Some(milli) = amount.as_str().and_then(quantity::milli) else {
        return;
    };
    if milli < 0 {
        errors.push(FieldError::invalid(field, amount, "must be greater than or equal to 0"));
    }
    if milli % 1000 != 0 && (COUNTED.contains(&name) || is_extended(name)) {
        errors.push(FieldError::invalid(field, amount, "must be an integer"));
    }
}

fn amounts<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(value, pointer).and_then(Value::as_object).into_iter().flatten()
}

pub(super) fn quota(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    for place in ["/spec/hard", "/status/hard", "/status/used"] {
        let field = place.trim_start_matches('/').replace('/', ".");
        for (name, given) in amounts(new, place) {
            let field = format!("{field}[{name}]");
            resource_name(name, &field, errors);
            if !name.contains('/') && !is_of_quota(name) {
                let detail = "must be a standard resource for quota";
                errors.push(FieldError::invalid(&field, &json!(name), detail));
            }
            amount(name, given, &field, errors);
        }
    }
    scopes(new, errors);
    selector(new, errors);
    if let Some(old) = old {
        let set = |it| -> HashSet<String> { list(it, "/spec/scopes").iter().map(Value::to_string).collect() };
        if set(new) != set(old) {
            let given = json!(list(new, "/spec/scopes"));
            errors.push(FieldError::invalid("spec.scopes", &given, "field is immutable"));
        }
    }
}

fn is_scope(scope: &str) -> bool {
    PLAIN_SCOPES.contains(&scope) || VALUED_SCOPES.contains(&scope)
}

/// Whether a scope has such resources at all.
fn scope_has(scope: &str, resource: &str) -> bool {
    const COMPUTE: [&str; 6] = [
        "cpu",
        "limits.cpu",
        "limits.memory",
        "memory",
        "requests.cpu",
        "requests.memory",
    ];
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        it if is_scope(it) => resource == "pods" || COMPUTE.contains(&resource),
        _ => true,
    }
}

/// How many of the quota's resources a scope does not have.
fn foreign(new: &Value, scope: &str) -> usize {
    amounts(new, "/spec/hard")
        .filter(|(name, _)| is_of_quota(name) && !scope_has(scope, name))
        .count()
}

/// How many pairs of scopes exclude each other.
fn contrary(all: &HashSet<&str>) -> usize {
    CONTRARY_SCOPES
        .iter()
        .filter(|pair| pair.iter().all(|it| all.contains(it)))
        .count()
}

fn scopes(new: &Value, errors: &mut Vec<FieldError>) {
    let given = list(new, "/spec/scopes");
    let mut wrong = |detail: &str| errors.push(FieldError::invalid("spec.scopes", &json!(given), detail));
    let mut all = HashSet::new();
    for scope in given.iter().filter_map(Value::as_str) {
        if !is_scope(scope) {
            wrong("unsupported scope");
        }
        for _ in 0..foreign(new, scope) {
            wrong("unsupported scope applied to resource");
        }
        all.insert(scope);
    }
    for _ in 0..contrary(&all) {
        wrong("conflicting scopes");
    }
}

fn selector(new: &Value, errors: &mut Vec<FieldError>) {
    let place = "spec.scopeSelector.matchExpressions";
    let mut all = HashSet::new();
    for expression in list(new, "/spec/scopeSelector/matchExpressions") {
        let (scope, operator) = (text(expression, "/scopeName"), text(expression, "/operator"));
        let values = list(expression, "/values");
        if !is_scope(scope) {
            let field = format!("{place}.scopeName");
            errors.push(FieldError::invalid(field, &json!(scope), "unsupported scope"));
        }
        for _ in 0..foreign(new, scope) {
            let given = &new["spec"]["scopeSelector"];
            errors.push(FieldError::invalid(
                place,
                given,
                "unsupported scope applied to resource",
            ));
        }
        if PLAIN_SCOPES.contains(&scope) && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                          ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(
                format!("{place}.operator"),
                &json!(operator),
                detail,
            ));
        }
        match operator {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{place}.values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::invalid(
                format!("{place}.values"),
                &json!(values),
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                format!("{place}.operator"),
                &json!(other),
                "not a valid selector operator",
            )),
        }
        all.insert(scope);
    }
    for _ in 0..contrary(&all) {
        let given = at(new, "/spec/scopes").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(place, given, "conflicting scopes"));
    }
}

pub(super) fn limits(new: &Value, errors: &mut Vec<FieldError>) {
    let mut kinds = HashSet::new();
    for (at, limit) in list(new, "/spec/limits").iter().enumerate() {
        let place = format!("spec.limits[{at}]");
        let kind = text(limit, "/type");
        let field = format!("{place}.type");
        let wrong = qualified_name_errors(kind);
        errors.extend(wrong.iter().map(|it| FieldError::invalid(&field, &json!(kind), it)));
        if wrong.is_empty() && !kind.contains('/') && !["Container", "PersistentVolumeClaim", "Pod"].contains(&kind) {
            let detail = "must be a standard limit type or fully qualified";
            errors.push(FieldError::invalid(&field, &json!(kind), detail));
        }
        if !kinds.insert(kind) {
            errors.push(FieldError::duplicate(field, &json!(kind)));
        }
        limit_names(limit, kind, &place, errors);
        limit_amounts(limit, kind, &place, errors);
    }
}

fn limit_names(limit: &Value, kind: &str, place: &str, errors: &mut Vec<FieldError>) {
    for key in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let given = limit[key].as_object();
        if kind == "Pod" && key.starts_with("default") {
            if given.is_some_and(|it| !it.is_empty()) {
                let detail = "may not be specified when `type` is 'Pod'";
                errors.push(FieldError::forbidden(format!("{place}.{key}"), detail));
            }
            continue;
        }
        for name in given.into_iter().flat_map(Map::keys) {
            let field = format!("{place}.{key}[{name}]");
            match kind {
                "Pod" | "Container" => container_resource_name(name, &field, errors),
                _ => resource_name(name, &field, errors),
            }
        }
        let bounded = ["min", "max"].iter().any(|it| limit[it].get("storage").is_some());
        if key == "defaultRequest" && kind == "PersistentVolumeClaim" && !bounded {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            errors.push(FieldError::required(format!("{place}.limits"), detail));
        }
    }
}

/// What is least is not above what is most, and what is given without asking lies between.
fn limit_amounts(limit: &Value, kind: &str, place: &str, errors: &mut Vec<FieldError>) {
    let known = |key: &str| -> BTreeMap<&String, (&Value, i128)> {
        if kind == "Pod" && key.starts_with("default") {
            return BTreeMap::new();
        }
        amounts(limit, &format!("/{key}"))
            .filter_map(|(name, it)| Some((name, (it, it.as_str().and_then(quantity::milli)?))))
            .collect()
    };
    let (least, most, ratio) = (known("min"), known("max"), known("maxLimitRequestRatio"));
    let (default, request) = (known("default"), known("defaultRequest"));
    let names: BTreeSet<_> = [&least, &most, &ratio, &default, &request]
        .into_iter()
        .flat_map(BTreeMap::keys)
        .collect();
    for name in names {
        let (least, most) = (least.get(name), most.get(name));
        let (default, request) = (default.get(name), request.get(name));
        let shown = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let mut in_order =
            |low: (&str, Option<&(&Value, i128)>), high: (&str, Option<&(&Value, i128)>), key, told: &Value| {
                if let (Some(a), Some(b)) = (low.1, high.1)
                    && a.1 > b.1
                {
                    let (a, b) = (shown(a.0), shown(b.0));
                    let detail = format!("{} value {a} is greater than {} value {b}", low.0, high.0);
                    errors.push(FieldError::invalid(format!("{place}.{key}[{name}]"), told, detail));
                }
            };
        // Upstream shows the other of the two where the default is wrong.
        let told = |it: Option<&(&Value, i128)>| it.map_or(Value::Null, |it| it.0.clone());
        in_order(("min", least), ("max", most), "min", &told(least));
        let asked = &told(request);
        in_order(("min", least), ("default request", request), "defaultRequest", asked);
        in_order(("default request", request), ("max", most), "defaultRequest", asked);
        in_order(
            ("default request", request),
            ("default limit", default),
            "defaultRequest",
            asked,
        );
        in_order(("min", least), ("default", default), "default", &told(least));
        in_order(("default", default), ("max", most), "default", &told(most));
        if let Some((given, ratio)) = ratio.get(name) {
            let field = format!("{place}.maxLimitRequestRatio[{name}]");
            if *ratio < 1000 {
                let detail = format!("ratio {} is less than 1", shown(given));
                errors.push(FieldError::invalid(&field, given, detail));
            }
            if let (Some((_, least)), Some((_, most))) = (least, most) {
                let widest = *most as f64 / *least as f64;
                if *ratio as f64 / 1000.0 > widest {
                    let detail = format!("ratio {} is greater than max/min = {widest:.6}", shown(given));
                    errors.push(FieldError::invalid(&field, given, detail));
                }
            }
        }
        // Nobody is given more than there is of what cannot be shared.
        let shared = is_native(name) && !name.starts_with("hugepages-");
        if let (false, Some(default), Some(request)) = (shared, default, request)
            && default.1 != request.1
        {
            let (a, b) = (shown(default.0), shown(request.0));
            let detail = format!("default value {a} must equal to defaultRequest value {b} in {name}");
            errors.push(FieldError::invalid(
                format!("{place}.defaultRequest[{name}]"),
                request.0,
                detail,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota_errors(spec: Value, old: Option<Value>) -> Vec<String> {
        let mut errors = Vec::new();
        let old = old.map(|it| json!({"spec": it}));
        quota(&json!({"spec": spec}), old.as_ref(), &mut errors);
        errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
    }

    fn limit_errors(list: Value) -> Vec<String> {
        crate::builtin_validation::said(|it| limits(&json!({"spec": {"limits": list}}), it))
    }

    #[test]
    fn a_quota_counts_what_can_be_counted() {
        for good in [
            json!({"hard": {
                "pods": "1", "cpu": "0.5", "requests.nvidia.com/gpu": "1", "count/deployments.apps": "1", "hugepages-2Mi": "1",
                "requests.hugepages-1Gi": "1Gi", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi", "limits.memory": "1.5Gi",
            }}),
            json!({"hard": {"pods": "1"}, "scopes": ["BestEffort", "Terminating"]}),
            json!({"hard": {"cpu": "1", "count/jobs.batch": "1"}, "scopes": ["NotBestEffort"]}),
            json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["a"]},
                {"scopeName": "Terminating", "operator": "Exists"},
            ]}}),
            json!({}),
        ] {
            assert_eq!(quota_errors(good.clone(), None), Vec::<String>::new(), "{good}");
        }
        let unsupported = "unsupported scope applied to resource";
        let table = [
            (
                json!({"hard": {"foo": "1"}}),
                vec![
                    "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified"
                        .to_owned(),
                    "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota".to_owned(),
                ],
            ),
            (
                json!({"hard": {"cpu": "-1"}}),
                vec!["spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0".to_owned()],
            ),
            (
                json!({"hard": {"pods": "500m"}}),
                vec!["spec.hard[pods]: Invalid value: \"500m\": must be an integer".to_owned()],
            ),
            (
                json!({"scopes": ["X"]}),
                vec!["spec.scopes: Invalid value: [\"X\"]: unsupported scope".to_owned()],
            ),
            (
                json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}),
                vec![
                    format!("spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: {unsupported}"),
                    "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes".to_owned(),
                ],
            ),
            (
                json!({"scopeSelector": {"matchExpressions": [{"scopeName": "X", "operator": "X"}]}}),
                vec![
                    "spec.scopeSelector.matchExpressions.scopeName: Invalid value: \"X\": unsupported scope".to_owned(),
                    "spec.scopeSelector.matchExpressions.operator: Invalid value: \"X\": not a valid selector operator"
                        .to_owned(),
                ],
            ),
        ];
        for (spec, want) in table {
            assert_eq!(quota_errors(spec, None), want);
        }
        assert_eq!(
            quota_errors(json!({"scopes": ["Terminating"]}), Some(json!({}))),
            ["spec.scopes: Invalid value: [\"Terminating\"]: field is immutable"]
        );
    }

    #[test]
    fn the_limits_of_a_namespace_are_in_order() {
        for good in [
            json!({"type": "Container", "max": {"cpu": "1", "memory": "1Gi"}, "min": {"cpu": "100m"}, "default": {"cpu": "500m"},
                   "defaultRequest": {"cpu": "0.2"}, "maxLimitRequestRatio": {"cpu": "10"}}),
            json!({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}),
            json!({"type": "openshift.io/Image", "max": {"storage": "1Gi"}}),
            json!({"type": "Pod", "max": {"nvidia.com/gpu": "1"}}),
        ] {
            assert_eq!(limit_errors(json!([good])), Vec::<String>::new(), "{good}");
        }
        let table = [
            (
                json!([{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]),
                vec![
                    "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                    "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1",
                    "spec.limits[0].default[cpu]: Invalid value: \"2\": min value 2 is greater than default value 1",
                ],
            ),
            (
                json!([{"type": "X"}]),
                vec!["spec.limits[0].type: Invalid value: \"X\": must be a standard limit type or fully qualified"],
            ),
            (
                json!([{"type": "Container"}, {"type": "Container"}]),
                vec!["spec.limits[1].type: Duplicate value: \"Container\""],
            ),
            (
                json!([{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}]),
                vec!["spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1"],
            ),
            (
                json!([{"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}]),
                vec![
                    "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
                ],
            ),
            (
                json!([{"type": "Pod", "default": {"cpu": "1"}}]),
                vec!["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
            ),
            (
                json!([{"type": "PersistentVolumeClaim"}]),
                vec![
                    "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
                ],
            ),
            (
                json!([{"type": "Container", "max": {"foo": "1"}}]),
                vec![
                    "spec.limits[0].max[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                    "spec.limits[0].max[foo]: Invalid value: \"foo\": must be a standard resource for containers",
                ],
            ),
        ];
        for (list, want) in table {
            assert_eq!(limit_errors(list), want);
        }
    }
}
