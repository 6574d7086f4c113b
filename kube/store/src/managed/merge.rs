//! Merging an applied configuration into the live object, and taking out what its manager no longer wants.

use super::{
    path::PathElement,
    set::{FieldNode, FieldSet},
    typed::{At, List},
};
use serde_json::{Map, Value};

/// Sets in `live` all that `config` sets; nothing is removed.
pub(crate) fn merge(live: &mut Value, config: &Value, at: At<'_>) {
    match (live, config) {
        (Value::Object(live), Value::Object(config)) if !at.is_atomic_map() => merge_maps(live, config, at),
        // Most lists are applied again as they are.
        (Value::Array(live), Value::Array(config)) if live == config => {}
        (Value::Array(live), Value::Array(config)) => {
            let list = at.list();
            let elements = list.elements(live).zip(list.elements(config));
            match elements {
                Some((live_elements, config_elements)) => {
                    let items = std::mem::take(live);
                    *live = merge_lists(
                        Side {
                            items,
                            elements: live_elements,
                        },
                        config,
                        &config_elements,
                        list.items(),
                    );
                }
                None => *live = config.clone(),
            }
        }
        // Null says nothing about what is inside a granular container.
        (Value::Object(_), Value::Null) if !at.is_atomic_map() => {}
        (Value::Array(_), Value::Null) if !matches!(at.list(), List::Atomic) => {}
        (live, config) => *live = config.clone(),
    }
}

pub(crate) fn merge_maps(live: &mut Map<String, Value>, config: &Map<String, Value>, at: At<'_>) {
    for (key, value) in config {
        // The server sets these; an old client may send `creationTimestamp: null`.
        if matches!(at, At::Metadata(_)) && matches!(key.as_str(), "creationTimestamp" | "managedFields" | "selfLink") {
            continue;
        }
        match live.get_mut(key) {
            Some(live) => merge(live, value, at.child(key).at),
            None => {
                live.insert(key.clone(), value.clone());
            }
        }
    }
}

struct Side {
    items: Vec<Value>,
    elements: Vec<PathElement>,
}

/// For each element, where it stands on the other side; `Duplicated` when it stands there more than once.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Nowhere,
    At(usize),
    Duplicated(usize),
}

impl Place {
    fn index(self) -> Option<usize> {
        match self {
            Place::Nowhere => None,
            Place::At(at) | Place::Duplicated(at) => Some(at),
        }
    }
}

fn places(of: &[PathElement], on: &[PathElement]) -> Vec<Place> {
    let mut sorted: Vec<usize> = (0..on.len()).collect();
    sorted.sort_by(|left, right| on[*left].cmp(&on[*right]).then(left.cmp(right)));
    let place = |element: &PathElement| {
        let from = sorted.partition_point(|at| on[*at] < *element);
        let same = |at: usize| sorted.get(at).is_some_and(|at| on[*at] == *element);
        match (same(from), same(from + 1)) {
            (false, _) => Place::Nowhere,
            (true, false) => Place::At(sorted[from]),
            (true, true) => Place::Duplicated(sorted[from]),
        }
    };
    of.iter().map(place).collect()
}

/// Merges two keyed lists or sets: live order is kept, new items come where the configuration has them, and items on
/// both sides follow the order of the configuration where the two orders differ.
fn merge_lists(live: Side, config: &[Value], config_elements: &[PathElement], items: At<'_>) -> Vec<Value> {
    let in_config = places(&live.elements, config_elements);
    let in_live = places(config_elements, &live.elements);
    let mut live_items: Vec<Option<Value>> = live.items.into_iter().map(Some).collect();
    let mut shared = (0..config.len()).filter(|at| in_live[*at] != Place::Nowhere);
    let mut next_shared = shared.next();
    let mut done = vec![false; config.len()];
    let mut result = Vec::with_capacity(live_items.len() + config.len());
    let (mut left, mut right) = (0, 0);
    while left < live_items.len() || right < config.len() {
        if left < live_items.len() {
            match in_config[left].index() {
                None => {
                    result.extend(live_items[left].take());
                    left += 1;
                    continue;
                }
                Some(at) if at == right && right < config.len() => {
                    done[at] = true;
                    result.push(merged_item(&mut live_items, in_live[at], &config[at], items));
                    next_shared = shared.next();
                    left += 1;
                    right += 1;
                    continue;
                }
                // A shared item whose turn, in the order of the configuration, is another time.
                Some(at) if done[at] || (right < config.len() && next_shared != Some(at)) => {
                    left += 1;
                    continue;
                }
                Some(_) => {}
            }
        }
        if right < config.len() {
            done[right] = true;
            result.push(merged_item(&mut live_items, in_live[right], &config[right], items));
            if next_shared == Some(right) {
                next_shared = shared.next();
            }
            right += 1;
        } else {
            left += 1;
        }
    }
    result
}

fn merged_item(live: &mut [Option<Value>], place: Place, config: &Value, items: At<'_>) -> Value {
    // Of duplicates none is the one to merge with, so the configuration's item replaces them all.
    let Place::At(at) = place else { return config.clone() };
    let Some(mut item) = live[at].take() else {
        return config.clone();
    };
    merge(&mut item, config, items);
    item
}

/// Takes out of `value` what is in `last` (what the manager owned before) and not in `owned` (what anyone owns now).
pub(crate) fn prune(value: &mut Value, at: At<'_>, last: &FieldSet, owned: &FieldSet, keeps_empty: bool) {
    match value {
        Value::Object(map) if !at.is_atomic_map() => {
            for entry in last.entries() {
                let PathElement::Field(name) = &entry.element else {
                    continue;
                };
                let Some(value) = map.get_mut(&**name) else { continue };
                let child = at.child(name);
                let owner = owned.field(name);
                // A struct belongs to whoever owns something in it; an entry of a map must be owned itself.
                let holds = |node: &FieldNode| node.member || (child.declared && !node.children.is_empty());
                let goes = holds(&entry.node) && !owner.is_some_and(holds) && !matches!(child.at, At::Metadata(_));
                if goes || prune_inside(value, child.at, &entry.node, owner, keeps_empty) {
                    map.remove(&**name);
                }
            }
        }
        Value::Array(items) => {
            let list = at.list();
            let Some(elements) = list.elements(items) else { return };
            let mut elements = elements.iter();
            items.retain_mut(|item| {
                let Some(element) = elements.next() else { return true };
                let Some(node) = last.get(element) else { return true };
                let owner = owned.get(element);
                if node.member && !owner.is_some_and(|it| it.member) {
                    return false;
                }
                prune_inside(item, list.items(), node, owner, keeps_empty);
                true
            });
        }
        _ => {}
    }
}

/// Prunes below a path that stays; says whether pruning emptied it so that it should go as well.
fn prune_inside(value: &mut Value, at: At<'_>, last: &FieldNode, owned: Option<&FieldNode>, keeps_empty: bool) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    if last.children.is_empty() || is_empty(value) {
        return false;
    }
    let nothing = FieldSet::default();
    prune(
        value,
        at,
        &last.children,
        owned.map_or(&nothing, |it| &it.children),
        keeps_empty,
    );
    is_empty(value) && !matches!(at, At::Metadata(_)) && !(keeps_empty && owned.is_some_and(|it| it.member))
}
