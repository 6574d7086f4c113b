//! PATCH with a JSON patch, a merge patch or a strategic merge patch.

use crate::{
    call::{Call, WriteResponse},
    content, convert, object_meta,
    options::{FieldValidation, WriteOptions},
    pipeline::{self, Source},
    verbs::update,
};
use kube_store::{
    patch,
    schema::duplicates::duplicates,
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
) -> Result<WriteResponse, Status> {
    let mut options = options.clone();
    if options.field_validation != FieldValidation::Ignore {
        let of = if kind == PatchType::Json { "json patch " } else { "" };
        let twice = duplicates(body).into_iter();
        options.twice = twice.map(|it| format!("{of}duplicate field \"{it}\"")).collect();
    }
    let options = &options;
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
        check_result(call, kind, &mut new)?;
        let wanted = object_meta::metadata_text(&new, "resourceVersion");
        let guarded = wanted != object_meta::metadata_text(&old, "resourceVersion");
        if guarded && let update::Condition::Revision(_) = update::condition(&new)? {
            return Err(call.stale());
        }
        // A patch that names the current revision is as strict as a PUT; whether it does is in the patch itself.
        let strict = names_revision(kind, body);
        let written = pipeline::write_update(call, &current, &old, new, options, Source::Patch).await;
        if let Some(written) = written.map_err(|it| explain(kind, body, it))? {
            return Ok(written);
        }
        if strict {
            return Err(call.stale());
        }
    }
}

/// A strategic merge patch is decoded by other code of Kubernetes than the other two, which says it in other words.
fn explain(kind: PatchType, body: &[u8], mut status: Status) -> Status {
    let types = status
        .message
        .rsplit_once("json: cannot unmarshal ")
        .and_then(|(_, rest)| {
            let found = rest.split(' ').next()?;
            let wanted = rest.rsplit_once(" of type ")?.1;
            Some((go_type(found), wanted.to_owned()))
        });
    let unknown = status.message.rsplit_once(STRICT).map(|it| format!("{STRICT}{}", it.1));
    let why = types
        .map(|(found, wanted)| format!("cannot convert {found} to {wanted}"))
        .or(unknown);
    let (PatchType::Strategic, 422, Some(why)) = (kind, status.code, why) else {
        return status;
    };
    let patch = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let error = FieldError::invalid("patch", &patch::go_format(&patch).into(), why);
    status = Status::invalid("", "", "", &[error]);
    status
}

const STRICT: &str = "strict decoding error: ";

fn go_type(json: &str) -> &str {
    match json {
        "number" => "int64",
        "object" => "map[string]interface {}",
        "array" => "[]interface {}",
        other => other,
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

fn check_result(call: &Call<'_>, patch: PatchType, new: &mut Value) -> Result<(), Status> {
    if patch == PatchType::Strategic {
        // It is merged into a struct, which is of its kind whatever the patch says.
        new["kind"] = call.resource.kind.clone().into();
        new["apiVersion"] = call.resource.api_version(&call.version).into();
    }
    content::check_kind(call, new).map_err(|it| {
        if call.resource.is_builtin() {
            pipeline::bad_patch(new, &it)
        } else {
            it
        }
    })?;
    let namespace = object_meta::metadata_text(new, "namespace");
    if call.resource.namespaced && !namespace.is_empty() && namespace != call.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    update::check_identity(call, new)
}
