//! The scale subresource: one number of an object, shown as `autoscaling/v1 Scale`.

use crate::call::Call;
use kube_store::status::Status;
use serde_json::{Value, json};

/// Where the numbers of an object are, as JSON pointers.
pub struct Paths {
    pub spec: String,
    status: String,
    /// A custom resource need not have one.
    selector: Option<String>,
}

/// The JSON pointer of a path with dots.
pub fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// Where the numbers of the objects of this call are.
pub fn paths(call: &Call<'_>) -> Paths {
    match &call.served().scale {
        Some(it) => Paths {
            spec: pointer(&it.spec_replicas),
            status: pointer(&it.status_replicas),
            selector: Some(&it.label_selector)
                .filter(|it| !it.is_empty())
                .map(|it| pointer(it)),
        },
        None => Paths {
            spec: "/spec/replicas".into(),
            status: "/status/replicas".into(),
            selector: Some("/spec/selector".into()),
        },
    }
}

/// A selector in the words of a query, in order of its keys: that of a workload, the plain labels of a
/// ReplicationController, or the text of a custom resource.
fn selector_text(value: Option<&Value>) -> String {
    let map = match value {
        Some(Value::String(text)) => return text.clone(),
        Some(Value::Object(map)) => map,
        _ => return String::new(),
    };
    let is_structured = map.contains_key("matchLabels") || map.contains_key("matchExpressions");
    let labels = if is_structured {
        map.get("matchLabels").and_then(Value::as_object)
    } else {
        Some(map)
    };
    let mut found: Vec<(&str, String)> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), format!("{key}={}", value.as_str()?))))
        .collect();
    let expressions = map
        .get("matchExpressions")
        .filter(|_| is_structured)
        .and_then(Value::as_array);
    for expression in expressions.into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        found.push((
            key,
            match expression["operator"].as_str().unwrap_or_default() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.to_owned(),
                _ => format!("!{key}"),
            },
        ));
    }
    found.sort_by_key(|it| it.0);
    found.into_iter().map(|it| it.1).collect::<Vec<_>>().join(",")
}

/// The Scale of an object.
///
/// # Errors
/// 500 when a custom resource has no value at its replicas path, as Kubernetes answers.
pub fn read(call: &Call<'_>, object: &Value) -> Result<Value, Status> {
    let paths = paths(call);
    let Some(replicas) = object.pointer(&paths.spec).filter(|it| it.is_number()) else {
        let path = paths.spec.replace('/', ".");
        return Err(Status::internal(format!(
            "the spec replicas field {path:?} does not exist"
        )));
    };
    let metadata = &object["metadata"];
    let mut status = json!({"replicas": object.pointer(&paths.status).cloned().unwrap_or(json!(0))});
    let selector = selector_text(paths.selector.and_then(|it| object.pointer(&it)));
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut shown = json!({"name": metadata["name"]});
    for key in ["namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if !metadata[key].is_null() {
            shown[key] = metadata[key].clone();
        }
    }
    Ok(
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": {"replicas": replicas}, "status": status}),
    )
}

/// Sets the number in an object to what its Scale says.
pub fn set_replicas(call: &Call<'_>, object: &mut Value, scale: &Value) {
    if let Some(replicas) = scale["spec"]["replicas"].as_i64() {
        set(object, &paths(call).spec, replicas.into());
    }
}

/// Sets a value, and makes the objects that it is in.
pub fn set(value: &mut Value, pointer: &str, new: Value) {
    let mut at = value;
    for part in pointer.trim_start_matches('/').split('/') {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[part];
    }
    *at = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_written_as_in_a_query() {
        let text = |it: Value| selector_text(Some(&it));
        let structured = json!({"matchLabels": {"b": "c"}, "matchExpressions": [
            {"key": "d", "operator": "In", "values": ["z", "y"]}, {"key": "a", "operator": "DoesNotExist"},
            {"key": "e", "operator": "NotIn", "values": ["x"]}, {"key": "f", "operator": "Exists"},
        ]});
        assert_eq!(text(structured), "!a,b=c,d in (y,z),e notin (x),f");
        assert_eq!(text(json!({"app": "a", "tier": "b"})), "app=a,tier=b");
        assert_eq!(text(json!("x in (y)")), "x in (y)");
        assert_eq!(text(json!({"matchLabels": {}})), "");
    }
}
