//! CustomResourceDefinitions: checked, established at once, and turned into resources.

use crate::{
    call::Call,
    conversion::Converters,
    kinds, pipeline,
    registry::{Registry, Resource},
};
use kube_store::{Object, schema::structural, status::Status};
use serde_json::{Value, json};
use std::sync::Arc;

/// Holds a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Defaults and checks of a new definition.
///
/// # Errors
/// 422 with one cause per rule that it breaks.
pub fn prepare_create(call: &Call<'_>, value: &mut Value) -> Result<(), Status> {
    structural::default_crd(value);
    let errors = structural::check_crd(value);
    if !errors.is_empty() {
        return Err(call.invalid(&call.name, &errors));
    }
    Ok(())
}

/// Has a definition that is about to be deleted wait for its objects.
pub fn hold(value: &mut Value) {
    let finalizers = pipeline::metadata(value)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|it| it == CLEANUP_FINALIZER)
    {
        list.push(CLEANUP_FINALIZER.into());
    }
}

/// Establishes a definition, or says which of its names is taken. Upstream does this a moment later in a controller; here
/// a definition serves as soon as its creation is answered.
pub fn accept(call: &Call<'_>, value: &mut Value) {
    let now = pipeline::seconds(call.now);
    let registry = call.server.registry.load();
    let names = value["spec"]["names"].clone();
    let conflict = conflict(&registry, value);
    let stored = storage_version(value);
    let accepted = if conflict.is_none() {
        names
    } else {
        json!({"plural": "", "kind": ""})
    };
    let status = &mut value["status"];
    if !status["storedVersions"]
        .as_array()
        .is_some_and(|it| it.iter().any(|it| *it == stored))
    {
        let mut versions = status["storedVersions"].as_array().cloned().unwrap_or_default();
        versions.push(stored.into());
        status["storedVersions"] = versions.into();
    }
    status["acceptedNames"] = accepted;
    let (names_accepted, established) = match conflict {
        None => (
            ("True", "NoConflicts", "no conflicts found".to_owned()),
            (
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted".to_owned(),
            ),
        ),
        Some((reason, message)) => (
            ("False", reason, message),
            ("False", "NotAccepted", "not all names are accepted".to_owned()),
        ),
    };
    set_condition(status, "NamesAccepted", names_accepted, &now);
    set_condition(status, "Established", established, &now);
}

/// Checks and defaults of a changed definition; its names are looked at again.
///
/// # Errors
/// 422 with one cause per rule that it breaks.
pub fn prepare_update(call: &Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
    if call.subresource == "status" {
        return Ok(());
    }
    structural::default_crd(new);
    let errors = structural::check_crd_update(new, old);
    if !errors.is_empty() {
        return Err(call.invalid(&call.name, &errors));
    }
    if old["spec"] != new["spec"] {
        accept(call, new);
    }
    Ok(())
}

/// Shows in a definition that its objects are about to be deleted.
pub fn mark_terminating(value: &mut Value, now: jiff::Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let condition = ("True", "InstanceDeletionPending", message.to_owned());
    set_condition(&mut value["status"], "Terminating", condition, &pipeline::seconds(now));
}

fn storage_version(value: &Value) -> String {
    let versions = value["spec"]["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let storage = versions.iter().find(|it| it["storage"] == true);
    storage
        .and_then(|it| it["name"].as_str())
        .unwrap_or_default()
        .to_owned()
}

fn set_condition(status: &mut Value, kind: &str, (state, reason, message): (&str, &str, String), now: &str) {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let condition =
        json!({"type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": now});
    match conditions.iter_mut().find(|it| it["type"] == kind) {
        Some(it) if it["status"] == condition["status"] => {
            it["reason"] = condition["reason"].clone();
            it["message"] = condition["message"].clone();
        }
        Some(it) => *it = condition,
        None => conditions.push(condition),
    }
    status["conditions"] = conditions.into();
}

/// The last of its names that another resource of the group already has: what is said later goes over what was said
/// before, as upstream.
fn conflict(registry: &Registry, value: &Value) -> Option<(&'static str, String)> {
    let group = registry.group(value["spec"]["group"].as_str()?)?;
    let names = &value["spec"]["names"];
    let text = |key: &str| names[key].as_str().unwrap_or_default();
    let plural = text("plural");
    let short: Vec<&str> = names["shortNames"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let in_use = |it: &str| format!("\"{it}\" is already in use");
    let mut found = None;
    for other in group.values().filter(|it| it.plural != plural) {
        let taken = |name: &str| {
            other.plural == name || other.singular == name || other.short_names.iter().any(|it| it == name)
        };
        if taken(plural) {
            found = Some(("PluralConflict", in_use(plural)));
        }
        if taken(text("singular")) {
            found = Some(("SingularConflict", in_use(text("singular"))));
        }
        if let Some(name) = short.iter().find(|it| taken(it)) {
            found = Some(("ShortNamesConflict", in_use(name)));
        }
        if other.kind == text("kind") || other.list_kind == text("kind") {
            found = Some(("KindConflict", in_use(text("kind"))));
        }
        if other.kind == text("listKind") || other.list_kind == text("listKind") {
            found = Some(("ListKindConflict", in_use(text("listKind"))));
        }
    }
    found
}

/// Brings a registry up to date with a definition that was written or deleted (`deleted`).
pub fn register(registry: &mut Registry, converters: &Converters, object: &Object, deleted: bool) {
    let value = object.value();
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match Resource::from_crd(&value) {
        Some(mut resource) if !deleted => {
            if let Some(crd) = resource.crd.as_mut() {
                crd.converter = converters.find(&resource.id, &value);
                crd.since = object.revision;
            }
            registry.insert(Arc::new(resource));
        }
        _ => registry.remove(text("/spec/group"), text("/spec/names/plural")),
    }
}

/// Whether the object is a definition.
pub fn is_definition(object: &Object) -> bool {
    &*object.resource == kinds::CRDS
}
