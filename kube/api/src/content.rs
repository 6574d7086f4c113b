//! The content of an object against its kind's schema: decoding, defaults, validation.

use crate::{
    builtin_schemas,
    call::Call,
    kinds,
    options::{FieldValidation, WriteOptions},
    registry::{ApiVersion, Resource},
    scale,
};
use kube_store::{
    object,
    schema::{decode, default, metadata, prune, structural, validate},
    status::{FieldError, Status},
};
use serde_json::Value;

/// The kind of object that this path takes.
pub fn kind_of<'a>(call: &'a Call<'_>) -> &'a str {
    &call.resource.kind
}

/// The body's kind and version must be those of the path; a built-in object may leave them out.
///
/// # Errors
/// 400 in the words of Kubernetes, 422 for a custom resource of another kind.
pub fn check_kind(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    let wanted = call.resource.api_version(&call.version);
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    let api_version = value["apiVersion"].as_str().unwrap_or_default().to_owned();
    let Some(map) = value.as_object_mut() else {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: json: \
             cannot unmarshal into Go value of type struct",
            call.resource.kind
        )));
    };
    if call.resource.is_builtin() {
        if !api_version.is_empty() && api_version != wanted {
            let (_, version) = crate::group_version::split_api_version(&api_version);
            let scheme = "k8s.io/apimachinery/pkg/runtime/scheme.go";
            return Err(Status::bad_request(format!(
                "{} in version \"{version}\" cannot be handled as a {}: no kind \"{kind}\" is registered for version \
                 \"{api_version}\" in scheme \"{scheme}\"",
                if kind.is_empty() { &call.resource.kind } else { &kind },
                call.resource.kind
            )));
        }
        if !kind.is_empty() && kind != call.resource.kind {
            let version = &call.version;
            let own = &call.resource.kind;
            return Err(Status::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {own}: converting ({version}.{kind}) to ({}.{own}): \
                 unknown conversion",
                go_package(&call.resource.group)
            )));
        }
        map.insert("kind".into(), call.resource.kind.clone().into());
        map.insert("apiVersion".into(), wanted.into());
        return Ok(());
    }
    if kind.is_empty() {
        let shown = Value::Object(map.clone());
        return Err(Status::bad_request(format!("Object 'Kind' is missing in '{shown}'")));
    }
    if api_version != wanted {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({wanted})"
        )));
    }
    if kind != call.resource.kind {
        let detail = format!("must be {}", call.resource.kind);
        let error = FieldError::invalid("kind", &kind.as_str().into(), detail);
        let name = map
            .get("metadata")
            .and_then(|it| it["name"].as_str())
            .unwrap_or_default();
        return Err(Status::invalid(&kind, &call.resource.group, name, &[error]));
    }
    Ok(())
}

/// The package that holds a built-in group's types in Kubernetes, which some of its messages name.
pub fn go_package(group: &str) -> &str {
    match group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    }
}

/// Decodes against the schema: wrong types are refused, unknown fields dropped and reported as asked.
///
/// # Errors
/// 400 for a field of a wrong type, and for unknown fields when validation is strict.
pub fn decode(call: &mut Call<'_>, value: &mut Value, options: &WriteOptions) -> Result<(), Status> {
    let cannot = |text: &str| {
        let (kind, version) = (&call.resource.kind, &call.version);
        Status::bad_request(decode::cannot_be_handled(kind, version, text))
    };
    let mut unknown = read(call, value).map_err(|it| cannot(&it))?;
    if call.is_crd() {
        let (warnings, more) = structural::tidy_schemas(value);
        call.warnings.extend(warnings);
        unknown.extend(more);
    }
    let twice = metadata::deduplicate_owners(&mut value["metadata"]);
    if !twice.is_empty() {
        call.warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject \
             such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
    let refused = tell_unknown(call, &unknown, options);
    refused.map_err(|text| {
        let (kind, version) = (&call.resource.kind, &call.version);
        Status::bad_request(decode::cannot_be_handled(kind, version, &text))
    })
}

/// Warns of unknown fields as asked, or gives the text with which they are refused.
fn tell_unknown(call: &mut Call<'_>, unknown: &[String], options: &WriteOptions) -> Result<(), String> {
    let unknown = unknown.iter().map(|it| format!("unknown field \"{it}\""));
    let mut wrong = options.twice.iter().cloned().chain(unknown).peekable();
    match options.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => call.warnings.extend(wrong),
        FieldValidation::Strict if wrong.peek().is_none() => {}
        FieldValidation::Strict => {
            let wrong: Vec<String> = wrong.collect();
            return Err(format!("strict decoding error: {}", wrong.join(", ")));
        }
    }
    Ok(())
}

/// Decodes the body of `serviceaccounts/token` or `pods/eviction`, which is of another kind than the object
/// that it is asked of.
///
/// # Errors
/// 400 for another kind, for a field of a wrong type, and for unknown fields when validation is strict.
pub fn decode_posted(
    call: &mut Call<'_>,
    (group, own): (&str, &str),
    value: &mut Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    const VERSION: &str = "v1";
    let cannot = |text: &str| Status::bad_request(decode::cannot_be_handled(own, VERSION, text));
    let kind = value["kind"].as_str().unwrap_or_default();
    if !kind.is_empty() && kind != own {
        let text = format!("invalid object type: it is a {kind}");
        return Err(cannot(&text));
    }
    if let Some(schema) = builtin_schemas::schema(group, VERSION, own) {
        let unknown = decode::decode(value, &schema, own).map_err(|it| cannot(&it))?;
        tell_unknown(call, &unknown, options).map_err(|it| cannot(&it))?;
    }
    check_namespace(call, value)
}

/// What is posted says the namespace of the path, or none.
///
/// # Errors
/// 400 for another.
pub fn check_namespace(call: &Call<'_>, value: &Value) -> Result<(), Status> {
    let given = value["metadata"]["namespace"].as_str().unwrap_or_default();
    if !call.resource.namespaced || given.is_empty() || given == call.namespace {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Decodes the body of a DELETE. What it does not know is let pass, as the options of a newer client are.
///
/// # Errors
/// 400 for a field of a wrong type.
pub fn decode_delete_options(value: &mut Value) -> Result<(), Status> {
    const KIND: &str = "DeleteOptions";
    if let Some(schema) = builtin_schemas::schema("", "v1", KIND) {
        decode::decode(value, &schema, KIND)
            .map_err(|it| Status::bad_request(decode::cannot_be_handled(KIND, "v1", &it)))?;
    }
    Ok(())
}

/// Reads a value as its kind: what the schema does not know goes, and is named. The error is the text of a wrong type.
fn read(call: &Call<'_>, value: &mut Value) -> Result<Vec<String>, String> {
    if object::is_too_deep(value) {
        return Err(format!("it nests deeper than {} levels", object::STORED_DEPTH_MAX));
    }
    match call.resource.schema(&call.version) {
        Some(schema) if call.resource.is_builtin() => decode::decode(value, &schema, &call.resource.kind),
        Some(schema) => {
            default::normalise_numbers(value);
            prune::prune(value, &schema, true)
        }
        None => prune::metadata(value),
    }
}

/// Reads an object again that admission has changed: what the schema does not know goes, defaults come.
///
/// # Errors
/// 500 for a field of a wrong type.
pub fn read_again(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    decode_again(call, value)?;
    default(call, value);
    Ok(())
}

/// Reads an object again that was put together from what had been read: what the schema does not know goes.
///
/// # Errors
/// 500 for a field of a wrong type.
pub fn decode_again(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    read(call, value)
        .map_err(|why| Status::internal(decode::cannot_be_handled(&call.resource.kind, &call.version, &why)))?;
    Ok(())
}

/// Fills in what the kind defaults.
pub fn default(call: &Call<'_>, value: &mut Value) {
    default_in(&call.resource, &call.version, value);
}

/// Drops what a version of a custom resource does not know from an object that a plug-in turned into it.
pub fn prune_converted(resource: &Resource, version: &str, value: &mut Value) {
    if !resource.is_builtin()
        && let Some(schema) = resource.schema(version)
    {
        // An error tells of metadata of a wrong type, which was checked before; the object stays as it is then.
        let _ = prune::prune(value, &schema, true);
    }
}

/// Fills in what the storage version defaults.
pub fn default_stored(resource: &Resource, value: &mut Value) {
    default_in(resource, resource.storage_version(), value);
}

fn default_in(resource: &Resource, version: &str, value: &mut Value) {
    if resource.is_builtin() {
        kinds::default(&resource.group, &resource.kind, value);
    } else if let Some(schema) = resource.schema(version) {
        default::apply_defaults(value, &schema);
    }
}

/// What is wrong with an object of a built-in kind. One that was stored before zeros counted as absent, or before a
/// default came, is read again when it matters: what only it still says is no change of a field that may not change.
fn builtin_errors((group, version, kind): (&str, &str, &str), value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let judge = |old| kinds::validate(group, kind, value, old);
    let errors = judge(old);
    let Some(old) = old.filter(|_| !errors.is_empty()) else {
        return errors;
    };
    let mut again = old.clone();
    let read = builtin_schemas::schema(group, version, kind).map(|it| decode::decode(&mut again, &it, kind));
    kinds::default(group, kind, &mut again);
    match read {
        Some(Ok(_)) if again != *old => judge(Some(&again)),
        _ => errors,
    }
}

/// Checks metadata and content.
///
/// # Errors
/// 422 with one cause per field.
pub fn validate(call: &mut Call<'_>, value: &Value, old: Option<&Value>) -> Result<(), Status> {
    let builtin = call.resource.is_builtin();
    let rule = call.resource.traits.name_rule;
    let (mut errors, warnings) =
        // Definitions come from another API server than the built-in kinds, and it asks less of their finalizers.
        metadata::validate_metadata(&value["metadata"], rule, call.resource.namespaced, builtin && !call.is_crd());
    call.warnings.extend(
        warnings
            .into_iter()
            .filter(|it| !it.contains(crate::registry::CLEANUP_FINALIZER)),
    );
    if builtin {
        let resource = &call.resource;
        errors.extend(builtin_errors(
            (&resource.group, &call.version, &resource.kind),
            value,
            old,
        ));
    } else if let Some(schema) = call.resource.schema(&call.version) {
        errors.extend(validate::validate(value, old, &schema));
    }
    if !builtin {
        errors.extend(scale_errors(call.served(), value));
    }
    if errors.is_empty() {
        if builtin && call.subresource.is_empty() {
            let (group, kind) = (&call.resource.group, &call.resource.kind);
            call.warnings.extend(kinds::warnings(group, kind, value, old));
        }
        return Ok(());
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    Err(call.invalid(name, &errors))
}

/// What is wrong with the numbers that the scale subresource of a custom resource reads, wherever they are written.
fn scale_errors(served: &ApiVersion, object: &Value) -> Vec<FieldError> {
    let Some(scale) = &served.scale else { return Vec::new() };
    let mut errors = Vec::new();
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let field = format!(".{path}");
        let found = object.pointer(&scale::pointer(path)).filter(|it| !it.is_null());
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

#[cfg(test)]
mod tests {
    use super::{builtin_errors, kinds};
    use serde_json::{Value, json};

    #[test]
    fn what_was_stored_with_zeros_may_still_be_updated() {
        let pod = |name: &str, more: &[(&str, Value)]| {
            let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
            for (key, value) in more {
                spec[*key] = value.clone();
            }
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
            kinds::default("", "Pod", &mut pod);
            pod
        };
        let errors = |old: &Value| builtin_errors(("", "v1", "Pod"), &pod("x", &[]), Some(old)).len();
        let zeros = [("hostNetwork", json!(false)), ("subdomain", json!(""))];
        assert_eq!(errors(&pod("x", &zeros)), 0);
        assert_eq!(errors(&pod("x", &[("hostNetwork", json!(true))])), 1);
    }
}
