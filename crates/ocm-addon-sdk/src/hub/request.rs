//! Whether a certificate request is what it claims to be: a request of this add-on's own agent on this very cluster, for
//! exactly the identity that the hub has given it.
//!
//! Upstream: addon-framework `pkg/utils/csr_helpers.go`, `DefaultCSRApprover`. It compares the requester by prefix, so an agent
//! of `c10` may ask for `c1`; it does not look at alternative names, usages and organizational units; and for custom signers
//! it looks at nothing. Here every part has to match.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
use ocm_api::{annotations, conditions::csr, identity, labels};
use x509_cert::{
    der::{Decode, oid::AssociatedOid},
    request::{CertReq, ExtensionReq},
};
use x509_parser::{
    certification_request::{X509CertificationRequest, X509CertificationRequestInfo},
    cri_attributes::ParsedCriAttribute,
    extensions::{GeneralName, ParsedExtension},
    oid_registry::{
        OID_X509_COMMON_NAME, OID_X509_EXT_SUBJECT_ALT_NAME, OID_X509_ORGANIZATION_NAME, OID_X509_ORGANIZATIONAL_UNIT,
    },
    pem::Pem,
    prelude::FromDer,
};

use super::Standing;
use crate::{Registration, Subject};

/// What every request of an add-on's agent is named after.
const NAME_PREFIX: &str = "addon";

/// What an agent's certificate may be used for. Upstream's custom signers put `server auth` into every certificate, asked or not.
const CLIENT_USAGES: [&str; 3] = ["digital signature", "key encipherment", "client auth"];
const SERVER_USAGE: &str = "server auth";

/// What a request asks for, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The common name.
    pub user: String,
    /// The organizations.
    pub groups: BTreeSet<String>,
    /// The organizational units.
    pub organizational_units: BTreeSet<String>,
    /// The alternative names; `None` stands for one that is no DNS name.
    pub names: Vec<Option<String>>,
    /// The subject as it was encoded.
    pub subject_der: Vec<u8>,
    /// The public key as it was encoded.
    pub public_key_der: Vec<u8>,
}

/// The key `cluster/add-on` that the labels of a request name, if it is a request for an add-on at all.
pub fn key(request: &CertificateSigningRequest) -> Option<String> {
    let label = |key: &str| request.labels().get(key).filter(|it| !it.is_empty());
    if !request.name_any().starts_with(NAME_PREFIX) {
        return None;
    }
    Some(format!(
        "{}/{}",
        label(labels::CLUSTER_NAME)?,
        label(labels::ADDON_NAME)?
    ))
}

/// Takes a request apart.
pub fn read(request: &CertificateSigningRequest) -> Result<Asked, &'static str> {
    if !certificate_request::is_only_one(&request.spec.request.0) {
        return Err("it does not hold one PEM certificate request");
    }
    let pem = Pem::iter_from_buffer(&request.spec.request.0)
        .next()
        .and_then(Result::ok)
        .filter(|it| it.label == "CERTIFICATE REQUEST")
        .ok_or("it holds no PEM certificate request")?;
    let (rest, parsed) =
        X509CertificationRequest::from_der(&pem.contents).map_err(|_| "its certificate request cannot be read")?;
    if !rest.is_empty() {
        return Err("its certificate request cannot be read");
    }
    let info = &parsed.certification_request_info;
    let mut users = Vec::new();
    let (mut groups, mut organizational_units) = (BTreeSet::new(), BTreeSet::new());
    for attribute in info.subject.iter().flat_map(|it| it.iter()) {
        let value = attribute.as_str().map_err(|_| "its subject cannot be read")?.to_owned();
        let oid = attribute.attr_type();
        if *oid == OID_X509_COMMON_NAME {
            users.push(value);
        } else if *oid == OID_X509_ORGANIZATION_NAME {
            groups.insert(value);
        } else if *oid == OID_X509_ORGANIZATIONAL_UNIT {
            organizational_units.insert(value);
        } else {
            return Err("its subject has more than names, organizations and organizational units");
        }
    }
    if users.len() != 1 {
        return Err("it does not have exactly one common name");
    }
    if !asks_once(&pem.contents) {
        return Err("it asks for extensions more than once");
    }
    let names = names(info)?;
    Ok(Asked {
        user: users.swap_remove(0),
        groups,
        organizational_units,
        names,
        subject_der: info.subject.as_raw().to_vec(),
        public_key_der: info.subject_pki.raw.to_vec(),
    })
}

/// Whether there is at most one list of extensions. Of two, whoever signs may take the one that we have not looked at.
fn asks_once(der: &[u8]) -> bool {
    let Ok(request) = CertReq::from_der(der) else {
        return false;
    };
    let attributes = request.info.attributes.iter();
    let lists = attributes
        .filter(|it| it.oid == ExtensionReq::OID)
        .map(|it| it.values.len());
    lists.sum::<usize>() <= 1
}

/// The alternative names, which are said once and can be read: what we cannot read a signer may.
fn names(info: &X509CertificationRequestInfo<'_>) -> Result<Vec<Option<String>>, &'static str> {
    let mut all = Vec::new();
    for attribute in info.iter_attributes() {
        let ParsedCriAttribute::ExtensionRequest(requested) = attribute.parsed_attribute() else {
            continue;
        };
        let extensions = requested.extensions.iter();
        all.extend(extensions.filter(|it| it.oid == OID_X509_EXT_SUBJECT_ALT_NAME));
    }
    let alternative = match all.as_slice() {
        [] => return Ok(Vec::new()),
        [one] => one.parsed_extension(),
        _ => return Err("it asks for alternative names more than once"),
    };
    let ParsedExtension::SubjectAlternativeName(alternative) = alternative else {
        return Err("its alternative names cannot be read");
    };
    let names = alternative.general_names.iter().map(|it| match it {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    Ok(names.collect())
}

/// Whether somebody has decided already.
pub fn is_decided(request: &CertificateSigningRequest) -> bool {
    has_condition(request, csr::APPROVED) || has_condition(request, csr::DENIED)
}

/// Whether it was approved, and neither denied nor given up.
pub fn is_approved(request: &CertificateSigningRequest) -> bool {
    has_condition(request, csr::APPROVED)
        && !has_condition(request, csr::DENIED)
        && !has_condition(request, csr::FAILED)
}

fn has_condition(request: &CertificateSigningRequest, kind: &str) -> bool {
    let conditions = request.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == kind && it.status == "True")
}

/// Whether it has its certificate.
pub fn is_signed(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|it| it.certificate.as_ref());
    certificate.is_some_and(|it| !it.0.is_empty())
}

/// Checks a request against the add-on that its labels name. The registration it is for, or why it is none of this add-on's
/// agent.
///
/// `grpc_user` is the user that asks on behalf of agents on the gRPC transport; who they are is an annotation then, which only
/// that user may be trusted with.
pub fn check(
    request: &CertificateSigningRequest,
    asked: &Asked,
    standing: &Standing,
    grpc_user: &str,
) -> Result<Registration, String> {
    let place = &standing.place;
    let (cluster, addon) = (place.cluster_name(), place.addon_name());
    if key(request) != Some(format!("{cluster}/{addon}")) {
        return Err("its labels name another add-on".to_owned());
    }
    if !place.cluster.spec.hub_accepts_client {
        return Err(format!("cluster {cluster} is not accepted"));
    }
    if place.cluster.metadata.deletion_timestamp.is_some() {
        return Err(format!("cluster {cluster} is being deleted"));
    }
    if place.addon.metadata.deletion_timestamp.is_some() {
        return Err(format!("add-on {addon} on {cluster} is being deleted"));
    }
    requester(request, cluster, grpc_user)?;
    // What the author says now, and nothing of the status, which the cluster's agent may write. While a change of a configuration
    // is held back, a renewal under an identity that the change gives up waits for it: nobody else remembers that identity.
    let registrations = standing.add_on.registrations(place);
    let registrations = registrations.map_err(|refusal| refusal.message().to_owned())?;
    let mut of_signer = registrations
        .into_iter()
        .filter(|it| it.signer() == request.spec.signer_name)
        .peekable();
    if of_signer.peek().is_none() {
        return Err(format!(
            "add-on {addon} has no registration with signer {}",
            request.spec.signer_name
        ));
    }
    let registration = of_signer
        .find(|it| is_for(asked, &filled(it.subject(place), cluster, addon)))
        .ok_or("its subject is not the one that its registration names")?;
    let own_name = format!("{addon}.addon.open-cluster-management.io");
    if asked.names.iter().any(|it| it.as_ref() != Some(&own_name)) {
        return Err(format!("it has other alternative names than {own_name}"));
    }
    usages(request, &registration)?;
    Ok(registration)
}

// The cluster's agent fills in what a subject leaves out, ours and upstream's alike.
fn filled(subject: Subject, cluster: &str, addon: &str) -> Subject {
    let Subject { user, groups, .. } = &subject;
    Subject {
        user: if user.is_empty() {
            identity::addon_user(cluster, addon, addon)
        } else {
            user.clone()
        },
        groups: if groups.is_empty() {
            vec![identity::addon_cluster_group(cluster, addon)]
        } else {
            groups.clone()
        },
        ..subject
    }
}

// Sets are compared: an organization more is as wrong as one less.
fn is_for(asked: &Asked, subject: &Subject) -> bool {
    let same = |asked: &BTreeSet<String>, wanted: &[String]| *asked == wanted.iter().cloned().collect::<BTreeSet<_>>();
    asked.user == subject.user
        && same(&asked.groups, &subject.groups)
        && same(&asked.organizational_units, &subject.organizational_units)
}

fn requester(request: &CertificateSigningRequest, cluster: &str, grpc_user: &str) -> Result<(), String> {
    let user = request.spec.username.as_deref().unwrap_or_default();
    if user == grpc_user {
        // That server has checked who speaks to it, and knows users only.
        let behind = request.annotations().get(annotations::CSR_USER).map(String::as_str);
        return match behind {
            Some(user) if is_agent_of(user, cluster) => Ok(()),
            _ => Err(format!("it was not asked for by an agent of {cluster}")),
        };
    }
    let groups = request.spec.groups.as_deref().unwrap_or_default();
    if is_agent_of(user, cluster) && groups.contains(&identity::cluster_group(cluster)) {
        Ok(())
    } else {
        Err(format!("it was not asked for by an agent of {cluster}"))
    }
}

fn is_agent_of(user: &str, cluster: &str) -> bool {
    let rest = user.strip_prefix(identity::SUBJECT_PREFIX);
    let parts = rest.and_then(|it| it.split_once(':'));
    parts.is_some_and(|(of, agent)| of == cluster && !agent.is_empty() && !agent.contains(':'))
}

fn usages(request: &CertificateSigningRequest, registration: &Registration) -> Result<(), String> {
    let custom = matches!(registration, Registration::CustomSigner { .. });
    let usages = request.spec.usages.as_deref().unwrap_or_default();
    let allowed = |it: &str| CLIENT_USAGES.contains(&it) || custom && it == SERVER_USAGE;
    if let Some(other) = usages.iter().find(|it| !allowed(it)) {
        return Err(format!("it is to be used for {other}"));
    }
    if !usages.iter().any(|it| it == "client auth") {
        return Err("it is not to be used by a client".to_owned());
    }
    Ok(())
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
