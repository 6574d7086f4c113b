//! What a template works on: Go's values as far as a template can tell them apart.
//!
//! A template sees whether a number is an `int` or a `float64` (it prints and compares differently), whether a map
//! entry is absent or null, and whether two names mean the same map (`set` changes it in place).
//! So values are not JSON inside.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::limits::{DEPTH_OF_DATA_MAX, VALUES_MAX, spend, with_stack};

/// Lets `work` count the values that it looks at, and notes how many there were.
fn counted<T>(work: impl FnOnce(&mut usize) -> T) -> T {
    let mut left = VALUES_MAX;
    let result = work(&mut left);
    spend((VALUES_MAX - left) as u64 / 4);
    result
}

/// A value in a running template.
#[derive(Clone)]
pub enum Value {
    /// Nothing at all: a map entry that is not there, an untyped nil once it has been through a pipeline.
    Missing,
    /// A null that sits in a map, a list or an argument (Go: an interface that holds nil).
    Nil,
    Bool(bool),
    Int(i64, IntType),
    Float(f64),
    Str(Arc<str>),
    /// A Go string that is not UTF-8, such as a decoded binary file.
    Binary(Arc<[u8]>),
    /// A Go `[]byte`.
    Bytes(Arc<[u8]>),
    List(List),
    Map(Map),
    Object(Rc<dyn Object>),
}

/// Which of Go's integers a number is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntType {
    Int,
    Int32,
    Int64,
    Uint8,
    Uint32,
    Uint64,
}

impl IntType {
    pub fn name(self) -> &'static str {
        match self {
            IntType::Int => "int",
            IntType::Int32 => "int32",
            IntType::Int64 => "int64",
            IntType::Uint8 => "uint8",
            IntType::Uint32 => "uint32",
            IntType::Uint64 => "uint64",
        }
    }

    pub fn is_signed(self) -> bool {
        matches!(self, IntType::Int | IntType::Int32 | IntType::Int64)
    }
}

/// What the elements of a list or map are declared as in Go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elem {
    Any,
    Str,
    Int,
    Map,
}

impl Elem {
    fn name(self) -> &'static str {
        match self {
            Elem::Any => "interface {}",
            Elem::Str => "string",
            Elem::Int => "int",
            Elem::Map => "map[string]interface {}",
        }
    }
}

/// A Go value with fields or methods: `.Files`, `.Capabilities`, a time, a parsed version.
pub trait Object {
    /// As `%T` prints it.
    fn type_name(&self) -> &str;
    /// As `kindOf` says it.
    fn kind(&self) -> &'static str {
        "struct"
    }
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }
    /// The parameters of a method, in the words of [`crate::Functions::add`].
    fn method(&self, _name: &str) -> Option<&'static str> {
        None
    }
    fn call(&self, name: &str, _args: &[Value]) -> Result<Value, String> {
        Err(format!("{name} is not a method of {}", self.type_name()))
    }
    /// The list or map that the object is underneath, for `range`, `len` and `index`.
    fn items(&self) -> Option<Value> {
        None
    }
    fn is_true(&self) -> bool {
        true
    }
    /// As `%v` prints it.
    fn display(&self) -> String;
    fn to_json(&self) -> Json;
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A Go slice. It never changes; `append` makes a new one.
#[derive(Clone)]
pub struct List(Rc<ListInner>);

struct ListInner {
    items: Vec<Value>,
    elem: Elem,
}

/// A Go map with string keys. Clones are the same map.
#[derive(Clone)]
pub struct Map(Rc<MapInner>);

struct MapInner {
    entries: RefCell<BTreeMap<Arc<str>, Value>>,
    elem: Elem,
    /// Set for a map whose Go type has a name of its own.
    type_name: Option<&'static str>,
    /// Whether it is a nil map: one without entries, which JSON writes as null.
    nil: bool,
}

// Data may be nested as deep as a template likes to make it; taking it apart must not use the stack for that.
impl Drop for ListInner {
    fn drop(&mut self) {
        take_apart(std::mem::take(&mut self.items));
    }
}

impl Drop for MapInner {
    fn drop(&mut self) {
        take_apart(std::mem::take(self.entries.get_mut()).into_values().collect());
    }
}

fn take_apart(mut rest: Vec<Value>) {
    while let Some(value) = rest.pop() {
        match value {
            Value::List(List(mut inner)) => {
                if let Some(inner) = Rc::get_mut(&mut inner) {
                    rest.append(&mut inner.items);
                }
            }
            Value::Map(Map(mut inner)) => {
                if let Some(inner) = Rc::get_mut(&mut inner) {
                    rest.extend(std::mem::take(inner.entries.get_mut()).into_values());
                }
            }
            _ => {}
        }
    }
}

impl List {
    pub fn new(items: Vec<Value>, elem: Elem) -> Self {
        List(Rc::new(ListInner { items, elem }))
    }

    pub fn items(&self) -> &[Value] {
        &self.0.items
    }

    pub fn elem(&self) -> Elem {
        self.0.elem
    }

    fn address(&self) -> *const () {
        Rc::as_ptr(&self.0).cast()
    }
}

impl Default for Map {
    fn default() -> Self {
        Map::new(BTreeMap::new(), Elem::Any)
    }
}

impl Map {
    pub fn new(entries: BTreeMap<Arc<str>, Value>, elem: Elem) -> Self {
        Map(Rc::new(MapInner {
            entries: RefCell::new(entries),
            elem,
            type_name: None,
            nil: false,
        }))
    }

    pub fn named(entries: BTreeMap<Arc<str>, Value>, type_name: &'static str) -> Self {
        Map(Rc::new(MapInner {
            entries: RefCell::new(entries),
            elem: Elem::Any,
            type_name: Some(type_name),
            nil: false,
        }))
    }

    /// A nil map of Go: no entries, and null in JSON.
    pub fn nil() -> Self {
        Map(Rc::new(MapInner {
            entries: RefCell::default(),
            elem: Elem::Any,
            type_name: None,
            nil: true,
        }))
    }

    /// Whether it is a nil map of Go.
    pub fn is_nil(&self) -> bool {
        self.0.nil && self.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<Value> {
        self.0.entries.borrow().get(key).cloned()
    }

    /// What is in the map now. A later change of the map does not change it.
    pub fn entries(&self) -> Vec<(Arc<str>, Value)> {
        let entries = self.0.entries.borrow();
        entries
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    pub fn keys(&self) -> Vec<Arc<str>> {
        self.0.entries.borrow().keys().cloned().collect()
    }

    pub fn contains(&self, key: &str) -> bool {
        self.0.entries.borrow().contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.0.entries.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn elem(&self) -> Elem {
        self.0.elem
    }

    pub fn same_as(&self, other: &Map) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Sets an entry; a value that contains this very map is refused, because nothing that walks the data would end.
    pub fn set(&self, key: &str, value: Value) -> Result<(), String> {
        if value.reaches(self) {
            return Err(format!(
                "the value for key {key:?} contains the map that it is put into"
            ));
        }
        let value = if matches!(value, Value::Missing) {
            Value::Nil
        } else {
            value
        };
        self.0.entries.borrow_mut().insert(key.into(), value);
        Ok(())
    }

    pub fn remove(&self, key: &str) -> Option<Value> {
        self.0.entries.borrow_mut().remove(key)
    }

    fn address(&self) -> *const () {
        Rc::as_ptr(&self.0).cast()
    }
}

/// How the numbers of a JSON document come into a template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// All are `float64`, as Go decodes JSON and as Helm reads values: a million prints as `1e+06`.
    Float,
    /// Whole numbers are `int`, as in a Go struct.
    AsWritten,
    /// Whole numbers are `int64`, as Kubernetes decodes objects.
    Int64,
}

impl Value {
    pub fn int(value: i64) -> Self {
        Value::Int(value, IntType::Int)
    }

    pub fn int64(value: i64) -> Self {
        Value::Int(value, IntType::Int64)
    }

    pub fn len_of(length: usize) -> Self {
        Value::int(i64::try_from(length).unwrap_or(i64::MAX))
    }

    pub fn str(value: impl Into<Arc<str>>) -> Self {
        Value::Str(value.into())
    }

    pub fn list(items: Vec<Value>) -> Self {
        Value::List(List::new(items, Elem::Any))
    }

    pub fn strings<S: Into<Arc<str>>>(items: impl IntoIterator<Item = S>) -> Self {
        Value::List(List::new(
            items.into_iter().map(|it| Value::Str(it.into())).collect(),
            Elem::Str,
        ))
    }

    pub fn map<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Value::Map(Map::new(
            entries.into_iter().map(|(key, value)| (key.into(), value)).collect(),
            Elem::Any,
        ))
    }

    /// A Go string of these bytes.
    pub fn string_of_bytes(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Value::str(text),
            Err(error) => Value::Binary(error.into_bytes().into()),
        }
    }

    pub fn from_json(json: &Json, numbers: Numbers) -> Self {
        match json {
            Json::Null => Value::Nil,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (numbers, number.as_i64()) {
                (Numbers::AsWritten, Some(value)) => Value::int(value),
                (Numbers::Int64, Some(value)) => Value::int64(value),
                _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::str(text.as_str()),
            Json::Array(items) => Value::list(items.iter().map(|it| Value::from_json(it, numbers)).collect()),
            Json::Object(entries) => Value::map(
                entries
                    .iter()
                    .map(|(key, value)| (key.as_str(), Value::from_json(value, numbers))),
            ),
        }
    }

    /// The whole number that policies see in a value (spf13/cast 1.10's `ToInt`): zero in what is none.
    pub fn to_int(&self) -> i64 {
        crate::sprig::to_int64_of_any_decimals(self)
    }

    /// The value as JSON. `Err` when it is too deep or holds a number that JSON has not (Go's encoder refuses it too).
    pub fn to_json(&self) -> Result<Json, String> {
        counted(|left| self.to_json_at(0, left))
    }

    // The same list may be reached on very many ways, so the values are counted.
    fn to_json_at(&self, depth: usize, left: &mut usize) -> Result<Json, String> {
        if depth > DEPTH_OF_DATA_MAX || *left == 0 {
            return Err("the value is too large or nested too deeply".to_owned());
        }
        *left -= 1;
        Ok(match self {
            Value::Missing | Value::Nil => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value, kind) if kind.is_signed() => Json::from(*value),
            Value::Int(value, _) => Json::from(*value as u64),
            Value::Float(value) => match serde_json::Number::from_f64(*value) {
                Some(number) => Json::Number(number),
                None => {
                    let text = crate::strconv::format_float(*value, 'g', -1);
                    return Err(format!("json: unsupported value: {text}"));
                }
            },
            Value::Str(text) => Json::String(text.to_string()),
            Value::Binary(bytes) => Json::String(String::from_utf8_lossy(bytes).into_owned()),
            Value::Bytes(bytes) => Json::String(crate::base64_of(bytes)),
            Value::List(list) => Json::Array(
                list.items()
                    .iter()
                    .map(|it| with_stack(|| it.to_json_at(depth + 1, left)))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Map(map) if map.is_nil() => Json::Null,
            Value::Map(map) => Json::Object(
                map.entries()
                    .iter()
                    .map(|(key, value)| Ok((key.to_string(), with_stack(|| value.to_json_at(depth + 1, left))?)))
                    .collect::<Result<_, String>>()?,
            ),
            Value::Object(object) => object.to_json(),
        })
    }

    /// Go's type, as `%T` and `typeOf` print it.
    pub fn type_name(&self) -> Cow<'_, str> {
        match self {
            Value::Missing | Value::Nil => "<nil>".into(),
            Value::Bool(_) => "bool".into(),
            Value::Int(_, kind) => kind.name().into(),
            Value::Float(_) => "float64".into(),
            Value::Str(_) | Value::Binary(_) => "string".into(),
            Value::Bytes(_) => "[]uint8".into(),
            Value::List(list) => format!("[]{}", list.elem().name()).into(),
            Value::Map(map) => match map.0.type_name {
                Some(name) => name.into(),
                None => format!("map[string]{}", map.elem().name()).into(),
            },
            Value::Object(object) => object.type_name().to_owned().into(),
        }
    }

    /// Go's kind, as `kindOf` prints it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Missing | Value::Nil => "invalid",
            Value::Bool(_) => "bool",
            Value::Int(_, kind) => kind.name(),
            Value::Float(_) => "float64",
            Value::Str(_) | Value::Binary(_) => "string",
            Value::Bytes(_) | Value::List(_) => "slice",
            Value::Map(_) => "map",
            Value::Object(object) => object.kind(),
        }
    }

    /// Go's truth: not zero, not empty, not nil.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Missing | Value::Nil => false,
            Value::Bool(value) => *value,
            Value::Int(value, _) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Str(text) => !text.is_empty(),
            Value::Binary(bytes) | Value::Bytes(bytes) => !bytes.is_empty(),
            Value::List(list) => !list.items().is_empty(),
            Value::Map(map) => !map.is_empty(),
            Value::Object(object) => match object.items() {
                Some(items) => items.is_true(),
                None => object.is_true(),
            },
        }
    }

    pub fn is_nil(&self) -> bool {
        matches!(self, Value::Missing | Value::Nil)
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes of a string or `[]byte`.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Str(text) => Some(text.as_bytes()),
            Value::Binary(bytes) | Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The list or map underneath an object; any other value as it is.
    pub fn underlying(&self) -> Value {
        match self {
            Value::Object(object) => object.items().unwrap_or_else(|| self.clone()),
            other => other.clone(),
        }
    }

    /// Go's `reflect.DeepEqual`: the types have to agree too.
    pub fn deep_equal(&self, other: &Value) -> bool {
        counted(|left| self.deep_equal_at(other, 0, left))
    }

    fn deep_equal_at(&self, other: &Value, depth: usize, left: &mut usize) -> bool {
        if depth > DEPTH_OF_DATA_MAX || *left == 0 {
            return false;
        }
        *left -= 1;
        match (self, other) {
            (a, b) if a.is_nil() || b.is_nil() => a.is_nil() && b.is_nil(),
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a, a_kind), Value::Int(b, b_kind)) => a == b && a_kind == b_kind,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Binary(a), Value::Binary(b)) | (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                a.address() == b.address()
                    || a.elem() == b.elem()
                        && a.items().len() == b.items().len()
                        && (a.items().iter().zip(b.items()))
                            .all(|(a, b)| with_stack(|| a.deep_equal_at(b, depth + 1, left)))
            }
            (Value::Map(a), Value::Map(b)) => {
                a.address() == b.address()
                    || self.type_name() == other.type_name()
                        && a.len() == b.len()
                        && (a.entries().iter().zip(b.entries().iter())).all(|((a_key, a), (b_key, b))| {
                            a_key == b_key && with_stack(|| a.deep_equal_at(b, depth + 1, left))
                        })
            }
            (Value::Object(a), Value::Object(b)) => {
                Rc::ptr_eq(a, b) || a.type_name() == b.type_name() && a.display() == b.display()
            }
            _ => false,
        }
    }

    /// A copy that shares no map with this value.
    pub fn deep_copy(&self) -> Result<Value, String> {
        self.deep_copy_at(0, &mut BTreeMap::new())
    }

    // A map that is reached on two ways is copied once, so that a copy is never larger than what it copies.
    fn deep_copy_at(&self, depth: usize, made: &mut BTreeMap<*const (), Value>) -> Result<Value, String> {
        if depth > DEPTH_OF_DATA_MAX {
            return Err("the value is nested too deeply".to_owned());
        }
        spend(1);
        let address = match self {
            Value::List(list) => list.address(),
            Value::Map(map) => map.address(),
            other => return Ok(other.clone()),
        };
        if let Some(copy) = made.get(&address) {
            return Ok(copy.clone());
        }
        let copy = match self {
            Value::List(list) => {
                let items = list
                    .items()
                    .iter()
                    .map(|it| with_stack(|| it.deep_copy_at(depth + 1, made)));
                Value::List(List::new(items.collect::<Result<_, _>>()?, list.elem()))
            }
            Value::Map(map) => {
                let mut entries = BTreeMap::new();
                for (key, value) in map.entries() {
                    entries.insert(key, with_stack(|| value.deep_copy_at(depth + 1, made))?);
                }
                Value::Map(Map(Rc::new(MapInner {
                    entries: RefCell::new(entries),
                    elem: map.elem(),
                    type_name: map.0.type_name,
                    nil: false,
                })))
            }
            other => other.clone(),
        };
        made.insert(address, copy.clone());
        Ok(copy)
    }

    fn reaches(&self, target: &Map) -> bool {
        let mut seen = std::collections::BTreeSet::new();
        let mut rest = vec![self.clone()];
        while let Some(value) = rest.pop() {
            match value {
                Value::Map(map) => {
                    if map.same_as(target) {
                        return true;
                    }
                    if seen.insert(map.address()) {
                        rest.extend(map.entries().into_iter().map(|(_, value)| value));
                    }
                }
                Value::List(list) if seen.insert(list.address()) => rest.extend(list.items().iter().cloned()),
                _ => {}
            }
        }
        false
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::str(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::str(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&crate::gofmt::sprintf("%v", std::slice::from_ref(self)))
    }
}
