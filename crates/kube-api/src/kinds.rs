//! What Kubernetes does to objects of certain kinds when they are written, beyond defaults and validation.

use crate::{call::Call, crd, csr, pipeline, service};
use kube_store::status::{FieldError, Status};
use serde_json::{Value, json};

const NAMESPACES: &str = "namespaces";
const SERVICES: &str = "services";
/// Id of the resource that defines others.
pub const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const CSRS: &str = "certificatesigningrequests.certificates.k8s.io";

/// Server-owned content of a new object.
///
/// # Errors
/// What the kind refuses.
pub fn prepare_create(call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
    match call.id().as_ref() {
        NAMESPACES => {
            label_namespace(call, value);
            value["spec"] = json!({"finalizers": ["kubernetes"]});
            value["status"] = json!({"phase": "Active"});
        }
        CSRS => csr::prepare_create(value, &call.user),
        CRDS => {
            crd::prepare_create(call, value)?;
        }
        _ => {}
    }
    Ok(())
}

/// What must be allocated after everything else was checked.
///
/// # Errors
/// 422 when an address is taken or none is left.
pub fn finish_create(call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
    match call.id().as_ref() {
        SERVICES => service::allocate(call, value, None),
        CRDS => {
            crd::accept(call, value);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Server-owned content of a changed object.
///
/// # Errors
/// What the kind refuses.
pub fn prepare_update(call: &mut Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
    match call.id().as_ref() {
        NAMESPACES => {
            label_namespace(call, new);
            let finalizers = if call.subresource == "finalize" { &new["spec"]["finalizers"] } else { &old["spec"]["finalizers"] };
            let spec = match finalizers.as_array() {
                Some(list) if !list.is_empty() => json!({"finalizers": list}),
                _ => json!({}),
            };
            if call.subresource == "finalize" {
                let mut kept = old.clone();
                kept["spec"] = spec;
                *new = kept;
            } else {
                new["spec"] = spec;
            }
        }
        CSRS => {
            let subresource = call.subresource.clone();
            let errors = csr::prepare_update(&subresource, old, new, call.now);
            if !errors.is_empty() {
                return Err(call.invalid(&call.name, &errors));
            }
            check_signer(call, old, new)?;
        }
        SERVICES => service::allocate(call, new, Some(old))?,
        CRDS => crd::prepare_update(call, old, new)?,
        _ => {}
    }
    Ok(())
}

/// Approving and signing need a permission on the signer.
fn check_signer(call: &Call<'_>, old: &Value, new: &Value) -> Result<(), Status> {
    let verb = match call.subresource.as_str() {
        "approval" => "approve",
        "status" if old["status"]["certificate"] != new["status"]["certificate"] => "sign",
        _ => return Ok(()),
    };
    let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
    if csr::signer_attributes(verb, signer).iter().any(|it| call.server.may(&call.user, it)) {
        return Ok(());
    }
    let text = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
    Err(Status::forbidden(&call.resource.plural, &call.resource.group, &call.name, text))
}

/// Top-level fields that a write to this path neither changes nor owns.
pub fn reset_fields(call: &Call<'_>) -> Vec<Vec<String>> {
    let path = |it: &str| vec![it.to_owned()];
    match (call.id().as_ref(), call.subresource.as_str()) {
        (CSRS, "") => vec![path("spec"), path("status")],
        (_, "") if call.served().status => vec![path("status")],
        (_, "status") if call.resource.is_builtin() => vec![path("spec")],
        (_, "status") => vec![path("spec"), path("metadata")],
        _ => Vec::new(),
    }
}

/// Whether an object without finalizers may be removed now. A namespace waits for its content.
pub fn may_vanish(call: &Call<'_>, value: &Value) -> bool {
    call.id().as_ref() != NAMESPACES || value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Shows in the object that it is going away.
pub fn mark_terminating(call: &Call<'_>, value: &mut Value) {
    if call.id().as_ref() == NAMESPACES {
        value["status"]["phase"] = "Terminating".into();
    }
    if call.id().as_ref() == CRDS {
        crd::mark_terminating(value, call.now);
    }
}

/// Some objects are never deleted.
///
/// # Errors
/// 403 for the system namespaces.
pub fn check_delete(call: &Call<'_>) -> Result<(), Status> {
    if call.id().as_ref() == NAMESPACES && matches!(call.name.as_str(), "default" | "kube-system" | "kube-public") {
        return Err(Status::forbidden(NAMESPACES, "", &call.name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// Every namespace carries its name as a label; removing it is undone in the same request.
fn label_namespace(call: &Call<'_>, value: &mut Value) {
    let name = if call.name.is_empty() { pipeline::metadata_text(value, "name").to_owned() } else { call.name.clone() };
    let metadata = pipeline::metadata(value);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    } else {
        *labels = json!({"kubernetes.io/metadata.name": name});
    }
}

/// A single error on a field, as 422.
pub fn refuse(call: &Call<'_>, error: FieldError) -> Status {
    call.invalid(&call.name, &[error])
}
