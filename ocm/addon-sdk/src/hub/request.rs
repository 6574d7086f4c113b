//! Whether a certificate request is what it claims to be: a request of this add-on's own agent on this very cluster,
//! for exactly the identity that the hub has given it.
//!
//! Upstream: addon-framework `pkg/utils/csr_helpers.go`, `DefaultCSRApprover`. It compares the requester by prefix, so
//! an agent of `c10` may ask for `c1`; it does not look at alternative names, usages and organizational units; and for
//! custom signers it looks at nothing. Here every part has to match.

use std::collections::BTreeSet;

use super::InstalledAddOn;
use crate::{AgentSubject, Registration};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
pub use kube_primitives::certificate_request::Asked;
use kube_primitives::certificate_request::{self, check_usages};
use ocm_api::{annotations, conditions::csr, identity, labels};

/// What every request of an add-on's agent is named after.
const NAME_PREFIX: &str = "addon";

/// Upstream's custom signers put it into every certificate, asked or not.
const SERVER_USAGE: &str = "server auth";

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
    certificate_request::read(&request.spec.request.0)
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

/// Whether it is approved and waits for the signature of an authority that is not the hub's own.
pub fn awaits_custom_signer(request: &CertificateSigningRequest) -> bool {
    is_approved(request) && !is_signed(request) && request.spec.signer_name != identity::CLIENT_SIGNER
}

/// Checks a request against the add-on that its labels name. The registration it is for,
/// or why it is none of this add-on's agent.
///
/// `grpc_user` is the user that asks on behalf of agents on the gRPC transport; who they are is an annotation then,
/// which only that user may be trusted with.
pub fn check(
    request: &CertificateSigningRequest,
    asked: &Asked,
    installed: &InstalledAddOn,
    grpc_user: &str,
) -> Result<Registration, String> {
    let place = &installed.place;
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
    // What the author says now, and nothing of the status, which the cluster's agent may write. While a change of a
    // configuration is held back, a renewal under an identity that the change gives up waits for it:
    // nobody else remembers that identity.
    let registrations = installed.add_on.registrations(place);
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
    let usages = request.spec.usages.as_deref().unwrap_or_default();
    let custom = matches!(registration, Registration::CustomSigner { .. });
    check_usages(usages, if custom { &[SERVER_USAGE] } else { &[] })?;
    Ok(registration)
}

// The cluster's agent fills in what a subject leaves out, ours and upstream's alike.
fn filled(subject: AgentSubject, cluster: &str, addon: &str) -> AgentSubject {
    let AgentSubject { user, groups, .. } = &subject;
    AgentSubject {
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
fn is_for(asked: &Asked, subject: &AgentSubject) -> bool {
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

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
