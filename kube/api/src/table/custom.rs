//! Tables of custom resources, by the printer columns of their definition.
//! Facts from `apiextensions-apiserver/pkg/registry/customresource/tableconvertor`.

use super::{Column, cells, duration::since, name_column};
use jiff::Timestamp;
use kube_store::jsonpath::JsonPath;
use serde_json::Value;

/// The compiled printer columns of one version of a custom resource.
#[derive(Clone, Debug)]
pub struct CustomColumns {
    columns: Vec<(Column, JsonPath)>,
}

impl CustomColumns {
    /// Compiles `additionalPrinterColumns`. Without any there is an age. A column whose path does not compile is left
    /// out: the definition was refused when it has one, so it is not worth failing every list.
    pub fn compile(columns: &Value) -> Self {
        let columns: Vec<_> = columns.as_array().into_iter().flatten().filter_map(column).collect();
        if columns.is_empty() {
            return Self {
                columns: vec![age_column()],
            };
        }
        Self { columns }
    }

    /// The column definitions, the name first.
    pub fn columns(&self) -> Vec<Column> {
        std::iter::once(name_column())
            .chain(self.columns.iter().map(|(column, _)| column.clone()))
            .collect()
    }

    /// The cells of one object.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let cell = |(column, path): &(Column, JsonPath)| {
            path.first(object)
                .map_or(Value::Null, |value| cell(value, &column.ty, now))
        };
        std::iter::once(cells::name(object))
            .chain(self.columns.iter().map(cell))
            .collect()
    }
}

fn column(definition: &Value) -> Option<(Column, JsonPath)> {
    let text = |name: &str| cells::text(definition, &[name]).to_owned();
    let json_path = text("jsonPath");
    let path = JsonPath::parse(&json_path).ok()?;
    let description = match text("description") {
        it if it.is_empty() => format!("Custom resource definition column (in JSONPath format): {json_path}"),
        it => it,
    };
    let column = Column {
        name: text("name").into(),
        ty: text("type").into(),
        format: text("format").into(),
        description: description.into(),
        priority: cells::number(definition, &["priority"]),
    };
    Some((column, path))
}

fn age_column() -> (Column, JsonPath) {
    let description = "When the object was created; the server sets it.";
    let column = Column {
        name: "Age".into(),
        ty: "date".into(),
        format: "".into(),
        description: description.into(),
        priority: 0,
    };
    (
        column,
        JsonPath::parse(".metadata.creationTimestamp").expect("the path is a constant"),
    )
}

fn cell(value: &Value, ty: &str, now: Timestamp) -> Value {
    match (ty, value) {
        ("string", Value::String(_)) => value.clone(),
        ("string", Value::Null) => "<nil>".into(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) if number.is_f64() => {
            // Go truncates towards zero; a float beyond the integers saturates instead of wrapping.
            Value::from(number.as_f64().unwrap_or_default() as i64)
        }
        ("integer" | "number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) if text.is_empty() => "<invalid>".into(),
        ("date", Value::String(text)) => since(Some(text), now).into(),
        _ => Value::Null,
    }
}
