//! Interim: name and creation time only, until the tables of all kinds land; whoever lands them replaces this file.
use kube_store::status::Status;
use serde_json::{Value, json};
pub struct Columns;
impl Columns {
    pub fn custom(_: &[Value]) -> Self {
        Self
    }
    pub fn builtin(_: &str, _: &str) -> Self {
        Self
    }
}
#[derive(Clone, Copy)]
pub enum IncludeObject {
    Metadata,
}
impl IncludeObject {
    pub fn parse(_: &str) -> Result<Self, Status> {
        Ok(Self::Metadata)
    }
}
pub fn partial(value: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]})
}
pub fn table(_: &Columns, values: &[Value], metadata: Value, _: &str, _: IncludeObject, _: jiff::Timestamp) -> Value {
    let rows: Vec<Value> = values
        .iter()
        .map(
            |it| json!({"cells": [it["metadata"]["name"], it["metadata"]["creationTimestamp"]], "object": partial(it)}),
        )
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "rows": rows, "columnDefinitions": [{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}, {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0}]})
}
