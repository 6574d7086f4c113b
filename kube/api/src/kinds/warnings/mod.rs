//! What clients are warned of when they write pods and what makes them: what is taken, but does not do what its writer
//! may think. The words are those of kube-apiserver.

mod paths;
pub mod pods;

use super::validation::{changed, list, text};
use kube_store::schema::{metadata::label_errors, quantity};
use serde_json::Value;

/// The keys of the map at a JSON pointer.
pub fn keys<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v String> {
    value
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|it| it.keys())
}

/// A name that becomes a part of other names.
pub fn name(of: &str, new: &Value, warnings: &mut Vec<String>) {
    let wrong = label_errors(text(new, "/metadata/name"));
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
}

/// Why a label of nodes should not be used any more.
pub fn node_label(key: &str) -> Option<&'static str> {
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
pub fn node_term(term: &Value, place: &str, warnings: &mut Vec<String>) {
    for (index, expression) in list(term, "/matchExpressions").iter().enumerate() {
        let key = text(expression, "/key");
        let field = format!("{place}.matchExpressions[{index}].key");
        warnings.extend(node_label(key).map(|it| format!("{field}: {key} is {it}")));
    }
}

/// An amount of bytes that is no whole number of them.
pub fn fraction_of_bytes(amount: &Value, field: &str, warnings: &mut Vec<String>) {
    let text = amount.as_str().unwrap_or_default();
    if quantity::milli(text).is_some_and(|it| it % 1000 != 0) {
        warnings.push(format!(
            "{field}: fractional byte value {text:?} is invalid, must be an integer"
        ));
    }
}

/// Of the template of a kind that makes pods, when it has changed: its name becomes a part of theirs where they are
/// named after it (`names_pods`).
pub fn template(names_pods: bool, new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if !changed(new, old, "/spec") {
        return;
    }
    if names_pods && old.is_none() {
        name("Pod names and hostnames", new, warnings);
    }
    pods::pod(&new["spec"]["template"], "spec.template.", warnings);
}
