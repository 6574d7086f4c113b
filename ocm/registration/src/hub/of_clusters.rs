//! The watches that registration shares. Everything but clusters and sets is watched by the cluster-name label only, so
//! that the hub does not hold what other people keep on it.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use ocm_api::labels;
use ocm_reconcile::{Cache, Caches, caches::Watchable};

/// The objects of a kind that carry the name of a cluster.
pub fn labelled<K: Watchable>(caches: &Caches) -> Cache<K> {
    caches.labelled(labels::CLUSTER_NAME)
}

/// The certificate signing requests of clusters, without those of add-ons.
pub fn requests(caches: &Caches) -> Cache<CertificateSigningRequest> {
    caches.labelled(&format!("{},!{}", labels::CLUSTER_NAME, labels::ADDON_NAME))
}
