//! Certificate signing requests: what may be asked, who may approve, and what is signed.
//!
//! Pure rules over the object's JSON; the server calls them where it admits writes, and the signing controller calls
//! `sign`. An agent must never be able to say who it is (the server overwrites the identity), nor change its request
//! after it was approved (the spec never changes).

use crate::{
    identity::{Attributes, User},
    pki::{
        BACKDATE, Pki,
        certificate::{self, Purpose, Request},
    },
};
use kube_primitives::certificate_request;
use kube_store::status::{FieldError, Status};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use x509_cert::{
    der::{Decode, Encode, EncodePem},
    ext::{
        Extension,
        pkix::{SubjectAltName, name::GeneralName},
    },
    name::Name,
    request::CertReq,
    spki::SubjectPublicKeyInfoOwned,
};

const GROUP: &str = "certificates.k8s.io";
const RESOURCE: &str = "certificatesigningrequests";
const KIND: &str = "CertificateSigningRequest";
/// Signer of client certificates for anybody; never approved automatically.
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Signer of client certificates for kubelets.
pub const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signer of serving certificates for kubelets.
pub const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const LEGACY: &str = "kubernetes.io/legacy-unknown";

const SECONDS_MIN: i64 = 600;
/// Lifetime when the request names none.
const SECONDS_DEFAULT: i64 = 365 * 24 * 3600;
/// Shorter certificates are not shortened further by the backdating.
const SECONDS_SHORT: i64 = 8 * 3600;

/// The usages that a certificate may be asked for.
pub(crate) const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// What a request asks to have signed.
pub struct SigningRequest {
    pub subject: Name,
    pub common_name: String,
    /// Organisations in the order of the request.
    pub organizations: Vec<String>,
    pub names: Option<SubjectAltName>,
    pub public_key: SubjectPublicKeyInfoOwned,
    der: Vec<u8>,
}

impl SigningRequest {
    /// Reads the base64 of `spec.request`.
    ///
    /// # Errors
    /// The text that goes behind `spec.request: Invalid value`.
    pub fn read(request: &Value) -> Result<Self, String> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let not_pem = || "PEM block type must be CERTIFICATE REQUEST".to_owned();
        let text = STANDARD
            .decode(request.as_str().unwrap_or_default())
            .map_err(|_| not_pem())?;
        if !certificate_request::is_only_one(&text) {
            return Err(not_pem());
        }
        let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(&text).map_err(|_| not_pem())?;
        Self::read_der(&der).map_err(|error| format!("asn1: {error}"))
    }

    fn read_der(der: &[u8]) -> x509_cert::der::Result<Self> {
        let request = CertReq::from_der(der)?;
        let (mut common_name, mut organizations) = (String::new(), Vec::new());
        for attribute in request.info.subject.iter() {
            let text = String::from_utf8_lossy(attribute.value.value()).into_owned();
            match attribute.oid.to_string().as_str() {
                "2.5.4.3" => common_name = text,
                "2.5.4.10" => organizations.push(text),
                _ => {}
            }
        }
        let names = requested_names(&request)?;
        let (subject, public_key) = (request.info.subject, request.info.public_key);
        Ok(Self {
            subject,
            common_name,
            organizations,
            names,
            public_key,
            der: der.to_vec(),
        })
    }

    /// Whether the request is signed with the key it asks for.
    fn is_signed_by_its_key(&self) -> bool {
        certificate_request::is_signed_by_its_key(&self.der)
    }
}

/// Of what there may be one of there is one: of two, whoever approves the request may have read the other.
fn requested_names(request: &CertReq) -> x509_cert::der::Result<Option<SubjectAltName>> {
    const EXTENSION_REQUEST: &str = "1.2.840.113549.1.9.14";
    const SUBJECT_ALT_NAME: &str = "2.5.29.17";
    let twice = x509_cert::der::ErrorKind::Noncanonical {
        tag: x509_cert::der::Tag::Set,
    };
    let attributes = request.info.attributes.iter();
    let mut values = attributes
        .filter(|it| it.oid.to_string() == EXTENSION_REQUEST)
        .flat_map(|it| it.values.iter());
    let Some(value) = values.next() else { return Ok(None) };
    let extensions = Vec::<Extension>::from_der(&value.to_der()?)?;
    let mut names = extensions
        .iter()
        .filter(|it| it.extn_id.to_string() == SUBJECT_ALT_NAME);
    let first = names.next();
    if values.next().is_some() || names.next().is_some() {
        return Err(twice.into());
    }
    first
        .map(|it| SubjectAltName::from_der(it.extn_value.as_bytes()))
        .transpose()
}

fn usages(object: &Value) -> Vec<&str> {
    let list = object["spec"]["usages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Signer that a request names.
pub fn signer(object: &Value) -> &str {
    object["spec"]["signerName"].as_str().unwrap_or_default()
}

/// Makes a request on create say who really asked, clears its status, and checks it.
///
/// # Errors
/// 422 naming what is wrong; 403 when it asks for `system:masters`.
pub fn prepare_create(object: &mut Value, user: &User) -> Result<(), Status> {
    if !object["spec"].is_object() {
        object["spec"] = json!({});
    }
    if let Some(root) = object.as_object_mut() {
        root.insert("status".into(), json!({}));
    }
    let identity = serde_json::to_value(user).expect("a user serializes");
    if let Some(spec) = object["spec"].as_object_mut() {
        for field in ["username", "uid", "groups", "extra"] {
            match identity.get(field) {
                Some(value) => spec.insert(field.into(), value.clone()),
                None => spec.remove(field),
            };
        }
    }
    let errors = check(object);
    if !errors.is_empty() {
        return Err(Status::invalid(KIND, GROUP, name(object), &errors));
    }
    let asked = SigningRequest::read(&object["spec"]["request"]).map_err(Status::internal)?;
    if signer(object) == CLIENT && asked.organizations.iter().any(|it| it == crate::identity::MASTERS) {
        let text = format!("use of {CLIENT} signer with system:masters group is not allowed");
        return Err(Status::forbidden(RESOURCE, GROUP, name(object), text));
    }
    Ok(())
}

/// A request is as large as a key and a name make it; what is larger is kept by nobody.
/// `bytes_max` is what is to be signed.
///
/// # Errors
/// 422 for a request that is larger, 413 for an object around it that is.
pub fn check_size(object: &Value, bytes_max: usize) -> Result<(), Status> {
    // Base64 has four letters for three bytes.
    let encoded = object["spec"]["request"].as_str().map_or(0, str::len);
    if encoded.div_ceil(4) * 3 > bytes_max + 2 {
        let errors = [FieldError::too_long("spec.request", bytes_max)];
        return Err(Status::invalid(KIND, GROUP, name(object), &errors));
    }
    let object_max = bytes_max * 4;
    match serde_json::to_vec(object).is_ok_and(|it| it.len() > object_max) {
        true => Err(Status::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {object_max}"),
        )),
        false => Ok(()),
    }
}

/// What is wrong with a new request.
fn check(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    if let Err(detail) = SigningRequest::read(&spec["request"]) {
        errors.push(FieldError::invalid("spec.request", &spec["request"], detail));
    }
    let usages = usages(object);
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    for (index, usage) in usages.iter().enumerate() {
        let field = format!("spec.usages[{index}]");
        if !USAGES.contains(usage) {
            errors.push(FieldError::not_supported(field, &(*usage).into(), USAGES));
        } else if usages[..index].contains(usage) {
            errors.push(FieldError::duplicate(field, &(*usage).into()));
        }
    }
    match signer(object) {
        "" => errors.push(FieldError::required("spec.signerName", "")),
        LEGACY => errors.push(FieldError::invalid(
            "spec.signerName",
            &LEGACY.into(),
            "the legacy signerName is not allowed via this API version",
        )),
        signer => errors.extend(check_signer_name(signer)),
    }
    match &spec["expirationSeconds"] {
        Value::Null => {}
        seconds if seconds.as_i64().is_some_and(|it| it >= SECONDS_MIN) => {}
        seconds => errors.push(FieldError::invalid(
            "spec.expirationSeconds",
            seconds,
            "may not specify a duration less than 600 seconds (10 minutes)",
        )),
    }
    errors
}

fn check_signer_name(signer: &str) -> Option<FieldError> {
    let wrong = |detail: &str| Some(FieldError::invalid("spec.signerName", &signer.into(), detail));
    let Some((domain, path)) = signer.split_once('/') else {
        return wrong("must be a fully qualified domain and path of the form 'example.com/signer-name'");
    };
    if path.contains('/') {
        return wrong("must be a fully qualified domain and path of the form 'example.com/signer-name'");
    }
    let is_label = |it: &str| {
        (1..=63).contains(&it.len())
            && it
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !it.starts_with('-')
            && !it.ends_with('-')
    };
    if domain.split('.').count() < 2 || domain.len() > 253 || !domain.split('.').all(is_label) {
        return wrong("domain must be a fully qualified DNS name of at least two labels");
    }
    if path.is_empty() || !path.split('.').all(is_label) {
        return wrong("path must be a lowercase DNS name");
    }
    None
}

/// Which of its three faces an update of a request came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    Main,
    Approval,
    Status,
}

fn conditions(object: &Value) -> &[Value] {
    object["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The object that an update through `face` stores: `new` with everything that this face may not change taken from
/// `old`, and with the times of its conditions filled in.
///
/// # Errors
/// 422 naming what this face may not do.
pub fn prepare_update(old: &Value, mut new: Value, face: Face, now: jiff::Timestamp) -> Result<Value, Status> {
    new["spec"] = old["spec"].clone();
    if face == Face::Main {
        match old.get("status") {
            Some(status) => new["status"] = status.clone(),
            None => drop(new.as_object_mut().and_then(|it| it.remove("status"))),
        }
        return Ok(new);
    }
    if !new["status"].is_object() {
        new["status"] = json!({});
    }
    if face == Face::Approval {
        // Approval changes conditions and nothing else.
        match old["status"].get("certificate") {
            Some(certificate) => new["status"]["certificate"] = certificate.clone(),
            None => drop(new["status"].as_object_mut().and_then(|it| it.remove("certificate"))),
        }
    }
    if face == Face::Status {
        keep_decisions(old, &mut new);
    }
    fill_times(old, &mut new, now);
    let errors = check_update(old, &new, face);
    if errors.is_empty() {
        Ok(new)
    } else {
        Err(Status::invalid(KIND, GROUP, name(old), &errors))
    }
}

/// Who signs does not say anew why a request was approved or denied, or when.
fn keep_decisions(old: &Value, new: &mut Value) {
    let Some(list) = new["status"]["conditions"].as_array_mut() else {
        return;
    };
    for condition in list.iter_mut() {
        let decides = condition["type"] == "Approved" || condition["type"] == "Denied";
        let before = conditions(old).iter().find(|it| it["type"] == condition["type"]);
        if let Some(before) = before.filter(|_| decides) {
            *condition = before.clone();
        }
    }
}

fn fill_times(old: &Value, new: &mut Value, now: jiff::Timestamp) {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let Some(list) = new["status"]["conditions"].as_array_mut() else {
        return;
    };
    for condition in list.iter_mut().filter(|it| it.is_object()) {
        let before = conditions(old).iter().find(|it| it["type"] == condition["type"]);
        if condition["status"].as_str().unwrap_or_default().is_empty() {
            condition["status"] = "True".into();
        }
        let is_new = before.is_none_or(|it| it["status"] != condition["status"]);
        if condition["lastTransitionTime"].is_null() {
            let since = before.filter(|_| !is_new).map(|it| it["lastTransitionTime"].clone());
            condition["lastTransitionTime"] = since.filter(|it| !it.is_null()).unwrap_or_else(|| now.clone().into());
        }
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = now.clone().into();
        }
    }
}

fn check_update(old: &Value, new: &Value, face: Face) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = "status.conditions";
    let count = |object: &Value, kind: &str| conditions(object).iter().filter(|it| it["type"] == kind).count();
    for kind in ["Approved", "Denied", "Failed"] {
        let (before, after) = (count(old, kind), count(new, kind));
        // Failed may come and go on /status; a decision is for ever, and only /approval may take it.
        let may_add = match (kind, face) {
            ("Failed", _) => true,
            (_, face) => face == Face::Approval,
        };
        if after > before && !may_add {
            let text = format!("updates may not add a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(field, text));
        }
        if after < before {
            let text = format!("updates may not remove a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(field, text));
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, condition) in conditions(new).iter().enumerate() {
        let kind = condition["type"].as_str().unwrap_or_default();
        let at = format!("{field}[{index}]");
        let status = condition["status"].as_str().unwrap_or_default();
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{at}.type"), ""));
        }
        if matches!(kind, "Approved" | "Denied" | "Failed") && status != "True" {
            errors.push(FieldError::not_supported(
                format!("{at}.status"),
                &status.into(),
                &["True"],
            ));
        } else if !matches!(status, "True" | "False" | "Unknown") {
            let supported = ["False", "True", "Unknown"];
            errors.push(FieldError::not_supported(
                format!("{at}.status"),
                &status.into(),
                &supported,
            ));
        }
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && seen.contains(&other) {
            let text = "Approved and Denied conditions are mutually exclusive";
            errors.push(FieldError::invalid(format!("{at}.type"), &kind.into(), text));
        }
        if seen.contains(&kind) && !kind.is_empty() {
            errors.push(FieldError::duplicate(format!("{at}.type"), &kind.into()));
        }
        seen.push(kind);
    }
    let certificate = |object: &Value| object["status"]["certificate"].as_str().unwrap_or_default().to_owned();
    let (before, after) = (certificate(old), certificate(new));
    if !before.is_empty() && before != after {
        errors.push(FieldError::forbidden(
            "status.certificate",
            "updates may not modify existing certificate content",
        ));
    } else if before != after && !holds_certificate(&after) {
        errors.push(FieldError::invalid(
            "status.certificate",
            &"<certificate data>".into(),
            "must contain at least one CERTIFICATE PEM block",
        ));
    }
    errors
}

fn holds_certificate(base64: &str) -> bool {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD
        .decode(base64)
        .is_ok_and(|pem| CertificateDer::from_pem_slice(&pem).is_ok())
}

/// The rights, any of which lets a user approve or sign for a signer: the signer itself, or all of its domain.
pub fn signer_attributes(verb: &str, signer: &str) -> [Attributes; 2] {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer.to_owned(), format!("{domain}/*")].map(|name| Attributes {
        verb: verb.into(),
        is_resource: true,
        group: GROUP.into(),
        version: "*".into(),
        resource: "signers".into(),
        name,
        ..Attributes::default()
    })
}

/// Checks that the writer of `/approval` (`verb` is `approve`) or of a certificate through `/status` (`sign`) may do so
/// for the request's signer.
///
/// # Errors
/// 403 naming the signer.
pub fn check_signer_permission(
    object: &Value,
    verb: &str,
    allowed: impl Fn(&Attributes) -> bool,
) -> Result<(), Status> {
    let signer = signer(object);
    if signer_attributes(verb, signer).iter().any(allowed) {
        return Ok(());
    }
    let text = format!("user not permitted to {verb} requests with signerName \"{signer}\"");
    Err(Status::forbidden(RESOURCE, GROUP, name(object), text))
}

/// Whether an update through `/status` changes the certificate or a condition, and so needs the right to sign. The
/// times of conditions count: by them old requests are cleared away.
pub fn needs_sign_permission(old: &Value, new: &Value) -> bool {
    old["status"]["certificate"] != new["status"]["certificate"] || conditions(old) != conditions(new)
}

/// The right that lets a kubelet's own request be approved without a person: checked for the requester.
pub fn automatic_approval(object: &Value) -> Option<Attributes> {
    if signer(object) != KUBELET_CLIENT || !conditions(object).is_empty() {
        return None;
    }
    let asked = SigningRequest::read(&object["spec"]["request"]).ok()?;
    check_for_signer(object, &asked).ok()?;
    let subresource = match object["spec"]["username"] == asked.common_name.as_str() {
        true => "selfnodeclient",
        false => "nodeclient",
    };
    Some(Attributes {
        verb: "create".into(),
        is_resource: true,
        group: GROUP.into(),
        version: "*".into(),
        resource: RESOURCE.into(),
        subresource: subresource.into(),
        ..Attributes::default()
    })
}

/// The identity that made a request, to check its rights: the groups are those it had, so that a stranger stays one.
pub fn requester(object: &Value) -> User {
    serde_json::from_value(object["spec"].clone()).unwrap_or_default()
}

/// Why a request is never signed: becomes the condition `Failed` with reason `SignerValidationFailure`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignerFailure(pub String);

impl SignerFailure {
    /// The condition that tells the requester.
    pub fn condition(&self) -> Value {
        json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": self.0})
    }
}

/// Signs an approved request with the cluster's authority; the certificate as one PEM block.
///
/// # Errors
/// When the request is not what its signer signs.
pub fn sign(pki: &Pki, object: &Value, now: jiff::Timestamp) -> Result<String, SignerFailure> {
    let failure = |it: String| SignerFailure(it);
    let asked = SigningRequest::read(&object["spec"]["request"])
        .map_err(|it| failure(format!("unable to parse csr {:?}: {it}", name(object))))?;
    check_for_signer(object, &asked).map_err(failure)?;
    if !asked.is_signed_by_its_key() {
        return Err(failure("unable to verify certificate request signature".into()));
    }
    let usages = usages(object);
    let has = |it: &str| usages.contains(&it);
    let seconds = object["spec"]["expirationSeconds"]
        .as_i64()
        .unwrap_or(SECONDS_DEFAULT)
        .clamp(SECONDS_MIN, SECONDS_DEFAULT);
    let not_before = now - BACKDATE;
    let start = if seconds < SECONDS_SHORT { now } else { not_before };
    let request = Request {
        subject: asked.subject,
        public_key: asked.public_key,
        names: asked.names.map(|it| it.0).unwrap_or_default(),
        purpose: Purpose {
            client: has("client auth"),
            server: has("server auth"),
            digital_signature: has("digital signature") || has("signing"),
            key_encipherment: has("key encipherment"),
        },
        not_before,
        not_after: start + jiff::SignedDuration::from_secs(seconds),
    };
    let certificate = certificate::sign(pki.authority(), request).map_err(|it| failure(it.to_string()))?;
    certificate
        .to_pem(p256::pkcs8::LineEnding::LF)
        .map_err(|it| failure(it.to_string()))
}

/// The signer's own conditions on a request.
fn check_for_signer(object: &Value, asked: &SigningRequest) -> Result<(), String> {
    let usages = usages(object);
    let only = |allowed: &[&str], required: &str, what: &str| match usages.iter().find(|it| !allowed.contains(it)) {
        Some(other) => Err(format!("invalid usage for {what} certificate: {other}")),
        None if !usages.contains(&required) => {
            Err(format!("missing required usage for {what} certificate: {required}"))
        }
        None => Ok(()),
    };
    let names = asked.names.as_ref().map(|it| it.0.as_slice()).unwrap_or_default();
    match signer(object) {
        CLIENT => only(
            &["client auth", "digital signature", "key encipherment"],
            "client auth",
            "client",
        ),
        KUBELET_CLIENT => {
            are_nodes(asked)?;
            for (kind, is_of) in NAMES {
                if names.iter().any(is_of) {
                    return Err(format!("{kind} subjectAltNames are not allowed"));
                }
            }
            is_node(asked)?;
            kubelet_usages(&usages, "client auth")
        }
        KUBELET_SERVING => {
            are_nodes(asked)?;
            let serves = |it: &GeneralName| matches!(it, GeneralName::DnsName(_) | GeneralName::IpAddress(_));
            if !names.iter().any(serves) {
                return Err("DNS or IP subjectAltName is required".into());
            }
            for (kind, is_of) in NAMES.iter().filter(|it| matches!(it.0, "Email" | "URI")) {
                if names.iter().any(is_of) {
                    return Err(format!("{kind} subjectAltNames are not allowed"));
                }
            }
            kubelet_usages(&usages, "server auth")?;
            is_node(asked)
        }
        other => Err(format!("no signer named {other}")),
    }
}

type IsOf = fn(&GeneralName) -> bool;
/// Kinds of names beside the subject, in the order in which they are looked at.
const NAMES: [(&str, IsOf); 4] = [
    ("DNS", |it| matches!(it, GeneralName::DnsName(_))),
    ("Email", |it| matches!(it, GeneralName::Rfc822Name(_))),
    ("IP", |it| matches!(it, GeneralName::IpAddress(_))),
    ("URI", |it| matches!(it, GeneralName::UniformResourceIdentifier(_))),
];

fn are_nodes(asked: &SigningRequest) -> Result<(), String> {
    match asked.organizations == ["system:nodes"] {
        true => Ok(()),
        false => Err("subject organization is not system:nodes".into()),
    }
}

fn is_node(asked: &SigningRequest) -> Result<(), String> {
    match asked.common_name.starts_with("system:node:") {
        true => Ok(()),
        false => Err("subject common name does not begin with system:node:".into()),
    }
}

/// A kubelet asks for all that it needs and no more; a key that is not RSA needs no encipherment.
fn kubelet_usages(usages: &[&str], own: &str) -> Result<(), String> {
    let given: BTreeSet<&str> = usages.iter().copied().collect();
    let whole = BTreeSet::from(["digital signature", "key encipherment", own]);
    let signing = BTreeSet::from(["digital signature", own]);
    if given == whole || given == signing {
        return Ok(());
    }
    let whole: Vec<&str> = whole.into_iter().collect();
    Err(format!("usages did not match [{}]", whole.join(" ")))
}

#[cfg(test)]
mod tests;
