//! Approving the certificate signing requests of agents.
//!
//! Root: CertificateSigningRequest. Reads: who asks, for whom, and whether they may renew. Writes: the condition Approved.
//! Never: denies, and never approves by prefix: a request for `cluster1` is one for `cluster1` exactly.
//! Upstream: ocm `pkg/registration/register/csr/hub_driver.go`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Client, ResourceExt};
use ocm_api::{conditions::csr, identity, labels};
use ocm_reconcile::{
    Note, ObserveError, Plan, Reconciler, Site, Step, Target,
    access::{self, Attributes, Subject},
    async_trait, plan,
};
use x509_parser::{
    certification_request::X509CertificationRequest,
    oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME, Oid},
    pem::Pem,
    prelude::FromDer,
};

use super::{Caches, HubOptions};

const MESSAGE: &str = "Auto approving Managed cluster agent certificate after SubjectAccessReview.";

/// The reconciler.
pub struct Approval {
    client: Client,
    caches: Caches,
    options: Arc<HubOptions>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The request; `None` when it is gone.
    pub request: Option<Arc<CertificateSigningRequest>>,
    /// Whether the requester may renew certificates; asked only when it renews its own.
    pub may_renew: bool,
    /// Whose first requests are approved as well.
    pub auto_approved_users: Vec<String>,
}

/// An agent that a request asks a certificate for.
#[derive(Debug, PartialEq, Eq)]
pub struct Agent {
    /// The cluster.
    pub cluster: String,
    /// The agent's id.
    pub id: String,
}

impl Agent {
    /// The user name in its certificate.
    pub fn user(&self) -> String {
        identity::agent_user(&self.cluster, &self.id)
    }
}

impl Approval {
    /// Over these caches.
    pub fn new(client: Client, caches: &Caches, options: Arc<HubOptions>) -> Self {
        Self {
            client,
            caches: caches.clone(),
            options,
        }
    }
}

/// Reads for whom a request asks, or says why it is none of ours. Every part must match exactly.
pub fn recognise(request: &CertificateSigningRequest) -> Result<Agent, &'static str> {
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
    let pem = Pem::iter_from_buffer(&request.spec.request.0)
        .next()
        .and_then(Result::ok)
        .filter(|it| it.label == "CERTIFICATE REQUEST")
        .ok_or("it holds no PEM certificate request")?;
    let (_, parsed) =
        X509CertificationRequest::from_der(&pem.contents).map_err(|_| "its certificate request cannot be read")?;
    let subject = &parsed.certification_request_info.subject;
    let values = |oid: &Oid<'_>| {
        subject
            .iter()
            .flat_map(|rdn| rdn.iter())
            .filter(|it| it.attr_type() == oid)
            .map(|it| it.as_str().unwrap_or_default())
            .collect::<Vec<_>>()
    };
    let mut organizations = values(&OID_X509_ORGANIZATION_NAME);
    organizations.retain(|it| *it != identity::MANAGED_CLUSTERS_GROUP);
    if organizations != [identity::cluster_group(cluster)] {
        return Err("its organizations are not exactly those of the cluster");
    }
    let [common_name] = values(&OID_X509_COMMON_NAME)[..] else {
        return Err("it does not have exactly one common name");
    };
    let rest = common_name
        .strip_prefix(identity::SUBJECT_PREFIX)
        .ok_or("its common name is not that of an agent")?;
    match rest.split(':').collect::<Vec<_>>()[..] {
        [named, id] if named == cluster && !id.is_empty() => Ok(Agent {
            cluster: cluster.clone(),
            id: id.to_owned(),
        }),
        _ => Err("its common name is not that of an agent of the cluster"),
    }
}

/// Whether somebody has decided already.
pub fn is_decided(request: &CertificateSigningRequest) -> bool {
    request
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten())
        .any(|it| it.type_ == csr::APPROVED || it.type_ == csr::DENIED)
}

#[async_trait]
impl Reconciler for Approval {
    const NAME: &'static str = "csr-approval";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let request = self.caches.requests.named(name);
        let mut may_renew = false;
        if let Some(request) = request.as_deref().filter(|it| !is_decided(it))
            && let Ok(agent) = recognise(request)
            && request.spec.username.as_deref() == Some(&agent.user())
        {
            may_renew = access::may(&self.client, &requester(request), &renewal()).await?;
        }
        Ok(Seen {
            now: Timestamp::now(),
            request,
            may_renew,
            auto_approved_users: self.options.auto_approved_csr_users.clone(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let Some(request) = seen.request.as_deref().filter(|it| !is_decided(it)) else {
            return Plan::new();
        };
        let agent = match recognise(request) {
            Ok(agent) => agent,
            Err(why) => return Plan::only(Note::Remark(format!("not a request of ours: {why}"))),
        };
        let user = request.spec.username.as_deref().unwrap_or_default();
        if user == agent.user() {
            if !seen.may_renew {
                return Plan::only(Note::Refuse(format!("{user} may not renew its certificate")));
            }
        } else if !seen.auto_approved_users.iter().any(|it| it == user) {
            return Plan::only(Note::Wait(format!(
                "an administrator must approve the request of {user}"
            )));
        }
        approve(request, seen.now)
    }
}

fn approve(request: &CertificateSigningRequest, now: Timestamp) -> Plan {
    let now = Time(now);
    let mut approved = request.clone();
    approved
        .status
        .get_or_insert_default()
        .conditions
        .get_or_insert_default()
        .push(CertificateSigningRequestCondition {
            type_: csr::APPROVED.to_owned(),
            status: "True".to_owned(),
            reason: Some(csr::reason::AUTO_APPROVED.to_owned()),
            message: Some(MESSAGE.to_owned()),
            last_update_time: Some(now.clone()),
            last_transition_time: Some(now),
        });
    let target = Target::of(Site::Hub, request);
    let object = plan::typed(&approved, &target.api_resource);
    let mut plan = Plan::new();
    plan.push(Step::Replace {
        target,
        subresource: Some("approval"),
        object,
    });
    plan
}

fn requester(request: &CertificateSigningRequest) -> Subject {
    Subject {
        user: request.spec.username.clone().unwrap_or_default(),
        uid: request.spec.uid.clone(),
        groups: request.spec.groups.clone().unwrap_or_default(),
        extra: request.spec.extra.clone().unwrap_or_default(),
    }
}

fn renewal() -> Attributes {
    Attributes {
        verb: "renew".to_owned(),
        group: identity::REGISTER_GROUP.to_owned(),
        resource: "managedclusters".to_owned(),
        subresource: Some("clientcertificates".to_owned()),
        ..Attributes::default()
    }
}

#[cfg(test)]
#[path = "approval_tests.rs"]
mod tests;
