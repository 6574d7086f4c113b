//! One step of a path into an object, as FieldsV1 writes it.

use compact_str::CompactString;
use serde_json::{Map, Value};
use std::{cmp::Ordering, fmt};

/// One step of a path into an object. Most names are so short that they need no memory of their own: a write of an object of
/// 5 KiB makes and drops some thousand of them.
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

impl PathElement {
    /// Reads the key of a FieldsV1 object; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.into())),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
                Some(Self::Key(
                    keys.into_iter().map(|(name, value)| (name.into(), value)).collect(),
                ))
            }
            "v" => serde_json::from_str(rest).ok().map(Self::Value),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    /// The key of a FieldsV1 object.
    pub fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let mut text = String::from("k:{");
                for (index, (name, value)) in keys.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    text.push_str(&Value::from(name.as_str()).to_string());
                    text.push(':');
                    text.push_str(&value.to_string());
                }
                text.push('}');
                text
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
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
