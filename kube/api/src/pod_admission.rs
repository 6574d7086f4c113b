//! What admission does to pods in every Kubernetes: their ServiceAccount, their priority, and who says where they run.

use crate::{call::Call, kinds::refuse};
use kube_store::{
    schema::quantity,
    status::{FieldError, Status},
};
use serde_json::{Map, Value, json};

/// Id of the resource that gives priorities names.
pub const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";
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

const RUNTIME_CLASSES: &str = "runtimeclasses.node.k8s.io";

/// The ServiceAccount that every namespace has.
const DEFAULT_ACCOUNT: &str = "default";

/// Completes a new pod.
///
/// # Errors
/// 403 for a ServiceAccount, a priority class or a RuntimeClass that does not exist, and for what contradicts the class that does.
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
    runtime(call, spec)?;
    let Some(class) = class else { return Ok(()) };
    spec.insert("priorityClassName".into(), class["metadata"]["name"].clone());
    spec.insert("priority".into(), value);
    if let Some(policy) = class.get("preemptionPolicy") {
        spec.insert("preemptionPolicy".into(), policy.clone());
    }
    Ok(())
}

/// Completes a new pod that admission has seen: the labels whose values are those of the pod itself become part of the
/// selectors that name them. Facts from Kubernetes `pkg/registry/core/pod/strategy.go`.
pub fn complete(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    for constraint in spec
        .get_mut("topologySpreadConstraints")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        select_own(constraint, &[("matchLabelKeys", "In")], &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = spec
            .get_mut("affinity")
            .and_then(|it| it.get_mut(kind)?.as_object_mut())
        else {
            continue;
        };
        for term in terms.values_mut().filter_map(Value::as_array_mut).flatten() {
            let term = match term.get_mut("podAffinityTerm") {
                Some(_) => &mut term["podAffinityTerm"],
                None => term,
            };
            let keys = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")];
            select_own(term, &keys, &labels);
        }
    }
}

/// Adds to a selector, if there is one, what the pod's own labels are for the keys that members name.
fn select_own(it: &mut Value, members: &[(&str, &str)], labels: &Value) {
    let mut own = Vec::new();
    for (member, operator) in members {
        for key in it[*member].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                own.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    let Some(selector) = it.get_mut("labelSelector").and_then(Value::as_object_mut) else {
        return;
    };
    if own.is_empty() {
        return;
    }
    if let Some(expressions) = selector
        .entry("matchExpressions")
        .or_insert_with(|| json!([]))
        .as_array_mut()
    {
        expressions.extend(own);
    }
}

/// What the RuntimeClass of a pod asks of it: the overhead, and where it may run.
fn runtime(call: &Call<'_>, spec: &mut Map<String, Value>) -> Result<(), Status> {
    let refused = |why: &str| Err(Status::forbidden("pods", "", &call.name, why));
    let class = match spec.get("runtimeClassName").and_then(Value::as_str) {
        None => Value::Null,
        Some(name) => match call.server.store.newest(RUNTIME_CLASSES, "", name) {
            None => return refused(&format!("pod rejected: RuntimeClass {name:?} not found")),
            Some(class) => class.value(),
        },
    };
    let given = spec
        .get("overhead")
        .and_then(Value::as_object)
        .filter(|it| !it.is_empty());
    match class["overhead"].as_object() {
        None if given.is_some() => {
            return refused("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead");
        }
        None => {}
        Some(overhead) => {
            let fixed = overhead.get("podFixed").and_then(Value::as_object);
            if given.is_some_and(|given| !fixed.is_some_and(|fixed| same_amounts(given, fixed))) {
                return refused("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead");
            }
            if let Some(fixed) = fixed {
                spec.insert("overhead".into(), fixed.clone().into());
            }
        }
    }
    for (key, wanted) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        let selector = spec.entry("nodeSelector").or_insert(Value::Null);
        match selector.get(key).filter(|it| *it != wanted) {
            Some(given) => {
                let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
                return refused(&format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    text(wanted),
                    text(given)
                ));
            }
            None if selector.is_object() => selector[key] = wanted.clone(),
            None => *selector = json!({key: wanted}),
        }
    }
    for toleration in class["scheduling"]["tolerations"].as_array().into_iter().flatten() {
        let all = spec.entry("tolerations").or_insert(Value::Null);
        match all.as_array_mut() {
            Some(all) if all.contains(toleration) => {}
            Some(all) => all.push(toleration.clone()),
            None => *all = json!([toleration]),
        }
    }
    Ok(())
}

/// Whether two lists of resources hold the same amounts, however they are written.
fn same_amounts(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let milli = |it: &Value| it.as_str().and_then(quantity::milli);
    one.len() == other.len()
        && one.iter().all(|(key, amount)| {
            other
                .get(key)
                .is_some_and(|it| it == amount || milli(it) == milli(amount))
        })
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
    Err(refuse(call, FieldError::forbidden("spec", UNCHANGEABLE)))
}

/// What of a pod may change.
pub const UNCHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_spread_among_those_with_its_own_labels() {
        let term = json!({"topologyKey": "zone", "labelSelector": {}, "mismatchLabelKeys": ["hash", "none"]});
        let mut pod = json!({
            "metadata": {"labels": {"app": "a", "hash": "1"}},
            "spec": {
                "topologySpreadConstraints": [
                    {"labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["hash"]},
                    {"matchLabelKeys": ["hash"]},
                    {"labelSelector": {}},
                ],
                "affinity": {"podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [term],
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}],
                }},
            },
        });
        complete(&mut pod);
        let spread = &pod["spec"]["topologySpreadConstraints"];
        let own = |operator: &str| json!([{"key": "hash", "operator": operator, "values": ["1"]}]);
        assert_eq!(
            spread[0]["labelSelector"],
            json!({"matchLabels": {"app": "a"}, "matchExpressions": own("In")})
        );
        assert_eq!(spread[1], json!({"matchLabelKeys": ["hash"]}));
        assert_eq!(spread[2], json!({"labelSelector": {}}));
        let terms = &pod["spec"]["affinity"]["podAntiAffinity"];
        for pointer in [
            "/requiredDuringSchedulingIgnoredDuringExecution/0",
            "/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm",
        ] {
            let term = terms.pointer(pointer).expect("a term");
            assert_eq!(term["labelSelector"], json!({"matchExpressions": own("NotIn")}));
        }
    }
}
