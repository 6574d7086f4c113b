//! Classes that stand in where an object names none: of storage, of ingresses, of priorities.
//! Upstream: plugin/pkg/admission/storage/storageclass/setdefault, network/defaultingressclass and priority.

use crate::{call::Call, pod_admission::PRIORITY_CLASSES};
use kube_store::status::Status;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Marks the default one of storage classes, in the name of today and of before.
pub const OF_STORAGE: &[&str] = &[
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// Marks the default one of ingress classes.
pub const OF_INGRESSES: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];

/// Id of the resource of storage classes.
pub const STORAGE_CLASSES: &str = "storageclasses.storage.k8s.io";
const INGRESS_CLASSES: &str = "ingressclasses.networking.k8s.io";

/// A new claim that names no class has the default one. The empty name is a name: it asks for a volume without class.
pub fn of_claim(call: &Call<'_>, claim: &mut Value) {
    let named = !claim["spec"]["storageClassName"].is_null()
        || has_annotation(claim, "volume.beta.kubernetes.io/storage-class");
    if !named && let Some(name) = newest(call, STORAGE_CLASSES, OF_STORAGE) {
        give(claim, "storageClassName", name);
    }
}

/// A new Ingress that names no class has the default one.
pub fn of_ingress(call: &Call<'_>, ingress: &mut Value) {
    let named =
        !ingress["spec"]["ingressClassName"].is_null() || has_annotation(ingress, "kubernetes.io/ingress.class");
    if !named && let Some(name) = newest(call, INGRESS_CLASSES, OF_INGRESSES) {
        give(ingress, "ingressClassName", name);
    }
}

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
    keys.iter()
        .any(|key| annotation(class, key).is_some_and(|it| it == "true"))
}

fn give(value: &mut Value, key: &str, class: String) {
    if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert(key.to_owned(), class.into());
    }
}

fn annotation<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value["metadata"]["annotations"].get(key)
}

fn has_annotation(value: &Value, key: &str) -> bool {
    annotation(value, key).is_some()
}

/// The name of the class that bears one of the annotations; of several the newest, and of those made in the same second the
/// first by name.
fn newest(call: &Call<'_>, classes: &str, keys: &[&str]) -> Option<String> {
    let (classes, _) = call.server.store.list(classes, "");
    let text = |it: &Value, key: &str| it["metadata"][key].as_str().unwrap_or_default().to_owned();
    let marked = classes
        .iter()
        .map(|it| it.value())
        .filter(|class| is_default(class, keys));
    marked
        .map(|it| (Reverse(text(&it, "creationTimestamp")), text(&it, "name")))
        .min()
        .map(|it| it.1)
}
