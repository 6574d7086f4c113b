//! Which of the hub's certificate signing requests are of our cluster, and making another.

use std::sync::Arc;

use credential::{
    csr::{self, CertificateSubject, CsrError, KeyAndRequest},
    enrol::{self, Pending},
    hub_secret,
};
use k8s_openapi::{api::certificates::v1::CertificateSigningRequest, apimachinery::pkg::apis::meta::v1::Time};
use kube::Api;
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::ObserveError;

use super::Enrolment;

/// A request with the key that the Secret keeps for it, or with a new one.
pub(super) fn make(rules: &enrol::Seen) -> Result<KeyAndRequest, CsrError> {
    let kept = hub_secret::text(&rules.data, hub_secret::PENDING_KEY);
    let kept = kept.and_then(|it| csr::request_with_key(it, &rules.subject));
    kept.unwrap_or_else(|| csr::new_key_and_request(&rules.subject))
}

impl Enrolment {
    /// The request that the hub has for this key, the latest if there are several.
    pub(super) fn pending(&self, key_pem: &str) -> Option<Pending> {
        let given_up = self.given_up.lock();
        let subject = CertificateSubject::agent(&self.agent.cluster, &self.agent.id);
        let ours = |it: &Arc<CertificateSigningRequest>| {
            enrol::is_of_cluster(it, &self.agent.cluster)
                && !it.metadata.name.as_ref().is_some_and(|it| given_up.contains(it))
                && csr::asks_for(&it.spec.request.0, key_pem, &subject)
        };
        let found = self.requests.list().into_iter().filter(ours);
        let found = found.max_by_key(|it| it.metadata.creation_timestamp.clone())?;
        Some(Pending {
            name: found.metadata.name.clone().unwrap_or_default(),
            key_pem: key_pem.to_owned(),
            request: Some((*found).clone()),
        })
    }

    /// How many there are of this cluster.
    pub(super) async fn count(&self) -> Result<usize, ObserveError> {
        let all = self.count_since(None);
        if all < enrol::REQUESTS_MAX {
            return Ok(all);
        }
        // Some may be of a cluster of this name that is gone.
        let clusters: Api<ManagedCluster> = Api::all(self.hub.client()?.clone());
        let cluster = clusters.get_opt(&self.agent.cluster).await;
        let born = cluster.ok().flatten().and_then(|it| it.metadata.creation_timestamp);
        Ok(self.count_since(born.as_ref()))
    }

    fn count_since(&self, born: Option<&Time>) -> usize {
        let is_ours = |it: &Arc<CertificateSigningRequest>| {
            enrol::is_of_cluster(it, &self.agent.cluster) && enrol::is_of_life(it, born)
        };
        self.requests.list().iter().filter(|it| is_ours(it)).count()
    }
}
