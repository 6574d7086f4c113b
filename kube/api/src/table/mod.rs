//! Tables: what `kubectl get` prints, made by the server.
//!
//! Columns and cells of the built-in kinds are beside their rules (`kinds`), those of custom resources in [`custom`].
//! The time is passed in, so that an age can be tested.

pub mod cells;
pub mod custom;
pub mod duration;
#[cfg(test)]
mod tests;

pub use custom::CustomColumns;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading; kubectl prints it in capitals.
    pub name: Cow<'static, str>,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub ty: Cow<'static, str>,
    /// `name` for the column that names the object; mostly empty.
    pub format: Cow<'static, str>,
    /// Sentence for the user.
    pub description: Cow<'static, str>,
    /// Columns above 0 are shown by `-o wide` only.
    pub priority: i64,
}

impl Column {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name, "type": self.ty, "format": self.format, "description": self.description, "priority": self.priority,
        })
    }
}

/// The column that names the object.
fn name_column() -> Column {
    let description = "Unique within a namespace; cannot be changed.";
    Column {
        name: "Name".into(),
        ty: "string".into(),
        format: "name".into(),
        description: description.into(),
        priority: 0,
    }
}

/// Columns and cells of one built-in kind. Facts from Kubernetes `pkg/printers/internalversion/printers.go`.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Names separated by `|`; `:type` follows a name that is no string, `*` marks what only `-o wide` shows.
    names: &'static str,
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

impl Columns {
    /// Of kinds without columns of their own.
    pub const PLAIN: Self = Self {
        names: "Name|Created At:date",
        cells: |it, _| {
            vec![
                cells::name(it),
                cells::text(it, &["metadata", "creationTimestamp"]).into(),
            ]
        },
    };
    /// What the scale subresource of any kind answers.
    pub const SCALE: Self = Self {
        names: "Name|Desired:integer|Available:integer|Age",
        cells: |it, now| {
            let count = |part: &str| cells::number(it, &[part, "replicas"]).into();
            vec![cells::name(it), count("spec"), count("status"), cells::age(it, now)]
        },
    };

    /// Columns with these names, and what makes their cells.
    pub const fn new(names: &'static str, cells: fn(&Value, Timestamp) -> Vec<Value>) -> Self {
        Self { names, cells }
    }

    fn columns(&self) -> Vec<Column> {
        self.names.split('|').map(parse_column).collect()
    }
}

fn parse_column(text: &'static str) -> Column {
    let (text, priority) = text.strip_suffix('*').map_or((text, 0), |it| (it, 1));
    let (name, ty) = text.split_once(':').unwrap_or((text, "string"));
    match name {
        "Name" if priority == 0 => name_column(),
        "Created At" => Column {
            description: CREATED.into(),
            ..plain(name, ty, priority)
        },
        "Age" => Column {
            description: CREATED.into(),
            ..plain(name, ty, priority)
        },
        _ => plain(name, ty, priority),
    }
}

const CREATED: &str = "When the object was created; the server sets it.";

fn plain(name: &'static str, ty: &'static str, priority: i64) -> Column {
    Column {
        name: name.into(),
        ty: ty.into(),
        format: "".into(),
        description: "".into(),
        priority,
    }
}

/// How the objects of one resource become rows.
#[derive(Clone, Debug)]
pub enum Printer {
    /// A kind that Kubernetes prints itself.
    BuiltIn(Columns),
    /// A custom resource with its printer columns.
    Custom(CustomColumns),
}

impl Printer {
    /// The column definitions.
    pub fn columns(&self) -> Vec<Column> {
        match self {
            Printer::BuiltIn(kind) => kind.columns(),
            Printer::Custom(columns) => columns.columns(),
        }
    }

    /// The cells of one object, as many as there are columns.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Printer::BuiltIn(kind) => (kind.cells)(object, now),
            Printer::Custom(columns) => columns.cells(object, now),
        }
    }
}

/// What each row carries of its object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata, as a `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`. The error is the message of the 400.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                Value::from(other)
            )),
        }
    }
}

/// How a client asked for tables.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// `v1` or `v1beta1`: the version of `meta.k8s.io`.
    pub version: &'a str,
    /// What each row carries.
    pub include: IncludeObject,
}

impl Form<'_> {
    fn api_version(self) -> String {
        format!("meta.k8s.io/{}", self.version)
    }
}

/// A list as a table. `list_metadata` is the `metadata` of the list, or of the single object.
pub fn table<'a>(
    printer: &Printer,
    form: Form<'_>,
    list_metadata: &Value,
    objects: impl IntoIterator<Item = &'a Value>,
    now: Timestamp,
) -> Value {
    let columns: Vec<Value> = printer.columns().iter().map(Column::to_json).collect();
    envelope(printer, form, list_metadata, columns.into(), objects, now)
}

/// A single object as a table.
pub fn object_table(printer: &Printer, form: Form<'_>, object: &Value, now: Timestamp) -> Value {
    table(printer, form, &object["metadata"], [object], now)
}

/// The object of a watch event as a table of one row. Only the first event of a watch carries the columns. A bookmark
/// becomes a row of an empty object.
pub fn event_table(printer: &Printer, form: Form<'_>, object: &Value, is_first: bool, now: Timestamp) -> Value {
    if is_first {
        return object_table(printer, form, object, now);
    }
    envelope(printer, form, &object["metadata"], Value::Null, [object], now)
}

fn envelope<'a>(
    printer: &Printer,
    form: Form<'_>,
    list_metadata: &Value,
    columns: Value,
    objects: impl IntoIterator<Item = &'a Value>,
    now: Timestamp,
) -> Value {
    let mut metadata = Map::new();
    for key in ["resourceVersion", "continue", "remainingItemCount"] {
        if let Some(value) = list_metadata.get(key) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let row = |object: &Value| {
        let carried = match form.include {
            IncludeObject::None => Value::Null,
            IncludeObject::Metadata => partial_metadata(object, form.version),
            IncludeObject::Object => object.clone(),
        };
        json!({"cells": printer.cells(object, now), "object": carried})
    };
    let rows: Vec<Value> = objects.into_iter().map(row).collect();
    json!({"kind": "Table", "apiVersion": form.api_version(), "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}

/// An object as `PartialObjectMetadata` of `meta.k8s.io/<version>`.
pub fn partial_metadata(object: &Value, version: &str) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata})
}

/// A list as `PartialObjectMetadataList`; every item carries its own kind.
pub fn partial_metadata_list<'a>(
    list_metadata: &Value,
    objects: impl IntoIterator<Item = &'a Value>,
    version: &str,
) -> Value {
    let items: Vec<Value> = objects.into_iter().map(|it| partial_metadata(it, version)).collect();
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": list_metadata, "items": items,
    })
}
