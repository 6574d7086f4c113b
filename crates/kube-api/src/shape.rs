//! Objects in the shape that `as=` asked for: whole, as a Table, or metadata only.

use crate::{
    call::{Call, in_version},
    registry::Resource,
    respond::Shape,
    table,
    verbs::list::{self, Page},
};
use kube_store::status::Status;
use serde_json::{Value, json};

fn include(call: &Call<'_>) -> Result<table::IncludeObject, Status> {
    table::IncludeObject::parse(call.query.get("includeObject").unwrap_or_default())
}

/// One object in a shape; `None` when the stored bytes serve as they are.
///
/// # Errors
/// 400 for a bad `includeObject`, 406 for a shape of lists.
pub fn object(call: &Call<'_>, shape: &Shape, value: Value) -> Result<Value, Status> {
    Ok(match shape {
        Shape::Object => value,
        Shape::Partial => table::partial(&value),
        Shape::Table(version) => {
            let revision = value["metadata"]["resourceVersion"].clone();
            let columns = columns(&call.resource, &call.version);
            table::table(
                &columns,
                &[value],
                json!({"resourceVersion": revision}),
                version,
                include(call)?,
                call.now,
            )
        }
        Shape::PartialList => {
            return Err(Status::new(
                406,
                "NotAcceptable",
                format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                    call.resource.kind
                ),
            ));
        }
    })
}

/// A list in a shape other than whole objects.
///
/// # Errors
/// 400 for a bad `includeObject`, 406 for a shape of single objects.
pub fn list(call: &Call<'_>, shape: &Shape, page: &Page) -> Result<Value, Status> {
    let values = || -> Vec<Value> {
        page.objects
            .iter()
            .map(|it| in_version(it, &call.resource, &call.version))
            .collect()
    };
    let metadata = list::metadata(page, false);
    Ok(match shape {
        Shape::Object => json!({
            "kind": call.resource.list_kind,
            "apiVersion": call.resource.api_version(&call.version),
            "metadata": metadata,
            "items": values(),
        }),
        Shape::PartialList => {
            let items: Vec<Value> = values().iter().map(table::partial).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items})
        }
        Shape::Table(version) => {
            let columns = columns(&call.resource, &call.version);
            table::table(&columns, &values(), metadata, version, include(call)?, call.now)
        }
        Shape::Partial => {
            return Err(Status::new(
                406,
                "NotAcceptable",
                format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{})",
                    call.resource.list_kind
                ),
            ));
        }
    })
}

/// The object of a watch event.
pub fn event(resource: &Resource, version: &str, shape: &Shape, value: Value, first: bool) -> Value {
    match shape {
        Shape::Object => value,
        Shape::Partial | Shape::PartialList => table::partial(&value),
        Shape::Table(meta) => {
            let metadata = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
            let columns = columns(resource, version);
            let include = table::IncludeObject::Metadata;
            let mut table = table::table(&columns, &[value], metadata, meta, include, jiff::Timestamp::now());
            if !first {
                table["columnDefinitions"] = Value::Null;
            }
            table
        }
    }
}

/// The object of a bookmark.
pub fn bookmark(shape: &Shape, value: Value, _first: bool) -> Value {
    match shape {
        Shape::Object => value,
        Shape::Partial | Shape::PartialList => {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]})
        }
        Shape::Table(version) => json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{version}"),
            "metadata": {"resourceVersion": value["metadata"]["resourceVersion"]},
            "columnDefinitions": null,
            "rows": [{"cells": ["", 0, "<unknown>"], "object": {
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"],
            }}],
        }),
    }
}

/// The columns of a resource's table.
pub fn columns(resource: &Resource, version: &str) -> table::Columns {
    match resource.version(version).filter(|_| !resource.is_builtin()) {
        Some(version) => table::Columns::custom(&version.columns),
        None => table::Columns::builtin(&resource.group, &resource.kind),
    }
}
