//! A set of paths into an object: what one manager owns. Its JSON form is FieldsV1.

use super::path::PathElement;
use serde_json::{Map, Value};
use std::{cmp::Ordering, fmt};

/// A sorted tree of paths. An element is in the set itself (`.`), has elements below it, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) element: PathElement,
    pub(crate) node: FieldNode,
}

/// What a set holds at one path and below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldNode {
    /// The path itself is in the set.
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

impl FieldNode {
    pub(crate) fn leaf() -> Self {
        Self {
            member: true,
            children: FieldSet::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// Whether no path is in the set.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds an element that sorts after all others; empty nodes are left out.
    pub(crate) fn push(&mut self, element: PathElement, node: FieldNode) {
        if !node.is_empty() {
            debug_assert!(
                self.entries.last().is_none_or(|last| last.element < element),
                "elements are pushed in order"
            );
            self.entries.push(Entry { element, node });
        }
    }

    pub(crate) fn get(&self, element: &PathElement) -> Option<&FieldNode> {
        self.entries
            .binary_search_by(|it| it.element.cmp(element))
            .ok()
            .map(|at| &self.entries[at].node)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&FieldNode> {
        // Fields sort before every other kind of element.
        let order = |it: &Entry| match &it.element {
            PathElement::Field(field) => (**field).cmp(name),
            _ => Ordering::Greater,
        };
        self.entries
            .binary_search_by(order)
            .ok()
            .map(|at| &self.entries[at].node)
    }

    /// A set with one path of plain fields.
    pub fn of_fields<'a>(path: impl IntoIterator<Item = &'a str>) -> Self {
        let mut path = path.into_iter();
        let mut set = Self::default();
        if let Some(first) = path.next() {
            let children = Self::of_fields(path.collect::<Vec<_>>());
            set.push(
                PathElement::Field(first.into()),
                FieldNode {
                    member: children.is_empty(),
                    children,
                },
            );
        }
        set
    }

    /// Whether exactly this path is in the set.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.get(last).is_some_and(|it| it.member),
            [first, rest @ ..] => self.get(first).is_some_and(|it| it.children.contains(rest)),
        }
    }

    /// Everything that is in either.
    pub fn union(&self, other: &Self) -> Self {
        let mut result = Self {
            entries: Vec::with_capacity(self.entries.len().max(other.entries.len())),
        };
        let (mut left, mut right) = (self.entries.iter().peekable(), other.entries.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(left), Some(right)) => left.element.cmp(&right.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return result,
            };
            match order {
                Ordering::Less => result.entries.extend(left.next().cloned()),
                Ordering::Greater => result.entries.extend(right.next().cloned()),
                Ordering::Equal => {
                    if let (Some(left), Some(right)) = (left.next(), right.next()) {
                        let member = left.node.member || right.node.member;
                        let children = left.node.children.union(&right.node.children);
                        result.entries.push(Entry {
                            element: left.element.clone(),
                            node: FieldNode { member, children },
                        });
                    }
                }
            }
        }
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut result = Self::default();
        each_common(self, other, |element, left, right| {
            let children = left.children.intersection(&right.children);
            result.push(
                element.clone(),
                FieldNode {
                    member: left.member && right.member,
                    children,
                },
            );
        });
        result
    }

    /// Whether a path is in both.
    pub fn intersects(&self, other: &Self) -> bool {
        let mut found = false;
        each_common(self, other, |_, left, right| {
            found = found || (left.member && right.member) || left.children.intersects(&right.children);
        });
        found
    }

    /// What is here and not in `other`; a path in `other` takes away exactly that path and nothing below it.
    pub fn difference(&self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// What is here and neither in `other` nor below a path that is.
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(&self, other: &Self, recursive: bool) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let mut result = Self::default();
        let mut right = other.entries.iter().peekable();
        for entry in &self.entries {
            while right.next_if(|it| it.element < entry.element).is_some() {}
            match right.peek().filter(|it| it.element == entry.element) {
                None => result.entries.push(entry.clone()),
                Some(gone) if gone.node.member && recursive => {}
                Some(gone) => {
                    let member = entry.node.member && !gone.node.member;
                    let children = entry.node.children.without(&gone.node.children, recursive);
                    result.push(entry.element.clone(), FieldNode { member, children });
                }
            }
        }
        result
    }

    /// Calls `visit` with every path in the set, those of a level before the levels below it.
    pub fn for_each<'a>(&'a self, visit: &mut impl FnMut(&[&'a PathElement])) {
        self.walk(&mut Vec::new(), visit);
    }

    fn walk<'a>(&'a self, path: &mut Vec<&'a PathElement>, visit: &mut impl FnMut(&[&'a PathElement])) {
        for entry in self.entries.iter().filter(|it| it.node.member) {
            path.push(&entry.element);
            visit(path);
            path.pop();
        }
        for entry in &self.entries {
            path.push(&entry.element);
            entry.node.children.walk(path, visit);
            path.pop();
        }
    }

    /// The paths as messages print them: `.spec.containers[name="c1"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.for_each(&mut |path| paths.push(path.iter().map(ToString::to_string).collect()));
        paths
    }

    /// Reads FieldsV1; `None` if it is malformed.
    pub fn from_json(fields: &Value) -> Option<Self> {
        let map = fields.as_object()?;
        let mut entries = Vec::with_capacity(map.len());
        for (key, value) in map {
            if key == "." {
                continue;
            }
            let children = Self::from_json(value)?;
            let member = children.is_empty() || value.get(".").is_some();
            entries.push(Entry {
                element: PathElement::parse(key)?,
                node: FieldNode { member, children },
            });
        }
        // Fields arrive sorted; keys and values sort by what they hold, not by their text.
        if !entries.is_sorted_by(|left, right| left.element < right.element) {
            entries.sort_by(|left, right| left.element.cmp(&right.element));
            entries.dedup_by(|later, first| {
                let same = later.element == first.element;
                if same {
                    first.node.member |= later.node.member;
                    first.node.children = first.node.children.union(&later.node.children);
                }
                same
            });
        }
        Some(Self { entries })
    }

    /// Whether FieldsV1 says exactly this: seen without reading it, which takes several times as long. What is written
    /// in another way than ours is not recognized.
    pub(crate) fn is_written_as(&self, fields: &Value) -> bool {
        self.is_map(fields.as_object(), &mut String::new())
    }

    fn is_map(&self, fields: Option<&Map<String, Value>>, key: &mut String) -> bool {
        let Some(fields) = fields else { return false };
        let itself = usize::from(fields.contains_key("."));
        fields.len() == self.entries.len() + itself
            && self.entries.iter().all(|Entry { element, node }| {
                key.clear();
                element.write_key(key);
                let Some(Value::Object(below)) = fields.get(key.as_str()) else {
                    return false;
                };
                let member = node.children.is_empty() || below.contains_key(".");
                node.member == member && node.children.is_map(Some(below), key)
            })
    }

    /// FieldsV1 as a value. Its keys are in the order of the map type; [`Display`](fmt::Display)
    /// writes the exact order.
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        for Entry { element, node } in &self.entries {
            let mut value = node.children.to_json();
            if node.member
                && !node.children.is_empty()
                && let Value::Object(map) = &mut value
            {
                map.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(element.to_key(), value);
        }
        Value::Object(map)
    }
}

fn each_common(left: &FieldSet, right: &FieldSet, mut visit: impl FnMut(&PathElement, &FieldNode, &FieldNode)) {
    let (mut left, mut right) = (left.entries.iter().peekable(), right.entries.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        match a.element.cmp(&b.element) {
            Ordering::Less => drop(left.next()),
            Ordering::Greater => drop(right.next()),
            Ordering::Equal => {
                visit(&a.element, &a.node, &b.node);
                left.next();
                right.next();
            }
        }
    }
}

/// FieldsV1 as compact JSON, `.` first and the elements in Kubernetes' order.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_fields(self, false, f)
    }
}

fn write_fields(set: &FieldSet, member: bool, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("{")?;
    let mut comma = "";
    if member && !set.is_empty() {
        f.write_str("\".\":{}")?;
        comma = ",";
    }
    for Entry { element, node } in &set.entries {
        write!(f, "{comma}{}:", Value::from(element.to_key()))?;
        write_fields(&node.children, node.member, f)?;
        comma = ",";
    }
    f.write_str("}")
}
