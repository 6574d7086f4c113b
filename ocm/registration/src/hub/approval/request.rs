//! What a certificate signing request asks for, and what became of it.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
use kube_primitives::certificate_request;
use ocm_api::{conditions::csr, identity, labels};
use ocm_reconcile::access::{Attributes, UserInfo};

/// An agent that a request asks a certificate for.
#[derive(Debug, PartialEq, Eq)]
pub struct AgentIdentity {
    /// The cluster.
    pub cluster: String,
    /// The agent's id.
    pub id: String,
}

impl AgentIdentity {
    /// The user name in its certificate.
    pub fn user(&self) -> String {
        identity::agent_user(&self.cluster, &self.id)
    }
}

/// Reads for whom a request asks, or says why it is none of ours. Every part must match exactly.
pub fn recognise(request: &CertificateSigningRequest) -> Result<AgentIdentity, &'static str> {
    let labels = request.labels();
    let cluster = labels
        .get(labels::CLUSTER_NAME)
        .filter(|it| !it.is_empty())
        .ok_or("it has no cluster label")?;
    if labels.contains_key(labels::ADDON_NAME) {
        return Err("it is for an add-on");
    }
    if request.spec.signer_name != identity::CLIENT_SIGNER {
        return Err("it is for another signer");
    }
    let asked = certificate_request::read(&request.spec.request.0)?;
    let mut organizations = asked.groups;
    organizations.remove(identity::MANAGED_CLUSTERS_GROUP);
    if organizations != BTreeSet::from([identity::cluster_group(cluster)]) || !asked.organizational_units.is_empty() {
        return Err("its organizations are not exactly those of the cluster");
    }
    if !asked.names.is_empty() {
        return Err("it asks for alternative names");
    }
    if certificate_request::check_usages(request.spec.usages.as_deref().unwrap_or_default(), &[]).is_err() {
        return Err("its usages are not those of a client");
    }
    let rest = asked
        .user
        .strip_prefix(identity::SUBJECT_PREFIX)
        .ok_or("its common name is not that of an agent")?;
    match rest.split(':').collect::<Vec<_>>()[..] {
        [named, id] if named == cluster && !id.is_empty() => Ok(AgentIdentity {
            cluster: cluster.clone(),
            id: id.to_owned(),
        }),
        _ => Err("its common name is not that of an agent of the cluster"),
    }
}

/// Whether somebody has decided already.
pub fn is_decided(request: &CertificateSigningRequest) -> bool {
    is_approved(request) || has(request, csr::DENIED)
}

/// Whether somebody has approved it.
pub fn is_approved(request: &CertificateSigningRequest) -> bool {
    has(request, csr::APPROVED)
}

fn has(request: &CertificateSigningRequest, condition: &str) -> bool {
    let conditions = request.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == condition)
}

/// Who has made it.
pub fn requester(request: &CertificateSigningRequest) -> UserInfo {
    UserInfo {
        user: request.spec.username.clone().unwrap_or_default(),
        uid: request.spec.uid.clone(),
        groups: request.spec.groups.clone().unwrap_or_default(),
        extra: request.spec.extra.clone().unwrap_or_default(),
    }
}

/// What one has to be allowed to renew a certificate without a human.
pub fn renewal() -> Attributes {
    Attributes {
        verb: "renew".to_owned(),
        group: identity::REGISTER_GROUP.to_owned(),
        resource: "managedclusters".to_owned(),
        subresource: Some("clientcertificates".to_owned()),
        ..Attributes::default()
    }
}
