//! Strategic merge patch: a merge patch that knows from the schema which lists merge by key, plus directives.
//!
//! Facts from Kubernetes `apimachinery/pkg/util/strategicpatch/patch.go`. Server side only: a patch meets an object, so
//! nulls that delete nothing are dropped and never stored.

use super::{decode_object, go_format};
use crate::{managed::meta::root_field, schema::Schema, status::Status};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch to `live` and gives the patched object.
pub fn apply(live: &Value, body: &[u8], schema: &Schema) -> Result<Value, Status> {
    let patch = decode_object(body)?;
    let live = live.as_object().cloned().unwrap_or_default();
    merge_map(live, patch, Node::Root(schema)).map(Value::Object)
}

/// Where in the schema a merge stands. Content without a schema merges maps and replaces lists.
#[derive(Clone, Copy)]
enum Node<'a> {
    Root(&'a Schema),
    At(Option<&'a Schema>),
}

impl<'a> Node<'a> {
    fn field(self, name: &str) -> Option<&'a Schema> {
        match self {
            Node::Root(root) => root_field(root, name),
            Node::At(at) => {
                let at = at?;
                at.properties.get(name).or(at.additional.as_ref()).map(AsRef::as_ref)
            }
        }
    }
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> Status {
    let whole = go_format(&Value::Object(map.clone()));
    Status::new(
        500,
        "",
        format!("unknown patch type: {} in map: {whole}", go_format(directive)),
    )
}

fn no_merge_key(item: &Value, key: &str) -> Status {
    Status::new(
        500,
        "",
        format!("map: {} does not contain declared merge key: {key}", go_format(item)),
    )
}

fn lists_of_lists() -> Status {
    let details = Some(Box::new(json!({})));
    Status {
        details,
        ..Status::new(422, "Invalid", "lists of lists are not supported")
    }
}

fn is_directive(key: &str) -> bool {
    key == DIRECTIVE || key == RETAIN_KEYS || key.starts_with(SET_ORDER) || key.starts_with(DELETE_PRIMITIVES)
}

fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    node: Node<'_>,
) -> Result<Map<String, Value>, Status> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                return Ok(patch);
            }
            Some("delete") => return Ok(Map::new()),
            Some("merge") => {
                patch.remove(DIRECTIVE);
            }
            _ => return Err(unknown_directive(directive, &patch)),
        }
    }
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        retain_keys(&mut original, &patch, &keys)?;
    }
    set_element_orders(&mut original, &mut patch, node)?;
    for (key, change) in patch {
        if let Some(field) = key.strip_prefix(DELETE_PRIMITIVES) {
            if let (Some(Value::Array(items)), Value::Array(gone)) = (original.get_mut(field), &change) {
                remove_items(items, gone);
            } else if !change.is_array() {
                return Err(Status::bad_request("invalid patch format of primitive list"));
            }
            continue;
        }
        if change.is_null() {
            original.remove(&key);
            continue;
        }
        let schema = node.field(&key);
        // An empty map is what Kubernetes does not write down, so there it is not in the object.
        let live = original.remove(&key).filter(|it| !is_empty_map(it, schema));
        let merged = match (live, change) {
            (Some(Value::Object(_)), Value::Object(mut change)) if schema.is_some_and(|it| it.patch_replace) => {
                change.remove(DIRECTIVE);
                Value::Object(change)
            }
            (Some(Value::Object(live)), Value::Object(change)) => {
                Value::Object(merge_map(live, change, Node::At(schema))?)
            }
            (Some(Value::Array(live)), Value::Array(change)) => Value::Array(merge_list(live, change, schema)?),
            (_, change) => match without_directives(change) {
                Some(kept) => kept,
                None => continue,
            },
        };
        original.insert(key, merged);
    }
    Ok(original)
}

/// `$retainKeys`: drops every live key that is not listed; the patch itself may only set listed keys.
fn retain_keys(original: &mut Map<String, Value>, patch: &Map<String, Value>, keys: &Value) -> Result<(), Status> {
    let malformed = || Status::bad_request("invalid patch format of retainKeys");
    let keys = keys.as_array().ok_or_else(malformed)?;
    let listed: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    if patch
        .keys()
        .any(|name| !is_directive(name) && !listed.contains(name.as_str()))
    {
        return Err(malformed());
    }
    original.retain(|name, _| listed.contains(name.as_str()));
    Ok(())
}

/// `$setElementOrder/<list>`: merges that list now and puts it into the given order.
fn set_element_orders(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    node: Node<'_>,
) -> Result<(), Status> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let field = &directive[SET_ORDER.len()..];
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(Status::bad_request("invalid patch format of setElementOrder list"));
        };
        // Removals first: the order given is the one the list shall have afterwards.
        let mut live = original.remove(field);
        if let (Some(Value::Array(items)), Some(Value::Array(gone))) =
            (&mut live, patch.remove(&format!("{DELETE_PRIMITIVES}{field}")))
        {
            remove_items(items, &gone);
        }
        let schema = node.field(field);
        let key = merge_key(schema);
        if let Some(Value::Array(change)) = patch.get(field) {
            check_order(change, &order, key)?;
        }
        let server_order = match &live {
            Some(Value::Array(items)) => items.clone(),
            _ => Vec::new(),
        };
        let merged = match (live, patch.remove(field)) {
            (None, None) => continue,
            (Some(live), Some(Value::Null)) => {
                drop(live);
                continue;
            }
            (Some(Value::Array(live)), Some(Value::Array(change))) => merge_list(live, change, schema)?,
            (Some(Value::Array(live)), None) => live,
            (_, Some(change)) => match without_directives(change) {
                Some(Value::Array(items)) => items,
                Some(other) => {
                    original.insert(field.to_owned(), other);
                    continue;
                }
                None => continue,
            },
            (Some(other), None) => {
                original.insert(field.to_owned(), other);
                continue;
            }
        };
        original.insert(
            field.to_owned(),
            Value::Array(arrange(merged, &order, &server_order, key)),
        );
    }
    Ok(())
}

/// The items a patch sets must be in the order list, in the same relative order.
fn check_order(change: &[Value], order: &[Value], key: Option<&str>) -> Result<(), Status> {
    let mut from = 0;
    for item in change.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let Some(at) = order[from..].iter().position(|it| same_item(it, item, key)) else {
            let patch = go_format(&Value::Array(change.to_vec()));
            let order = go_format(&Value::Array(order.to_vec()));
            let message =
                format!("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n");
            return Err(Status::new(500, "", message));
        };
        from += at + 1;
    }
    Ok(())
}

fn merge_key(schema: Option<&Schema>) -> Option<&str> {
    schema.and_then(|it| it.patch_merge_key.as_deref())
}

fn same_item(left: &Value, right: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) if left.is_object() || right.is_object() => {
            matches!((left.get(key), right.get(key)), (Some(left), Some(right)) if left == right)
        }
        _ => left == right,
    }
}

fn merge_list(mut original: Vec<Value>, change: Vec<Value>, schema: Option<&Schema>) -> Result<Vec<Value>, Status> {
    if !schema.is_some_and(|it| it.patch_merge) {
        return Ok(change.into_iter().filter_map(without_directives).collect());
    }
    if original.is_empty() && change.is_empty() {
        return Ok(original);
    }
    if change.iter().chain(&original).any(Value::is_array) {
        return Err(lists_of_lists());
    }
    if !change.iter().chain(&original).any(Value::is_object) {
        let mut seen = HashSet::new();
        let both = original.iter().chain(&change);
        let merged = both.filter(|it| seen.insert(it.to_string())).cloned().collect();
        return Ok(arrange(merged, &change, &original, None));
    }
    let Some(key) = merge_key(schema) else {
        return Err(Status::new(500, "", "cannot merge lists without merge key"));
    };
    let mut replace = false;
    let mut deleted = HashSet::new();
    let mut sets = Vec::with_capacity(change.len());
    for item in change {
        let Some(directive) = item.get(DIRECTIVE) else {
            sets.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let gone = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                deleted.insert(gone.to_string());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Status::new(
                    500,
                    "",
                    "merging lists cannot yet be specified in the patch",
                ));
            }
            _ => return Err(unknown_directive(directive, item.as_object().unwrap_or(&Map::new()))),
        }
    }
    if replace {
        return Ok(sets);
    }
    if !deleted.is_empty() {
        original.retain(|it| it.get(key).is_none_or(|it| !deleted.contains(&it.to_string())));
    }
    let order: Vec<Value> = sets.iter().map(|item| json!({key: item.get(key)})).collect();
    let server_order: Vec<Value> = original.iter().map(|item| json!({key: item.get(key)})).collect();
    let items = schema.and_then(|it| it.items.as_deref());
    let mut merged = original;
    let mut places = HashMap::new();
    for (at, item) in merged.iter().enumerate() {
        if let Some(name) = item.get(key) {
            places.entry(name.to_string()).or_insert(at);
        }
    }
    for set in sets {
        let Some(name) = set.get(key).map(Value::to_string) else {
            return Err(no_merge_key(&set, key));
        };
        let found = places.get(&name).map(|at| &mut merged[*at]);
        match (found, set) {
            (Some(live), Value::Object(set)) => {
                let before = live.as_object_mut().map(std::mem::take).unwrap_or_default();
                *live = Value::Object(merge_map(before, set, Node::At(items))?);
            }
            (_, set) => {
                if let Some(new) = without_directives(set) {
                    places.entry(name).or_insert(merged.len());
                    merged.push(new);
                }
            }
        }
    }
    Ok(arrange(merged, &order, &server_order, Some(key)))
}

/// Orders a merged list: items that the patch names follow its order, the others keep theirs, and the two are
/// interleaved so that an item only the server has goes first only where it stood before the next patched one.
fn arrange(merged: Vec<Value>, patch_order: &[Value], server_order: &[Value], key: Option<&str>) -> Vec<Value> {
    let (patch_ranks, server_ranks) = (ranks(patch_order, key), ranks(server_order, key));
    let rank = |ranks: &HashMap<String, usize>, item: &Value| ranks.get(&identity(item, key)?).copied();
    let mut patched = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let on_server = rank(&server_ranks, &item);
        match rank(&patch_ranks, &item) {
            Some(in_patch) => patched.push((in_patch, on_server, item)),
            None => others.push((on_server, item)),
        }
    }
    patched.sort_by_key(|(in_patch, ..)| *in_patch);
    others.sort_by_key(|(on_server, _)| on_server.unwrap_or(usize::MAX));
    let mut result = Vec::with_capacity(patched.len() + others.len());
    let (mut patched, mut others) = (patched.into_iter().peekable(), others.into_iter().peekable());
    while let (Some((_, right, _)), Some((left, _))) = (patched.peek(), others.peek()) {
        let before = matches!((left, right), (Some(left), Some(right)) if left < right);
        if before {
            result.extend(others.next().map(|(_, item)| item));
        } else {
            result.extend(patched.next().map(|(.., item)| item));
        }
    }
    result.extend(patched.map(|(.., item)| item));
    result.extend(others.map(|(_, item)| item));
    result
}

/// What tells an item from the others of its list, as a text; an object without the key is like no other. Lists may be
/// long: looking for each item of one in another would take far too long.
fn identity(item: &Value, key: Option<&str>) -> Option<String> {
    match key {
        Some(key) if item.is_object() => Some(format!("key {}", item.get(key)?)),
        _ => Some(item.to_string()),
    }
}

/// Where each item stands first.
fn ranks(order: &[Value], key: Option<&str>) -> HashMap<String, usize> {
    let mut ranks = HashMap::with_capacity(order.len());
    for (at, item) in order.iter().enumerate() {
        if let Some(identity) = identity(item, key) {
            ranks.entry(identity).or_insert(at);
        }
    }
    ranks
}

fn remove_items(items: &mut Vec<Value>, gone: &[Value]) {
    let gone: HashSet<String> = gone.iter().map(Value::to_string).collect();
    items.retain(|it| !gone.contains(&it.to_string()));
}

/// What a patch says of a part that the object does not have, nulls and directives left out. A map with a directive is
/// nothing at all then, whatever the directive is: it speaks of what is not there.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => return None,
        Value::Object(map) => {
            let kept = map
                .into_iter()
                .filter(|(key, value)| !is_directive(key) && !value.is_null());
            let kept = kept.filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().filter_map(without_directives).collect()),
        other => other,
    })
}

/// Whether it is a map without entries, of the kind whose keys are the user's.
fn is_empty_map(value: &Value, schema: Option<&Schema>) -> bool {
    value.as_object().is_some_and(Map::is_empty)
        && schema.is_some_and(|it| it.additional.is_some() && it.properties.is_empty())
}
