//! HorizontalPodAutoscalers in `autoscaling/v1`, which knows one number about the CPU. What else `autoscaling/v2` says
//! is kept in an annotation as it is, so that nothing is lost by who reads and writes the older version.

use super::Conversion;
use crate::builtin_schemas;
use kube_store::schema::decode::decode;
use serde_json::{Value, json};

/// The converter of the one built-in resource that is served in two versions.
pub(crate) struct Autoscalers;

/// Where the older version keeps what it has no fields for.
const REST: &str = "autoscaling.alpha.kubernetes.io/v2";
const MEMBERS: [(&str, &str); 4] = [
    ("spec", "metrics"),
    ("spec", "behavior"),
    ("status", "currentMetrics"),
    ("status", "conditions"),
];
const KIND: &str = "HorizontalPodAutoscaler";
const PERCENT: &str = "targetCPUUtilizationPercentage";

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

fn cpu(percent: &Value) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn to_v1(object: &mut Value) {
    let mut rest = json!({});
    for (parent, key) in MEMBERS {
        let found = object
            .get_mut(parent)
            .and_then(Value::as_object_mut)
            .and_then(|it| it.remove(key));
        if let Some(found) = found.filter(|it| !it.is_null()) {
            rest[parent][key] = found;
        }
    }
    if let Some(metrics) = rest.pointer_mut("/spec/metrics").and_then(Value::as_array_mut) {
        let percent = |it: &Value| it.pointer("/resource/target/averageUtilization").cloned();
        let found = metrics
            .iter()
            .position(|it| percent(it).is_some_and(|given| *it == cpu(&given)));
        if let Some(at) = found {
            object["spec"][PERCENT] = percent(&metrics.remove(at)).unwrap_or_default();
        }
        if metrics.is_empty()
            && let Some(spec) = rest["spec"].as_object_mut()
        {
            spec.remove("metrics");
        }
    }
    for counter in ["currentReplicas", "desiredReplicas"] {
        let status = object.get_mut("status").and_then(Value::as_object_mut);
        status.map(|it| it.entry(counter).or_insert(json!(0)));
    }
    if rest.pointer("/spec").is_some_and(|it| *it != json!({})) || rest.get("status").is_some() {
        let metadata = &mut object["metadata"];
        if !metadata["annotations"].is_object() {
            metadata["annotations"] = json!({});
        }
        metadata["annotations"][REST] = rest.to_string().into();
    }
}

fn to_v2(object: &mut Value) {
    let rest = take(object);
    for (parent, key) in MEMBERS {
        let (found, target) = (
            &rest[parent][key],
            object.get_mut(parent).and_then(Value::as_object_mut),
        );
        if let Some(target) = target.filter(|_| !found.is_null()) {
            target.insert(key.to_owned(), found.clone());
        }
    }
    let spec = object.get_mut("spec").and_then(Value::as_object_mut);
    if let Some((spec, percent)) = spec.and_then(|it| it.remove(PERCENT).map(|percent| (it, percent))) {
        let metrics = spec.entry("metrics").or_insert_with(|| json!([]));
        if let Some(metrics) = metrics.as_array_mut() {
            metrics.push(cpu(&percent));
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentCPUUtilizationPercentage");
        status.entry("currentMetrics").or_insert(Value::Null);
        if status.get("currentReplicas") == Some(&json!(0)) {
            status.remove("currentReplicas");
        }
    }
}

/// What the annotation holds, which goes, even if it holds nothing that can be read.
fn take(object: &mut Value) -> Value {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Value::Null;
    };
    let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
    let found = annotations.and_then(|it| it.remove(REST));
    if metadata.get("annotations") == Some(&json!({})) {
        metadata.remove("annotations");
    }
    let text = found.as_ref().and_then(Value::as_str).unwrap_or_default();
    let mut rest: Value = serde_json::from_str(text).unwrap_or_default();
    // Whoever writes the annotation by hand may write anything.
    let schema = builtin_schemas::schema("autoscaling", "v2", KIND);
    let is_one = rest.is_object() && schema.is_some_and(|it| decode(&mut rest, &it, KIND).is_ok());
    if is_one { rest } else { Value::Null }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_version_knows_one_number_and_loses_nothing() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let newer = json!({
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "metrics": [memory, cpu(&json!(50))], "behavior": {"scaleUp": {}}},
            "status": {"currentMetrics": null, "desiredReplicas": 0},
        });
        let mut object = newer.clone();
        Autoscalers.convert(&mut object, "autoscaling/v1");
        assert_eq!(
            object["spec"],
            json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50})
        );
        assert_eq!(object["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
        Autoscalers.convert(&mut object, "autoscaling/v2");
        assert_eq!(object, newer);
    }

    #[test]
    fn an_annotation_that_nobody_can_read_goes() {
        for text in ["nope", "[]", r#"{"spec":{"metrics":5}}"#] {
            let mut object = json!({"metadata": {"annotations": {REST: text}}, "spec": {PERCENT: 1}});
            Autoscalers.convert(&mut object, "autoscaling/v2");
            assert_eq!(
                object,
                json!({"metadata": {}, "spec": {"metrics": [cpu(&json!(1))]}}),
                "{text}"
            );
        }
    }
}
