//! Approving the certificate signing requests of agents.
//!
//! Root: CertificateSigningRequest. Reads: who asks, for whom, and whether they may renew; the ManagedCluster.
//! Writes: the condition Approved; on the ManagedCluster, which agent serves it.
//! Never: denies; approves by prefix (a request for `cluster1` is one for `cluster1` exactly); lets a second agent take over
//! a cluster whose agent is alive, which upstream does for whoever holds a bootstrap credential.
//! Upstream: ocm `pkg/registration/register/csr/hub_driver.go`.

use std::{collections::BTreeSet, sync::Arc};

use super::{Caches, HubOptions};
use crate::status;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Client, ResourceExt};
use kube_primitives::certificate_request;
use ocm_api::{
    annotations,
    cluster::ManagedCluster,
    condition,
    conditions::{csr, managed_cluster},
    identity, labels,
};
use ocm_reconcile::{
    Note, ObserveError, Plan, Queue, Reconciler, Site,
    access::{self, Attributes, Subject},
    approve::approve,
    async_trait,
};

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
    /// The cluster it is for, if there is one.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Whether a later request for the cluster was approved.
    pub is_superseded: bool,
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

/// Requests, and those that wait for their cluster, or for its agent to fall silent.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.requests.subscribe_by_name(queue);
    let all = caches.clone();
    caches.clusters.subscribe(queue, move |old, new| {
        let Some(new) = new else { return Vec::new() };
        let came = old.is_none();
        if old.is_some_and(|old| is_alive(old) == is_alive(new)) {
            return Vec::new();
        }
        // Who serves a cluster is written on it, so that a request that was decided before it came counts, too.
        let name = new.name_any();
        let mut waiting = of_agents_of(&all, &name);
        waiting.retain(|it| came || !is_decided(it));
        waiting.iter().map(|it| it.name_any()).collect()
    });
}

/// The requests of a cluster's agents, as far as their labels tell.
fn of_agents_of(caches: &Caches, cluster: &str) -> Vec<Arc<CertificateSigningRequest>> {
    let mut all = caches.requests_of(cluster);
    all.retain(|it| !it.labels().contains_key(labels::ADDON_NAME));
    all
}

fn is_alive(cluster: &ManagedCluster) -> bool {
    condition::is_true(status::conditions(cluster), managed_cluster::AVAILABLE)
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
        [named, id] if named == cluster && !id.is_empty() => Ok(Agent {
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

fn is_approved(request: &CertificateSigningRequest) -> bool {
    has(request, csr::APPROVED)
}

fn has(request: &CertificateSigningRequest, condition: &str) -> bool {
    let conditions = request.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == condition)
}

#[async_trait]
impl Reconciler for Approval {
    const NAME: &'static str = "csr-approval";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let request = self.caches.requests.named(name);
        let mut may_renew = false;
        let cluster = request
            .as_deref()
            .and_then(|it| self.caches.clusters.named(it.labels().get(labels::CLUSTER_NAME)?));
        if let Some(request) = request.as_deref().filter(|it| !is_decided(it))
            && let Ok(agent) = recognise(request)
            && request.spec.username.as_deref() == Some(&agent.user())
        {
            may_renew = access::may(&self.client, &requester(request), &renewal()).await?;
        }
        let is_superseded = request.as_deref().filter(|it| is_approved(it)).is_some_and(|request| {
            let cluster = request.labels().get(labels::CLUSTER_NAME);
            let all = cluster.map(|it| of_agents_of(&self.caches, it)).unwrap_or_default();
            let mut approved = all.iter().filter(|it| is_approved(it));
            approved.any(|it| it.metadata.creation_timestamp > request.metadata.creation_timestamp)
        });
        Ok(Seen {
            now: Timestamp::now(),
            request,
            may_renew,
            auto_approved_users: self.options.auto_approved_csr_users.clone(),
            cluster,
            is_superseded,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let Some(request) = seen.request.as_deref() else {
            return Plan::new();
        };
        if is_decided(request) {
            // An administrator may have decided it.
            let last = is_approved(request) && !seen.is_superseded;
            let agent = recognise(request).ok().filter(|_| last);
            return agent.map(|it| record(seen.cluster.as_deref(), &it)).unwrap_or_default();
        }
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
        } else if seen.cluster.is_none() {
            // Whose agent would come next and be approved as well, as nobody would know of this one.
            return Plan::only(Note::Wait(format!("there is no ManagedCluster {} yet", agent.cluster)));
        } else if let Some(other) = living_other(seen.cluster.as_deref(), &agent) {
            return Plan::only(Note::Wait(format!(
                "agent {other} of {} is alive: an administrator must approve agent {} if it is to take over",
                agent.cluster, agent.id
            )));
        }
        let mut plan = record(seen.cluster.as_deref(), &agent);
        plan.stage();
        plan.then(approve(request, csr::reason::AUTO_APPROVED, MESSAGE, seen.now));
        plan
    }
}

// The agent that serves the cluster and is alive, if it is another than the one that asks.
fn living_other<'a>(cluster: Option<&'a ManagedCluster>, agent: &Agent) -> Option<&'a str> {
    let cluster = cluster.filter(|it| is_alive(it))?;
    cluster
        .annotations()
        .get(annotations::SERVED_BY)
        .filter(|it| **it != agent.id)
        .map(String::as_str)
}

fn record(cluster: Option<&ManagedCluster>, agent: &Agent) -> Plan {
    let mut plan = Plan::new();
    if let Some(cluster) = cluster {
        let mut served = cluster.clone();
        served
            .annotations_mut()
            .insert(annotations::SERVED_BY.to_owned(), agent.id.clone());
        plan.change(Site::Hub, cluster, &served);
    }
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
