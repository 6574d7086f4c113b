//! The objects that an OperatorPolicy has looked at, as its status lists them.
//! Upstream: config-policy-controller `controllers/operatorpolicy_status.go`.

use ocm_addon_sdk::ocm_api::policy::{
    configuration_policy::{RelatedName, RelatedReference},
    operator_policy::{OperatorObject, OperatorObjectProperties},
};
use serde_json::Value;

use super::{INSTALL_PLAN, OperatorKind, name, namespace, of_metadata, text};
use crate::evaluate::{COMPLIANT, NON_COMPLIANT};

const WANTED: &str = "Resource found as expected";
const WANTED_MISSING: &str = "Resource not found but should exist";
const UNWANTED_MISSING: &str = "Resource not found as expected";
/// What an object is called that says nothing about compliance.
const INAPPLICABLE: &str = "Inapplicable";

/// An object by its name; an empty one is unknown.
fn named(kind: &OperatorKind, namespace: &str, name: &str, compliant: &str, reason: &str) -> OperatorObject {
    OperatorObject {
        properties: None,
        object: RelatedReference {
            metadata: RelatedName {
                name: if name.is_empty() { "-" } else { name }.to_owned(),
                namespace: namespace.to_owned(),
            },
            api_version: kind.api_version.to_owned(),
            kind: kind.kind.to_owned(),
        },
        compliant: compliant.to_owned(),
        reason: reason.to_owned(),
    }
}

/// An object that is there.
fn found(kind: &OperatorKind, object: &Value, compliant: &str, reason: &str) -> OperatorObject {
    let mut related = named(kind, namespace(object), name(object), compliant, reason);
    related.properties = Some(OperatorObjectProperties {
        created_by_policy: None,
        uid: of_metadata(object, "uid").to_owned(),
    });
    related
}

/// It is wanted and not there.
pub fn missing(kind: &OperatorKind, namespace: &str, name: &str) -> OperatorObject {
    named(kind, namespace, name, NON_COMPLIANT, WANTED_MISSING)
}

/// It is not wanted and not there.
pub fn absent(kind: &OperatorKind, namespace: &str, name: &str) -> OperatorObject {
    named(kind, namespace, name, COMPLIANT, UNWANTED_MISSING)
}

/// It is not wanted and there.
pub fn present(kind: &OperatorKind, object: &Value) -> OperatorObject {
    found(kind, object, NON_COMPLIANT, "Resource found but should not exist")
}

/// It is there, and nobody minds.
pub fn not_applicable(kind: &OperatorKind, object: &Value) -> OperatorObject {
    let reason = "Resource found but will not be handled in mustnothave mode";
    found(kind, object, COMPLIANT, reason)
}

/// It was created.
pub fn created(kind: &OperatorKind, object: &Value) -> OperatorObject {
    let mut related = found(kind, object, COMPLIANT, "K8s creation success");
    if let Some(properties) = &mut related.properties {
        properties.created_by_policy = Some(true);
    }
    related
}

/// It was deleted.
pub fn deleted(kind: &OperatorKind, object: &Value) -> OperatorObject {
    let reason = "K8s deletion success";
    named(kind, namespace(object), name(object), COMPLIANT, reason)
}

/// It was deleted and is still there.
pub fn deleting(kind: &OperatorKind, object: &Value) -> OperatorObject {
    let reason = "The object is being deleted but has not been removed yet";
    named(kind, namespace(object), name(object), NON_COMPLIANT, reason)
}

/// It is as it is wanted.
pub fn matched(kind: &OperatorKind, object: &Value) -> OperatorObject {
    found(kind, object, COMPLIANT, WANTED)
}

/// It is not as it is wanted.
pub fn mismatched(kind: &OperatorKind, object: &Value) -> OperatorObject {
    found(kind, object, NON_COMPLIANT, "Resource found but does not match")
}

/// It was put right.
pub fn updated(kind: &OperatorKind, object: &Value) -> OperatorObject {
    found(kind, object, COMPLIANT, "K8s update success")
}

/// Something is wrong with it.
pub fn wrong(kind: &OperatorKind, object: &Value, reason: &str) -> OperatorObject {
    found(kind, object, NON_COMPLIANT, reason)
}

/// How OLM sees it.
pub fn installed(kind: &OperatorKind, object: &Value, compliant: bool, reason: &str) -> OperatorObject {
    let compliant = if compliant { COMPLIANT } else { NON_COMPLIANT };
    found(kind, object, compliant, reason)
}

/// It is not wanted, and stays all the same.
pub fn leftover(kind: &OperatorKind, object: &Value) -> OperatorObject {
    let reason = format!(
        "The {} is attached to a mustnothave policy, but does not need to be removed",
        kind.kind
    );
    found(kind, object, "", &reason)
}

/// There is nothing to look at; `reason` says so.
pub fn inapplicable(kind: &OperatorKind, reason: &str) -> OperatorObject {
    named(kind, "", "", INAPPLICABLE, reason)
}

/// There is no InstallPlan for the operator.
pub fn no_install_plans(namespace: &str) -> OperatorObject {
    let reason = "There are no relevant InstallPlans in this namespace";
    named(&INSTALL_PLAN, namespace, "", COMPLIANT, reason)
}

/// An InstallPlan, by its phase. `tolerated`: nobody minds one that has not ended.
pub fn install_plan(plan: &Value, tolerated: bool) -> OperatorObject {
    let phase = text(plan, "/status/phase");
    let compliant = match phase {
        "Complete" => COMPLIANT,
        "Installing" | "RequiresApproval" if tolerated => COMPLIANT,
        _ => NON_COMPLIANT,
    };
    let phase = if phase.is_empty() { "Unknown" } else { phase };
    found(&INSTALL_PLAN, plan, compliant, &format!("The InstallPlan is {phase}"))
}

/// A Deployment of the operator. `tolerated`: nobody minds one that lacks replicas.
pub fn deployment(kind: &OperatorKind, object: &Value, available: bool, tolerated: bool) -> OperatorObject {
    let (compliant, reason) = match (available, tolerated) {
        (true, _) => (COMPLIANT, "Deployment Available"),
        (false, true) => (
            COMPLIANT,
            "Deployment Unavailable (policy compliance is not impacted due to \
             spec.complianceConfig.deploymentsUnavailable)",
        ),
        (false, false) => (NON_COMPLIANT, "Deployment Unavailable"),
    };
    found(kind, object, compliant, reason)
}

/// A catalog, of which the name alone matters. `compliant`: whether it is well, or nobody minds.
pub fn catalog(kind: &OperatorKind, place: (&str, &str), state: CatalogState, compliant: bool) -> OperatorObject {
    let reason = match state {
        CatalogState::Healthy => WANTED.to_owned(),
        CatalogState::Unhealthy => format!("{WANTED} but is unhealthy"),
        CatalogState::Missing => WANTED_MISSING.to_owned(),
        CatalogState::Unknown => "Resource found but current state is unknown".to_owned(),
    };
    let compliant = if compliant { COMPLIANT } else { NON_COMPLIANT };
    named(kind, place.0, place.1, compliant, &reason)
}

/// How a catalog is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogState {
    /// OLM can ask it.
    Healthy,
    /// It cannot.
    Unhealthy,
    /// It is not there.
    Missing,
    /// OLM has not tried yet.
    Unknown,
}
