//! What admission does to pods in every Kubernetes: their ServiceAccount, their priority, and who says where they run.

use crate::{call::Call, resource_ids::PRIORITY_CLASSES};
use kube_store::status::{FieldError, Status};
use serde_json::{Map, Value, json};

/// The classes that every cluster has, with their values and what they are for.
pub const SYSTEM_PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// The ServiceAccount that every namespace has.
const DEFAULT_ACCOUNT: &str = "default";

/// Completes a new pod.
///
/// # Errors
/// 403 for a ServiceAccount or a priority class that does not exist, and for what contradicts the class that does.
pub fn prepare(call: &Call<'_>, pod: &mut Value) -> Result<(), Status> {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    default_service_account(spec);
    let forbidden = |why: String| Status::forbidden("pods", "", &call.name, &why);
    // That of the namespace comes with it, a moment later.
    let account = spec["serviceAccountName"].as_str().unwrap_or_default();
    let accounts = &call.server.store;
    if account != DEFAULT_ACCOUNT && accounts.newest("serviceaccounts", &call.namespace, account).is_none() {
        return Err(forbidden(format!(
            "error looking up service account {}/{account}: serviceaccount {account:?} not found",
            call.namespace
        )));
    }
    let named = spec
        .get("priorityClassName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let class = if named.is_empty() {
        default_class(call)
    } else {
        let class = call.server.store.get(PRIORITY_CLASSES, "", named).map(|it| it.value());
        Some(class.ok_or_else(|| forbidden(format!("no PriorityClass with name {named} was found")))?)
    };
    let value = class.as_ref().map_or(json!(0), |it| it["value"].clone());
    if let Some(given) = spec.get("priority").filter(|it| **it != value) {
        return Err(forbidden(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
             {value} from the given PriorityClass name"
        )));
    }
    let policy = class.as_ref().and_then(|it| it["preemptionPolicy"].as_str());
    let policy = policy.unwrap_or("PreemptLowerPriority");
    if let Some(given) = spec
        .get("preemptionPolicy")
        .and_then(Value::as_str)
        .filter(|it| *it != policy)
    {
        return Err(forbidden(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed \
             {policy} from the given PriorityClass name"
        )));
    }
    let Some(class) = class else { return Ok(()) };
    spec.insert("priorityClassName".into(), class["metadata"]["name"].clone());
    spec.insert("priority".into(), value);
    if let Some(policy) = class.get("preemptionPolicy") {
        spec.insert("preemptionPolicy".into(), policy.clone());
    }
    Ok(())
}

/// The class of pods that name none.
fn default_class(call: &Call<'_>) -> Option<Value> {
    let (classes, _) = call.server.store.list(PRIORITY_CLASSES, "");
    classes
        .iter()
        .map(|it| it.value())
        .find(|it| it["globalDefault"] == true)
}

/// A pod that names no ServiceAccount has its namespace's `default`.
fn default_service_account(spec: &mut Map<String, Value>) {
    let text = |key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = [
        text("serviceAccountName"),
        text("serviceAccount"),
        DEFAULT_ACCOUNT.to_owned(),
    ];
    if let Some(name) = name.into_iter().find(|it| !it.is_empty()) {
        spec.insert("serviceAccountName".into(), name.clone().into());
        spec.insert("serviceAccount".into(), name.into());
    }
}

/// Where a pod runs is said once, by a Binding.
///
/// # Errors
/// 409 for a second Binding, 422 for any other write that changes it.
pub fn check_node(call: &Call<'_>, old: &Value, new: &Value) -> Result<(), Status> {
    let node = |it: &Value| it["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    let (before, after) = (node(old), node(new));
    if call.subresource == "binding" {
        if before.is_empty() {
            return Ok(());
        }
        let why = format!("pod {} is already assigned to node {before:?}", call.name);
        return Err(Status::conflict("pods/binding", "", &call.name, why));
    }
    if before == after {
        return Ok(());
    }
    Err(call.refuse(FieldError::forbidden("spec", UNCHANGEABLE)))
}

/// What of a pod may change.
pub const UNCHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

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
