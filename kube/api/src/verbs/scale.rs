//! PUT, PATCH and apply on `/scale`: one number of an object, read and written as a Scale.

use crate::{
    call::{Call, WriteAnswer, WriteResponse},
    convert,
    group_version::split_api_version,
    kinds, object_meta,
    options::WriteOptions,
    ownership,
    pipeline::{self, Source},
    scale::{paths, read, set},
    verbs::{patch::PatchType, update},
};
use kube_store::{
    managed, patch,
    status::{FieldError, Status},
};
use serde_json::{Value, json};

/// Sets the number from a Scale.
///
/// # Errors
/// 422 for a negative number, 409 for a stale Scale, or what the write says.
pub async fn write(call: &mut Call<'_>, scale: &Value, options: &WriteOptions) -> Result<WriteResponse, Status> {
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
) -> Result<WriteResponse, Status> {
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

/// Writes the number of the Scale that `make` makes of an object's newest state.
/// A Scale that names another state is stale.
async fn change(
    call: &mut Call<'_>,
    options: &WriteOptions,
    make: impl Fn(&Call<'_>, &Value) -> Result<Value, Status>,
) -> Result<WriteResponse, Status> {
    let paths = paths(call);
    loop {
        let current = call.newest()?;
        let old = convert::value(&call.resource, &call.version, &current).await?;
        let scale = make(call, &old)?;
        let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas < 0 {
            return Err(negative(call, replicas));
        }
        let wanted = object_meta::metadata_text(&scale, "resourceVersion");
        if !wanted.is_empty() && wanted != current.revision.to_string() {
            return Err(call.stale());
        }
        update::check_uid(call, &scale, &current.uid)?;
        let mut new = old.clone();
        set(&mut new, &paths.spec, replicas.into());
        if let Some(written) = pipeline::write_update(call, &current, &old, new, options, Source::Update).await? {
            let value = read(call, &written.into_value())?;
            return Ok(WriteResponse {
                code: 200,
                answer: WriteAnswer::Value(value),
            });
        }
    }
}

fn negative(call: &Call<'_>, replicas: i64) -> Status {
    let error = FieldError::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
    Status::invalid("Scale", "autoscaling", &call.name, &[error])
}

/// Applies a Scale: the number belongs to its manager by the rules of any field.
///
/// # Errors
/// 400 for what is no Scale, 409 when another manager owns the number, or what the write says.
pub async fn apply(call: &mut Call<'_>, scale: &Value, options: &WriteOptions) -> Result<WriteResponse, Status> {
    let text = |key: &str| scale[key].as_str().unwrap_or_default();
    if (text("apiVersion"), text("kind")) != ("autoscaling/v1", "Scale") {
        let (group, version) = split_api_version(text("apiVersion"));
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
        let new = ownership::with_context(call, kinds::reset_fields(call), &options.field_manager, |it| {
            managed::apply(Some(&old), &config, it, options.force)
        })?;
        if let Some(written) = pipeline::write_update(call, &current, &old, new, options, Source::Apply).await? {
            let value = read(call, &written.into_value())?;
            return Ok(WriteResponse {
                code: 200,
                answer: WriteAnswer::Value(value),
            });
        }
    }
}
