//! PUT on a named object.

use crate::{
    call::{Call, WriteResponse},
    content, convert, object_meta,
    options::WriteOptions,
    pipeline::{self, Source},
    verbs,
};
use kube_store::status::{FieldError, Status};
use serde_json::Value;

/// What the body says about the state it replaces.
pub(super) enum Condition {
    /// No `resourceVersion`: whatever is there.
    Any,
    Revision(u64),
}

/// Replaces an object, or creates it where Kubernetes lets PUT create.
///
/// # Errors
/// The Kubernetes status of whatever is wrong with the new state.
pub async fn update(call: &mut Call<'_>, mut value: Value, options: &WriteOptions) -> Result<WriteResponse, Status> {
    content::check_kind(call, &mut value)?;
    check_identity(call, &mut value)?;
    let condition = condition(&value)?;
    loop {
        let current = match call.newest() {
            Ok(it) => it,
            Err(status) => {
                if call.resource.traits.create_on_update && call.subresource.is_empty() {
                    call.check_may_create()?;
                    check_uid(call, &value, "")?;
                    object_meta::metadata(&mut value).remove("resourceVersion");
                    return Box::pin(verbs::create::create(call, value, options)).await;
                }
                content::decode(call, &mut value, options)?;
                return Err(status);
            }
        };
        if let Condition::Revision(revision) = condition
            && revision != current.revision
        {
            // What cannot be read is told before what it would have replaced.
            content::decode(call, &mut value, options)?;
            return Err(call.stale());
        }
        if matches!(condition, Condition::Any) && call.resource.traits.version_required {
            let errors = [FieldError::invalid(
                "metadata.resourceVersion",
                &0.into(),
                "must be specified for an update",
            )];
            return Err(Status::invalid(
                &call.resource.plural,
                &call.resource.group,
                &call.name,
                &errors,
            ));
        }
        check_uid(call, &value, &current.uid)?;
        let old = convert::value(&call.resource, &call.version, &current).await?;
        let written = pipeline::write_update(call, &current, &old, value.clone(), options, Source::Update).await?;
        match (written, &condition) {
            (Some(written), _) => return Ok(written),
            (None, Condition::Revision(_)) => return Err(call.stale()),
            (None, Condition::Any) => {}
        }
    }
}

/// Who names a uid means that very object; `current` is empty when there is none.
///
/// # Errors
/// 409 for another.
pub(crate) fn check_uid(call: &Call<'_>, value: &Value, current: &str) -> Result<(), Status> {
    let given = object_meta::metadata_text(value, "uid");
    if given.is_empty() || given == current {
        return Ok(());
    }
    let text = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {given}, UID in object meta: {current}",
        call.resource.plural, call.namespace, call.name
    );
    let (plural, group) = (&call.resource.plural, &call.resource.group);
    Err(Status::conflict(plural, group, &call.name, text))
}

/// Reads what an object says about the state it replaces.
///
/// # Errors
/// 500 for what is no number, as a real API server answers.
pub(super) fn condition(value: &Value) -> Result<Condition, Status> {
    match object_meta::metadata_text(value, "resourceVersion") {
        "" | "0" => Ok(Condition::Any),
        text => text
            .parse()
            .map(Condition::Revision)
            .map_err(|_| Status::new(500, "", format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))),
    }
}

/// Name and namespace in the body must be those of the path.
pub fn check_identity(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    let metadata = object_meta::metadata(value);
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, namespace) = (text("name"), text("namespace"));
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name
        )));
    }
    if name != call.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        )));
    }
    if call.resource.namespaced {
        if !namespace.is_empty() && namespace != call.namespace {
            return Err(Status::bad_request(format!(
                "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
                call.namespace
            )));
        }
        metadata.insert("namespace".into(), call.namespace.clone().into());
    } else {
        metadata.remove("namespace");
    }
    Ok(())
}
