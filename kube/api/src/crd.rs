//! CustomResourceDefinitions: checked, established at once, and turned into resources.

use crate::{
    call::Call,
    object_meta,
    registry::{CLEANUP_FINALIZER, Registry, is_established},
};
use kube_store::{
    schema::structural,
    status::{FieldError, Status},
};
use serde_json::{Value, json};

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
    let finalizers = object_meta::metadata(value)
        .entry("finalizers")
        .or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|it| it == CLEANUP_FINALIZER)
    {
        list.push(CLEANUP_FINALIZER.into());
    }
}

/// Establishes a definition, or says which of its names is taken. Upstream does this a moment later in a controller;
/// here a definition serves as soon as its creation is answered.
///
/// Of the names that it asks for it gets those that are free, and keeps what it had of the others;
/// one that serves goes on serving.
pub fn accept(call: &Call<'_>, value: &mut Value) {
    let now = object_meta::seconds(call.now);
    let registry = call.server.registry.load();
    let (accepted, conflict) = settle_names(&registry, value);
    let stored = storage_version(value);
    let was_established = is_established(value);
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
    let is_free = conflict.is_none();
    let names_accepted = match conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", reason, message),
    };
    set_condition(status, "NamesAccepted", names_accepted, &now);
    if was_established {
        return;
    }
    let established = if is_free {
        let message = "the initial names have been accepted".to_owned();
        ("True", "InitialNamesAccepted", message)
    } else {
        ("False", "NotAccepted", "not all names are accepted".to_owned())
    };
    set_condition(status, "Established", established, &now);
}

/// Checks and defaults of a changed definition.
///
/// # Errors
/// 422 with one cause per rule that it breaks.
pub fn prepare_update(call: &Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
    if call.subresource == "status" {
        // Which names it has is not for a client to say.
        for condition in ["NamesAccepted", "Established"] {
            let conditions = old["status"]["conditions"].as_array().into_iter().flatten();
            let mut before = conditions.filter(|it| it["type"] == condition).cloned();
            put_back(&mut new["status"], condition, before.next());
        }
        new["status"]["acceptedNames"] = old["status"]["acceptedNames"].clone();
        let errors = stored_version_errors(new);
        if !errors.is_empty() {
            return Err(call.invalid(&call.name, &errors));
        }
        return Ok(());
    }
    structural::default_crd(new);
    let errors = structural::check_crd_update(new, old);
    if !errors.is_empty() {
        return Err(call.invalid(&call.name, &errors));
    }
    Ok(())
}

/// Looks at the names of a changed definition again; any write to its status has it done.
pub fn settle_update(call: &Call<'_>, old: &Value, new: &mut Value) {
    if call.subresource == "status" || old["spec"] != new["spec"] {
        accept(call, new);
    }
}

/// A version in which objects may be stored must stay, and this list says which those are.
fn stored_version_errors(value: &Value) -> Vec<FieldError> {
    let field = "status.storedVersions";
    let given = &value["status"]["storedVersions"];
    let stored = given.as_array().map(Vec::as_slice).unwrap_or_default();
    if stored.is_empty() {
        return vec![FieldError::invalid(
            field,
            given,
            "must have at least one stored version",
        )];
    }
    let mut errors = Vec::new();
    let storage = storage_version(value);
    if !stored.iter().any(|it| *it == storage) {
        let detail = format!("must have the storage version {storage}");
        errors.push(FieldError::invalid(field, given, detail));
    }
    let versions = value["spec"]["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (at, it) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *it) {
            let detail = "must appear in spec.versions";
            errors.push(FieldError::invalid(format!("{field}[{at}]"), it, detail));
        }
    }
    errors
}

/// A condition as it was.
fn put_back(status: &mut Value, kind: &str, before: Option<Value>) {
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let at = conditions.iter().position(|it| it["type"] == kind);
    match (at, before) {
        (Some(at), Some(before)) => conditions[at] = before,
        (Some(at), None) => drop(conditions.remove(at)),
        (None, Some(before)) => conditions.push(before),
        (None, None) => {}
    }
    status["conditions"] = conditions.into();
}

/// Shows in a definition that its objects are about to be deleted.
pub fn mark_terminating(value: &mut Value, now: jiff::Timestamp) {
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let condition = ("True", "InstanceDeletionPending", message.to_owned());
    set_condition(
        &mut value["status"],
        "Terminating",
        condition,
        &object_meta::seconds(now),
    );
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

/// The names that a definition has from now on, and the last conflict of those that it asks for: what is said later
/// goes over what was said before, as upstream.
fn settle_names(registry: &Registry, value: &Value) -> (Value, Option<(&'static str, String)>) {
    let wanted = &value["spec"]["names"];
    let before = &value["status"]["acceptedNames"];
    let group = value["spec"]["group"].as_str().and_then(|it| registry.group(it));
    let plural = wanted["plural"].as_str().unwrap_or_default();
    let others = || {
        group
            .into_iter()
            .flatten()
            .filter(|(it, _)| *it != plural)
            .map(|it| it.1)
    };
    let is_name = |name: &str| {
        others().any(|it| it.plural == name || it.singular == name || it.short_names.iter().any(|it| it == name))
    };
    let is_kind = |name: &str| others().any(|it| it.kind == name || it.list_kind == name);
    let mut accepted = wanted.clone();
    let mut found = None;
    for (key, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ] {
        let names: Vec<&str> = match &wanted[key] {
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            name => name.as_str().into_iter().collect(),
        };
        let is_own = |name: &&str| match &before[key] {
            Value::Array(names) => names.iter().any(|it| it == name),
            it => it == name,
        };
        let is_taken = |name: &&str| match key {
            "kind" | "listKind" => is_kind(name),
            _ => is_name(name),
        };
        let taken = names.into_iter().find(|it| !is_own(it) && is_taken(it));
        if let Some(name) = taken {
            found = Some((reason, format!("\"{name}\" is already in use")));
            accepted[key] = match (&before[key], key) {
                (Value::Null, "plural" | "kind") => "".into(),
                (before, _) => before.clone(),
            };
        }
    }
    if let Some(names) = accepted.as_object_mut() {
        names.retain(|_, it| !it.is_null());
    }
    (accepted, found)
}
