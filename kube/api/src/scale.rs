//! The scale subresource: one number of an object, shown as `autoscaling/v1 Scale`.

use crate::{
    call::{Answer, Call, WriteOptions, Written},
    convert,
    pipeline::{self, Source},
    registry::Version,
    verbs::{patch::PatchType, update},
};
use kube_store::{
    managed, patch,
    status::{FieldError, Status},
};
use serde_json::{Value, json};

struct Paths {
    spec: String,
    status: String,
    /// A custom resource need not have one.
    selector: Option<String>,
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

fn paths(call: &Call<'_>) -> Paths {
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

/// Sets the number from a Scale.
///
/// # Errors
/// 422 for a negative number, 409 for a stale Scale, or what the write says.
pub async fn write(call: &mut Call<'_>, scale: &Value, options: &WriteOptions) -> Result<Written, Status> {
    change(call, options, |_, _| Ok(scale.clone())).await
}

/// Patches the Scale of an object, again when that changes meanwhile.
///
/// # Errors
/// As `write`, and what is wrong with the patch.
pub async fn patch(
    call: &mut Call<'_>,
    kind: PatchType,
    body: &[u8],
    options: &WriteOptions,
) -> Result<Written, Status> {
    change(call, options, |call, object| {
        let scale = read(call, object).or_else(|status| {
            // A merge patch may set a number that is not there yet.
            if kind == PatchType::Json {
                Err(status)
            } else {
                Ok(json!({"metadata": {"name": call.name, "resourceVersion": object["metadata"]["resourceVersion"]}, "spec": {}}))
            }
        })?;
        match kind {
            PatchType::Json => patch::json::apply(&scale, body),
            PatchType::Merge | PatchType::Strategic => patch::merge::apply(&scale, body),
        }
    })
    .await
}

/// Writes the number of the Scale that `make` makes of an object's newest state. A Scale that names another state is stale.
async fn change(
    call: &mut Call<'_>,
    options: &WriteOptions,
    make: impl Fn(&Call<'_>, &Value) -> Result<Value, Status>,
) -> Result<Written, Status> {
    let paths = paths(call);
    loop {
        let current = call.newest()?;
        let old = convert::value(&call.resource, &call.version, &current).await?;
        let scale = make(call, &old)?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas < 0 {
            return Err(negative(call, replicas));
        }
        let wanted = pipeline::metadata_text(&scale, "resourceVersion");
        if !wanted.is_empty() && wanted != current.revision.to_string() {
            return Err(call.stale());
        }
        update::check_uid(call, &scale, &current.uid)?;
        let mut new = old.clone();
        set(&mut new, &paths.spec, replicas.into());
        if let Some(written) = pipeline::write_update(call, &current, &old, new, options, Source::Update).await? {
            let value = read(call, &written.into_value())?;
            return Ok(Written {
                code: 200,
                answer: Answer::Value(value),
            });
        }
    }
}

fn negative(call: &Call<'_>, replicas: i64) -> Status {
    let error = FieldError::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
    Status::invalid("Scale", "autoscaling", &call.name, &[error])
}

/// What is wrong with the numbers that the scale subresource of a custom resource reads, wherever they are written.
pub fn errors(served: &Version, object: &Value) -> Vec<FieldError> {
    let Some(scale) = &served.scale else { return Vec::new() };
    let mut errors = Vec::new();
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let field = format!(".{path}");
        let found = object.pointer(&pointer(path)).filter(|it| !it.is_null());
        let Some(number) = found.and_then(Value::as_i64) else {
            continue;
        };
        if number < 0 {
            errors.push(FieldError::invalid(
                &field,
                &number.into(),
                "should be a non-negative integer",
            ));
        } else if number > i64::from(i32::MAX) {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            errors.push(FieldError::invalid(&field, &number.into(), detail));
        }
    }
    errors
}

/// Applies a Scale: the number belongs to its manager by the rules of any field.
///
/// # Errors
/// 400 for what is no Scale, 409 when another manager owns the number, or what the write says.
pub async fn apply(call: &mut Call<'_>, scale: &Value, options: &WriteOptions) -> Result<Written, Status> {
    let text = |key: &str| scale[key].as_str().unwrap_or_default();
    if (text("apiVersion"), text("kind")) != ("autoscaling/v1", "Scale") {
        let (group, version) = crate::registry::split_api_version(text("apiVersion"));
        return Err(Status::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={}",
            text("kind")
        )));
    }
    let mut config = json!({"apiVersion": call.resource.api_version(&call.version), "kind": call.resource.kind,
        "metadata": {"name": call.name}});
    if let Some(replicas) = scale["spec"]["replicas"].as_i64() {
        if replicas < 0 {
            return Err(negative(call, replicas));
        }
        set(&mut config, &paths(call).spec, replicas.into());
    }
    loop {
        let current = call.newest()?;
        let old = convert::value(&call.resource, &call.version, &current).await?;
        let new = pipeline::with_context(call, &options.field_manager, |it| {
            managed::apply(Some(&old), &config, it, options.force)
        })?;
        if let Some(written) = pipeline::write_update(call, &current, &old, new, options, Source::Apply).await? {
            let value = read(call, &written.into_value())?;
            return Ok(Written {
                code: 200,
                answer: Answer::Value(value),
            });
        }
    }
}

fn set(value: &mut Value, pointer: &str, new: Value) {
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
    fn a_selector_is_told_as_a_query_tells_it() {
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
