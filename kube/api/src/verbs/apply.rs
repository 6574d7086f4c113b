//! PATCH with `application/apply-patch+yaml`: server-side apply.

use crate::{
    call::{Call, WriteResponse},
    content, convert, kinds, object_meta,
    options::WriteOptions,
    ownership,
    pipeline::{self, Source},
    verbs,
};
use kube_store::{managed, status::Status};
use serde_json::Value;

/// Applies a configuration: creates the object, or merges the configuration into it and settles ownership.
///
/// # Errors
/// 409 with one cause per field that another manager owns, or the status of whatever is wrong with the result.
pub async fn apply(call: &mut Call<'_>, mut config: Value, options: &WriteOptions) -> Result<WriteResponse, Status> {
    check(call, &mut config)?;
    let mut spelling = None;
    loop {
        let Ok(current) = call.newest() else {
            if !call.subresource.is_empty() {
                return Err(call.not_found());
            }
            call.check_may_create()?;
            // Who names a uid means an object that was there: it is not made again.
            let uid = object_meta::metadata_text(&config, "uid");
            if !uid.is_empty() {
                return Err(Status::conflict(
                    &call.resource.plural,
                    &call.resource.group,
                    &call.name,
                    format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found"),
                ));
            }
            let created = ownership::with_context(call, kinds::reset_fields(call), &options.field_manager, |it| {
                managed::apply(None, &config, it, options.force)
            })?;
            let created = respell(call, &config, created, options, &mut spelling)?;
            match Box::pin(verbs::create::create_applied(call, created, options)).await {
                Err(status) if status.reason == "AlreadyExists" => continue,
                result => return result,
            }
        };
        let old = convert::value(&call.resource, &call.version, &current).await?;
        let wanted = object_meta::metadata_text(&config, "resourceVersion");
        if !wanted.is_empty() && wanted != object_meta::metadata_text(&old, "resourceVersion") {
            return Err(call.stale());
        }
        let new = ownership::with_context(call, kinds::reset_fields(call), &options.field_manager, |it| {
            managed::apply(Some(&old), &config, it, options.force)
        })?;
        let new = respell(call, &config, new, options, &mut spelling)?;
        if let Some(written) = pipeline::write_update(call, &current, &old, new, options, Source::Apply).await? {
            return Ok(written);
        }
    }
}

/// How a configuration is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// As it is stored.
    Stored,
    /// Otherwise: `cpu: 1` is stored as `cpu: "1"`, and an empty list not at all.
    Other,
}

/// What came of merging, as it is stored. Merging looks at the shape of fields only, so that a value of a wrong type is
/// refused here. The live object is spelled as it is stored, so the configuration alone says whether the result is.
fn respell(
    call: &mut Call<'_>,
    config: &Value,
    mut result: Value,
    options: &WriteOptions,
    known: &mut Option<Spelling>,
) -> Result<Value, Status> {
    let spelling = match *known {
        Some(it) => it,
        None => {
            let mut read = config.clone();
            content::decode(call, &mut read, options).map_err(|it| told(config, it))?;
            if read == *config {
                Spelling::Stored
            } else {
                Spelling::Other
            }
        }
    };
    *known = Some(spelling);
    if spelling == Spelling::Other {
        content::decode_again(call, &mut result)?;
    }
    Ok(result)
}

/// What cannot be read though its fields have the right types, as server-side apply tells it.
fn told(config: &Value, status: Status) -> Status {
    match pipeline::unreadable(&status) {
        // What is converted here is a value alone, which knows no field around it.
        Some(why) => match (why.find(" Go struct field "), why.find(" of type ")) {
            (Some(from), Some(to)) => managed::not_read(config, &format!("{} Go value{}", &why[..from], &why[to..])),
            _ => managed::not_read(config, why),
        },
        None => status,
    }
}

fn check(call: &Call<'_>, config: &mut Value) -> Result<(), Status> {
    let api_version = config["apiVersion"].as_str().unwrap_or_default().to_owned();
    let kind = config["kind"].as_str().unwrap_or_default().to_owned();
    let wanted = call.resource.api_version(&call.version);
    if api_version != wanted || kind != content::kind_of(call) {
        let (group, version) = crate::group_version::split_api_version(&api_version);
        return Err(Status::bad_request(format!(
            "invalid object type: {group}/{version}, Kind={kind}"
        )));
    }
    let metadata = object_meta::metadata(config);
    if metadata.contains_key("managedFields") {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let is_placed = metadata.contains_key("namespace");
    verbs::update::check_identity(call, config)?;
    if !is_placed {
        // What was not said is nobody's field, and not part of the name by which a mistake is told.
        object_meta::metadata(config).remove("namespace");
    }
    Ok(())
}
