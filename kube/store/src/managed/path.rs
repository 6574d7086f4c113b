//! One step of a path into an object, as FieldsV1 writes it.

use compact_str::CompactString;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::{cmp::Ordering, fmt};

/// One step of a path into an object. Most names are so short that they need no memory of their own: a write of an
/// object of 5 KiB makes and drops some thousand of them.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// `f:<name>`: a field of a struct or a key of a map.
    Field(CompactString),
    /// `k:{...}`: the item of a list with these values of its keys, sorted by key name.
    Key(Box<[(CompactString, Value)]>),
    /// `v:<json>`: this item of a set.
    Value(Value),
    /// `i:<n>`: the item at a position. Never written by a server, but read.
    Index(i64),
}

/// The keys of an item, as they are written: an object, which needs no map to be read into.
struct Keys(Vec<(CompactString, Value)>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Keys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of keys")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::with_capacity(1);
                while let Some(entry) = map.next_entry()? {
                    keys.push(entry);
                }
                Ok(Keys(keys))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl PathElement {
    /// Reads the key of a FieldsV1 object; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.into())),
            "k" => {
                let Keys(mut keys) = serde_json::from_str(rest).ok()?;
                // They are written in order; of one that is given twice the last counts.
                if !keys.is_sorted_by(|left, right| left.0 < right.0) {
                    keys.sort_by(|left, right| left.0.cmp(&right.0));
                    keys.reverse();
                    keys.dedup_by(|later, first| later.0 == first.0);
                    keys.reverse();
                }
                Some(Self::Key(keys.into()))
            }
            "v" => serde_json::from_str(rest).ok().map(Self::Value),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    /// The key of a FieldsV1 object.
    pub fn to_key(&self) -> String {
        let mut key = String::new();
        self.write_key(&mut key);
        key
    }

    /// Writes the key of a FieldsV1 object behind what there is.
    pub(crate) fn write_key(&self, text: &mut String) {
        match self {
            Self::Field(name) => {
                text.push_str("f:");
                text.push_str(name);
            }
            Self::Key(keys) => {
                text.push_str("k:{");
                for (index, (name, value)) in keys.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    write_text(text, name);
                    text.push(':');
                    write_value(text, value);
                }
                text.push('}');
            }
            Self::Value(value) => {
                text.push_str("v:");
                write_value(text, value);
            }
            Self::Index(index) => {
                text.push_str("i:");
                text.push_str(&index.to_string());
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::String(it) => write_text(text, it),
        other => text.push_str(&other.to_string()),
    }
}

/// A text as JSON. Names hold nothing that has to be escaped, as a rule.
fn write_text(text: &mut String, it: &str) {
    if it.bytes().any(|it| it < b' ' || matches!(it, b'"' | b'\\')) {
        text.push_str(&Value::from(it).to_string());
    } else {
        text.push('"');
        text.push_str(it);
        text.push('"');
    }
}

/// As messages print it: `.name`, `[name="c1"]`, `[="a"]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_str("[")?;
                for (index, (name, value)) in keys.iter().enumerate() {
                    write!(f, "{}{name}={value}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => {
                let step =
                    |((left_name, left), (right_name, right)): (&(CompactString, Value), &(CompactString, Value))| {
                        left_name.cmp(right_name).then_with(|| compare_values(left, right))
                    };
                let first = left.iter().zip(right).map(step).find(|it| it.is_ne());
                first.unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (Self::Value(left), Self::Value(right)) => compare_values(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// The order in which Kubernetes sorts values: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare_values(left: &Value, right: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left
                .as_f64()
                .unwrap_or_default()
                .total_cmp(&right.as_f64().unwrap_or_default()),
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let first = left
                .iter()
                .zip(right)
                .map(|(left, right)| compare_values(left, right))
                .find(|it| it.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let step = |((left_key, left), (right_key, right)): ((&String, &Value), (&String, &Value))| {
                left_key.cmp(right_key).then_with(|| compare_values(left, right))
            };
            let first = left.iter().zip(right).map(step).find(|it| it.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Whether two leaves hold the same value; `1` and `1.0` do.
pub(crate) fn same_value(left: &Value, right: &Value) -> bool {
    left == right || compare_values(left, right).is_eq()
}
