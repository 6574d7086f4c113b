//! What a client is warned of when it writes a built-in kind: what is taken, but does not do what its writer may think. The words
//! are those of kube-apiserver.

mod paths;
mod pods;

use crate::builtin_validation::{changed, list, text};
use kube_store::schema::{metadata::label_errors, quantity};
use serde_json::Value;

/// Warnings of an object of a built-in kind. `new` is decoded, defaulted and right; `old` is the stored object of an update.
pub fn warnings(group: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    // Only what has changed is worth a second look, and each object is new once.
    let (created, changed) = (old.is_none(), || changed(new, old, "/spec"));
    match (group, kind) {
        ("", "Pod") if created => {
            name("the Pod's hostname", new, &mut warnings);
            pods::pod(new, "", &mut warnings);
        }
        ("", "PodTemplate") if created => pods::pod(&new["template"], "template.", &mut warnings),
        ("apps", "Deployment" | "ReplicaSet") | ("", "ReplicationController") if changed() => {
            if created {
                name("Pod names and hostnames", new, &mut warnings);
            }
            pods::pod(&new["spec"]["template"], "spec.template.", &mut warnings);
        }
        ("apps", "DaemonSet") if changed() => {
            pods::pod(&new["spec"]["template"], "spec.template.", &mut warnings);
        }
        ("apps", "StatefulSet") => stateful_set(new, changed(), &mut warnings),
        ("batch", "Job") if changed() => {
            if created {
                name("Pod names and hostnames", new, &mut warnings);
            }
            job(&new["spec"], "spec", &mut warnings);
        }
        ("", "Service") => service(new, &mut warnings),
        ("admissionregistration.k8s.io", _) => {
            let suffix = ".static.k8s.io";
            if text(new, "/metadata/name").ends_with(suffix) {
                warnings.push(format!(
                    "metadata.name: names ending with {suffix:?} are reserved for static manifest-based configurations and cannot be \
                     managed via the API"
                ));
            }
        }
        _ => {}
    }
    warnings
}

/// The keys of the map at a JSON pointer.
fn keys<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v String> {
    value
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|it| it.keys())
}

/// A name that becomes a part of other names.
fn name(of: &str, new: &Value, warnings: &mut Vec<String>) {
    let wrong = label_errors(text(new, "/metadata/name"));
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}

/// Why a label of nodes should not be used any more.
fn node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// The terms of a node affinity.
fn node_term(term: &Value, place: &str, warnings: &mut Vec<String>) {
    for (index, expression) in list(term, "/matchExpressions").iter().enumerate() {
        let key = text(expression, "/key");
        let field = format!("{place}.matchExpressions[{index}].key");
        warnings.extend(node_label(key).map(|it| format!("{field}: {key} is {it}")));
    }
}

/// An amount of bytes that is no whole number of them.
fn fraction_of_bytes(amount: &Value, field: &str, warnings: &mut Vec<String>) {
    let text = amount.as_str().unwrap_or_default();
    if quantity::milli(text).is_some_and(|it| it % 1000 != 0) {
        warnings.push(format!(
            "{field}: fractional byte value {text:?} is invalid, must be an integer"
        ));
    }
}

fn stateful_set(new: &Value, changed: bool, warnings: &mut Vec<String>) {
    if changed {
        pods::pod(&new["spec"]["template"], "spec.template.", warnings);
    }
    if new["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|it| it < 0) {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                .to_owned(),
        );
    }
}

fn job(spec: &Value, place: &str, warnings: &mut Vec<String>) {
    let number = |key: &str| spec[key].as_i64().unwrap_or_default();
    if spec["completionMode"] == "Indexed" && number("completions") > 100_000 && number("parallelism") > 10_000 {
        warnings.push(format!(
            "{place}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not \
             be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    pods::pod(&spec["template"], &format!("{place}.template."), warnings);
}

fn service(new: &Value, warnings: &mut Vec<String>) {
    if text(new, "/spec/type") != "ExternalName" && !text(new, "/spec/externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
}

#[cfg(test)]
mod tests;
