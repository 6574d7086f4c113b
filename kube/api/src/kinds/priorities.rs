//! Priority classes: what nobody but the system may exceed, and what stays.

use super::{
    defaults::set,
    pod_admission::SYSTEM_PRIORITIES,
    strategy::{Columns, Strategy},
    validation::{
        fields::{FieldRule::*, FieldRules},
        text,
    },
};
use crate::{call::Call, kinds::pod_admission, table::cells};
use kube_store::status::{FieldError, Status};
use serde_json::{Map, Value};

/// PriorityClass.
pub struct PriorityClasses;

impl Strategy for PriorityClasses {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy",
            |it, now| {
                let default = cells::at(it, &["globalDefault"]).as_bool().unwrap_or_default().into();
                let policy = cells::or(cells::text(it, &["preemptionPolicy"]), "PreemptLowerPriority").into();
                vec![
                    cells::name(it),
                    cells::number(it, &["value"]).into(),
                    default,
                    cells::age(it, now),
                    policy,
                ]
            },
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        set(object, "preemptionPolicy", "PreemptLowerPriority");
        // Go does not leave it out.
        set(object, "value", 0);
    }

    fn fields(&self) -> FieldRules {
        &[
            ("preemptionPolicy", OneOf(&["PreemptLowerPriority", "Never"])),
            ("preemptionPolicy", Immutable),
        ]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let (name, value) = (text(new, "/metadata/name"), new["value"].as_i64().unwrap_or_default());
        if name.starts_with("system-") {
            let known = SYSTEM_PRIORITIES.iter().find(|it| it.0 == name);
            let error = match known {
                None => Some(format!("{name} is not a known system priority class")),
                Some(it) if it.1 != value => Some(format!("value of {name} PriorityClass must be {}", it.1)),
                Some(_) => None,
            };
            if let Some(error) = error {
                let detail = "priority class names with 'system-' prefix are reserved for system use only. error: ";
                errors.push(FieldError::forbidden("metadata.name", format!("{detail}{error}")));
            }
        } else if value > PRIORITY_MAX {
            let detail = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
            errors.push(FieldError::forbidden("value", detail));
        }
        if old.is_some_and(|it| it["value"] != new["value"]) {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
    }

    fn prepare_for_create(&self, call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        pod_admission::check_priority(call, value)
    }

    fn prepare_for_update(&self, call: &mut Call<'_>, _old: &Value, new: &mut Value) -> Result<(), Status> {
        pod_admission::check_priority(call, new)
    }

    fn check_delete(&self, call: &Call<'_>) -> Result<(), Status> {
        if !SYSTEM_PRIORITIES.iter().any(|it| it.0 == call.name) {
            return Ok(());
        }
        let why = "this is a system priority class and cannot be deleted";
        Err(Status::forbidden(
            &call.resource.plural,
            &call.resource.group,
            &call.name,
            why,
        ))
    }

    // What may change of them means nothing to anybody who counts.
    fn has_one_generation(&self) -> bool {
        true
    }
}

/// What nobody but the system may exceed.
const PRIORITY_MAX: i64 = 1_000_000_000;
