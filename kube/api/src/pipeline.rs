//! What every write goes through between decoding and storing: metadata that the server owns, managed fields,
//! admission, and the commit itself.

use crate::{
    admission::{self, Admission, AdmissionOperation, ObjectChange, Review},
    bounds,
    call::{Call, WriteAnswer, WriteResponse},
    content,
    context::ServerContext,
    convert,
    kinds::{self, Strategy},
    object_meta::metadata,
    options::WriteOptions,
    ownership,
};
use kube_store::{
    managed,
    object::Object,
    schema::metadata::validate_metadata_update,
    status::{FieldError, Status},
    store::{Expect, Refused},
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A namespaced object needs a namespace that exists and is not going away.
///
/// # Errors
/// 404 for a missing namespace, 403 for a terminating one.
pub fn check_namespace_lifecycle(call: &Call<'_>, name: &str) -> Result<(), Status> {
    if !call.resource.namespaced {
        return Ok(());
    }
    let namespace = &call.namespace;
    let Some(object) = call.server.store.newest("namespaces", "", namespace) else {
        return Err(Status::not_found("namespaces", "", namespace));
    };
    if object.terminating {
        let text = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut status = Status::forbidden(&call.resource.plural, &call.resource.group, name, text);
        if let Some(details) = &mut status.details {
            details["causes"] = json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {namespace} is being terminated"),
                "field": "metadata.namespace",
            }]);
        }
        return Err(status);
    }
    Ok(())
}

/// Lets the in-process admission plug-ins look at a new state and change it.
///
/// # Errors
/// The status of the plug-in that refuses.
pub fn ask_plugins(
    call: &mut Call<'_>,
    operation: AdmissionOperation,
    old: Option<&Value>,
    object: &mut Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    each_plugin(call, operation, old, options, |plugin, review| {
        plugin.admit(review, object)
    })
}

/// Lets the in-process admission plug-ins judge a new state that is valid in itself.
///
/// # Errors
/// The status of the plug-in that refuses.
pub fn ask_validating_plugins(
    call: &mut Call<'_>,
    operation: AdmissionOperation,
    old: Option<&Value>,
    object: &Value,
    options: &WriteOptions,
) -> Result<(), Status> {
    each_plugin(call, operation, old, options, |plugin, review| {
        plugin.validate(review, object)
    })
}

fn each_plugin(
    call: &mut Call<'_>,
    operation: AdmissionOperation,
    old: Option<&Value>,
    options: &WriteOptions,
    mut ask: impl FnMut(&dyn Admission, &Review<'_>) -> Result<Vec<String>, Status>,
) -> Result<(), Status> {
    let server = call.server.clone();
    let user = call.user.clone();
    let may = |attributes: &crate::identity::Attributes| server.may(&user, attributes);
    let id = call.id().clone();
    for plugin in server.admission.iter().filter(|it| it.wants(&id)) {
        let review = Review {
            operation,
            resource: &id,
            version: &call.version,
            subresource: &call.subresource,
            namespace: &call.namespace,
            name: &call.name,
            user: &call.user,
            old,
            dry_run: options.dry_run,
            may: &may,
        };
        let warnings = ask(&**plugin, &review)?;
        call.warnings.extend(warnings);
    }
    Ok(())
}

/// Keeps others from taking what this write may take, and only one may have, until the write is decided; see also
/// `Strategy::is_taken_when_published`.
pub async fn allocating<'s>(
    server: &'s ServerContext,
    strategy: &dyn Strategy,
) -> Option<tokio::sync::MutexGuard<'s, ()>> {
    match strategy.allocates() {
        true => Some(server.allocating.lock().await),
        false => None,
    }
}

/// How a new state came about; decides what is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// PUT: changes belong to the manager of the request.
    Update,
    /// A patch: as PUT, but what cannot be decoded is the patch's fault.
    Patch,
    /// Server-side apply has already settled ownership.
    Apply,
}

/// Brings a new state of an existing object to the store. `None` when the object changed meanwhile.
///
/// # Errors
/// The status of whatever is wrong with the new state.
pub async fn write_update(
    call: &mut Call<'_>,
    current: &Arc<Object>,
    old: &Value,
    mut new: Value,
    options: &WriteOptions,
    source: Source,
) -> Result<Option<WriteResponse>, Status> {
    let strategy = kinds::of(call);
    keep_server_metadata(call, old, &mut new)?;
    if source != Source::Apply {
        let decoded = content::decode(call, &mut new, options);
        decoded.map_err(|it| {
            if source == Source::Patch {
                bad_patch(&new, &it)
            } else {
                it
            }
        })?;
    }
    separate_status(call, old, &mut new);
    strategy.prepare_for_update(call, old, &mut new)?;
    content::default(call, &mut new);
    if source != Source::Apply {
        ownership::track(call, kinds::reset_fields(call), Some(old), &mut new, options);
    }
    ask_plugins(call, AdmissionOperation::Update, Some(old), &mut new, options)?;
    let change = ObjectChange {
        operation: AdmissionOperation::Update,
        old: Some(old),
        options,
    };
    if admission::mutate(call, change, &mut new).await? {
        keep_server_metadata(call, old, &mut new)?;
        separate_status(call, old, &mut new);
        strategy.prepare_for_update(call, old, &mut new)?;
    }
    content::validate(call, &new, Some(old))?;
    strategy.check_allowed(call, Some(old), &new)?;
    ask_validating_plugins(call, AdmissionOperation::Update, Some(old), &new, options)?;
    admission::validate(call, change, &new).await?;
    let server = call.server.clone();
    let allocating = allocating(&server, strategy).await;
    strategy.begin_update(call, old, &mut new)?;
    set_generation(call, old, &mut new);
    strategy.finish_update(call, &mut new);
    let name = call.name.clone();
    let remove = current.terminating && no_finalizers(&new) && strategy.may_vanish(call, &new);
    // A write that changes nothing still brings an old object to its definition's storage version: so it is migrated.
    if !remove && managed::no_op(old, &new) && !convert::is_outdated(&call.resource, current) {
        return Ok(Some(WriteResponse {
            code: 200,
            answer: answer(call, current).await?,
        }));
    }
    if options.dry_run {
        return Ok(Some(WriteResponse {
            code: 200,
            answer: WriteAnswer::Value(new),
        }));
    }
    // What goes takes no room.
    let place = match remove {
        true => None,
        false => bounds::admit(call, Some(current), &new)?,
    };
    let answered = remove.then(|| new.clone());
    convert::to_storage(&call.resource, &mut new).await?;
    let id = call.id().clone();
    let expect = Expect::Revision(current.revision);
    let committed = call
        .server
        .store
        .commit(&id, call.store_namespace(), &name, expect, |revision| {
            (!remove).then(|| Object::encode(&id, new, revision))
        });
    let allocating = allocating.filter(|_| strategy.is_taken_when_published());
    let (revision, object) = match committed {
        Ok(it) => it,
        Err(Refused::Missing) => return Err(call.not_found()),
        Err(Refused::TooLarge) => return Err(call.too_large()),
        Err(Refused::NoRoom) => return Err(call.no_room()),
        Err(Refused::Changed | Refused::Exists) => return Ok(None),
    };
    if let Some(object) = &object {
        bounds::charge(call, object);
    }
    call.server.durable(revision).await?;
    drop((allocating, place));
    let answer = match (object, answered) {
        (Some(object), _) => answer(call, &object).await?,
        (None, Some(value)) => WriteAnswer::Value(value),
        (None, None) => answer(call, current).await?,
    };
    Ok(Some(WriteResponse { code: 200, answer }))
}

/// Why an object could not be decoded, without its kind; `None` of another error.
pub fn unreadable(status: &Status) -> Option<&str> {
    let (_, why) = status.message.split_once(" cannot be handled as a ")?;
    Some(why.split_once(": ").map_or(why, |it| it.1))
}

/// The 422 of a patch whose result cannot be decoded.
pub fn bad_patch(result: &Value, status: &Status) -> Status {
    // What PUT says of the whole object begins with its kind; of a patch only the reason is said.
    let message = status.message.as_str();
    let why = unreadable(status).unwrap_or_else(|| message.split_once(": ").map_or(message, |it| it.1));
    let error = FieldError::invalid("patch", &result.to_string().into(), why);
    Status::invalid("", "", "", &[error])
}

/// A stored state as this call's version shows it.
///
/// # Errors
/// 500 when its conversion fails.
pub async fn answer(call: &Call<'_>, object: &Arc<Object>) -> Result<WriteAnswer, Status> {
    if convert::is_in(&call.resource, &call.version, object) && !convert::is_outdated(&call.resource, object) {
        return Ok(WriteAnswer::Stored(object.clone()));
    }
    let value = convert::value(&call.resource, &call.version, object).await?;
    Ok(WriteAnswer::Value(value))
}

fn no_finalizers(value: &Value) -> bool {
    value["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Metadata that only the server writes is carried over; what a client may not change is refused.
fn keep_server_metadata(call: &Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
    let old_metadata = &old["metadata"];
    let map = metadata(new);
    map.retain(|_, it| !it.is_null() && it != "");
    let errors = validate_metadata_update(&new["metadata"], old_metadata);
    if !errors.is_empty() {
        return Err(call.invalid(&call.name, &errors));
    }
    let map = metadata(new);
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "name",
        "namespace",
        "generateName",
        "resourceVersion",
    ] {
        match old_metadata.get(key).filter(|it| !it.is_null()) {
            Some(value) => map.insert(key.into(), value.clone()),
            None => map.remove(key),
        };
    }
    map.remove("selfLink");
    if !map.contains_key("managedFields")
        && let Some(fields) = old_metadata.get("managedFields")
    {
        map.insert("managedFields".into(), fields.clone());
    }
    Ok(())
}

/// The main resource keeps the old status; `/status` keeps everything but the status.
fn separate_status(call: &Call<'_>, old: &Value, new: &mut Value) {
    let has_status = call.served().status;
    let Some(map) = new.as_object_mut() else { return };
    match call.subresource.as_str() {
        "" if has_status => match old.get("status") {
            Some(status) => {
                map.insert("status".into(), status.clone());
            }
            None => {
                map.remove("status");
            }
        },
        "status" => {
            let status = map.remove("status");
            let given = map.remove("metadata").unwrap_or_default();
            let mut kept = old.clone();
            if let Some(kept) = kept.as_object_mut() {
                match status {
                    Some(status) => kept.insert("status".into(), status),
                    None => kept.remove("status"),
                };
            }
            // What a controller notes beside the status; custom resources have none of it.
            let fields = match call.resource.is_builtin() {
                true => kinds::of(call).status_metadata(),
                false => &["managedFields"],
            };
            let kept_metadata = metadata(&mut kept);
            for key in fields {
                match given.get(*key) {
                    Some(value) => kept_metadata.insert((*key).into(), value.clone()),
                    None => kept_metadata.remove(*key),
                };
            }
            *new = kept;
        }
        _ => {}
    }
}

/// `metadata.generation` grows when something other than metadata (and status, where that is a subresource) changes.
fn set_generation(call: &Call<'_>, old: &Value, new: &mut Value) {
    if !call.resource.traits.generation {
        return;
    }
    let skip_status = call.resource.is_builtin() || call.served().status;
    fn counted(value: &Value, skip_status: bool) -> impl Iterator<Item = (&String, &Value)> {
        let map = value.as_object().into_iter().flatten();
        map.filter(move |(key, _)| {
            !matches!(key.as_str(), "metadata" | "apiVersion" | "kind") && !(skip_status && *key == "status")
        })
    }
    let mut same = counted(old, skip_status).eq(counted(new, skip_status));
    fn of_metadata<'v>(of: &'v Value, key: &str) -> Option<&'v Map<String, Value>> {
        let found = of["metadata"][key].as_object();
        found.filter(|it| !it.is_empty())
    }
    let strategy = kinds::of(call);
    if let Some(key) = strategy.generation_metadata() {
        same &= of_metadata(old, key) == of_metadata(new, key);
    }
    same |= strategy.has_one_generation();
    if !same {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        metadata(new).insert("generation".into(), generation.into());
    }
}
