//! Which fields differ between two objects.

use super::{
    path::{PathElement, same_value},
    set::{Entry, FieldNode, FieldSet},
    typed::{At, List, collect_items, whole},
    zero::{self, Zero},
};
use crate::schema::Schema;
use serde_json::{Map, Value};
use std::cmp::Ordering;

/// The difference from one object to another, in paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Paths that were added or have another value, containers included when they were not there before.
    pub changed: FieldSet,
    /// Paths that are gone, containers included.
    pub removed: FieldSet,
}

impl Comparison {
    /// Whether the objects agree. The order of keyed lists and sets does not count.
    pub fn is_same(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Compares two objects of one kind, leaving out what nobody can own and the root fields named in `skipped`.
pub fn compare(old: &Value, new: &Value, schema: &Schema, built_in: bool, skipped: &[&str]) -> Comparison {
    let empty = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
    let walk = Walk { built_in, skipped };
    let zero = if built_in { zero::BUILT_IN } else { zero::CUSTOM };
    let (changed, removed) = walk.maps(old, new, At::Root(schema), Some(zero));
    Comparison { changed, removed }
}

struct Walk<'a> {
    built_in: bool,
    skipped: &'a [&'a str],
}

impl Walk<'_> {
    fn is_skipped(&self, at: At<'_>, key: &str) -> bool {
        at.is_unowned(key) || (matches!(at, At::Root(_)) && self.skipped.contains(&key))
    }

    fn maps(
        &self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
        at: At<'_>,
        zero: Option<Zero>,
    ) -> (FieldSet, FieldSet) {
        let (mut changed, mut removed) = (FieldSet::default(), FieldSet::default());
        let (mut left, mut right) = (old.iter().peekable(), new.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some((left, _)), Some((right, _))) => left.cmp(right),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return (changed, removed),
            };
            let left = if order.is_le() { left.next() } else { None };
            let right = if order.is_ge() { right.next() } else { None };
            let Some((key, _)) = left.or(right) else { continue };
            if self.is_skipped(at, key) {
                continue;
            }
            let child = at.child(key).at;
            let zero = zero.and_then(|it| it.child(key));
            let (change, removal) = self.values(left.map(|it| it.1), right.map(|it| it.1), child, zero);
            if !change.is_empty() {
                changed.push(PathElement::Field(key.as_str().into()), change);
            }
            if !removal.is_empty() {
                removed.push(PathElement::Field(key.as_str().into()), removal);
            }
        }
    }

    fn values(
        &self,
        old: Option<&Value>,
        new: Option<&Value>,
        at: At<'_>,
        zero: Option<Zero>,
    ) -> (FieldNode, FieldNode) {
        let empty = Map::new();
        let inner = |(changed, removed)| {
            (
                FieldNode {
                    member: false,
                    children: changed,
                },
                FieldNode {
                    member: false,
                    children: removed,
                },
            )
        };
        let changed = || (FieldNode::leaf(), FieldNode::default());
        match (old, new) {
            (None, None) => Default::default(),
            // In Go an absent field of a built-in kind and a null one are the same.
            (None, Some(Value::Null)) | (Some(Value::Null), None) if self.built_in => Default::default(),
            (None, Some(Value::Object(new))) if zero.is_some() && !at.is_atomic_map() => {
                inner(self.maps(&empty, new, at, zero))
            }
            (Some(Value::Object(old)), None) if zero.is_some() && !at.is_atomic_map() => {
                inner(self.maps(old, &empty, at, zero))
            }
            (None, Some(Value::Array(new))) if zero.is_some() && !matches!(at.list(), List::Atomic) => {
                inner(self.lists(&[], new, at.list()).unwrap_or_default())
            }
            (None, Some(new)) => (whole(new, at, self.built_in), FieldNode::default()),
            (Some(old), None) => (FieldNode::default(), whole(old, at, self.built_in)),
            (Some(Value::Object(old)), Some(Value::Object(new))) if !at.is_atomic_map() => {
                inner(self.maps(old, new, at, zero))
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) => {
                if old == new {
                    return Default::default();
                }
                self.lists(old, new, at.list()).map_or_else(changed, inner)
            }
            // A container against null: its content comes or goes, the container itself was named before and still is.
            (Some(Value::Null), Some(new @ (Value::Object(_) | Value::Array(_)))) => {
                let children = whole(new, at, self.built_in).children;
                if children.is_empty() {
                    changed()
                } else {
                    (
                        FieldNode {
                            member: false,
                            children,
                        },
                        FieldNode::default(),
                    )
                }
            }
            (Some(old @ (Value::Object(_) | Value::Array(_))), Some(Value::Null)) => {
                let children = whole(old, at, self.built_in).children;
                if children.is_empty() {
                    changed()
                } else {
                    (
                        FieldNode::default(),
                        FieldNode {
                            member: false,
                            children,
                        },
                    )
                }
            }
            (Some(old), Some(new)) if same_value(old, new) => Default::default(),
            (Some(old), Some(new)) => {
                let children = |value: &Value| match value {
                    Value::Object(_) | Value::Array(_) => whole(value, at, self.built_in).children,
                    _ => FieldSet::default(),
                };
                let both_leaves = at.is_atomic_map() && old.is_object() && new.is_object();
                if both_leaves {
                    return changed();
                }
                (
                    FieldNode {
                        member: true,
                        children: children(new),
                    },
                    FieldNode {
                        member: false,
                        children: children(old),
                    },
                )
            }
        }
    }

    /// Compares the items of two lists by their elements; `None` if the lists can only be compared as a whole.
    fn lists(&self, old: &[Value], new: &[Value], list: List<'_>) -> Option<(FieldSet, FieldSet)> {
        let old_items = sorted(list.elements(old)?, old);
        let new_items = sorted(list.elements(new)?, new);
        let (mut changed, mut removed) = (Vec::new(), Vec::new());
        let (mut left, mut right) = (old_items.as_slice(), new_items.as_slice());
        while let Some(element) = first(left, right) {
            let (old_run, rest) = split_run(left, element);
            left = rest;
            let (new_run, rest) = split_run(right, element);
            right = rest;
            let (change, removal) = match (old_run, new_run) {
                ([] | [_], [] | [_]) => self.values(
                    old_run.first().map(|it| it.1),
                    new_run.first().map(|it| it.1),
                    list.items(),
                    None,
                ),
                ([], _) => (FieldNode::leaf(), FieldNode::default()),
                (_, []) => (FieldNode::default(), FieldNode::leaf()),
                // Duplicates cannot be told apart, so together they are one leaf.
                _ if old_run.len() == new_run.len()
                    && old_run.iter().zip(new_run).all(|(old, new)| same_value(old.1, new.1)) =>
                {
                    continue;
                }
                _ => (FieldNode::leaf(), FieldNode::default()),
            };
            changed.push(Entry {
                element: element.clone(),
                node: change,
            });
            removed.push(Entry {
                element: element.clone(),
                node: removal,
            });
        }
        Some((collect_items(changed), collect_items(removed)))
    }
}

type Item<'a> = (PathElement, &'a Value);

fn sorted(elements: Vec<PathElement>, items: &[Value]) -> Vec<Item<'_>> {
    let mut pairs: Vec<Item<'_>> = elements.into_iter().zip(items).collect();
    pairs.sort_by(|left, right| left.0.cmp(&right.0));
    pairs
}

fn first<'a>(left: &'a [Item<'_>], right: &'a [Item<'_>]) -> Option<&'a PathElement> {
    match (left.first(), right.first()) {
        (Some(left), Some(right)) => Some((&left.0).min(&right.0)),
        (left, right) => left.or(right).map(|it| &it.0),
    }
}

/// The items at the front that have this element, and the rest.
fn split_run<'a, 'b>(items: &'a [Item<'b>], element: &PathElement) -> (&'a [Item<'b>], &'a [Item<'b>]) {
    items.split_at(items.iter().take_while(|it| it.0 == *element).count())
}
