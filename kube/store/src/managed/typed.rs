//! How the schema divides an object into fields that can be owned one by one.
//!
//! Facts from `sigs.k8s.io/structured-merge-diff/typed`. Objects are granular unless their map type is atomic; lists
//! are atomic unless they are sets or keyed; content without a schema has granular maps and atomic lists.

use super::{
    meta::root_field,
    mistyped::mistyped,
    path::PathElement,
    set::{Entry, FieldNode, FieldSet},
};
use crate::schema::{ListType, Schema, Type};
use compact_str::CompactString;
use serde_json::Value;

/// Fields of `metadata` that nobody owns.
const UNOWNED_METADATA: [&str; 9] = [
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Where in the schema a walk stands.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    /// The whole object.
    Root(&'a Schema),
    /// Its `metadata`.
    Metadata(&'a Schema),
    /// Any node below.
    FieldNode(&'a Schema),
    /// Content that the schema does not describe.
    Deduced,
}

/// What the schema says of a key of an object.
pub(crate) struct Child<'a> {
    pub(crate) at: At<'a>,
    /// A named field of a struct, as opposed to an entry of a map.
    pub(crate) declared: bool,
    /// The schema allows the key.
    pub(crate) known: bool,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy)]
pub(crate) enum List<'a> {
    Atomic,
    Set,
    Keyed { keys: &'a [String], items: At<'a> },
}

impl<'a> At<'a> {
    pub(crate) fn child(self, key: &str) -> Child<'a> {
        let schema = match self {
            At::Deduced => {
                return Child {
                    at: At::Deduced,
                    declared: false,
                    known: true,
                };
            }
            At::Root(schema) => {
                if let Some(field) = root_field(schema, key) {
                    let at = if key == "metadata" {
                        At::Metadata(field)
                    } else {
                        At::FieldNode(field)
                    };
                    return Child {
                        at,
                        declared: true,
                        known: true,
                    };
                }
                schema
            }
            At::Metadata(schema) | At::FieldNode(schema) => {
                if let Some(field) = schema.properties.get(key) {
                    return Child {
                        at: At::FieldNode(field),
                        declared: true,
                        known: true,
                    };
                }
                schema
            }
        };
        if let Some(values) = &schema.additional {
            return Child {
                at: At::FieldNode(values),
                declared: false,
                known: true,
            };
        }
        let in_every_resource = schema.embedded_resource && matches!(key, "apiVersion" | "kind" | "metadata");
        let known = schema.preserve_unknown || schema.properties.is_empty() || in_every_resource;
        Child {
            at: At::Deduced,
            declared: false,
            known,
        }
    }

    /// Whether undeclared fields are taken here, and then everywhere below.
    fn preserves_unknown(self) -> bool {
        match self {
            At::Root(schema) | At::Metadata(schema) | At::FieldNode(schema) => schema.preserve_unknown,
            At::Deduced => false,
        }
    }

    /// Whether an object here is owned as a whole.
    pub(crate) fn is_atomic_map(self) -> bool {
        match self {
            At::Root(_) | At::Metadata(_) | At::Deduced => false,
            At::FieldNode(it) => {
                let bare = it.properties.is_empty()
                    && it.additional.is_none()
                    && !it.preserve_unknown
                    && !it.embedded_resource;
                it.atomic_map || (it.ty == Type::Object && bare)
            }
        }
    }

    pub(crate) fn list(self) -> List<'a> {
        let At::FieldNode(schema) = self else {
            return List::Atomic;
        };
        match schema.list_type {
            ListType::Set => List::Set,
            ListType::Map if !schema.list_map_keys.is_empty() => List::Keyed {
                keys: &schema.list_map_keys,
                items: schema.items.as_deref().map_or(At::Deduced, At::FieldNode),
            },
            _ => List::Atomic,
        }
    }

    /// Whether nobody can own `key` here.
    pub(crate) fn is_unowned(self, key: &str) -> bool {
        match self {
            At::Root(_) => matches!(key, "apiVersion" | "kind"),
            At::Metadata(_) => UNOWNED_METADATA.contains(&key),
            _ => false,
        }
    }
}

impl<'a> List<'a> {
    /// Schema of the items.
    pub(crate) fn items(self) -> At<'a> {
        match self {
            List::Keyed { items, .. } => items,
            _ => At::Deduced,
        }
    }

    /// The element that names `item`, or why it has none.
    pub(crate) fn element(self, item: &Value) -> Result<PathElement, String> {
        match self {
            List::Atomic => Err("atomic lists have no elements".to_owned()),
            List::Set => match item {
                Value::Array(_) => Err("associative list without keys has an element that's a list type".to_owned()),
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(PathElement::Value(scalar.clone())),
            },
            List::Keyed { keys, items } => {
                let Value::Object(map) = item else {
                    return Err(match item {
                        Value::Null => "associative list with keys may not have a null element",
                        _ => "associative list with keys may not have non-map elements",
                    }
                    .to_owned());
                };
                let default = |key: &String| match items {
                    At::FieldNode(schema) => {
                        let field = schema.properties.get(key)?;
                        field.default.clone().or_else(|| zero_of_go(schema, key, field))
                    }
                    _ => None,
                };
                let mut values = Vec::with_capacity(keys.len());
                for key in keys {
                    if let Some(value) = map.get(key).cloned().or_else(|| default(key)) {
                        values.push((key.as_str().into(), value));
                    }
                }
                if values.is_empty() {
                    let keys = keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" ");
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields [{keys}] (and doesn't have default values for \
                         any key fields)"
                    ));
                }
                values.sort_by(|(left, _): &(CompactString, Value), (right, _)| left.cmp(right));
                Ok(PathElement::Key(values.into()))
            }
        }
    }

    /// Whether each item has an element of its own, as far as that is seen without making the elements: where a text
    /// names them, as it does in most lists.
    fn names_each_once(self, items: &[Value]) -> bool {
        let name = |item| match self {
            List::Set => Value::as_str(item),
            List::Keyed { keys: [key], .. } => item.get(key)?.as_str(),
            List::Keyed { .. } | List::Atomic => None,
        };
        let mut seen = std::collections::HashSet::with_capacity(items.len());
        items.iter().all(|it| name(it).is_some_and(|it| seen.insert(it)))
    }

    /// The elements of all items, in list order. A list with an item that has no element is owned as a whole.
    pub(crate) fn elements(self, items: &[Value]) -> Option<Vec<PathElement>> {
        match self {
            List::Atomic => None,
            _ => items.iter().map(|item| self.element(item).ok()).collect(),
        }
    }
}

/// The fields that an applied configuration sets.
pub fn field_set(config: &Value, schema: &Schema) -> FieldSet {
    set_of(config, At::Root(schema)).children
}

fn set_of(value: &Value, at: At<'_>) -> FieldNode {
    match value {
        Value::Object(map) if !at.is_atomic_map() => {
            let mut children = FieldSet::default();
            for (key, value) in map {
                if at.is_unowned(key) {
                    continue;
                }
                let child = at.child(key);
                let mut node = set_of(value, child.at);
                // An entry of a map is owned with its content; a named field only by what is below it.
                node.member |= !child.declared || value.as_object().is_some_and(serde_json::Map::is_empty);
                node.member &= !matches!(child.at, At::Metadata(_));
                children.push(PathElement::Field(key.as_str().into()), node);
            }
            FieldNode {
                member: false,
                children,
            }
        }
        Value::Array(items) => {
            let list = at.list();
            let Some(elements) = list.elements(items) else {
                return FieldNode::leaf();
            };
            let nodes = elements.into_iter().zip(items).map(|(element, item)| {
                let children = set_of(item, list.items()).children;
                Entry {
                    element,
                    node: FieldNode { member: true, children },
                }
            });
            FieldNode {
                member: false,
                children: collect_items(nodes.collect()),
            }
        }
        _ => FieldNode::leaf(),
    }
}

/// Everything in `value`, containers included: what a change owns that adds `value` where nothing was.
pub(crate) fn whole(value: &Value, at: At<'_>, nulls_are_absent: bool) -> FieldNode {
    let mut children = FieldSet::default();
    match value {
        Value::Object(map) if !at.is_atomic_map() => {
            for (key, value) in map {
                if !at.is_unowned(key) && !(nulls_are_absent && value.is_null()) {
                    children.push(
                        PathElement::Field(key.as_str().into()),
                        whole(value, at.child(key).at, nulls_are_absent),
                    );
                }
            }
        }
        Value::Array(items) => {
            let list = at.list();
            if let Some(elements) = list.elements(items) {
                let nodes = elements.into_iter().zip(items).map(|(element, item)| Entry {
                    element,
                    node: whole(item, list.items(), nulls_are_absent),
                });
                children = collect_items(nodes.collect());
            }
        }
        _ => {}
    }
    FieldNode { member: true, children }
}

/// Sorts the items of a list. Items that share an element cannot be told apart, so only the element is kept.
pub(crate) fn collect_items(mut nodes: Vec<Entry>) -> FieldSet {
    nodes.sort_by(|left, right| left.element.cmp(&right.element));
    nodes.dedup_by(|later, first| {
        let same = later.element == first.element;
        if same {
            first.node = FieldNode::leaf();
        }
        same
    });
    let mut set = FieldSet::default();
    for Entry { element, node } in nodes {
        set.push(element, node);
    }
    set
}

/// What a key is of a struct of a built-in kind that does not say it: Go's structs always have it,
/// and their published schemas say so by a default.
fn zero_of_go(schema: &Schema, key: &String, field: &Schema) -> Option<Value> {
    let name = schema.name.as_deref()?;
    let always = schema.required.contains(key) || name.ends_with(".LocalObjectReference");
    match field.ty {
        Type::String if always => Some("".into()),
        Type::Integer if always => Some(0.into()),
        _ => None,
    }
}

/// What keeps `config` from being applied: undeclared fields, values of other types and items
/// that cannot be told apart. One text per error.
pub(crate) fn validate(config: &Value, at: At<'_>) -> Vec<String> {
    validate_below(config, at, false)
}

/// `open` says that undeclared fields are taken: below whatever preserves unknown fields, everything does so here, as
/// upstream's kube-openapi has it (`schemaconv`). They own themselves, and are pruned where the schema prunes.
fn validate_below(config: &Value, at: At<'_>, open: bool) -> Vec<String> {
    let open = open || at.preserves_unknown();
    if let Some(error) = mistyped(config, at) {
        return vec![error];
    }
    let mut errors = Vec::new();
    let mut nested = |step: &str, found: Vec<String>| {
        errors.extend(found.into_iter().map(|it| {
            if it.starts_with(['.', '[', ':']) {
                format!("{step}{it}")
            } else {
                format!("{step}: {it}")
            }
        }));
    };
    match config {
        Value::Object(map) if !at.is_atomic_map() => {
            for (key, value) in map {
                let child = at.child(key);
                let step = || format!(".{key}");
                if !child.known && !open {
                    nested(&step(), vec!["field not declared in schema".to_owned()]);
                    continue;
                }
                if value.is_object() || value.is_array() {
                    let found = validate_below(value, child.at, open);
                    if !found.is_empty() {
                        nested(&step(), found);
                    }
                } else if let Some(error) = mistyped(value, child.at) {
                    nested(&step(), vec![error]);
                }
            }
        }
        Value::Array(items) => {
            let list = at.list();
            if matches!(list, List::Atomic) {
                return errors;
            }
            if list.names_each_once(items) {
                for item in items {
                    let found = validate_below(item, list.items(), open);
                    if !found.is_empty() {
                        let step = list.element(item).map_or_else(|it| it, |it| it.to_string());
                        nested(&step, found);
                    }
                }
                return errors;
            }
            let mut seen = std::collections::BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                match list.element(item) {
                    Err(error) => nested("", vec![format!(": element {index}: {error}")]),
                    Ok(element) => {
                        let found = validate_below(item, list.items(), open);
                        if !found.is_empty() {
                            nested(&element.to_string(), found);
                        }
                        if let Some(element) = seen.replace(element) {
                            nested("", vec![format!(": duplicate entries for key {element}")]);
                        }
                    }
                }
            }
        }
        _ => {}
    }
    errors
}
