//! Approving the certificate signing requests of agents. Upstream: ocm `pkg/registration/register/csr/hub_driver.go`.
//!
//! Root: CertificateSigningRequest. Reads: who asks, for whom, and whether they may renew; the ManagedCluster.
//! Writes: the condition Approved; on the ManagedCluster, which agent serves it.
//! Never: denies; approves by prefix (a request for `cluster1` is one for `cluster1` exactly); lets a second agent take
//! over a cluster whose agent is alive, which upstream does for whoever holds a bootstrap credential.

mod request;
mod serving;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
use ocm_api::{cluster::ManagedCluster, conditions::csr, labels};
use ocm_reconcile::{
    Cache, Caches, Index, Note, ObserveError, Plan, Reconciler, Watches, access, approve::approve, async_trait,
    rbac::Right,
};

use self::{
    request::{is_approved, is_decided, recognise, renewal, requester},
    serving::{is_alive, objection, record},
};
use super::{HubOptions, of_clusters, permissions};
use crate::api_reader::ApiReader;

const MESSAGE: &str = "Auto approving Managed cluster agent certificate after SubjectAccessReview.";

/// The reconciler.
pub struct Approval {
    api: ApiReader,
    requests: Cache<CertificateSigningRequest>,
    /// Of thousands of requests a cluster has a few.
    of_cluster: Index<CertificateSigningRequest>,
    clusters: Cache<ManagedCluster>,
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

impl Approval {
    /// Over these caches.
    pub fn new(caches: &Caches, options: &Arc<HubOptions>) -> Self {
        let requests = of_clusters::requests(caches);
        Self {
            api: ApiReader::of(caches),
            of_cluster: Index::over(&requests, |it| it.labels().get(labels::CLUSTER_NAME).cloned()),
            requests,
            clusters: caches.of(),
            options: options.clone(),
        }
    }

    /// Whether a later request for the same cluster was approved, as far as labels tell.
    fn is_superseded(&self, request: &CertificateSigningRequest) -> bool {
        let cluster = request.labels().get(labels::CLUSTER_NAME);
        let all = cluster.map(|it| self.of_cluster.objects(it)).unwrap_or_default();
        let mut approved = all.iter().filter(|it| is_approved(it));
        approved.any(|it| it.metadata.creation_timestamp > request.metadata.creation_timestamp)
    }
}

#[async_trait]
impl Reconciler for Approval {
    const NAME: &'static str = "csr-approval";
    const WORKERS: usize = super::WORKERS;
    const RIGHTS: &'static [Right] = permissions::APPROVAL;
    type Seen = Seen;

    /// Requests, and those that wait for their cluster, or for its agent to fall silent.
    fn watches(&self, watches: &mut Watches) {
        let of_cluster = self.of_cluster.clone();
        watches.root(&self.requests).wakes(&self.clusters, move |old, new| {
            let came = old.is_none();
            let changed = new.filter(|new| old.is_none_or(|old| is_alive(old) != is_alive(new)));
            // Who serves a cluster is written on it, so that a request that was decided before it came counts, too.
            let waiting = changed.map(|it| of_cluster.objects(&it.name_any())).unwrap_or_default();
            let waiting = waiting.into_iter().filter(move |it| came || !is_decided(it));
            waiting.map(|it| it.name_any())
        });
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let request = self.requests.named(name);
        let mut may_renew = false;
        if let Some(request) = request.as_deref().filter(|it| !is_decided(it))
            && let Ok(agent) = recognise(request)
            && request.spec.username.as_deref() == Some(&agent.user())
        {
            may_renew = access::may(self.api.client()?, &requester(request), &renewal()).await?;
        }
        let cluster = request.as_deref().and_then(|it| it.labels().get(labels::CLUSTER_NAME));
        Ok(Seen {
            now: Timestamp::now(),
            may_renew,
            auto_approved_users: self.options.auto_approved_csr_users.clone(),
            cluster: cluster.and_then(|it| self.clusters.named(it)),
            is_superseded: request
                .as_deref()
                .is_some_and(|it| is_approved(it) && self.is_superseded(it)),
            request,
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
        if let Some(note) = objection(seen, user, &agent) {
            return Plan::only(note);
        }
        let mut plan = record(seen.cluster.as_deref(), &agent);
        plan.stage();
        plan.then(approve(request, csr::reason::AUTO_APPROVED, MESSAGE, seen.now));
        plan
    }
}

#[cfg(test)]
#[path = "approval_tests.rs"]
mod tests;
