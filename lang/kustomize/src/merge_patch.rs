//! Strategic merge patches.
//! Upstream: kyaml's yaml/merge2 and yaml/walk. The result is theirs, also where it surprises: lists are merged by the
//! keys of the definitions, items of the patch come first, and `$patch: replace` of an item leaves the old item as it
//! is.

use std::{cell::RefCell, collections::HashMap};

use crate::{
    error::{KustomizeError, Result},
    merge_keys::MergeSchema,
    node::{YamlNode, quote_if_needed},
    scalar::{Scalar, Style},
};

/// Applies a patch. Nothing is left of an object that the patch deletes.
pub(crate) fn apply(object: YamlNode, patch: YamlNode) -> Result<Option<YamlNode>> {
    let merged = merge(&OneValues::default(), None, Some(object), Some(patch), false)?;
    Ok(match merged {
        Merged::Nothing => None,
        Merged::Kept(node) | Merged::Replaced(node) | Merged::Null(node) => Some(node),
    })
}

/// What became of a value.
enum Merged {
    Nothing,
    /// The old value, changed in its place.
    Kept(YamlNode),
    /// Another one in its place.
    Replaced(YamlNode),
    /// A null that somebody has written, and that stays.
    Null(YamlNode),
}

fn schema_of(schema: Option<MergeSchema>, nodes: [Option<&YamlNode>; 2]) -> Option<MergeSchema> {
    if schema.is_some() {
        return schema;
    }
    nodes.into_iter().flatten().find_map(|it| {
        let text = |field: &str| {
            it.get(field)
                .filter(|it| !it.is_empty())
                .map_or("", YamlNode::value_text)
        };
        MergeSchema::of_kind(text("apiVersion"), text("kind"))
    })
}

/// Merges the patch `new` into `old`. `same` says that both are one and the same value, which is merged with itself:
/// that is how upstream cleans up what a patch adds.
fn merge(
    one_values: &OneValues,
    schema: Option<MergeSchema>,
    old: Option<YamlNode>,
    new: Option<YamlNode>,
    same: bool,
) -> Result<Merged> {
    let schema = schema_of(schema, [old.as_ref(), new.as_ref()]);
    let first = old
        .as_ref()
        .filter(|it| !it.is_null())
        .or(new.as_ref().filter(|it| !it.is_null()));
    let Some(first) = first else {
        return Ok(match (old, new) {
            (Some(old), None) if !old.text().is_empty() => Merged::Null(old),
            _ => Merged::Nothing,
        });
    };
    for other in [&old, &new].into_iter().flatten().filter(|it| !it.is_null()) {
        if std::mem::discriminant(other) != std::mem::discriminant(first) {
            return Err(KustomizeError::wrong(format!(
                "the patch has {} where {} is",
                new.as_ref().map_or("nothing", YamlNode::what),
                old.as_ref().map_or("nothing", YamlNode::what)
            )));
        }
    }
    match first {
        YamlNode::Map(_) => merge_maps(one_values, schema, old, new, same),
        YamlNode::List(_) => match schema.and_then(|it| it.merged_list()) {
            Some(keys) => merge_lists(one_values, schema, keys, old, new, same),
            None => Ok(new_or_old(old, new)),
        },
        YamlNode::Scalar(_) => Ok(new_or_old(old, new)),
    }
}

fn new_or_old(old: Option<YamlNode>, new: Option<YamlNode>) -> Merged {
    match (old, new) {
        (_, Some(new)) if new.is_null() => Merged::Nothing,
        (_, Some(new)) => Merged::Replaced(new),
        (Some(old), None) => Merged::Kept(old),
        (None, None) => Merged::Nothing,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(text: &str) -> Result<Directive> {
    match text {
        "merge" => Ok(Directive::Merge),
        "replace" => Ok(Directive::Replace),
        "delete" => Ok(Directive::Delete),
        other => Err(KustomizeError::wrong(format!(
            "`$patch: {other}` is none of delete, merge and replace"
        ))),
    }
}

/// Takes the directive out of a patch.
fn take_directive(patch: Option<&mut YamlNode>) -> Result<Directive> {
    match patch {
        Some(patch @ YamlNode::Map(_)) => {
            let Some(found) = patch.get("$patch") else {
                return Ok(Directive::Merge);
            };
            let found = directive(found.text())?;
            patch.remove("$patch");
            Ok(found)
        }
        Some(YamlNode::List(items)) => {
            let first = items.iter().find_map(|it| it.get("$patch").map(|value| (it, value)));
            match first {
                Some((YamlNode::Map(fields), value)) if fields.len() == 1 => {
                    let text = value.text().to_owned();
                    let found = directive(&text)?;
                    remove_item(items, &["$patch"], &[text]);
                    Ok(found)
                }
                _ => Ok(Directive::Merge),
            }
        }
        _ => Ok(Directive::Merge),
    }
}

/// What the values of a map or list are merged of, once the directive is known.
struct Start {
    old: YamlNode,
    new: Option<YamlNode>,
    same: bool,
    kept: bool,
}

fn start(old: Option<YamlNode>, mut new: Option<YamlNode>, same: bool) -> Result<Option<Start>> {
    let is_list = matches!(new, Some(YamlNode::List(_)));
    let mut old = match old {
        Some(old) if !old.is_null() => old,
        _ => {
            // What is added.
            // An unknown directive is let through here, as upstream does.
            if !is_list && matches!(take_directive(new.as_mut()), Ok(Directive::Delete)) {
                return Ok(None);
            }
            return Ok(new.map(|new| Start {
                old: new.clone(),
                new: Some(new),
                same: true,
                kept: false,
            }));
        }
    };
    if new.as_ref().is_some_and(YamlNode::is_null) {
        return Ok(None);
    }
    let directive = take_directive(new.as_mut())?;
    if same {
        take_directive(Some(&mut old))?;
    }
    match (directive, new) {
        (Directive::Delete, _) => Ok(None),
        (Directive::Replace, Some(new)) => Ok(Some(Start {
            old: new.clone(),
            new: Some(new),
            same: true,
            kept: same,
        })),
        (_, new) => Ok(Some(Start {
            old,
            new,
            same,
            kept: true,
        })),
    }
}

fn merge_maps(
    one_values: &OneValues,
    schema: Option<MergeSchema>,
    old: Option<YamlNode>,
    new: Option<YamlNode>,
    same: bool,
) -> Result<Merged> {
    let Some(Start {
        mut old,
        mut new,
        same,
        kept,
    }) = start(old, new, same)?
    else {
        return Ok(Merged::Nothing);
    };
    let mut names = Vec::new();
    for node in [Some(&old), new.as_ref()].into_iter().flatten() {
        if let YamlNode::Map(fields) = node {
            names.extend(fields.iter().map(|it| it.0.clone()));
        }
    }
    names.sort();
    names.dedup();
    for name in names {
        let (old_value, new_value) = (old.get(&name).cloned(), new.as_mut().and_then(|it| it.remove(&name)));
        let merged = merge(
            one_values,
            schema.and_then(|it| it.field(&name)),
            old_value,
            new_value,
            same,
        )
        .map_err(|error| KustomizeError {
            message: if error.message.starts_with('`') {
                format!("`{name}.{}", &error.message[1..])
            } else {
                format!("`{name}`: {}", error.message)
            },
            ..error
        })?;
        match merged {
            Merged::Nothing => {
                old.remove(&name);
            }
            Merged::Kept(YamlNode::Scalar(_)) => {
                if let Some(YamlNode::Scalar(kept)) = old.get_mut(&name) {
                    one_values.refresh(kept);
                    quote_if_needed(kept);
                    one_values.note(kept);
                }
            }
            Merged::Null(_) => {}
            Merged::Kept(value) | Merged::Replaced(value) => put(one_values, &mut old, &name, value),
        }
    }
    Ok(if kept { Merged::Kept(old) } else { Merged::Replaced(old) })
}

// A value that takes the place of another one is written as that one was.
fn put(one_values: &OneValues, map: &mut YamlNode, name: &str, value: YamlNode) {
    match (map.get_mut(name), value) {
        (Some(YamlNode::Scalar(old)), YamlNode::Scalar(new)) => {
            one_values.refresh(old);
            old.become_value_of(new);
            one_values.note(old);
        }
        (_, YamlNode::Scalar(mut value)) => {
            quote_if_needed(&mut value);
            map.put(name, YamlNode::Scalar(value));
        }
        (_, value) => map.put(name, value),
    }
}

/// What has become of values that are one, until the object is whole again.
#[derive(Default)]
struct OneValues(RefCell<HashMap<u64, Scalar>>);

impl OneValues {
    fn refresh(&self, scalar: &mut Scalar) {
        if let Some(newest) = scalar.shared.and_then(|it| self.0.borrow().get(&it.id()).cloned()) {
            *scalar = newest;
        }
    }

    fn note(&self, scalar: &Scalar) {
        if let Some(shared) = scalar.shared {
            self.0.borrow_mut().insert(shared.id(), scalar.clone());
        }
    }
}

fn merge_lists(
    one_values: &OneValues,
    schema: Option<MergeSchema>,
    keys: &'static [&'static str],
    old: Option<YamlNode>,
    new: Option<YamlNode>,
    same: bool,
) -> Result<Merged> {
    let Some(Start { old, new, same, kept }) = start(old, new, same)? else {
        return Ok(Merged::Nothing);
    };
    let YamlNode::List(mut old) = old else {
        return Ok(Merged::Nothing);
    };
    let mut new_items = match new {
        Some(YamlNode::List(items)) => items,
        _ => Vec::new(),
    };
    let mut wanted = if keys.is_empty() {
        single_values(&new_items, &old)
    } else {
        values_of(&new_items, &old, keys)
    };
    let keys: &[&str] = if keys.is_empty() { &[""] } else { keys };
    if keys.len() > 1 {
        match_up(&mut wanted);
    }
    let items_schema = schema.and_then(|it| it.items());
    let mut added: Vec<YamlNode> = Vec::new();
    let mut last_keys: Vec<&str> = Vec::new();
    for values in &wanted {
        let (valid_keys, valid_values) = valid(&wanted, values, keys);
        last_keys.clone_from(&valid_keys);
        // Of a single item, only those keys are looked at that have a value.
        let (item_keys, item_values) = valid(std::slice::from_ref(&valid_values), &valid_values, &valid_keys);
        let old_at = position(&old, &item_keys, &item_values);
        let old_item = old_at.map(|at| old[at].clone());
        // A directive is taken out of the item for good: who comes to it again finds none.
        let new_item = if same {
            if let Some(at) = old_at {
                take_directive(Some(&mut old[at]))?;
            }
            old_item.clone()
        } else {
            position(&new_items, &item_keys, &item_values)
                .map(|at| {
                    let item = new_items[at].clone();
                    take_directive(Some(&mut new_items[at])).map(|_| item)
                })
                .transpose()?
        };
        let merged = merge(one_values, items_schema, old_item, new_item, same)?;
        let (mut value, in_place) = match merged {
            Merged::Nothing => (None, false),
            Merged::Kept(value) => (Some(value), true),
            Merged::Replaced(value) | Merged::Null(value) => (Some(value), false),
        };
        if let (Some(value), true, Some(at)) = (&value, in_place, old_at) {
            old[at] = value.clone();
        }
        if value
            .as_ref()
            .is_none_or(|it| it.is_null() || matches!(it, YamlNode::Map(fields) if fields.is_empty()))
        {
            remove_item(&mut old, &valid_keys, &valid_values);
            continue;
        }
        if let Some(value) = value.as_mut() {
            for (key, text) in valid_keys.iter().zip(&valid_values) {
                if !key.is_empty() && value.get(key).is_none() && !text.is_empty() {
                    value.set_field(key, Scalar::untagged(text.clone(), Style::Plain))?;
                }
            }
        }
        if let Some(value) = value {
            if in_place && let Some(at) = old_at {
                old[at] = value.clone();
            }
            set_item(&mut added, value, &valid_keys, &valid_values);
        }
    }
    if !wanted.is_empty() {
        old = appended(added, old, &last_keys);
    }
    let list = YamlNode::List(old);
    Ok(if kept {
        Merged::Kept(list)
    } else {
        Merged::Replaced(list)
    })
}

/// The values of the keys of all items, those of the patch first.
fn values_of(new: &[YamlNode], old: &[YamlNode], keys: &[&str]) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for item in new.iter().chain(old) {
        let value = |key: &&str| {
            item.get(key)
                .filter(|it| !it.is_empty())
                .map_or("", YamlNode::text)
                .to_owned()
        };
        let values: Vec<_> = keys.iter().map(value).collect();
        if !found.contains(&values) {
            found.push(values);
        }
    }
    found
}

fn single_values(new: &[YamlNode], old: &[YamlNode]) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for item in new.iter().chain(old) {
        let values = vec![item.text().to_owned()];
        if !found.contains(&values) {
            found.push(values);
        }
    }
    found
}

/// Values that agree where both have one are those of one item.
fn match_up(all: &mut [Vec<String>]) {
    for i in 0..all.len() {
        let first = all[i].clone();
        for j in 0..all.len() {
            if let Some(both) = matched(&first, &all[j]) {
                all[i].clone_from(&both);
                all[j] = both;
            }
        }
    }
}

fn matched(a: &[String], b: &[String]) -> Option<Vec<String>> {
    if a.len() != b.len() {
        return None;
    }
    let mut common = false;
    let mut both = Vec::new();
    for (a, b) in a.iter().zip(b) {
        if a == b {
            common = true;
            both.push(a.clone());
        } else if !a.is_empty() && !b.is_empty() {
            return None;
        } else {
            both.push(if a.is_empty() { b.clone() } else { a.clone() });
        }
    }
    common.then_some(both)
}

/// The keys that any of the items has, and the values of one.
fn valid<'a>(all: &[Vec<String>], values: &[String], keys: &[&'a str]) -> (Vec<&'a str>, Vec<String>) {
    let used = |at: usize| all.iter().any(|it| it.get(at).is_some_and(|it| !it.is_empty()));
    if !(0..keys.len()).any(used) {
        return (keys.to_vec(), values.to_vec());
    }
    let valid_keys = keys
        .iter()
        .enumerate()
        .filter(|it| used(it.0))
        .map(|it| *it.1)
        .collect();
    let valid_values = values
        .iter()
        .enumerate()
        .filter(|it| !it.1.is_empty() || used(it.0))
        .map(|it| it.1.clone());
    (valid_keys, valid_values.collect())
}

fn field_is(item: &YamlNode, key: &str, value: &str) -> bool {
    if item.is_null() {
        return false;
    }
    if key.is_empty() {
        return matches!(item, YamlNode::Scalar(_)) && item.value_text() == value;
    }
    item.get(key).is_some_and(|it| it.text() == value)
}

/// The first item with these values.
fn position(items: &[YamlNode], keys: &[&str], values: &[String]) -> Option<usize> {
    if keys.first().is_none_or(|it| it.is_empty()) {
        let wanted = values.first().map_or("", String::as_str);
        return items.iter().position(|it| it.text() == wanted);
    }
    items.iter().position(|item| {
        matches!(item, YamlNode::Map(_)) && keys.iter().zip(values).all(|(key, value)| field_is(item, key, value))
    })
}

/// Replaces the items with these values by one, or takes them away; whether there were any. Empty items go as well.
fn change_items(items: &mut Vec<YamlNode>, item: Option<&YamlNode>, keys: &[&str], values: &[String]) -> bool {
    let by_fields = keys.first().is_some_and(|it| !it.is_empty()) && values.first().is_some_and(|it| !it.is_empty());
    let mut found = false;
    let mut kept = Vec::with_capacity(items.len());
    for old in std::mem::take(items) {
        if old.is_null() || matches!(&old, YamlNode::Map(fields) if fields.is_empty()) {
            continue;
        }
        if !matches!(old, YamlNode::Map(_)) && by_fields {
            kept.push(old);
            continue;
        }
        let fits = !values.is_empty()
            && keys
                .iter()
                .zip(values)
                .all(|(key, value)| match value.is_empty() && !key.is_empty() {
                    // Without a value, it is enough that the field is there.
                    true => old.get(key).is_some(),
                    false => field_is(&old, key, value),
                });
        if !fits {
            if !values.is_empty() {
                kept.push(old);
            }
            continue;
        }
        found = true;
        kept.extend(item.cloned());
    }
    *items = kept;
    found
}

fn remove_item(items: &mut Vec<YamlNode>, keys: &[&str], values: &[String]) {
    change_items(items, None, keys, values);
}

fn set_item(items: &mut Vec<YamlNode>, item: YamlNode, keys: &[&str], values: &[String]) {
    if !change_items(items, Some(&item), keys, values) {
        items.push(item);
    }
}

/// The items of `more` behind those of `list`, each once.
fn appended(mut list: Vec<YamlNode>, more: Vec<YamlNode>, keys: &[&str]) -> Vec<YamlNode> {
    for item in more {
        if keys.first().is_none_or(|it| it.is_empty()) {
            let value = item.text().to_owned();
            set_item(&mut list, item, &[""], &[value]);
            continue;
        }
        let mut values = Vec::new();
        for key in keys {
            match item.get(key) {
                Some(value) => values.push(value.text().to_owned()),
                None => list.push(item.clone()),
            }
        }
        if keys.len() > 1 {
            remove_item(&mut list, keys, &values);
        }
        set_item(&mut list, item, keys, &values);
    }
    list
}
