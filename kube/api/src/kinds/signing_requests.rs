//! CertificateSigningRequests: what may be asked; `csr` says who may approve and what is signed.

use super::{
    defaults::entry,
    strategy::{Columns, Strategy},
    validation::{list, text},
};
use crate::builtin::Subresource;
use crate::{
    call::Call,
    csr::{self, Face, USAGES},
    identity::Attributes,
    object_meta::ResetFields,
    table::cells,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kube_store::status::{FieldError, Status};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// CertificateSigningRequest.
pub struct SigningRequests;

impl Strategy for SigningRequests {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource {
            name: "approval",
            kind: "CertificateSigningRequest",
            group: "",
            version: "",
            verbs: &["get", "patch", "update"],
        }]
    }

    fn columns(&self) -> Columns {
        Columns::new("Name|Age|SignerName|Requestor|RequestedDuration|Condition", row)
    }

    fn default(&self, object: &mut Map<String, Value>) {
        entry(object, "status");
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        // The request itself cannot change, so an update has nothing new to say about it.
        if old.is_some() {
            return;
        }
        let request = text(new, "/spec/request");
        let pem = STANDARD.decode(request).unwrap_or_default();
        let pem = String::from_utf8_lossy(&pem);
        let reason = match (
            pem.contains("-----BEGIN CERTIFICATE REQUEST-----"),
            pem.contains("-----BEGIN "),
        ) {
            (true, _) => None,
            (false, _) => Some("PEM block type must be CERTIFICATE REQUEST"),
        };
        if let Some(reason) = reason {
            errors.push(FieldError::invalid("spec.request", &json!(request), reason));
        }
        let usages = list(new, "/spec/usages");
        if usages.is_empty() {
            errors.push(FieldError::required("spec.usages", ""));
        }
        let mut seen = HashSet::new();
        for (at, usage) in usages.iter().enumerate() {
            let name = usage.as_str().unwrap_or("");
            let field = format!("spec.usages[{at}]");
            if !USAGES.contains(&name) {
                errors.push(FieldError::not_supported(field, usage, USAGES));
            } else if !seen.insert(name) {
                errors.push(FieldError::duplicate(field, usage));
            }
        }
        let signer = text(new, "/spec/signerName");
        if signer == "kubernetes.io/legacy-unknown" {
            let detail = "the legacy signerName is not allowed via this API version";
            errors.push(FieldError::invalid("spec.signerName", &json!(signer), detail));
        }
        match signer.split_once('/') {
            _ if signer.is_empty() => errors.push(FieldError::required("spec.signerName", "")),
            None => {
                let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
                errors.push(FieldError::invalid("spec.signerName", &json!(signer), detail));
            }
            Some((domain, path)) => {
                if !domain.contains('.') {
                    let detail = "should be a domain with at least two segments separated by dots";
                    errors.push(FieldError::invalid("spec.signerName", &json!(domain), detail));
                }
                if path.is_empty() {
                    let detail = "validation regex: must be a valid path component";
                    errors.push(FieldError::invalid("spec.signerName", &json!(path), detail));
                }
            }
        }
        if let Some(seconds) = new
            .pointer("/spec/expirationSeconds")
            .filter(|it| it.as_i64().is_some_and(|it| it < 600))
        {
            let detail = "may not specify a duration less than 600 seconds (10 minutes)";
            errors.push(FieldError::invalid("spec.expirationSeconds", seconds, detail));
        }
    }

    fn prepare_for_create(&self, call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        csr::check_size(value, call.server.limits.request_bytes)?;
        csr::prepare_create(value, &call.user)
    }

    fn prepare_for_update(&self, call: &mut Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        let face = match call.subresource.as_str() {
            "approval" => Face::Approval,
            "status" => Face::Status,
            _ => Face::Main,
        };
        *new = csr::prepare_update(old, std::mem::take(new), face, call.now)?;
        let may = |it: &Attributes| call.server.may(&call.user, it);
        match face {
            Face::Approval => csr::check_signer_permission(old, "approve", may),
            Face::Status if csr::needs_sign_permission(old, new) => csr::check_signer_permission(old, "sign", may),
            Face::Main if json_bytes(new) > json_bytes(old) => csr::check_size(new, call.server.limits.request_bytes),
            Face::Status | Face::Main => Ok(()),
        }
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        subresource.is_empty().then_some(&[&["spec"], &["status"]])
    }
}

fn json_bytes(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |it| it.len())
}

fn row(it: &Value, now: Timestamp) -> Vec<Value> {
    let conditions = cells::list(it, &["status", "conditions"]);
    let has = |ty: &str| conditions.iter().any(|it| cells::text(it, &["type"]) == ty);
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if cells::text(it, &["status", "certificate"]).is_empty() {
        ""
    } else {
        ",Issued"
    };
    let duration = cells::at(it, &["spec", "expirationSeconds"])
        .as_i64()
        .map_or_else(|| cells::NONE.to_owned(), kube_primitives::duration::human);
    vec![
        cells::name(it),
        cells::age(it, now),
        cells::or(cells::text(it, &["spec", "signerName"]), cells::NONE).into(),
        cells::text(it, &["spec", "username"]).into(),
        duration.into(),
        format!("{decision}{failed}{issued}").into(),
    ]
}
