//! JSON as CEL.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::Value as Cel;
use serde_json::Value;

/// JSON as CEL. Whole numbers become `int`, so that an expression can compare them with literals.
pub fn from_json(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(it) => Cel::Bool(*it),
        Value::Number(it) => match (it.as_i64(), it.as_u64()) {
            (Some(it), _) => Cel::Int(it),
            (None, Some(it)) => Cel::UInt(it),
            (None, None) => Cel::Float(it.as_f64().unwrap_or_default()),
        },
        Value::String(it) => Cel::String(Arc::new(it.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(from_json).collect())),
        Value::Object(fields) => {
            let fields: HashMap<String, Cel> = fields
                .iter()
                .map(|(key, value)| (key.clone(), from_json(value)))
                .collect();
            Cel::Map(fields.into())
        }
    }
}
