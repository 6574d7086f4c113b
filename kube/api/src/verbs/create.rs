//! POST on a collection.

use crate::{
    admission::{self, AdmissionOperation, ObjectChange},
    bounds,
    call::{Call, WriteAnswer, WriteResponse},
    content, convert, kinds, object_meta,
    options::WriteOptions,
    ownership, pipeline,
};
use kube_store::{
    managed,
    object::Object,
    status::{FieldError, Status},
    store::{Expect, Refused},
};
use rand::RngExt;
use serde_json::{Map, Value, json};

/// Letters that Kubernetes uses for generated names: no vowels, so no words.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// A generated name is this prefix length plus five letters, 63 characters at most.
const GENERATED_PREFIX_MAX: usize = 58;
/// How often a generated name that is taken is drawn again.
const GENERATE_TRIES: usize = 8;

/// `prefix` and five random letters.
pub fn generated_name(prefix: &str) -> String {
    let mut name: String = prefix.chars().take(GENERATED_PREFIX_MAX).collect();
    let mut random = rand::rng();
    name.extend((0..5).map(|_| char::from(NAME_LETTERS[random.random_range(0..NAME_LETTERS.len())])));
    name
}

/// Stores a new object.
///
/// # Errors
/// The Kubernetes status of whatever is wrong with it.
pub async fn create(call: &mut Call<'_>, mut value: Value, options: &WriteOptions) -> Result<WriteResponse, Status> {
    content::check_kind(call, &mut value)?;
    check_namespace(call, &mut value)?;
    let metadata = object_meta::metadata(&mut value);
    if metadata
        .get("resourceVersion")
        .and_then(Value::as_str)
        .is_some_and(|it| !it.is_empty())
    {
        return Err(Status::new(
            500,
            "",
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, prefix) = (text("name"), text("generateName"));
    let generated = name.is_empty() && !prefix.is_empty();
    if name.is_empty() && !generated {
        let errors = [FieldError::required(
            "metadata.name",
            "name or generateName is required",
        )];
        return Err(call.invalid("", &errors));
    }
    check_kind_stays(call, &name)?;
    pipeline::check_namespace_lifecycle(call, &name)?;
    content::decode(call, &mut value, options)?;
    let mut tries = 0;
    loop {
        let mut draft = value.clone();
        if generated {
            object_meta::metadata(&mut draft).insert("name".into(), generated_name(&prefix).into());
        }
        match create_named(call, draft, options, Tracking::Update).await {
            Err(status) if generated && status.reason == "AlreadyExists" && tries < GENERATE_TRIES => tries += 1,
            result => return result,
        }
    }
}

/// Whether the fields of a new object still need an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    Update,
    Settled,
}

async fn create_named(
    call: &mut Call<'_>,
    mut value: Value,
    options: &WriteOptions,
    tracking: Tracking,
) -> Result<WriteResponse, Status> {
    let uid = uuid::Uuid::new_v4().to_string();
    let strategy = kinds::of(call);
    let is_absent = |it: &&&str| value.pointer(it).is_none_or(Value::is_null);
    let late: Vec<&str> = strategy.added_late().iter().filter(is_absent).copied().collect();
    begin(call, &mut value, &uid)?;
    content::default(call, &mut value);
    if tracking == Tracking::Update {
        let members: Vec<_> = late.iter().filter_map(|it| take(&mut value, it)).collect();
        ownership::track(call, kinds::reset_fields(call), None, &mut value, options);
        for (parent, key, member) in members {
            if let Some(Value::Object(parent)) = value.pointer_mut(parent) {
                parent.insert(key, member);
            }
        }
    }
    pipeline::ask_plugins(call, AdmissionOperation::Create, None, &mut value, options)?;
    let change = ObjectChange {
        operation: AdmissionOperation::Create,
        old: None,
        options,
    };
    if admission::mutate(call, change, &mut value).await? {
        begin(call, &mut value, &uid)?;
    }
    content::validate(call, &value, None)?;
    strategy.check_allowed(call, None, &value)?;
    pipeline::ask_validating_plugins(call, AdmissionOperation::Create, None, &value, options)?;
    admission::validate(call, change, &value).await?;
    let name = call.name.clone();
    let server = call.server.clone();
    let allocating = pipeline::allocating(&server, strategy).await;
    let before = strategy.status_manager().map(|it| (it, value.clone()));
    strategy.begin_create(call, &mut value)?;
    if let Some((manager, before)) = before {
        let main = std::mem::replace(&mut call.subresource, "status".to_owned());
        ownership::with_context(call, kinds::reset_fields(call), manager, |it| {
            managed::update(Some(&before), &mut value, it);
        });
        call.subresource = main;
    }
    if options.dry_run {
        if call
            .server
            .store
            .newest(call.id(), call.store_namespace(), &name)
            .is_some()
        {
            return Err(Status::already_exists(
                &call.resource.plural,
                &call.resource.group,
                &name,
            ));
        }
        return Ok(WriteResponse {
            code: 201,
            answer: WriteAnswer::Value(value),
        });
    }
    let place = bounds::admit(call, None, &value)?;
    convert::to_storage(&call.resource, &mut value).await?;
    let id = call.id().clone();
    let committed = call
        .server
        .store
        .commit(&id, call.store_namespace(), &name, Expect::Absent, |revision| {
            Some(Object::encode(&id, value, revision))
        });
    let allocating = allocating.filter(|_| strategy.is_taken_when_published());
    let (revision, object) = committed.map_err(|refused| match refused {
        Refused::TooLarge => call.too_large(),
        Refused::NoRoom => call.no_room(),
        Refused::Exists | Refused::Changed | Refused::Missing => {
            Status::already_exists(&call.resource.plural, &call.resource.group, &name)
        }
    })?;
    if let Some(object) = &object {
        bounds::charge(call, object);
    }
    call.server.durable(revision).await?;
    drop((allocating, place));
    let answer = match object {
        Some(object) => pipeline::answer(call, &object).await?,
        None => WriteAnswer::Value(Value::Object(Map::new())),
    };
    Ok(WriteResponse { code: 201, answer })
}

/// Takes a member out: the pointer to its parent, its name, and itself.
fn take<'p>(value: &mut Value, pointer: &'p str) -> Option<(&'p str, String, Value)> {
    let (parent, key) = pointer.rsplit_once('/')?;
    let key = key.replace("~1", "/");
    let member = value.pointer_mut(parent)?.as_object_mut()?.remove(&key)?;
    Some((parent, key, member))
}

/// What the server owns of a new object.
fn begin(call: &mut Call<'_>, value: &mut Value, uid: &str) -> Result<(), Status> {
    let metadata = object_meta::metadata(value);
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "resourceVersion",
    ] {
        metadata.remove(key);
    }
    metadata.insert("uid".into(), uid.into());
    metadata.insert("creationTimestamp".into(), object_meta::seconds(call.now).into());
    call.name = metadata
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if call.resource.namespaced {
        metadata.insert("namespace".into(), call.namespace.clone().into());
    } else {
        metadata.remove("namespace");
    }
    let strategy = kinds::of(call);
    if call.resource.traits.generation && strategy.is_made_with_generation() {
        metadata.insert("generation".into(), 1.into());
    }
    if call.served().status
        && !strategy.is_made_with_status()
        && let Some(map) = value.as_object_mut()
    {
        map.remove("status");
    }
    strategy.prepare_for_create(call, value)
}

/// The namespace comes from the path; the body may repeat it.
fn check_namespace(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    let metadata = object_meta::metadata(value);
    if !call.resource.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    content::check_namespace(call, value)?;
    object_meta::metadata(value).insert("namespace".into(), json!(call.namespace));
    Ok(())
}

/// Nothing is added to a kind that is going.
fn check_kind_stays(call: &Call<'_>, name: &str) -> Result<(), Status> {
    if call.resource.crd.as_ref().is_none_or(|it| !it.terminating) {
        return Ok(());
    }
    let text = "create not allowed while custom resource definition is terminating";
    let (plural, group) = (&call.resource.plural, &call.resource.group);
    Err(Status::forbidden(plural, group, name, text))
}

/// Stores the first state of an applied object; server-side apply has already settled ownership.
///
/// # Errors
/// As `create`.
pub async fn create_applied(
    call: &mut Call<'_>,
    mut value: Value,
    options: &WriteOptions,
) -> Result<WriteResponse, Status> {
    let name = call.name.clone();
    check_kind_stays(call, &name)?;
    pipeline::check_namespace_lifecycle(call, &name)?;
    check_namespace(call, &mut value)?;
    object_meta::metadata(&mut value).remove("resourceVersion");
    create_named(call, value, options, Tracking::Settled).await
}
