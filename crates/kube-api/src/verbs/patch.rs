//! PATCH with a JSON patch, a merge patch or a strategic merge patch.

use crate::{
    call::{Call, WriteOptions, Written},
    content, convert,
    pipeline::{self, Source},
};
use kube_store::{
    patch,
    status::{FieldError, Status},
};
use serde_json::Value;

/// The patch types but server-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
}

/// Applies a patch to the newest state, again when that changes meanwhile, so that a patch without `resourceVersion`
/// never ends in a conflict.
///
/// # Errors
/// The Kubernetes status of whatever is wrong with the patch or its result.
pub async fn patch(
    call: &mut Call<'_>,
    kind: PatchType,
    body: &[u8],
    options: &WriteOptions,
) -> Result<Written, Status> {
    loop {
        let current = call.newest()?;
        let old = convert::value(&call.resource, &call.version, &current).await?;
        let mut new = match kind {
            PatchType::Json => patch::json::apply(&old, body)?,
            PatchType::Merge => patch::merge::apply(&old, body)?,
            PatchType::Strategic => {
                let schema = call.resource.schema(&call.version).unwrap_or_default();
                patch::strategic::apply(&old, body, &schema)?
            }
        };
        check_result(call, &old, &mut new)?;
        let wanted = pipeline::metadata_text(&new, "resourceVersion");
        let guarded = wanted != pipeline::metadata_text(&old, "resourceVersion");
        if guarded && !wanted.is_empty() {
            return Err(call.stale());
        }
        // A patch that names the current revision is as strict as a PUT; whether it does is in the patch itself.
        let strict = names_revision(kind, body);
        if let Some(written) = pipeline::write_update(call, &current, &old, new, options, Source::Update).await? {
            return Ok(written);
        }
        if strict {
            return Err(call.stale());
        }
    }
}

fn names_revision(kind: PatchType, body: &[u8]) -> bool {
    let Ok(patch) = serde_json::from_slice::<Value>(body) else {
        return false;
    };
    match kind {
        PatchType::Json => patch
            .as_array()
            .into_iter()
            .flatten()
            .any(|it| it["path"] == "/metadata/resourceVersion"),
        PatchType::Merge | PatchType::Strategic => patch["metadata"]["resourceVersion"].is_string(),
    }
}

fn check_result(call: &Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
    content::check_kind(call, new)?;
    for key in ["name", "namespace"] {
        let (before, after) = (pipeline::metadata_text(old, key), pipeline::metadata_text(new, key));
        if before != after {
            let error = FieldError::invalid(format!("metadata.{key}"), &after.into(), "field is immutable");
            return Err(call.invalid(&call.name, &[error]));
        }
    }
    Ok(())
}
