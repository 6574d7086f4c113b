//! HorizontalPodAutoscalers in `autoscaling/v1`, which knows one number about the CPU; the rest of `autoscaling/v2` is
//! kept in annotations, as JSON in the older spelling. Facts from Kubernetes `pkg/apis/autoscaling/v1/conversion.go`.

use super::Conversion;
use serde_json::{Map, Value, json};

/// The converter of the one built-in resource that is served in two versions.
pub(crate) struct Autoscalers;

/// Where the older version keeps the metrics that it has no field for.
pub(crate) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

impl Conversion for Autoscalers {
    fn wants(&self, resource: &str) -> bool {
        resource == "horizontalpodautoscalers.autoscaling"
    }

    fn convert(&self, object: &mut Value, api_version: &str) {
        if api_version == "autoscaling/v1" {
            to_v1(object);
        } else {
            to_v2(object);
        }
    }
}

fn to_v1(object: &mut Value) {
    let mut notes = Map::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let (cpu, others) = split(spec.remove("metrics"));
        if let Some(percent) = cpu
            .iter()
            .find_map(|it| it.pointer("/resource/target/averageUtilization"))
        {
            spec.insert("targetCPUUtilizationPercentage".into(), percent.clone());
        }
        note(&mut notes, METRICS, others.iter().map(older_metric).collect());
        if let Some(behavior) = spec.remove("behavior").filter(|it| !it.is_null()) {
            notes.insert(BEHAVIOR.into(), behavior.to_string().into());
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        let (cpu, others) = split(status.remove("currentMetrics"));
        if let Some(percent) = cpu
            .iter()
            .find_map(|it| it.pointer("/resource/current/averageUtilization"))
        {
            status.insert("currentCPUUtilizationPercentage".into(), percent.clone());
        }
        note(&mut notes, CURRENT_METRICS, others.iter().map(older_current).collect());
        if let Some(Value::Array(conditions)) = status.remove("conditions") {
            note(&mut notes, CONDITIONS, conditions);
        }
        for counter in ["currentReplicas", "desiredReplicas"] {
            status.entry(counter).or_insert(json!(0));
        }
    }
    if !notes.is_empty() {
        let metadata = &mut object["metadata"];
        if !metadata["annotations"].is_object() {
            metadata["annotations"] = json!({});
        }
        let annotations = metadata["annotations"].as_object_mut().expect("made an object above");
        annotations.extend(notes);
    }
}

fn to_v2(object: &mut Value) {
    let metrics = take(object, METRICS);
    let current = take(object, CURRENT_METRICS);
    let (behavior, conditions) = (take(object, BEHAVIOR), take(object, CONDITIONS));
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let mut all: Vec<Value> = metrics.as_array().into_iter().flatten().map(newer_metric).collect();
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage") {
            let target = json!({"type": "Utilization", "averageUtilization": percent});
            all.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
        }
        if !all.is_empty() {
            spec.insert("metrics".into(), all.into());
        }
        if behavior.is_object() {
            spec.insert("behavior".into(), behavior);
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        let mut all: Vec<Value> = current.as_array().into_iter().flatten().map(newer_current).collect();
        if let Some(percent) = status.remove("currentCPUUtilizationPercentage") {
            all.push(
                json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}),
            );
        }
        let all = if all.is_empty() { Value::Null } else { all.into() };
        status.insert("currentMetrics".into(), all);
        if conditions.is_array() {
            status.insert("conditions".into(), conditions);
        }
        if status.get("currentReplicas") == Some(&json!(0)) {
            status.remove("currentReplicas");
        }
    }
}

/// What `v1` has a number for, and the rest.
fn split(metrics: Option<Value>) -> (Vec<Value>, Vec<Value>) {
    let Some(Value::Array(metrics)) = metrics else {
        return Default::default();
    };
    let is_cpu = |it: &Value| {
        let utilization = |form: &str| it.pointer(&format!("/resource/{form}/averageUtilization"));
        it["type"] == "Resource"
            && it["resource"]["name"] == "cpu"
            && utilization("target").or_else(|| utilization("current")).is_some()
    };
    metrics.into_iter().partition(is_cpu)
}

fn note(notes: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if !list.is_empty() {
        notes.insert(key.into(), Value::Array(list).to_string().into());
    }
}

/// The JSON in an annotation, which goes, even if it holds no JSON.
fn take(object: &mut Value, key: &str) -> Value {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Value::Null;
    };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return Value::Null;
    };
    let Some(found) = annotations.remove(key) else {
        return Value::Null;
    };
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    found
        .as_str()
        .and_then(|it| serde_json::from_str(it).ok())
        .unwrap_or_default()
}

/// Members that are there, under other names: pairs of a pointer into the source and a pointer in the result.
fn moved(from: &Value, pairs: &[(&str, &str)]) -> Value {
    let mut to = json!({});
    for (source, target) in pairs {
        let Some(value) = from.pointer(source).filter(|it| !it.is_null()) else {
            continue;
        };
        let mut at = &mut to;
        for part in target.trim_start_matches('/').split('/') {
            at = &mut at[part];
        }
        *at = value.clone();
    }
    to
}

/// Where the members of each type of metric are: in `v2`, and in `v1`.
const TARGETS: [(&str, &[(&str, &str)]); 5] = [
    (
        "Resource",
        &[
            ("/resource/name", "/resource/name"),
            (
                "/resource/target/averageUtilization",
                "/resource/targetAverageUtilization",
            ),
            ("/resource/target/averageValue", "/resource/targetAverageValue"),
        ],
    ),
    (
        "ContainerResource",
        &[
            ("/containerResource/name", "/containerResource/name"),
            ("/containerResource/container", "/containerResource/container"),
            (
                "/containerResource/target/averageUtilization",
                "/containerResource/targetAverageUtilization",
            ),
            (
                "/containerResource/target/averageValue",
                "/containerResource/targetAverageValue",
            ),
        ],
    ),
    (
        "Pods",
        &[
            ("/pods/metric/name", "/pods/metricName"),
            ("/pods/metric/selector", "/pods/selector"),
            ("/pods/target/averageValue", "/pods/targetAverageValue"),
        ],
    ),
    (
        "Object",
        &[
            ("/object/describedObject", "/object/target"),
            ("/object/metric/name", "/object/metricName"),
            ("/object/metric/selector", "/object/selector"),
            ("/object/target/value", "/object/targetValue"),
            ("/object/target/averageValue", "/object/averageValue"),
        ],
    ),
    (
        "External",
        &[
            ("/external/metric/name", "/external/metricName"),
            ("/external/metric/selector", "/external/metricSelector"),
            ("/external/target/value", "/external/targetValue"),
            ("/external/target/averageValue", "/external/targetAverageValue"),
        ],
    ),
];

fn older_metric(metric: &Value) -> Value {
    let kind = metric["type"].as_str().unwrap_or_default();
    let pairs = TARGETS.iter().find(|it| it.0 == kind).map_or(&[][..], |it| it.1);
    let mut older = moved(metric, pairs);
    older["type"] = kind.into();
    // `v1` has no place for the type of the target; an object's value is required there.
    if kind == "Object" && older["object"]["targetValue"].is_null() {
        older["object"]["targetValue"] = "0".into();
    }
    older
}

fn newer_metric(metric: &Value) -> Value {
    let kind = metric["type"].as_str().unwrap_or_default();
    let pairs = TARGETS.iter().find(|it| it.0 == kind).map_or(&[][..], |it| it.1);
    let back: Vec<(&str, &str)> = pairs.iter().map(|(newer, older)| (*older, *newer)).collect();
    let mut newer = moved(metric, &back);
    newer["type"] = kind.into();
    let member = member_of(kind);
    let target = &mut newer[member]["target"];
    let has = |it: &Value, key: &str| !it[key].is_null();
    let form = if has(target, "averageUtilization") {
        "Utilization"
    } else if has(target, "averageValue") {
        "AverageValue"
    } else {
        "Value"
    };
    if kind == "Object" && form == "AverageValue" && target["value"] == "0" {
        target.as_object_mut().map(|it| it.remove("value"));
    }
    target["type"] = form.into();
    newer
}

/// The member that holds a metric of this type.
fn member_of(kind: &str) -> &'static str {
    match kind {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        _ => "external",
    }
}

/// What a metric is now, by the names of the fields that say what it shall be.
fn older_current(metric: &Value) -> Value {
    let member = member_of(metric["type"].as_str().unwrap_or_default());
    let mut as_target = metric.clone();
    if let Some(map) = as_target.get_mut(member).and_then(Value::as_object_mut)
        && let Some(current) = map.remove("current")
    {
        map.insert("target".into(), current);
    }
    rename_members(older_metric(&as_target), member, "target", "current")
}

fn newer_current(metric: &Value) -> Value {
    let member = member_of(metric["type"].as_str().unwrap_or_default());
    let mut newer = newer_metric(&rename_members(metric.clone(), member, "current", "target"));
    if let Some(map) = newer.get_mut(member).and_then(Value::as_object_mut)
        && let Some(mut current) = map.remove("target")
    {
        current.as_object_mut().map(|it| it.remove("type"));
        map.insert("current".into(), current);
    }
    newer
}

/// `targetValue` is `currentValue` in a status, and so on; an object's `target` is what it is about, in both.
fn rename_members(mut metric: Value, member: &str, from: &str, to: &str) -> Value {
    if let Some(map) = metric.get_mut(member).and_then(Value::as_object_mut) {
        let renamed = std::mem::take(map).into_iter().map(|(key, value)| {
            match key.strip_prefix(from).filter(|it| !it.is_empty()) {
                Some(rest) => (format!("{to}{rest}"), value),
                None => (key, value),
            }
        });
        *map = renamed.collect();
    }
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_another_shape_are_no_metrics() {
        for word in [
            json!(["x"]),
            json!([{"type": "Pods", "pods": []}]),
            json!("x"),
            json!({}),
        ] {
            let annotations = json!({METRICS: word.to_string(), CURRENT_METRICS: word.to_string(), BEHAVIOR: "[]"});
            let mut object = json!({"metadata": {"annotations": annotations}, "spec": {}, "status": {}});
            Autoscalers.convert(&mut object, "autoscaling/v2");
            Autoscalers.convert(&mut object, "autoscaling/v1");
        }
        let mut object =
            json!({"spec": {"metrics": ["x", {"type": "Pods", "pods": 1}]}, "status": {"currentMetrics": [1]}});
        Autoscalers.convert(&mut object, "autoscaling/v1");
    }

    fn there(object: &Value) -> Value {
        let mut value = object.clone();
        Autoscalers.convert(&mut value, "autoscaling/v1");
        value
    }

    fn back(object: &Value) -> Value {
        let mut value = object.clone();
        Autoscalers.convert(&mut value, "autoscaling/v2");
        value
    }

    #[test]
    fn the_older_version_has_a_number_for_the_cpu() {
        let newer = json!({
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            ]},
            "status": {"currentMetrics": null, "desiredReplicas": 2},
        });
        let older = there(&newer);
        assert_eq!(
            older["spec"],
            json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50})
        );
        assert_eq!(older["status"], json!({"currentReplicas": 0, "desiredReplicas": 2}));
        assert_eq!(older["metadata"], json!({"name": "a"}));
        assert_eq!(back(&older), newer);
    }

    #[test]
    fn what_the_older_version_does_not_know_is_kept_in_annotations() {
        let newer = json!({
            "metadata": {"name": "a", "annotations": {"own": "x"}},
            "spec": {"behavior": {"scaleDown": {"selectPolicy": "Max"}}, "metrics": [
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                    "target": {"type": "Utilization", "averageUtilization": 5}}},
                {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "2"}}},
                {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"},
                    "target": {"type": "Value", "value": "3"}}},
                {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "n"},
                    "target": {"type": "AverageValue", "averageValue": "4"}}},
                {"type": "External", "external": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "Value", "value": "5"}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            ]},
            "status": {"currentMetrics": [
                {"type": "Pods", "pods": {"metric": {"name": "m"}, "current": {"averageValue": "2"}}},
                {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "m"},
                    "current": {"value": "3"}}},
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 7}}},
            ], "currentReplicas": 1, "desiredReplicas": 2, "conditions": [{"type": "AbleToScale", "status": "True"}]},
        });
        let older = there(&newer);
        assert_eq!(older["spec"], json!({"targetCPUUtilizationPercentage": 50}));
        let status = json!({"currentCPUUtilizationPercentage": 7, "currentReplicas": 1, "desiredReplicas": 2});
        assert_eq!(older["status"], status);
        let metrics: Value = serde_json::from_str(older["metadata"]["annotations"][METRICS].as_str().unwrap()).unwrap();
        assert_eq!(
            metrics[0],
            json!({"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}})
        );
        let current = older["metadata"]["annotations"][CURRENT_METRICS].as_str().unwrap();
        assert!(current.contains("currentAverageValue"), "{current}");
        assert_eq!(back(&older), newer);
    }
}
