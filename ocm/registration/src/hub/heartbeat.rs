//! The heartbeat of a cluster: the lease in its namespace, which its agent renews.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::api::ObjectMeta;
use ocm_api::{cluster::ManagedCluster, labels, namespaces};
use ocm_reconcile::{Cache, Caches};

use super::of_clusters;

/// So many lease durations may pass without a heartbeat.
const GRACE_DURATIONS: u32 = 5;

/// The leases of clusters, by their namespaces, and of their add-ons.
pub fn leases(caches: &Caches) -> Cache<Lease> {
    of_clusters::labelled(caches)
}

/// How long an agent may be silent.
pub fn grace(cluster: &ManagedCluster) -> Duration {
    Duration::from_secs(cluster.spec.lease_seconds().max(1) as u64) * GRACE_DURATIONS
}

/// Whether this lease is a cluster's heartbeat.
pub fn is_heartbeat(lease: &Lease) -> bool {
    lease.metadata.name.as_deref() == Some(namespaces::CLUSTER_LEASE)
}

/// When the agent was last heard of.
pub fn renewed(lease: &Lease) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
}

/// The lease of a cluster that has none, for its agent to renew.
pub fn first_lease(cluster: &ManagedCluster, now: Timestamp) -> Lease {
    let name = cluster.metadata.name.clone().unwrap_or_default();
    Lease {
        metadata: ObjectMeta {
            name: Some(namespaces::CLUSTER_LEASE.to_owned()),
            namespace: Some(name.clone()),
            labels: Some([(labels::CLUSTER_NAME.to_owned(), name)].into()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(namespaces::CLUSTER_LEASE.to_owned()),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    }
}
