//! Whether a custom resource keeps its schema, in the words of kube-apiserver.
//!
//! On an update what did not change is not looked at again (ratcheting): a schema that became stricter does not lock
//! existing objects. Fields and items of list-maps are matched with their old selves; other lists count as a whole.

use super::{Checks, ListType, Schema, Type, formats, metadata::label_1035_errors, rules};
use crate::status::FieldError;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The field of errors that Kubernetes reports without one.
pub const NO_FIELD: &str = "<nil>";

/// Errors of a whole object against its schema: value checks, embedded resources, list keys, then CEL rules.
/// `old` is the stored object of an update.
pub fn validate(new: &Value, old: Option<&Value>, schema: &Schema) -> Vec<FieldError> {
    let mut errors = values(new, old, schema);
    if !schema.rules_below {
        return errors;
    }
    const BLOCKING: [&str; 5] = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    if errors.iter().any(|it| BLOCKING.contains(&it.reason)) {
        errors.push(FieldError::invalid(
            NO_FIELD,
            &Value::Null,
            "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ));
    } else {
        errors.extend(rules::evaluate(new, old, schema));
    }
    errors
}

/// Like `validate`, without CEL rules.
pub fn values(new: &Value, old: Option<&Value>, schema: &Schema) -> Vec<FieldError> {
    let mut checker = Checker::default();
    checker.node(new, old, schema, &Path::ROOT);
    checker.errors.append(&mut checker.structure);
    checker.errors
}

/// Where a value is. Rendered only when there is something to say.
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    segment: Segment<'a>,
}

#[derive(Clone, Copy)]
enum Segment<'a> {
    Root,
    Field(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Path<'static> = Path {
        parent: None,
        segment: Segment::Root,
    };

    pub(super) fn field<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path {
            parent: Some(self),
            segment: Segment::Field(name),
        }
    }
    pub(super) fn key<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path {
            parent: Some(self),
            segment: Segment::Key(name),
        }
    }
    pub(super) fn index(&self, at: usize) -> Path<'_> {
        Path {
            parent: Some(self),
            segment: Segment::Index(at),
        }
    }

    fn render(&self, bracket_keys: bool, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.render(bracket_keys, out);
        }
        match self.segment {
            Segment::Root => {}
            Segment::Index(at) => out.push_str(&format!("[{at}]")),
            Segment::Key(name) if bracket_keys => out.push_str(&format!("[{name}]")),
            Segment::Field(name) | Segment::Key(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
        }
    }

    /// `spec.map.key`, as the value checks print it.
    pub(super) fn dotted(&self) -> String {
        let mut out = String::new();
        self.render(false, &mut out);
        out
    }

    /// `spec.map[key]`, as list checks and CEL rules print it; the root has the field `<nil>`.
    pub(super) fn bracketed(&self) -> String {
        let mut out = String::new();
        self.render(true, &mut out);
        if out.is_empty() { NO_FIELD.to_owned() } else { out }
    }
}

fn error(reason: &'static str, path: &str, detail: String) -> FieldError {
    FieldError {
        reason,
        field: if path.is_empty() {
            NO_FIELD.to_owned()
        } else {
            path.to_owned()
        },
        detail,
    }
}

/// A float as Go's `%v` prints it.
fn number_text(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e21 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}

pub(super) fn type_name(schema: &Schema) -> &'static str {
    match schema.ty {
        _ if schema.int_or_string => "integer,string",
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::Any => "",
    }
}

/// The old items of a list-map, by their keys.
pub(super) enum OldItems<'a> {
    Few(&'a [Value], &'a [String]),
    /// Looking for each of many among many would take far too long.
    Many(HashMap<String, &'a Value>, &'a [String]),
}

impl<'a> OldItems<'a> {
    const FEW: usize = 16;

    pub(super) fn new(old: Option<&'a Value>, schema: &'a Schema) -> Self {
        let keys = schema.list_map_keys.as_slice();
        let items = match old {
            Some(Value::Array(items)) if schema.list_type == ListType::Map => items.as_slice(),
            _ => &[],
        };
        if items.len() <= Self::FEW {
            return Self::Few(items, keys);
        }
        let mut by_keys = HashMap::with_capacity(items.len());
        for item in items {
            by_keys.entry(Self::identity(item, keys)).or_insert(item);
        }
        Self::Many(by_keys, keys)
    }

    /// The one with the same keys.
    pub(super) fn of(&self, item: &Value) -> Option<&'a Value> {
        match self {
            Self::Few(items, keys) => {
                let same = |it: &&Value| keys.iter().all(|key| it.get(key) == item.get(key));
                items.iter().find(same)
            }
            Self::Many(by_keys, keys) => by_keys.get(&Self::identity(item, keys)).copied(),
        }
    }

    fn identity(item: &Value, keys: &[String]) -> String {
        let mut identity = String::new();
        for key in keys {
            if let Some(value) = item.get(key) {
                identity.push_str(&value.to_string());
            }
            // No text of JSON holds it.
            identity.push('\n');
        }
        identity
    }
}

/// How much is said of what is wrong with an object, in bytes. What says as much as the object is long about each of
/// its parts would fill the memory.
const TOLD_BYTES_MAX: usize = 1 << 20;

/// Counts what was told.
#[derive(Default)]
pub(super) struct Told {
    errors: usize,
    bytes: usize,
}

impl Told {
    /// Whether that is enough, all these errors included, to which more are only added.
    pub(super) fn is_enough(&mut self, errors: &[FieldError]) -> bool {
        let new = errors.get(self.errors..).unwrap_or_default();
        self.bytes += new.iter().map(|it| it.field.len() + it.detail.len()).sum::<usize>();
        self.errors = errors.len();
        self.bytes > TOLD_BYTES_MAX
    }
}

#[derive(Default)]
struct Checker {
    errors: Vec<FieldError>,
    /// Errors of lists and embedded resources, reported after those of values.
    structure: Vec<FieldError>,
    told: Told,
    told_of_structure: Told,
}

impl Checker {
    fn node(&mut self, value: &Value, old: Option<&Value>, schema: &Schema, path: &Path<'_>) {
        if old == Some(value) || self.told.is_enough(&self.errors) {
            return;
        }
        if value.is_null() {
            let want = type_name(schema);
            if !schema.nullable && !want.is_empty() {
                self.type_error(path, want, "null");
            }
            return;
        }
        self.check_type(value, schema, path);
        if let Some(checks) = &schema.checks {
            self.alternatives(value, checks, path);
        }
        match value {
            Value::String(text) => self.text(text, schema, path),
            Value::Number(number) => self.number(number, schema, path),
            Value::Array(items) => self.list(items, old, schema, path),
            _ => {}
        }
        if let Some(checks) = schema.checks.as_ref().filter(|it| !it.enumeration.is_empty())
            && !checks.enumeration.contains(value)
        {
            let text = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
            let list: Vec<String> = checks.enumeration.iter().map(text).collect();
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            let mut found = FieldError::not_supported(path.dotted(), value, &list);
            if found.field.is_empty() {
                found.field = NO_FIELD.to_owned();
            }
            self.errors.push(found);
        }
        if let Value::Object(map) = value {
            self.object(map, old, schema, path);
        }
    }

    fn type_error(&mut self, path: &Path<'_>, want: &str, found: &str) {
        let path = path.dotted();
        let detail = format!("Invalid value: {found:?}: {path} in body must be of type {want}: {found:?}");
        self.errors.push(error("FieldValueTypeInvalid", &path, detail));
    }

    fn check_type(&mut self, value: &Value, schema: &Schema, path: &Path<'_>) {
        let want = type_name(schema);
        if want.is_empty() {
            return;
        }
        let whole = value.as_f64().is_some_and(|it| it.fract() == 0.0);
        let (name, format) = match value {
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::Number(it) if it.is_f64() => ("number", "float64"),
            Value::Number(_) => ("integer", "int64"),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        };
        let fits = want.split(',').any(|want| {
            want == name || (want == "integer" && name == "number" && whole) || (want == "number" && name == "integer")
        });
        if fits {
            return;
        }
        match schema.format.as_deref().filter(|it| !it.is_empty()) {
            Some(wanted) if !matches!(value, Value::String(_) | Value::Array(_)) => {
                if format != wanted {
                    self.type_error(path, wanted, format);
                }
            }
            // The format check speaks for texts and lists.
            Some(_) if !want.contains("integer") && !want.contains("number") => {}
            _ => self.type_error(path, want, name),
        }
    }

    fn body_error(&mut self, path: &Path<'_>, value: &Value, text: &str) {
        let path = path.dotted();
        let detail = format!("Invalid value: {value}: {path} in body {text}");
        self.errors.push(error("FieldValueInvalid", &path, detail));
    }

    fn too_many(&mut self, path: &Path<'_>, found: usize, max: u64) {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("Too many: {found}: must have at most {max} {items}");
        self.errors.push(error("FieldValueTooMany", &path.dotted(), detail));
    }

    fn nameless(&mut self, text: String) {
        self.errors.push(error(
            "FieldValueInvalid",
            NO_FIELD,
            format!("Invalid value: \"\": {text}"),
        ));
    }

    fn text(&mut self, text: &str, schema: &Schema, path: &Path<'_>) {
        let value = || Value::String(text.to_owned());
        if let Some(checks) = &schema.checks {
            if checks.max_length.is_some() || checks.min_length.is_some() {
                let length = text.chars().count() as u64;
                if let Some(max) = checks.max_length.filter(|max| length > *max) {
                    let detail = format!("Too long: may not be more than {max} bytes");
                    self.errors.push(error("FieldValueTooLong", &path.dotted(), detail));
                }
                if let Some(min) = checks.min_length.filter(|min| length < *min) {
                    self.body_error(path, &value(), &format!("should be at least {min} chars long"));
                }
            }
            if let Some(pattern) = &checks.pattern
                && !pattern.is_match(text)
            {
                self.body_error(path, &value(), &format!("should match '{}'", pattern.as_str()));
            }
        }
        if let Some(format) = &schema.format
            && matches!(schema.ty, Type::String | Type::Any)
            && !formats::is_valid(format, text)
        {
            let path = path.dotted();
            let detail = format!(
                "Invalid value: {}: {path} in body must be of type {format}: {text:?}",
                value()
            );
            self.errors.push(error("FieldValueTypeInvalid", &path, detail));
        }
    }

    fn number(&mut self, number: &serde_json::Number, schema: &Schema, path: &Path<'_>) {
        let it = number.as_f64().unwrap_or_default();
        let value = || Value::Number(number.clone());
        if schema.format.as_deref() == Some("int32")
            && matches!(schema.ty, Type::Integer)
            && !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&it)
        {
            let path = path.dotted();
            self.nameless(format!(
                "Checked value must be of type integer with format int32 in {path}"
            ));
        }
        let Some(checks) = &schema.checks else { return };
        if let Some(by) = checks.multiple_of
            && by != 0.0
            && ((it / by) - (it / by).round()).abs() > 1e-9
        {
            self.body_error(path, &value(), &format!("should be a multiple of {}", number_text(by)));
        }
        if let Some(max) = checks.maximum {
            if checks.exclusive_maximum && it >= max {
                self.body_error(path, &value(), &format!("should be less than {}", number_text(max)));
            } else if it > max {
                self.body_error(
                    path,
                    &value(),
                    &format!("should be less than or equal to {}", number_text(max)),
                );
            }
        }
        if let Some(min) = checks.minimum {
            if checks.exclusive_minimum && it <= min {
                self.body_error(path, &value(), &format!("should be greater than {}", number_text(min)));
            } else if it < min {
                self.body_error(
                    path,
                    &value(),
                    &format!("should be greater than or equal to {}", number_text(min)),
                );
            }
        }
    }

    fn list(&mut self, items: &[Value], old: Option<&Value>, schema: &Schema, path: &Path<'_>) {
        if let Some(schema_of_items) = &schema.items {
            let old = OldItems::new(old, schema);
            for (at, item) in items.iter().enumerate() {
                self.node(item, old.of(item), schema_of_items, &path.index(at));
            }
        }
        if let Some(checks) = &schema.checks {
            if let Some(min) = checks.min_items.filter(|min| (items.len() as u64) < *min) {
                self.body_error(
                    path,
                    &Value::from(items.len()),
                    &format!("should have at least {min} items"),
                );
            }
            if let Some(max) = checks.max_items.filter(|max| items.len() as u64 > *max) {
                self.too_many(path, items.len(), max);
            }
        }
        match schema.list_type {
            ListType::Atomic => {}
            ListType::Set => self.unique(items.iter().cloned(), path),
            ListType::Map => {
                let keys = items.iter().map(|item| {
                    let pair = |key: &String| item.get(key).map(|it| (key.clone(), it.clone()));
                    Value::Object(schema.list_map_keys.iter().filter_map(pair).collect::<Map<_, _>>())
                });
                self.unique(keys, path);
            }
        }
    }

    fn unique(&mut self, values: impl Iterator<Item = Value>, path: &Path<'_>) {
        let mut seen = std::collections::HashSet::new();
        for (at, value) in values.enumerate() {
            if !seen.insert(value.to_string()) && !self.told_of_structure.is_enough(&self.structure) {
                self.structure
                    .push(FieldError::duplicate(path.index(at).bracketed(), &value));
            }
        }
    }

    fn object(&mut self, map: &Map<String, Value>, old: Option<&Value>, schema: &Schema, path: &Path<'_>) {
        if let Some(checks) = &schema.checks {
            if let Some(min) = checks.min_properties.filter(|min| (map.len() as u64) < *min) {
                self.body_error(
                    path,
                    &Value::from(map.len()),
                    &format!("should have at least {min} properties"),
                );
            }
            if let Some(max) = checks.max_properties.filter(|max| map.len() as u64 > *max) {
                self.too_many(path, map.len(), max);
            }
        }
        let old = old.and_then(Value::as_object);
        for (key, value) in map {
            let old = old.and_then(|it| it.get(key));
            if let Some(child) = schema.properties.get(key) {
                self.node(value, old, child, &path.field(key));
            } else if let Some(child) = &schema.additional {
                self.node(value, old, child, &path.key(key));
            }
        }
        for key in &schema.required {
            if !map.contains_key(key) {
                self.errors.push(FieldError::required(path.field(key).dotted(), ""));
            }
        }
        if schema.embedded_resource {
            self.embedded(map, path);
        }
    }

    fn embedded(&mut self, map: &Map<String, Value>, path: &Path<'_>) {
        for key in ["apiVersion", "kind"] {
            let at = path.field(key).bracketed();
            match map.get(key) {
                None => self.structure.push(FieldError::required(at, "must not be empty")),
                Some(Value::String(text)) if text.is_empty() => {
                    self.structure
                        .push(FieldError::invalid(at, &map[key], "must not be empty"));
                }
                Some(Value::String(text)) if key == "apiVersion" && text.matches('/').count() > 1 => {
                    let text = format!("unexpected GroupVersion string: {text}");
                    self.structure.push(FieldError::invalid(at, &map[key], text));
                }
                Some(Value::String(text)) if key == "kind" => {
                    let wrong = label_1035_errors(&text.to_lowercase()).into_iter();
                    let wrong = wrong.map(|it| format!("may have mixed case, but should otherwise match: {it}"));
                    self.structure
                        .extend(wrong.map(|it| FieldError::invalid(&at, &map[key], it)));
                }
                Some(Value::String(_)) => {}
                Some(other) => self.structure.push(FieldError::invalid(at, other, "must be a string")),
            }
        }
        if let Some(meta) = map.get("metadata") {
            let at = path.field("metadata").bracketed();
            let (errors, _) = super::metadata::validate(meta, &at, super::metadata::NameRule::PathSegment, None);
            self.structure.extend(errors);
        }
    }

    fn alternatives(&mut self, value: &Value, checks: &Checks, path: &Path<'_>) {
        let try_one = |schema: &Schema| {
            let mut checker = Checker::default();
            checker.node(value, None, schema, path);
            checker.errors
        };
        if !checks.any_of.is_empty() {
            let tries: Vec<_> = checks.any_of.iter().map(|it| try_one(it)).collect();
            if !tries.iter().any(Vec::is_empty) {
                self.nameless(format!("{:?} must validate at least one schema (anyOf)", path.dotted()));
                self.errors.extend(tries.into_iter().next().unwrap_or_default());
            }
        }
        if !checks.one_of.is_empty() {
            let tries: Vec<_> = checks.one_of.iter().map(|it| try_one(it)).collect();
            let valid = tries.iter().filter(|it| it.is_empty()).count();
            if valid != 1 {
                let found = if valid == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {valid} valid alternatives")
                };
                self.nameless(format!(
                    "{:?} must validate one and only one schema (oneOf). {found}",
                    path.dotted()
                ));
                if valid == 0 {
                    self.errors.extend(tries.into_iter().next().unwrap_or_default());
                }
            }
        }
        if !checks.all_of.is_empty() {
            let tries: Vec<_> = checks.all_of.iter().map(|it| try_one(it)).collect();
            let valid = tries.iter().filter(|it| it.is_empty()).count();
            self.errors.extend(tries.into_iter().flatten());
            if valid != checks.all_of.len() {
                let more = if valid == 0 { ". None validated" } else { "" };
                self.nameless(format!(
                    "{:?} must validate all the schemas (allOf){more}",
                    path.dotted()
                ));
            }
        }
        if let Some(schema) = &checks.not
            && try_one(schema).is_empty()
        {
            self.nameless(format!("{:?} must not validate the schema (not)", path.dotted()));
        }
    }
}

#[cfg(test)]
mod tests;
