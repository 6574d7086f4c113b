//! What adds kinds to the server: CustomResourceDefinitions, which `crd` knows all about, and APIServices,
//! which nothing here asks.

use super::{
    defaults::{entry, member, set},
    strategy::{Columns, Strategy},
    validation::text,
};
use crate::{call::Call, crd, table::cells};
use jiff::Timestamp;
use kube_store::{
    schema::structural,
    status::{FieldError, Status},
};
use serde_json::{Map, Value, json};

/// CustomResourceDefinition.
pub struct Definitions;

impl Strategy for Definitions {
    fn default(&self, object: &mut Map<String, Value>) {
        let mut value = Value::Object(std::mem::take(object));
        structural::default_crd(&mut value);
        if let Value::Object(value) = value {
            *object = value;
        }
    }

    fn prepare_for_create(&self, call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        crd::prepare_create(call, value)
    }

    fn prepare_for_update(&self, call: &mut Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        crd::prepare_update(call, old, new)
    }

    fn allocates(&self) -> bool {
        true
    }

    fn is_taken_when_published(&self) -> bool {
        true
    }

    fn begin_create(&self, call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        crd::accept(call, value);
        Ok(())
    }

    // Upstream its controller writes it.
    fn status_manager(&self) -> Option<&'static str> {
        Some("kube-apiserver")
    }

    fn begin_update(&self, call: &Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        crd::settle_update(call, old, new);
        Ok(())
    }

    fn mark_terminating(&self, call: &Call<'_>, value: &mut Value) {
        crd::mark_terminating(value, call.now);
    }
}

/// APIService.
pub struct ApiServices;

impl Strategy for ApiServices {
    fn columns(&self) -> Columns {
        Columns::new("Name|Service|Available|Age", row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        if let Some(service) = member(entry(object, "spec"), "service") {
            set(service, "port", 443);
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let (version, group) = (text(new, "/spec/version"), text(new, "/spec/group"));
        let wanted = format!("{version}.{group}");
        let name = text(new, "/metadata/name");
        if name != wanted {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
            errors.push(FieldError::invalid("metadata.name", &json!(name), detail));
        }
    }
}

fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    let service = match cells::at(it, &["spec", "service"]) {
        Value::Null => "Local".to_owned(),
        service => format!(
            "{}/{}",
            cells::text(service, &["namespace"]),
            cells::text(service, &["name"])
        ),
    };
    let available = cells::list(it, &["status", "conditions"])
        .iter()
        .find(|it| cells::text(it, &["type"]) == "Available");
    let available = match available {
        None => "Unknown".to_owned(),
        Some(it) if cells::text(it, &["status"]) == "True" => "True".to_owned(),
        Some(it) => format!("{} ({})", cells::text(it, &["status"]), cells::text(it, &["reason"])),
    };
    vec![cells::name(it), service.into(), available.into(), cells::age(it, now)]
}
