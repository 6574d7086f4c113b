//! Which objects of a collection a request wants.

use crate::{call::Call, convert, kinds, registry::Resource};
use kube_store::{
    object::Object,
    selector::{FieldSelector, LabelSelector},
    status::Status,
};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

/// Label and field selectors of a list, watch or deletecollection.
#[derive(Clone)]
pub struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// Set when a field beyond name and namespace is asked for: then the object must be parsed, and looked at in the
    /// version of the request, which the fields are of.
    deep: Option<(Arc<Resource>, String)>,
}

impl Selection {
    /// Reads `labelSelector` and `fieldSelector`.
    ///
    /// # Errors
    /// 400 for a selector that cannot be parsed or a field that the kind does not offer.
    pub fn read(call: &Call<'_>) -> Result<Self, Status> {
        let labels =
            LabelSelector::parse(call.query.get("labelSelector").unwrap_or_default()).map_err(Status::bad_request)?;
        let mut fields = call.query.get("fieldSelector").unwrap_or_default().to_owned();
        if !call.name.is_empty() {
            // The old path of a watch names its object.
            let sign = if fields.is_empty() { "" } else { "," };
            fields = format!("{fields}{sign}metadata.name={}", call.name);
        }
        let fields = FieldSelector::parse(&fields).map_err(Status::bad_request)?;
        let mut deep = false;
        for term in fields.terms() {
            match term.field.as_str() {
                "metadata.name" => {}
                "metadata.namespace" if call.resource.namespaced => {}
                other if known_field(call, other) => deep = true,
                other => return Err(unknown_field(call, other)),
            }
        }
        let deep = deep.then(|| (call.resource.clone(), call.version.clone()));
        Ok(Self { labels, fields, deep })
    }

    /// Whether everything matches.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether an object matches.
    pub fn matches(&self, object: &Object) -> bool {
        if !self.labels.matches(object) {
            return false;
        }
        if self.fields.is_everything() {
            return true;
        }
        let parsed = self.deep.as_ref().map(|(resource, version)| {
            // The two groups of events name their fields differently, and both names are known.
            if resource.is_builtin() {
                object.value()
            } else {
                convert::ready_value(resource, version, object)
            }
        });
        self.fields.matches(|field| match field {
            "metadata.name" => Some(Cow::Borrowed(&*object.name)),
            "metadata.namespace" => Some(Cow::Borrowed(&*object.namespace)),
            other => parsed.as_ref().map(|it| Cow::Owned(field_value(it, other))),
        })
    }
}

fn known_field(call: &Call<'_>, field: &str) -> bool {
    kinds::of(call).selectable_fields().contains(&field) || call.served().selectable.iter().any(|it| it == field)
}

fn unknown_field(call: &Call<'_>, field: &str) -> Status {
    let own_table = !call.resource.is_builtin() || !kinds::of(call).selectable_fields().is_empty();
    Status::bad_request(if call.id().as_ref() == "jobs.batch" {
        format!("field label {field:?} not supported for Job")
    } else if own_table {
        format!("field label not supported: {field}")
    } else if call.resource.namespaced {
        format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    } else {
        format!("\"{field}\" is not a known field selector: only \"metadata.name\"")
    })
}

fn field_value(object: &Value, field: &str) -> String {
    // Events are stored under the names of the core group.
    let field = match (field, field.strip_prefix("regarding")) {
        (_, Some(rest)) => format!("involvedObject{rest}"),
        ("reportingController", _) => "reportingComponent".to_owned(),
        // What the selector calls so has another name in the object.
        ("status.successful", _) => "status.succeeded".to_owned(),
        ("spec.host", _) => "spec.nodeName".to_owned(),
        // Known, and never filled in.
        ("status.podIPs", _) => return String::new(),
        _ => field.to_owned(),
    };
    let mut at = object;
    for part in field.split('.') {
        at = &at[part];
    }
    match at {
        Value::String(text) => text.clone(),
        Value::Null if matches!(field.as_str(), "spec.unschedulable" | "spec.hostNetwork") => "false".into(),
        // Counts that Go leaves out are zero.
        Value::Null if matches!(field.as_str(), "status.succeeded" | "status.replicas") => "0".into(),
        Value::Null if field == "source" => object["reportingComponent"].as_str().unwrap_or_default().to_owned(),
        Value::Null => String::new(),
        // The source of an event; recorders of today name themselves as the reporting component only.
        Value::Object(map) => {
            let component = map.get("component").and_then(Value::as_str);
            let reporting = || object["reportingComponent"].as_str();
            let named = component.filter(|it| !it.is_empty()).or_else(reporting);
            named.unwrap_or_default().to_owned()
        }
        other => other.to_string(),
    }
}
