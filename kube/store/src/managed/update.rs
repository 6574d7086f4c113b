//! What every write that is not an apply does to `metadata.managedFields`.

use super::{
    Ctx,
    compare::{Comparison, compare},
    entry::{self, ManagerEntry, Operation},
    versions::Differences,
};
use serde_json::{Map, Value};

/// Attributes what `new` changes against `live` to the manager, and takes it from all others.
///
/// `new` is the object as the client wants it (for a create, `live` is `None`), after decoding and defaulting and
/// before admission. A client may send `managedFields` itself: no entry or a single empty one clears them, anything
/// undecodable keeps the stored ones. An object without entries stays without them until the first apply.
pub fn update(live: Option<&Value>, new: &mut Value, ctx: &Ctx<'_>) {
    let given = new
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|it| it.remove("managedFields"));
    let stored = live.and_then(managed_fields);
    // A write through a subresource may not touch the entries themselves.
    let given = given.filter(|_| ctx.subresource.is_empty());
    let is_reset = given.as_ref().is_some_and(is_reset);
    let mut entries = match entry::decode(given.as_ref()) {
        _ if is_reset => Vec::new(),
        Some(entries) if !entries.is_empty() => entries,
        _ => entry::stored(stored),
    };
    if entries.is_empty() && live.is_some() {
        return;
    }
    let nothing = Value::Object(Map::new());
    attribute(&mut entries, live.unwrap_or(&nothing), new, ctx, ctx.manager);
    let encoded = entry::encode(entries);
    write_managed_fields(new, encoded);
}

/// Gives the manager what differs from `old` to `new`, and takes from every manager what changed or is gone.
pub(crate) fn attribute(entries: &mut Vec<ManagerEntry<'_>>, old: &Value, new: &Value, ctx: &Ctx<'_>, manager: &str) {
    entries.retain(|it| ctx.served.is_empty() || ctx.served.contains(&it.api_version.as_str()));
    let found = Differences::find(entries, old, new, ctx);
    found.take_away(entries, None);
    let changed = &found.own().changed;
    if !changed.is_empty() {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        let is_own = |it: &ManagerEntry<'_>| it.is(manager, Operation::Update, ctx.api_version, ctx.subresource);
        match entries.iter_mut().find(|it| is_own(it)) {
            Some(own) => {
                let union = own.set().union(changed);
                own.replace_set(union);
                own.set_time(&ctx.time());
            }
            None => {
                let mut own = ManagerEntry::new(
                    manager,
                    Operation::Update,
                    ctx.api_version,
                    ctx.subresource,
                    changed.clone(),
                );
                own.set_time(&ctx.time());
                entries.push(own);
            }
        }
    }
    entries.retain(|it| !it.is_empty());
    entry::cap(entries);
}

/// The comparison, without what this endpoint resets.
pub(crate) fn differences(old: &Value, new: &Value, ctx: &Ctx<'_>) -> Comparison {
    let found = compare(old, new, ctx.schema, ctx.built_in, &ctx.skipped());
    let resets = ctx.nested_resets();
    if resets.is_empty() {
        return found;
    }
    Comparison {
        changed: found.changed.recursive_difference(&resets),
        removed: found.removed.recursive_difference(&resets),
    }
}

/// An empty list, or one with one entry that says nothing, asks for all entries to be dropped.
/// Who leaves the list out knows nothing of it.
fn is_reset(fields: &Value) -> bool {
    let says_nothing = |entry: &Value| match entry {
        Value::Object(map) => map.values().all(|it| it.is_null() || it.as_str() == Some("")),
        _ => false,
    };
    match fields.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => says_nothing(entry),
        _ => false,
    }
}

pub(crate) fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

pub(crate) fn write_managed_fields(object: &mut Value, encoded: Option<Value>) {
    let Some(object) = object.as_object_mut() else { return };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    match encoded {
        Some(encoded) => metadata.insert("managedFields".to_owned(), encoded),
        None => metadata.remove("managedFields"),
    };
}

/// Whether writing `new` over `old` would change nothing: times of `managedFields`
/// and the resource version do not count.
pub fn no_op(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return old == new;
    };
    same_except(old, new, &["metadata"]) && {
        match (
            old.get("metadata").and_then(Value::as_object),
            new.get("metadata").and_then(Value::as_object),
        ) {
            (Some(old), Some(new)) => {
                same_except(old, new, &["resourceVersion", "managedFields"]) && same_entries(old, new)
            }
            _ => old.get("metadata") == new.get("metadata"),
        }
    }
}

fn same_entries(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let entries = |metadata: &Map<String, Value>| {
        metadata
            .get("managedFields")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    match (old.get("managedFields"), new.get("managedFields")) {
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            old.len() == new.len()
                && old
                    .iter()
                    .zip(new)
                    .all(|(old, new)| match (old.as_object(), new.as_object()) {
                        (Some(old), Some(new)) => same_except(old, new, &["time"]),
                        _ => old == new,
                    })
        }
        _ => entries(old) == entries(new),
    }
}

fn same_except(old: &Map<String, Value>, new: &Map<String, Value>, except: &[&str]) -> bool {
    let relevant = |map: &'_ Map<String, Value>| map.keys().filter(|key| !except.contains(&key.as_str())).count();
    relevant(old) == relevant(new)
        && old
            .iter()
            .filter(|(key, _)| !except.contains(&key.as_str()))
            .all(|(key, value)| new.get(key) == Some(value))
}
