//! Classes that stand in where an object names none: which is one, and that of priorities there is one at most.
//! Upstream: plugin/pkg/admission/scheduling/priority.

use crate::{call::Call, pod_admission::PRIORITY_CLASSES};
use kube_store::status::Status;
use serde_json::{Value, json};

/// Marks the default one of storage classes, in the name of today and of before.
pub const OF_STORAGE: &[&str] = &[
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// Marks the default one of ingress classes.
pub const OF_INGRESSES: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];

/// At most one priority is that of all pods that name none.
///
/// # Errors
/// 403 naming the class that is the default already.
pub fn check_priority(call: &Call<'_>, class: &Value) -> Result<(), Status> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    let (classes, _) = call.server.store.list(PRIORITY_CLASSES, "");
    let other = classes
        .iter()
        .map(|it| it.value())
        .filter(|it| it["globalDefault"] == true && it["metadata"]["name"] != json!(call.name))
        .min_by_key(|it| it["value"].as_i64());
    let Some(other) = other else { return Ok(()) };
    let other = other["metadata"]["name"].as_str().unwrap_or_default();
    let why = format!("PriorityClass {other} is already marked as default. Only one default can exist");
    Err(Status::forbidden(
        &call.resource.plural,
        &call.resource.group,
        &call.name,
        &why,
    ))
}

/// Whether a class bears one of the annotations that make it the default.
pub fn is_default(class: &Value, keys: &[&str]) -> bool {
    let annotations = &class["metadata"]["annotations"];
    keys.iter().any(|key| annotations[*key] == "true")
}
