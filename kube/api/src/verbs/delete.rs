//! DELETE on a named object and on a collection.

use crate::{
    admission::{self, AdmissionOperation},
    call::{Call, WriteAnswer, WriteResponse},
    content, convert, crd, kinds, object_meta,
    options::{DeleteOptions, Propagation, WriteOptions},
    pipeline,
};
use kube_store::{
    object::Object,
    status::{FieldError, Status},
    store::{Expect, Refused},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Reads the options. Where there is a body, the query is not looked at.
///
/// # Errors
/// 400 for a body of another kind or with a value of another type, 422 for values that Kubernetes does not know.
pub fn read_options(call: &Call<'_>, body: Option<&Value>) -> Result<DeleteOptions, Status> {
    let given = body.filter(|it| !it.is_null());
    let mut body = given.cloned().unwrap_or_else(|| json!({}));
    let query = |key: &str| call.query.text(key).filter(|_| given.is_none());
    if let Some(kind) = body["kind"]
        .as_str()
        .filter(|it| !it.is_empty() && *it != "DeleteOptions")
    {
        let version = body["apiVersion"].as_str().unwrap_or_default();
        return Err(Status::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apimachinery/pkg/runtime/scheme.go\""
        )));
    }
    content::decode_delete_options(&mut body)?;
    let mut errors = Vec::new();
    let text = |key: &str| body[key].as_str().or_else(|| query(key)).map(str::to_owned);
    let in_query = || query("orphanDependents").map(|_| call.query.flag("orphanDependents"));
    let orphan = body["orphanDependents"].as_bool().or_else(in_query);
    let policy = text("propagationPolicy").filter(|it| !it.is_empty());
    if let (Some(policy), Some(_)) = (&policy, orphan) {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(
            "propagationPolicy",
            &policy.as_str().into(),
            detail,
        ));
    }
    let propagation = match (policy.as_deref(), orphan) {
        (Some("Background"), _) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (None, Some(false)) => Some(Propagation::Background),
        (Some(other), _) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(
                "propagationPolicy",
                &other.into(),
                &supported,
            ));
            None
        }
        (None, None) => None,
    };
    let dry_run: Vec<&str> = match body["dryRun"].as_array() {
        Some(list) => list.iter().filter_map(Value::as_str).collect(),
        None if given.is_some() => Vec::new(),
        None => call.query.all("dryRun").filter(|it| !it.is_empty()).collect(),
    };
    if let Some(bad) = dry_run.iter().find(|it| **it != "All") {
        errors.push(FieldError::not_supported("dryRun", &json!([bad]), &["All"]));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("DeleteOptions", "meta.k8s.io", "", &errors));
    }
    let grace_seconds = match (body["gracePeriodSeconds"].as_i64(), query("gracePeriodSeconds")) {
        (None, Some(text)) => Some(
            text.parse()
                .map_err(|_| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?,
        ),
        (given, _) => given,
    };
    let precondition = |key: &str| body["preconditions"][key].as_str().map(str::to_owned);
    Ok(DeleteOptions {
        uid: precondition("uid"),
        resource_version: precondition("resourceVersion"),
        propagation,
        grace_seconds,
        dry_run: !dry_run.is_empty(),
        of_collection: false,
    })
}

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// A deletion that is decided and may not be on disk yet.
struct Decided {
    written: WriteResponse,
    /// What has to be kept; `None` when nothing changes.
    revision: Option<u64>,
}

impl Decided {
    async fn kept(self, call: &Call<'_>) -> Result<WriteResponse, Status> {
        if let Some(revision) = self.revision {
            call.server.durable(revision).await?;
        }
        Ok(self.written)
    }
}

/// Objects of a collection that are decided before their sync is waited for. All of them share one; more would let one
/// request hold more of what is not shown yet, and go on for longer before others have a turn.
const GROUP_MAX: usize = 256;

/// Deletes the named object, or marks it for deletion while finalizers hold it.
///
/// # Errors
/// 404, 409 when a precondition fails, or what admission says.
pub async fn delete(call: &mut Call<'_>, options: &DeleteOptions) -> Result<WriteResponse, Status> {
    decide(call, options).await?.kept(call).await
}

/// Deletes objects of a collection, each as [`delete`] does, in groups that are kept together.
///
/// # Errors
/// Of the first object that cannot be deleted; those before it are deleted then.
pub async fn delete_all(call: &mut Call<'_>, objects: &[Arc<Object>], options: &DeleteOptions) -> Result<(), Status> {
    for group in objects.chunks(GROUP_MAX) {
        let mut revisions = Vec::with_capacity(group.len());
        let mut outcome = Ok(());
        for object in group {
            call.name = object.name.to_string();
            call.namespace = object.namespace.to_string();
            match decide(call, options).await {
                Ok(it) => revisions.extend(it.revision),
                Err(status) if status.is_not_found() => {}
                Err(status) => {
                    outcome = Err(status);
                    break;
                }
            }
        }
        // From the last one: when it is there the others are, or are known to be lost.
        for revision in revisions.into_iter().rev() {
            call.server.durable(revision).await?;
        }
        outcome?;
    }
    Ok(())
}

async fn decide(call: &mut Call<'_>, options: &DeleteOptions) -> Result<Decided, Status> {
    kinds::of(call).check_delete(call)?;
    loop {
        let current = call.newest()?;
        check_preconditions(call, &current, options)?;
        let old = convert::value(&call.resource, &call.version, &current).await?;
        let write = WriteOptions {
            dry_run: options.dry_run,
            ..WriteOptions::default()
        };
        let mut seen = old.clone();
        pipeline::ask_plugins(call, AdmissionOperation::Delete, Some(&old), &mut seen, &write)?;
        admission::delete(call, &old, options).await?;
        if let Some(decided) = delete_once(call, &current, old, options).await? {
            return Ok(decided);
        }
    }
}

/// Deletes the named object without asking admission: whoever calls has asked about something that stands for it.
///
/// # Errors
/// 404, 409 when a precondition fails.
pub(crate) async fn delete_unasked(call: &mut Call<'_>, options: &DeleteOptions) -> Result<WriteResponse, Status> {
    loop {
        let current = call.newest()?;
        check_preconditions(call, &current, options)?;
        let old = convert::value(&call.resource, &call.version, &current).await?;
        if let Some(decided) = delete_once(call, &current, old, options).await? {
            return decided.kept(call).await;
        }
    }
}

async fn delete_once(
    call: &mut Call<'_>,
    current: &Arc<Object>,
    old: Value,
    options: &DeleteOptions,
) -> Result<Option<Decided>, Status> {
    let unchanged = |answer| {
        let written = WriteResponse { code: 200, answer };
        Ok(Some(Decided {
            written,
            revision: None,
        }))
    };
    let mut new = old.clone();
    set_propagation(call, &mut new, options);
    if call.is_crd() && !current.terminating {
        crd::hold(&mut new);
    }
    let grace = kinds::of(call).grace_seconds(call, &new, options.grace_seconds);
    let shorter = current.terminating && object_meta::grace_left(&new) > grace;
    if shorter {
        object_meta::metadata(&mut new).insert("deletionGracePeriodSeconds".into(), grace.into());
    }
    let held = new["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|it| !it.is_empty())
        || grace > 0
        || !kinds::of(call).may_vanish(call, &new);
    if held {
        let grace_period = std::time::Duration::from_secs(u64::try_from(grace).unwrap_or_default());
        let ends = call.now.checked_add(grace_period).unwrap_or(jiff::Timestamp::MAX);
        if shorter {
            object_meta::metadata(&mut new).insert("deletionTimestamp".into(), object_meta::seconds(ends).into());
        }
        if !current.terminating {
            kinds::of(call).mark_terminating(call, &mut new);
            let metadata = object_meta::metadata(&mut new);
            metadata.insert("deletionTimestamp".into(), object_meta::seconds(ends).into());
            if call.resource.id.as_ref() != "namespaces" {
                metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
            }
            let generation = metadata.get("generation").and_then(Value::as_i64);
            if let Some(generation) = generation.filter(|it| *it > 0 && !call.is_crd()) {
                metadata.insert("generation".into(), (generation + 1).into());
            }
        }
        if new == old {
            return unchanged(pipeline::answer(call, current).await?);
        }
        if options.dry_run {
            return unchanged(WriteAnswer::Value(new));
        }
        convert::to_storage(&call.resource, &mut new).await?;
        let Some((revision, object)) = commit(call, current, Some(new))? else {
            return Ok(None);
        };
        let answer = pipeline::answer(call, object.as_ref().unwrap_or(current)).await?;
        let written = WriteResponse { code: 200, answer };
        let revision = Some(revision);
        return Ok(Some(Decided { written, revision }));
    }
    let revision = match options.dry_run {
        true => None,
        false => match commit(call, current, None)? {
            Some((revision, _)) => Some(revision),
            None => return Ok(None),
        },
    };
    let answer = if call.resource.traits.returns_deleted {
        pipeline::answer(call, current).await?
    } else {
        WriteAnswer::Value(success(call, &current.uid))
    };
    let written = WriteResponse { code: 200, answer };
    Ok(Some(Decided { written, revision }))
}

/// Decides the next state of an object, or its removal; whoever calls waits until that is kept.
/// `None` when the object changed meanwhile.
///
/// # Errors
/// 404, or 413 for what is too large.
pub(crate) fn commit(
    call: &Call<'_>,
    current: &Arc<Object>,
    new: Option<Value>,
) -> Result<Option<(u64, Option<Arc<Object>>)>, Status> {
    let id = call.id().clone();
    let expect = Expect::Revision(current.revision);
    let committed = call
        .server
        .store
        .commit(&id, call.store_namespace(), &call.name, expect, |revision| {
            new.map(|it| Object::encode(&id, it, revision))
        });
    match committed {
        Ok(it) => {
            call.server.decided(it.0);
            Ok(Some(it))
        }
        Err(Refused::Missing) => Err(call.not_found()),
        Err(Refused::TooLarge) => Err(call.too_large()),
        Err(Refused::NoRoom) => Err(call.no_room()),
        Err(Refused::Changed | Refused::Exists) => Ok(None),
    }
}

fn success(call: &Call<'_>, uid: &str) -> Value {
    let mut details = json!({"name": call.name, "kind": call.resource.plural, "uid": uid});
    if !call.resource.group.is_empty() {
        details["group"] = call.resource.group.clone().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// # Errors
/// 409 for a uid or a revision that the object does not have.
pub(crate) fn check_preconditions(call: &Call<'_>, current: &Object, options: &DeleteOptions) -> Result<(), Status> {
    if let Some(uid) = options.uid.as_deref().filter(|it| *it != current.uid.as_ref()) {
        let text = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted \
             and then recreated",
            current.uid
        );
        return Err(Status::conflict(
            &call.resource.kind,
            &call.resource.group,
            &call.name,
            text,
        ));
    }
    let revision = current.revision.to_string();
    if let Some(given) = options.resource_version.as_deref().filter(|it| *it != revision) {
        let text = format!(
            "the ResourceVersion in the precondition ({given}) does not match the ResourceVersion in record ({revision}). \
             The object might have been modified"
        );
        return Err(Status::conflict(
            &call.resource.kind,
            &call.resource.group,
            &call.name,
            text,
        ));
    }
    Ok(())
}

/// A policy that is named replaces the two finalizers of garbage collection.
fn set_propagation(call: &Call<'_>, new: &mut Value, options: &DeleteOptions) {
    // Nothing belongs to an Event.
    if call.resource.kind == "Event" && call.resource.is_builtin() {
        return;
    }
    let propagation = match options.propagation {
        Some(it) => it,
        // These keep what was done before there was garbage collection.
        None if matches!(call.id().as_ref(), "jobs.batch" | "replicationcontrollers") => Propagation::Orphan,
        None => return,
    };
    let metadata = object_meta::metadata(new);
    let mut finalizers = metadata
        .get("finalizers")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    finalizers.retain(|it| it != ORPHAN && it != FOREGROUND);
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), finalizers.into());
    }
}
