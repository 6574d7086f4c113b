//! Objects in the shape that `as=` asked for: whole, as a Table, or metadata only.

use crate::{
    call::Call,
    convert,
    registry::Resource,
    respond::Shape,
    table::{self, Columns, Form, IncludeObject, Printer},
    verbs::list::{self, ListPage},
};
use jiff::Timestamp;
use kube_store::status::Status;
use serde_json::{Value, json};

/// What the rows of a table carry, as the query says.
///
/// # Errors
/// 400 for anything but `Metadata`, `Object` and `None`.
pub fn include(call: &Call<'_>) -> Result<IncludeObject, Status> {
    IncludeObject::parse(call.query.get("includeObject").unwrap_or_default()).map_err(Status::bad_request)
}

/// The form and printer of a table that the call asks for.
fn table_of<'a>(call: &'a Call<'_>, version: &'a str) -> Result<(&'a Printer, Form<'a>), Status> {
    static SCALE: Printer = Printer::BuiltIn(Columns::SCALE);
    let printer = if call.subresource == "scale" {
        &SCALE
    } else {
        printer(&call.resource, &call.version)
    };
    Ok((
        printer,
        Form {
            version,
            include: include(call)?,
        },
    ))
}

/// One object in a shape; `None` when the stored bytes serve as they are.
///
/// # Errors
/// 400 for a bad `includeObject`, 406 for a shape of lists.
pub fn object(call: &Call<'_>, shape: &Shape, value: Value) -> Result<Value, Status> {
    Ok(match shape {
        Shape::Object => value,
        Shape::Partial => table::partial_metadata(&value, "v1"),
        Shape::Table(version) => {
            let (printer, form) = table_of(call, version)?;
            table::object_table(printer, form, &value, call.now)
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

/// The type that holds the list in Kubernetes.
fn go_list_type(call: &Call<'_>) -> String {
    if call.resource.is_builtin() {
        format!(
            "{}.{}",
            crate::content::go_package(&call.resource.group),
            call.resource.list_kind
        )
    } else {
        "unstructured.UnstructuredList".to_owned()
    }
}

/// A list in a shape other than whole objects. Its objects are prepared.
///
/// # Errors
/// 400 for a bad `includeObject`, 406 for a shape of single objects.
pub fn list(call: &Call<'_>, shape: &Shape, page: &ListPage) -> Result<Value, Status> {
    let values = || -> Vec<Value> {
        page.objects
            .iter()
            .map(|it| convert::ready_value(&call.resource, &call.version, it))
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
        Shape::PartialList => table::partial_metadata_list(&metadata, &values(), "v1"),
        Shape::Table(version) => {
            let (printer, form) = table_of(call, version)?;
            table::table(printer, form, &metadata, &values(), call.now)
        }
        Shape::Partial => {
            return Err(Status::new(
                406,
                "NotAcceptable",
                format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{})",
                    go_list_type(call)
                ),
            ));
        }
    })
}

/// The object of a watch event or bookmark. Of tables only the first carries the columns.
pub fn event(
    resource: &Resource,
    version: &str,
    shape: &Shape,
    include: IncludeObject,
    value: Value,
    first: bool,
) -> Value {
    match shape {
        Shape::Object => value,
        Shape::Partial | Shape::PartialList => table::partial_metadata(&value, "v1"),
        Shape::Table(meta) => {
            let form = Form { version: meta, include };
            table::event_table(printer(resource, version), form, &value, first, Timestamp::now())
        }
    }
}

/// How the objects of a resource become rows.
fn printer<'a>(resource: &'a Resource, version: &str) -> &'a Printer {
    static PLAIN: Printer = Printer::BuiltIn(Columns::PLAIN);
    resource.version(version).map_or(&PLAIN, |it| &it.printer)
}
